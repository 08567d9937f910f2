//! Words for a process of this machine that may be listening, under a name: how a server tells the command that asked for
//! something what came of it. Nobody waits for whoever does not listen.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recv, sendto,
    socket_with, sockopt,
};

/// Bytes of a notice at most; the rest is cut off.
const LEN_MAX: usize = 4 << 10;

/// Where notices come in.
#[derive(Debug)]
pub struct Inbox(OwnedFd);

fn open(name: &str) -> io::Result<(OwnedFd, SocketAddrUnix)> {
    // Not in the file system: nothing is left behind, and no right to write anywhere is needed.
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok((socket, address))
}

/// Tells whoever listens under `name`.
pub fn post(name: &str, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(LEN_MAX)];
    if let Ok((socket, address)) = open(name) {
        // Nobody may be there, and whoever does not read misses something.
        let _ = sendto(
            &socket,
            bytes,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            &address,
        );
    }
}

impl Inbox {
    /// Listens under `name`.
    ///
    /// # Errors
    /// `AddrInUse` if somebody does.
    pub fn open(name: &str) -> io::Result<Inbox> {
        let (socket, address) = open(name)?;
        bind(&socket, &address)?;
        Ok(Inbox(socket))
    }

    /// Waits for the next notice.
    ///
    /// # Errors
    /// `WouldBlock` if none comes in time.
    pub fn next(&self, patience: Duration) -> io::Result<String> {
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(patience))?;
        let mut bytes = [0; LEN_MAX];
        let (len, _) = rustix::io::retry_on_intr(|| recv(&self.0, &mut bytes[..], RecvFlags::empty()))?;
        Ok(String::from_utf8_lossy(&bytes[..len]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, post};
    use std::time::Duration;

    #[test]
    fn a_notice_reaches_who_listens_and_nobody_else() {
        let name = format!("scrubjay-notices-{}", std::process::id());
        post(&name, "lost");
        let inbox = Inbox::open(&name).unwrap();
        assert!(Inbox::open(&name).is_err());
        assert!(inbox.next(Duration::from_millis(1)).is_err());
        post(&name, "heard");
        assert_eq!(inbox.next(Duration::from_secs(1)).unwrap(), "heard");
    }
}
