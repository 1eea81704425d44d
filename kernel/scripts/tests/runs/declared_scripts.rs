//! Scripts that each try one effect, and print `EFFECT` after it.

/// An effect that a script tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    ReadWork,
    WriteWork,
    ReadOutside,
    WriteOutside,
    Execute,
    Network,
}

/// The scripts: a name, the effect and the text. The first argument is the work directory of the
/// thread, the second one a readable and the third one a writable directory elsewhere.
pub(crate) const SCRIPTS: [(&str, Effect, &str); 16] = [
    ("read-work.py", Effect::ReadWork, "open(sys.argv[1] + '/input.txt').read()"),
    ("list-work.py", Effect::ReadWork, "assert 'input.txt' in os.listdir(sys.argv[1])"),
    ("read-work.sh", Effect::ReadWork, "read -r line < \"$1/input.txt\" && [ -n \"$line\" ]"),
    ("write-work.py", Effect::WriteWork, "open(sys.argv[1] + '/made.txt', 'w').write('x')"),
    ("write-work.sh", Effect::WriteWork, "echo x > \"$1/made.txt\""),
    ("remove-work.py", Effect::WriteWork, "os.remove(sys.argv[1] + '/spare.txt')"),
    ("read-outside.py", Effect::ReadOutside, "open(sys.argv[2] + '/a.txt').read()"),
    ("read-outside.sh", Effect::ReadOutside, "read -r line < \"$2/a.txt\" && [ -n \"$line\" ]"),
    ("write-outside.py", Effect::WriteOutside, "open(sys.argv[3] + '/b.txt', 'w').write('x')"),
    ("run.py", Effect::Execute, "subprocess.run(['/bin/true'], check=True)"),
    ("run-itself.py", Effect::Execute, "subprocess.run([sys.executable, '-c', ''], check=True)"),
    (
        "run-loader.py",
        Effect::Execute,
        "import glob\nloader = (glob.glob('/lib64/ld-linux*') + glob.glob('/lib/ld-linux*'))[0]\n\
         subprocess.run([loader, '/bin/true'], check=True)",
    ),
    (
        "fork-and-exec.py",
        Effect::Execute,
        "pid = os.fork()\nif pid == 0:\n    os.execv('/bin/true', ['true'])\n\
         assert os.waitpid(pid, 0)[1] == 0",
    ),
    ("run.sh", Effect::Execute, "/bin/ls / > /dev/null"),
    (
        "listen.py",
        Effect::Network,
        "s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\n\
         socket.create_connection(s.getsockname(), 2)",
    ),
    ("proxy.py", Effect::Network, "assert os.environ['HTTPS_PROXY']"),
];

/// More ways to the same effects. They run under the manifests that differ for their effect.
pub(crate) const MORE_SCRIPTS: [(&str, Effect, &str); 27] = [
    (
        "map-work.py",
        Effect::ReadWork,
        "import mmap\nf = open(sys.argv[1] + '/input.txt', 'rb')\n\
         mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:1]",
    ),
    (
        "walk-work.py",
        Effect::ReadWork,
        "assert any('input.txt' in files for _, _, files in os.walk(sys.argv[1]))",
    ),
    ("scan-work.py", Effect::ReadWork, "assert list(os.scandir(sys.argv[1]))"),
    (
        "open-below.py",
        Effect::ReadWork,
        "d = os.open(sys.argv[1], os.O_RDONLY)\n\
         os.read(os.open('input.txt', os.O_RDONLY, dir_fd=d), 1)",
    ),
    (
        "read-lines.sh",
        Effect::ReadWork,
        "while read -r line; do last=$line; done < \"$1/input.txt\" && [ -n \"$last\" ]",
    ),
    ("append.py", Effect::WriteWork, "open(sys.argv[1] + '/input.txt', 'a').write('x')"),
    ("append.sh", Effect::WriteWork, "echo x >> \"$1/input.txt\""),
    ("truncate.py", Effect::WriteWork, "os.truncate(sys.argv[1] + '/input.txt', 0)"),
    (
        "rename.py",
        Effect::WriteWork,
        "os.rename(sys.argv[1] + '/spare.txt', sys.argv[1] + '/made.txt')",
    ),
    (
        "directory.py",
        Effect::WriteWork,
        "os.mkdir(sys.argv[1] + '/d')\nos.rmdir(sys.argv[1] + '/d')",
    ),
    (
        "symbolic-link.py",
        Effect::WriteWork,
        "os.symlink('x', sys.argv[1] + '/l')\nos.remove(sys.argv[1] + '/l')",
    ),
    (
        "hard-link.py",
        Effect::WriteWork,
        "os.link(sys.argv[1] + '/input.txt', sys.argv[1] + '/made.txt')",
    ),
    (
        "temporary-file.py",
        Effect::WriteWork,
        "import tempfile\ntempfile.NamedTemporaryFile(dir=sys.argv[1]).close()",
    ),
    (
        "database.py",
        Effect::WriteWork,
        "import sqlite3\nsqlite3.connect(sys.argv[1] + '/made.txt').execute('create table t (a)')",
    ),
    ("list-outside.py", Effect::ReadOutside, "assert 'a.txt' in os.listdir(sys.argv[2])"),
    (
        "open-below-outside.py",
        Effect::ReadOutside,
        "d = os.open(sys.argv[2], os.O_RDONLY)\n\
         os.read(os.open('a.txt', os.O_RDONLY, dir_fd=d), 1)",
    ),
    (
        "read-around.py",
        Effect::ReadOutside,
        "open(sys.argv[1] + '/../' + os.path.basename(sys.argv[2]) + '/a.txt').read()",
    ),
    ("write-outside.sh", Effect::WriteOutside, "echo x > \"$3/b.txt\""),
    ("append-outside.py", Effect::WriteOutside, "open(sys.argv[3] + '/a.txt', 'a').write('x')"),
    (
        "directory-outside.py",
        Effect::WriteOutside,
        "os.mkdir(sys.argv[3] + '/d')\nos.rmdir(sys.argv[3] + '/d')",
    ),
    ("system.py", Effect::Execute, "assert os.system('/bin/true') == 0"),
    ("pipe.py", Effect::Execute, "assert os.popen('/bin/echo x').read() == 'x\\n'"),
    (
        "spawn.py",
        Effect::Execute,
        "pid = os.posix_spawn('/bin/true', ['true'], {})\nassert os.waitpid(pid, 0)[1] == 0",
    ),
    ("substitute.sh", Effect::Execute, "[ \"$(/bin/echo x)\" = x ]"),
    ("replace.sh", Effect::Execute, "(exec /bin/true)"),
    (
        "serve.py",
        Effect::Network,
        "import http.server\n\
         http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)",
    ),
    ("proxy.sh", Effect::Network, "[ -n \"$HTTPS_PROXY\" ]"),
];
