//! Tests of the files that programs need.

use std::os::unix::fs::symlink;

use super::*;

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn links_and_first_lines_are_followed() {
    let temp = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(temp.path()).unwrap();
    let (python, venv) = (base.join("py/3.12/bin/python3.12"), base.join("venv"));
    write_program(&python, "binary");
    fs::create_dir(base.join("py/3.12/lib")).unwrap();
    fs::create_dir_all(venv.join("bin")).unwrap();
    fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    symlink(&python, venv.join("bin/python")).unwrap();
    symlink("python", venv.join("bin/python3")).unwrap();
    write_program(&base.join("tools/server"), "#!/usr/bin/env python3\n");
    symlink(base.join("tools"), base.join("current")).unwrap();
    let path = std::env::join_paths([venv.join("bin")]).unwrap();
    let files =
        resolve_program(&base.join("current/server"), &path, &[base.join("tools")]).unwrap();
    assert_eq!(files.program, base.join("tools/server"));
    assert_eq!(files.readable, [base.join("py/3.12"), base.join("tools/server"), venv.clone()]);
    assert_eq!(files.search_path, [venv.join("bin")]);
    assert!(files.join_path(OsStr::new("/usr/bin")).to_string_lossy().ends_with(":/usr/bin"));
    let direct = resolve_program(&venv.join("bin/python3"), &path, &[]).unwrap();
    assert_eq!(direct.program, venv.join("bin/python3"), "the link names the environment");
    assert!(resolve_program(&base.join("missing"), &path, &[]).is_err());
}

#[test]
fn placeholder_is_replaced_by_its_program() {
    let temp = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(temp.path()).unwrap().join(".pyenv");
    let real = root.join("versions/3/bin/python3");
    write_program(&real, "binary");
    fs::create_dir(root.join("versions/3/lib")).unwrap();
    write_program(&root.join("shims/python3"), "#!/bin/sh\nexit 9\n");
    let script = format!("#!/bin/sh\n[ \"$1 $2\" = 'which python3' ] && echo {}\n", real.display());
    write_program(&root.join("bin/pyenv"), &script);
    let path = std::env::join_paths([root.join("shims"), "/usr/bin".into()]).unwrap();
    let files = resolve_program(&root.join("shims/python3"), &path, &[]).unwrap();
    assert_eq!((files.program, files.readable), (real, vec![root.join("versions/3")]));
    write_program(&root.join("shims/other"), "");
    let error = resolve_program(&root.join("shims/other"), &path, &[]).unwrap_err();
    assert!(error.to_string().contains("placeholder of no program: pyenv:"), "{error}");
}

/// Writes a version manager that leaves a trace when it is executed.
fn write_manager(root: &Path, trace: &Path) {
    write_program(&root.join("shims/server"), "#!/bin/sh\n");
    let script = format!("#!/bin/sh\nenv > {}\necho /bin/sh\n", trace.display());
    write_program(&root.join("bin/pyenv"), &script);
}

#[test]
fn version_manager_of_foreign_directory_is_never_executed() {
    let temp = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(temp.path()).unwrap();
    let (own, trace) = (base.join("extension"), base.join("trace"));
    write_manager(&own, &trace);
    let foreign = [own.clone()];
    let path = std::env::join_paths([own.join("shims"), "/usr/bin".into()]).unwrap();
    let server = own.join("shims/server");
    // Not in the search path; in it, but foreign; in no directory of the extension.
    for (path, foreign) in
        [(OsStr::new("/usr/bin"), &foreign[..]), (&path, &foreign), (OsStr::new("/bin"), &[])]
    {
        let files = resolve_program(&server, path, foreign).unwrap();
        assert_eq!(files.program, server, "it is a program like any other");
        assert!(!trace.exists());
    }
    // The first line of another program names it, as does a link.
    write_program(&own.join("run"), &format!("#!{}\n", server.display()));
    symlink(&server, own.join("link")).unwrap();
    write_manager(&base.join("other"), &trace);
    let other = base.join("other/shims/server");
    write_program(&own.join("far"), &format!("#!{}\n", other.display()));
    let relative = other.strip_prefix("/").unwrap().display();
    write_program(&own.join("up"), &format!("#!/usr/bin/env ../../{relative}\n"));
    for name in ["run", "link", "far", "up"] {
        let files = resolve_program(&own.join(name), OsStr::new("/usr/bin"), &foreign).unwrap();
        assert!(!trace.exists(), "{name}");
        let is_outside = name == "far" || name == "up";
        let expected = if is_outside { vec![other.clone()] } else { Vec::new() };
        assert_eq!(files.unlisted, expected, "{name}");
    }
    // A placeholder of the operator whose manager lies in the extension's directory.
    fs::rename(base.join("other/bin"), base.join("other/none")).unwrap();
    symlink(own.join("bin"), base.join("other/bin")).unwrap();
    let path = std::env::join_paths([base.join("other/shims")]).unwrap();
    let error = resolve_program(&other, &path, &foreign).unwrap_err();
    assert!(error.to_string().contains("not the operator's"), "{error}");
    assert!(!trace.exists());
    // It is executed for the operator, without the variables of this process.
    let files = resolve_program(&other, &path, &[]).unwrap();
    assert_eq!(files.program, fs::canonicalize("/bin").unwrap().join("sh"));
    let variables = fs::read_to_string(&trace).unwrap();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(variables.contains("PYENV_ROOT=") && !variables.contains("CARGO_"), "{variables}");
}

#[test]
fn foreign_program_reads_only_listed_interpreters() {
    let temp = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(temp.path()).unwrap();
    let (own, app) = (base.join("extension"), base.join("user/app"));
    write_program(&app.join("bin/sh2"), "binary");
    fs::create_dir(app.join("lib")).unwrap();
    fs::write(app.join(".secrets.toml"), "key").unwrap();
    let server = own.join("server");
    write_program(&server, &format!("#!{}\n", app.join("bin/sh2").display()));
    symlink(app.join("bin/sh2"), own.join("link")).unwrap();
    let foreign = [own.clone()];
    for program in ["server", "link"] {
        let program = own.join(program);
        let files = resolve_program(&program, OsStr::new("/usr/bin"), &foreign).unwrap();
        assert_eq!(files.unlisted, [app.join("bin/sh2")]);
        assert_eq!(files.readable, [program]);
    }
    // In the search path the operator has chosen it, and so for a program of the operator.
    let path = std::env::join_paths([app.join("bin")]).unwrap();
    let files = resolve_program(&server, &path, &foreign).unwrap();
    assert_eq!((files.readable, files.unlisted), (vec![server.clone(), app.clone()], vec![]));
    let files = resolve_program(&server, OsStr::new("/usr/bin"), &[]).unwrap();
    assert!(files.readable.contains(&app) && files.unlisted.is_empty());
    // A directory with secrets or a repository is no installation.
    fs::create_dir(app.join(".ssh")).unwrap();
    let files = resolve_program(&server, &path, &foreign).unwrap();
    assert_eq!(files.readable, [server, app.join("bin/sh2")]);
}

#[test]
fn shared_directories_are_no_prefix() {
    let temp = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(temp.path()).unwrap();
    write_program(&base.join("project/bin/tool"), "binary");
    let files = resolve_program(&base.join("project/bin/tool"), OsStr::new(""), &[]).unwrap();
    assert_eq!(files.readable, [base.join("project/bin/tool")]);
    let script = base.join("lib/node_modules/@a/b/dist/index.js");
    write_program(&script, "text");
    let files = resolve_program(&script, OsStr::new(""), &[]).unwrap();
    assert_eq!(files.readable, [base.join("lib/node_modules")]);
    assert_eq!(
        find_prefix(Path::new("/nix/store/x-python/bin/python3")),
        Some("/nix/store".into())
    );
}
