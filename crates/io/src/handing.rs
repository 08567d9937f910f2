//! Open files from one process to another: messages with descriptors over a pair of unix sockets.
//!
//! A message is a header, which carries the descriptors, and its bytes. Both ends are processes of ours, so a wrong header
//! is a mistake of a version, and an error here.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
};

/// Descriptors in one message at most; the kernel takes 253.
pub const FDS_MAX: usize = 200;

/// Bytes of a message at most, so that a wrong header cannot ask for all memory.
pub const MESSAGE_LEN_MAX: usize = 1 << 30;

const HEADER_LEN: usize = 8;

/// Marks a header of ours.
const MAGIC: u16 = 0x5a4a;

/// One end of a pair.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Two ends; neither outlives `exec` unless told so.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Channel(one), Channel(other)))
    }

    /// The end that a process was started with.
    pub fn from_fd(fd: OwnedFd) -> Channel {
        Channel(fd)
    }

    /// How long each call may wait for the other end from now on; an error of kind `WouldBlock` is what comes after.
    ///
    /// # Errors
    /// None that is known.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        for side in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&self.0, side, Some(patience))?;
        }
        Ok(())
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end is gone, or not read from in time; it has more than [`FDS_MAX`] descriptors or [`MESSAGE_LEN_MAX`] bytes.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if fds.len() > FDS_MAX || bytes.len() > MESSAGE_LEN_MAX {
            let what = format!("a message of {} bytes and {} files", bytes.len(), fds.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut header = [0; HEADER_LEN];
        header[..2].copy_from_slice(&MAGIC.to_le_bytes());
        header[2..4].copy_from_slice(&(fds.len() as u16).to_le_bytes());
        header[4..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(fds));
            assert!(fits, "there is room for FDS_MAX");
        }
        let pieces = [IoSlice::new(&header)];
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.0, &pieces, &mut control, SendFlags::NOSIGNAL)
        })?;
        self.write_all(&header[sent..])?;
        self.write_all(bytes)
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = rustix::io::retry_on_intr(|| rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Waits for a message: its bytes and descriptors.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other end is gone, `WouldBlock` if nothing comes in time, `InvalidData` if it is no message of
    /// ours.
    pub fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut header = [0; HEADER_LEN];
        let mut fds = Vec::new();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::io::retry_on_intr(|| {
            let mut pieces = [IoSliceMut::new(&mut header)];
            rustix::net::recvmsg(&self.0, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = part {
                fds.extend(received);
            }
        }
        if message.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_exact(&mut header[message.bytes..])?;
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let len = (usize::from(word(6)) << 16) | usize::from(word(4));
        if word(0) != MAGIC || usize::from(word(2)) != fds.len() || len > MESSAGE_LEN_MAX {
            let what = format!(
                "a message of another kind, {} files instead of {}",
                fds.len(),
                word(2)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut bytes = vec![0; len];
        self.read_exact(&mut bytes)?;
        Ok((bytes, fds))
    }

    fn read_exact(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (_, len) =
                rustix::io::retry_on_intr(|| rustix::net::recv(&self.0, &mut *bytes, RecvFlags::empty()))?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[len..];
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes the descriptor of that number, which this process was started with, and keeps it from processes that this one
/// starts. Ask once for each number.
///
/// # Errors
/// It is not open.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: asks about a number; it fails if that is no open descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open; whoever started this process opened it for it, and nothing else here knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The number under which a descriptor is known to a process that inherits it.
pub fn number(fd: impl AsFd) -> RawFd {
    fd.as_fd().as_raw_fd()
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::{Channel, FDS_MAX};

    #[test]
    fn bytes_and_open_files_arrive_together_and_in_order() {
        let (one, other) = Channel::pair().unwrap();
        let mut file = tempfile();
        file.write_all(b"kept").unwrap();
        let long = vec![7; 3 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                one.send(b"", &[]).unwrap();
                one.send(&long, &[file.as_fd(); FDS_MAX]).unwrap();
                one.send(b"more", &[file.as_fd()]).unwrap();
                drop(one);
            });
            assert_eq!(other.receive().unwrap().0, b"");
            let (bytes, fds) = other.receive().unwrap();
            assert!(bytes == long && fds.len() == FDS_MAX);
            let (bytes, mut fds) = other.receive().unwrap();
            assert_eq!((bytes.as_slice(), fds.len()), (&b"more"[..], 1));
            let mut copy = std::fs::File::from(fds.remove(0));
            copy.rewind().unwrap();
            let mut text = String::new();
            copy.read_to_string(&mut text).unwrap();
            assert_eq!(text, "kept");
            assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn patience_ends_and_strange_bytes_are_refused() {
        let (one, other) = Channel::pair().unwrap();
        other.set_patience(Duration::from_millis(1)).unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::WouldBlock);
        one.write_all(b"not ours").unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        assert!(super::inherited(-1).is_err());
        assert!(super::inherited(1 << 20).is_err());
    }

    fn tempfile() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("scrubjay-handing-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        std::fs::remove_file(&path).unwrap();
        file.unwrap()
    }
}
