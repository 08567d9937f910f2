//! What a server does to its own process: limits, user, background, pid file, signals.
//!
//! Everything here runs while the process has one thread, but for [`wait_signal`].

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit};

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Ends the process without tidying anything up: what it had belongs to another one.
pub fn leave(exit: i32) -> ! {
    // SAFETY: it does not return, and calls nothing that was registered for the end.
    unsafe { libc::_exit(exit) }
}

/// The process that started this one, or took over from it.
pub fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// Asks a server to upgrade itself (SIGUSR2).
///
/// # Errors
/// There is no such process, or it is not ours.
pub fn ask_to_upgrade(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::USR2)?)
}

/// The process that a pid file names, if it lives.
///
/// # Errors
/// The file cannot be read or names no process, or that has ended.
pub fn named_by(path: &str) -> io::Result<u32> {
    let text = std::fs::read_to_string(path)?;
    let pid = text.trim().parse().ok().filter(|pid| is_alive(*pid));
    pid.ok_or_else(|| io::Error::other(format!("{:?} is no live process", text.trim())))
}

/// Unix time in milliseconds.
pub fn unix_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Allows core dumps as large as the hard limit, and raises that if it may (`-r`).
///
/// # Errors
/// When the limit stays at 0.
pub fn allow_core_dumps() -> io::Result<()> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    if rustix::process::setrlimit(Resource::Core, unlimited).is_ok() {
        return Ok(());
    }
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Core);
    rustix::process::setrlimit(
        Resource::Core,
        Rlimit {
            current: maximum,
            maximum,
        },
    )?;
    if maximum == Some(0) {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    Ok(())
}

/// Makes room for `wanted` open files, raising the hard limit too where that is allowed.
///
/// # Errors
/// What the system says, with the limit as it stands unchanged.
pub fn raise_open_files(wanted: u64) -> io::Result<()> {
    raise(Resource::Nofile, wanted)
}

/// Makes room for as many open files as this process may ever have, and gives how many those are.
pub fn raise_open_files_to_the_most() -> u64 {
    if let Some(maximum) = rustix::process::getrlimit(Resource::Nofile).maximum {
        // It is allowed to anybody; as it is would do otherwise.
        let _ = raise(Resource::Nofile, maximum);
    }
    rustix::process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX)
}

/// Allows `wanted` bytes to be locked into RAM, raising the hard limit too where that is allowed. Gives how many may be, by a
/// process that keeps its rights or by one that drops them.
pub fn raise_locked_bytes(wanted: u64, keeps_rights: bool) -> u64 {
    let is_free = |sets: rustix::thread::CapabilitySets| {
        sets.effective.contains(rustix::thread::CapabilitySet::IPC_LOCK)
    };
    if keeps_rights && rustix::thread::capabilities(None).is_ok_and(is_free) {
        return u64::MAX;
    }
    // As much as is allowed is better than nothing.
    if raise(Resource::Memlock, wanted).is_err()
        && let Some(maximum) = rustix::process::getrlimit(Resource::Memlock).maximum
    {
        let _ = raise(Resource::Memlock, maximum);
    }
    rustix::process::getrlimit(Resource::Memlock)
        .current
        .unwrap_or(u64::MAX)
}

fn raise(resource: Resource, wanted: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(resource);
    let is_enough = |bound: Option<u64>| bound.is_none_or(|bound| bound >= wanted);
    if is_enough(limit.current) {
        return Ok(());
    }
    let maximum = if is_enough(limit.maximum) {
        limit.maximum
    } else {
        Some(wanted)
    };
    rustix::process::setrlimit(
        resource,
        Rlimit {
            current: Some(wanted),
            maximum,
        },
    )?;
    Ok(())
}

/// A user of this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    uid: libc::uid_t,
    gid: libc::gid_t,
}

/// Looks a user up by name; `None` if there is none.
pub fn find_user(name: &str) -> Option<User> {
    // Enough for any entry of a passwd file; the strings in it are not looked at.
    const ENTRY_LEN_MAX: usize = 16 << 10;
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0; ENTRY_LEN_MAX];
    // SAFETY: passwd is plain old data, for which all zeroes is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and `buffer` is as long as is said.
    let status = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &mut found,
        )
    };
    (status == 0 && !found.is_null()).then_some(User {
        uid: entry.pw_uid,
        gid: entry.pw_gid,
    })
}

/// Gives up root for good and runs as `user`, without supplementary groups (`-u`).
///
/// # Errors
/// What the system says; the process must not go on then.
pub fn become_user(user: User) -> io::Result<()> {
    let check = |status: libc::c_int| match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: an empty list of groups needs no memory.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: takes a number.
    check(unsafe { libc::setgid(user.gid) })?;
    // SAFETY: takes a number.
    check(unsafe { libc::setuid(user.uid) })
}

/// The way back from a background process to the command that started it and waits.
#[derive(Debug)]
pub struct Launcher {
    pipe: OwnedFd,
}

/// Goes on in the background (`-d`): the caller becomes a new process in a session of its own. The process that was
/// started waits until [`Launcher::release`] and then exits with 0, or with this process's exit status if that ends
/// before.
///
/// # Errors
/// What the system says; nothing has changed then.
pub fn detach() -> io::Result<Launcher> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: there is no other thread yet, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(reader);
            rustix::process::setsid()?;
            Ok(Launcher { pipe: writer })
        }
        child => {
            drop(writer);
            wait_for_child(&reader, child)
        }
    }
}

fn wait_for_child(reader: &OwnedFd, child: libc::pid_t) -> ! {
    let mut byte = [0];
    if rustix::io::retry_on_intr(|| rustix::io::read(reader, &mut byte)).is_ok_and(|count| count == 1) {
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    let exit = if waited == child && libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        1
    };
    std::process::exit(exit)
}

/// What a process in the background lets go of.
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    /// Standard output and error stay where they are.
    pub keep_output: bool,
    /// The working directory stays (core dumps are written there).
    pub keep_directory: bool,
}

impl Quiet {
    /// Lets go of the directory and the terminal.
    ///
    /// # Errors
    /// What the system says.
    pub fn become_quiet(self) -> io::Result<()> {
        if !self.keep_directory {
            rustix::process::chdir("/")?;
        }
        let null = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(null.as_fd())?;
        if !self.keep_output {
            rustix::stdio::dup2_stdout(null.as_fd())?;
            rustix::stdio::dup2_stderr(null.as_fd())?;
        }
        Ok(())
    }
}

impl Launcher {
    /// Says that the server is up, and becomes quiet.
    ///
    /// # Errors
    /// What the system says.
    pub fn release(self, quiet: Quiet) -> io::Result<()> {
        quiet.become_quiet()?;
        // The command may have been killed meanwhile; the server lives on.
        let _ = rustix::io::write(&self.pipe, &[1]);
        Ok(())
    }
}

/// A file with this process's id; gone when dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. The second value is the id of another live process that it named before.
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn write(path: &str) -> io::Result<(PidFile, Option<u32>)> {
        let path = std::path::absolute(path)?;
        let other = read_pid(&path).filter(|pid| *pid != std::process::id() && is_alive(*pid));
        replace_file(&path, ".tmp", &format!("{}\n", std::process::id()))?;
        Ok((PidFile { path }, other))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have put its own id there since.
        if read_pid(&self.path) == Some(std::process::id()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn read_pid(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Writes `text` beside `path` and renames it there, so that nobody reads half of it.
fn replace_file(path: &Path, suffix: &str, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

/// Writes the ports that are listened on to the file that the environment variable `MEMCACHED_PORT_FILENAME` names, if
/// it is set, a line each: `TCP INET: 11211`. Source: memcached 1.6.18, run.
///
/// # Errors
/// What the system says about the file.
pub fn write_port_file(places: &[(&str, &[std::net::SocketAddr])]) -> io::Result<()> {
    let Some(path) = std::env::var_os("MEMCACHED_PORT_FILENAME") else {
        return Ok(());
    };
    let mut text = String::new();
    for (what, addresses) in places {
        for address in *addresses {
            let family = if address.is_ipv4() { "INET" } else { "INET6" };
            text.push_str(&format!("{what} {family}: {}\n", address.port()));
        }
    }
    replace_file(Path::new(&path), ".lck", &text)
}

/// The signals that a server acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: stop.
    Stop,
    /// SIGUSR1: finish what is under way, then stop.
    StopGracefully,
    /// SIGHUP: read files again: configuration, users, certificates.
    Reload,
    /// SIGUSR2: hand everything to a successor.
    Upgrade,
}

const SIGNALS: [libc::c_int; 5] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGUSR1,
    libc::SIGHUP,
    libc::SIGUSR2,
];

/// Keeps the signals of [`Signal`] from interrupting this thread and all that it starts from now on, so that one thread
/// can take them with [`wait_signal`]; SIGPIPE is ignored. To be called before any thread is started.
pub fn block_signals() {
    block(&SIGNALS);
    // SAFETY: ignoring a signal runs no code of ours in a handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Keeps signals from interrupting this thread; the set of them.
pub(crate) fn block(numbers: &[libc::c_int]) -> libc::sigset_t {
    let set = signal_set(numbers);
    // SAFETY: `set` is valid; the old mask is not asked for.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    assert_eq!(status, 0, "a valid mask");
    set
}

/// Waits for the next of the blocked signals.
pub fn wait_signal() -> Signal {
    let set = signal_set(&SIGNALS);
    let mut number = 0;
    loop {
        // SAFETY: both pointers are valid for the call.
        let status = unsafe { libc::sigwait(&set, &mut number) };
        match (status, number) {
            (0, libc::SIGUSR1) => return Signal::StopGracefully,
            (0, libc::SIGHUP) => return Signal::Reload,
            (0, libc::SIGUSR2) => return Signal::Upgrade,
            (0, _) => return Signal::Stop,
            _ => {}
        }
    }
}

fn signal_set(numbers: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain old data, for which all zeroes is a value; it is set up before it is used.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid.
    unsafe { libc::sigemptyset(&mut set) };
    for number in numbers {
        // SAFETY: `set` is valid and the number is a signal's.
        unsafe { libc::sigaddset(&mut set, *number) };
    }
    set
}

/// Nanoseconds that the calling thread has had of the processor so far. Cost: one system call.
pub fn thread_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of this process so far, in user and in system mode, as `seconds.micros`.
pub fn cpu_seconds() -> (String, String) {
    // SAFETY: all-zero is a valid rusage, and the kernel fills it in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives through the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    debug_assert_eq!(result, 0, "one's own usage can always be asked for");
    let text = |time: libc::timeval| format!("{}.{:06}", time.tv_sec, time.tv_usec);
    (text(usage.ru_utime), text(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::{PidFile, find_user, is_alive, read_pid};

    #[test]
    fn users_are_found_by_name() {
        assert!(find_user("root").is_some());
        assert_eq!(find_user("no-such-user-here"), None);
        assert_eq!(find_user("a\0b"), None);
    }

    #[test]
    fn pid_file_names_the_process_and_goes_with_it() {
        let path = std::env::temp_dir().join(format!("scrubjay-pid-file-{}", std::process::id()));
        std::fs::write(&path, "1\n").expect("writable");
        let (file, other) = PidFile::write(path.to_str().expect("utf-8")).expect("writable");
        assert_eq!(other, Some(1), "process 1 lives always");
        assert_eq!(read_pid(&path), Some(std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert!(!is_alive(0));
    }
}
