//! The system calls without a safe wrapper. No other file of the crate is unsafe.
#![expect(unsafe_code, reason = "rustix has no safe form of these calls")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::Pid;
use seccompiler::sock_filter;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::protocol::ControlSocket;

/// Lets a command inherit a descriptor under a number.
pub(crate) fn pass_descriptor(command: &mut Command, descriptor: OwnedFd, number: RawFd) {
    let pass = move || {
        // SAFETY: both calls take numbers only and are async-signal-safe.
        unsafe {
            match descriptor.as_raw_fd() == number {
                // `dup2` would leave the descriptor to be closed.
                true => check(libc::fcntl(number, libc::F_SETFD, 0).into()),
                false => check(libc::dup2(descriptor.as_raw_fd(), number).into()),
            }
        }
    };
    // SAFETY: the closure makes two system calls and does not allocate.
    unsafe { command.pre_exec(pass) };
}

/// Registers a socket for asynchronous reads.
pub(crate) fn register_socket(socket: ControlSocket) -> io::Result<AsyncFd<ControlSocket>> {
    // SAFETY: the socket owns its descriptor and returns the same one until it is dropped.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(io::Error::from)
}

/// Takes a descriptor that this process has inherited, if there is one of that number.
pub(crate) fn take_inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: called once, at the start of `main`, before anything else could own the number, and
    // the first call tells whether the number is used.
    unsafe { (libc::fcntl(number, libc::F_GETFD) >= 0).then(|| OwnedFd::from_raw_fd(number)) }
}

/// Creates a child in new namespaces. Returns its id, or `None` in the child.
pub(crate) fn clone_process(namespaces: i32) -> io::Result<Option<Pid>> {
    let flags = (namespaces | libc::SIGCHLD) as u64;
    // SAFETY: the launcher has one thread, so that the child has a consistent copy of everything;
    // without a stack and without CLONE_VM, `clone` behaves as `fork`.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    check(result)?;
    Ok(Pid::from_raw(result as i32))
}

/// Ends a child of `clone_process` without running what belongs to its parent.
pub(crate) fn exit_child(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// The attributes of a mount; its flags are never removed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MountAttributes<'a> {
    pub(crate) read_only: bool,
    pub(crate) no_set_id: bool,
    pub(crate) no_devices: bool,
    /// A user namespace that maps the owners of files.
    pub(crate) owners: Option<BorrowedFd<'a>>,
}

/// Sets the attributes of a mounted tree, or of the mount at a path if there is no descriptor.
pub(crate) fn set_mount_attributes(
    tree: Option<BorrowedFd<'_>>,
    path: &CStr,
    attributes: MountAttributes<'_>,
) -> io::Result<()> {
    const AT_RECURSIVE: i32 = 0x8000;
    let (at, flags) = match tree {
        Some(tree) => (tree.as_raw_fd(), libc::AT_EMPTY_PATH | AT_RECURSIVE),
        None => (libc::AT_FDCWD, 0),
    };
    let set = [
        (attributes.read_only, libc::MOUNT_ATTR_RDONLY),
        (attributes.no_set_id, libc::MOUNT_ATTR_NOSUID),
        (attributes.no_devices, libc::MOUNT_ATTR_NODEV),
        (attributes.owners.is_some(), libc::MOUNT_ATTR_IDMAP),
    ];
    let wanted = libc::mount_attr {
        attr_set: set.iter().filter(|(on, _)| *on).map(|(_, flag)| flag).sum(),
        attr_clr: 0,
        // No later mount of the host appears in a copied tree.
        propagation: if tree.is_some() { libc::MS_PRIVATE } else { 0 },
        userns_fd: attributes.owners.map_or(0, |owners| owners.as_raw_fd() as u64),
    };
    // SAFETY: the path and the structure are valid, and the size is that of the structure.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            &raw const wanted,
            size_of::<libc::mount_attr>(),
        )
    })
}

/// Starts the loopback interface of a new network namespace.
pub(crate) fn start_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request is an `ifreq`, as SIOCSIFFLAGS takes it.
    check(
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) }
            .into(),
    )
}

/// Marks all descriptors from a number on to be closed when the program is started.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    // SAFETY: changes a flag of descriptors only.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) })
}

/// Makes a descriptor the one of a number that programs inherit.
pub(crate) fn set_inherited(descriptor: &OwnedFd, number: RawFd) -> io::Result<()> {
    // SAFETY: the number is that of the control socket, which was moved away before.
    check(unsafe { libc::dup2(descriptor.as_raw_fd(), number) }.into())
}

/// Returns the version of Landlock in the kernel, or 0.
pub(crate) fn landlock_version() -> i32 {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: asks for the version only.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Returns the largest memory of a process that this one has waited for, in KiB.
pub(crate) fn children_peak_kib() -> u64 {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    if result == 0 { usage.ru_maxrss.unsigned_abs() } else { 0 }
}

/// A system call that waits for an answer of the launcher.
#[derive(Debug)]
pub(crate) struct SuspendedCall {
    pub(crate) id: u64,
    pub(crate) number: libc::c_long,
    /// The first argument.
    pub(crate) target: i32,
}

/// Installs a filter with notifications and returns the descriptor that receives them.
pub(crate) fn install_listening_filter(program: &[sock_filter]) -> io::Result<OwnedFd> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the filter has the length that is given, and the kernel only reads it.
    let descriptor = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const filter,
        )
    };
    check(descriptor)?;
    // SAFETY: the kernel has just created the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

/// Receives a call that waits.
pub(crate) fn receive_suspended_call(listener: BorrowedFd<'_>) -> io::Result<SuspendedCall> {
    // SAFETY: all fields are numbers, and the kernel requires zeros.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    check(
        // SAFETY: the structure is the one that the request fills.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) }
            .into(),
    )?;
    // The kernel uses the lower half of a process id.
    let target = call.data.args[0] as i32;
    Ok(SuspendedCall { id: call.id, number: call.data.nr.into(), target })
}

/// Lets a call continue, or fail with EPERM.
pub(crate) fn answer_suspended_call(
    listener: BorrowedFd<'_>,
    call: &SuspendedCall,
    passes: bool,
) -> io::Result<()> {
    let answer = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: if passes { 0 } else { -libc::EPERM },
        flags: if passes { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 },
    };
    // SAFETY: the structure is the one that the request reads.
    check(
        unsafe {
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
        }
        .into(),
    )
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Memory at a random address, with the texts of a program's start.
struct RandomMemory {
    address: *mut libc::c_void,
    length: usize,
}

/// The lowest random address, and the bits of a page's number above it. Both exist on all machines
/// with 39 bits of addresses.
const LOWEST_ADDRESS: usize = 1 << 32;
const PAGE_NUMBER_BITS: u32 = 25;
const PAGE: usize = 4096;

impl RandomMemory {
    fn allocate(length: usize) -> io::Result<Self> {
        for _ in 0..64 {
            let mut number = [0_u8; 8];
            // SAFETY: the buffer has the length that is given.
            let read = unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) };
            check(read as libc::c_long)?;
            let page = usize::from_ne_bytes(number) & ((1 << PAGE_NUMBER_BITS) - 1);
            let wanted = (LOWEST_ADDRESS + page * PAGE) as *mut libc::c_void;
            let (access, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory; an address that is in use is only a wish, which is not granted.
            let address = unsafe { libc::mmap(wanted, length, access, flags, -1, 0) };
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if address == wanted {
                return Ok(Self { address, length });
            }
            // SAFETY: the memory was mapped above and nothing refers to it.
            unsafe { libc::munmap(address, length) };
        }
        Err(io::Error::other("no random address is free"))
    }

    /// Stores texts, and the list of their addresses with a null at its end.
    fn store_list(texts: &[CString]) -> io::Result<*const *const libc::c_char> {
        let list = (texts.len() + 1) * size_of::<*const libc::c_char>();
        let bytes: usize = texts.iter().map(|text| text.as_bytes_with_nul().len()).sum();
        let memory = Self::allocate((list + bytes).next_multiple_of(PAGE))?;
        debug_assert!(list + bytes <= memory.length, "the list and the texts fit");
        let start = memory.address.cast::<*const libc::c_char>();
        // SAFETY: the memory has room for the list and after it for all texts, as computed above. It
        // is never unmapped, because the program replaces this process.
        unsafe {
            let mut text_at = memory.address.cast::<u8>().add(list);
            for (number, text) in texts.iter().enumerate() {
                let text = text.as_bytes_with_nul();
                text_at.copy_from_nonoverlapping(text.as_ptr(), text.len());
                start.add(number).write(text_at.cast());
                text_at = text_at.add(text.len());
            }
            start.add(texts.len()).write(std::ptr::null());
        }
        Ok(start.cast_const())
    }
}

/// The texts of a program's start at random addresses, so that a filter can tell this start from all
/// others: a program that does not know the addresses cannot make the same call.
pub(crate) struct SingleStart {
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
}

impl SingleStart {
    /// Stores the program, its arguments and its variables.
    pub(crate) fn new(command: &[CString], environment: &[CString]) -> io::Result<Self> {
        Ok(Self {
            arguments: RandomMemory::store_list(command)?,
            environment: RandomMemory::store_list(environment)?,
        })
    }

    /// Returns the second and the third argument of the call.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.arguments as u64, self.environment as u64)
    }

    /// Replaces this process by the program; returns only with an error.
    pub(crate) fn execute(&self) -> io::Error {
        // SAFETY: both lists end with a null and refer to texts with a null at their ends. The first
        // argument is the program itself, and SIGPIPE is ignored by this process alone.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::syscall(libc::SYS_execve, *self.arguments, self.arguments, self.environment);
        }
        io::Error::last_os_error()
    }
}
