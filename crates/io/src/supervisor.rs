//! What a supervisor such as systemd and this process tell each other: sockets and memory handed over at the start,
//! and states. Source: sd_notify(3), sd_listen_fds(3).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};

use crate::handing::inherited;

/// Variables that are for one process only, not for those that it starts.
pub const OWN_VARIABLES: [&str; 5] = [
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
];

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// Descriptors handed over at most.
const COUNT_MAX: RawFd = 1024;

/// An open file that this process was started with.
#[derive(Debug)]
pub struct Given {
    /// What whoever gave it calls it; "unknown" if they do not say.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The file itself.
    pub fd: OwnedFd,
}

/// What an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TCP socket that listens.
    Tcp,
    /// A unix socket that listens.
    Unix,
    /// A UDP socket.
    Udp,
    /// Anything else.
    Other,
}

/// What this process was started with, by the rules of socket activation: the variables name this process, or nothing is
/// taken. To be called once.
///
/// # Errors
/// A descriptor that was announced is not open.
pub fn given() -> io::Result<Vec<Given>> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let is_ours = number("LISTEN_PID").is_some_and(|pid| pid as u32 == std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (FIRST..FIRST + count.clamp(0, COUNT_MAX))
        .map(|number| {
            let fd = inherited(number).map_err(|error| {
                io::Error::other(format!(
                    "LISTEN_FDS announces {count} files, but {number}: {error}"
                ))
            })?;
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown");
            Ok(Given {
                name: name.to_owned(),
                kind: kind(&fd),
                fd,
            })
        })
        .collect()
}

fn kind(fd: &OwnedFd) -> Kind {
    let Ok(address) = rustix::net::getsockname(fd) else {
        return Kind::Other;
    };
    let listens = sockopt::socket_acceptconn(fd).unwrap_or(false);
    match (address.address_family(), sockopt::socket_type(fd)) {
        (AddressFamily::INET | AddressFamily::INET6, Ok(SocketType::STREAM)) if listens => Kind::Tcp,
        (AddressFamily::UNIX, Ok(SocketType::STREAM)) if listens => Kind::Unix,
        (AddressFamily::INET | AddressFamily::INET6, Ok(SocketType::DGRAM)) => Kind::Udp,
        _ => Kind::Other,
    }
}

/// Whether a supervisor wants to be told anything.
pub fn is_there() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Tells the supervisor `state`, lines such as `READY=1`, with `fds`; nothing happens where there is none.
///
/// # Errors
/// It is there but does not take it.
pub fn tell(state: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
        path => SocketAddrUnix::new(path)?,
    };
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let pieces = [io::IoSlice::new(state.as_bytes())];
    rustix::net::sendmsg_addr(&socket, &address, &pieces, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Tells the supervisor that files are being read anew; `READY=1` ends that.
///
/// # Errors
/// As [`tell`].
pub fn tell_reloading() -> io::Result<()> {
    // It compares this with its own clock, to tell this reload from one before.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), &[])
}

/// Has the supervisor keep `fd` until the next start, where it comes back under `name`.
///
/// # Errors
/// As [`tell`]. Whether it is kept nobody says: that depends on FileDescriptorStoreMax= of the unit.
pub fn store(name: &str, fd: impl AsFd) -> io::Result<()> {
    tell(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), &[fd.as_fd()])
}

/// How often the supervisor wants to hear `WATCHDOG=1`: half of what it waits for.
pub fn watchdog_period() -> Option<std::time::Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0)?;
    Some(std::time::Duration::from_micros(micros / 2))
}
