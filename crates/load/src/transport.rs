//! Where a server listens, and how bytes get there and back. Another transport is another variant.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use scrubjay_io::driver::Driver;
use scrubjay_io::driver::Socket;
use scrubjay_io::driver::epoll::Epoll;

/// Bytes before the payload of each datagram. Source: memcached doc/protocol.txt, "UDP protocol".
const FRAME_LEN: usize = 8;

/// Longest datagram.
const DATAGRAM_LEN_MAX: usize = 64 << 10;

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
    /// A UDP port: gets only.
    Udp(SocketAddr),
}

impl Address {
    /// Reads `HOST:PORT`, `udp://HOST:PORT` or a path with a slash. An error names what cannot be read or resolved.
    pub fn parse(text: &str) -> Result<Address, String> {
        let resolve = |text: &str| {
            let explain = |why: String| {
                format!("{text}: {why}; write HOST:PORT, udp://HOST:PORT or the path of a socket")
            };
            let mut found = text.to_socket_addrs().map_err(|why| explain(why.to_string()))?;
            found.next().ok_or_else(|| explain("has no address".to_owned()))
        };
        match text.strip_prefix("udp://") {
            Some(rest) => Ok(Address::Udp(resolve(rest)?)),
            None if text.contains('/') => Ok(Address::Unix(PathBuf::from(text))),
            None => Ok(Address::Tcp(resolve(text)?)),
        }
    }

    /// Opens a connection. An error names the address and says what to look at.
    pub fn connect(&self, patience: Duration) -> Result<Transport, String> {
        let socket = match self {
            Address::Tcp(address) => Socket::connect_tcp(*address, patience),
            Address::Unix(path) => Socket::connect_unix(path, patience),
            Address::Udp(address) => Socket::connect_udp(*address),
        };
        let socket = socket.map_err(|why| format!("{self}: {why}; is a server listening there?"))?;
        Ok(match self {
            Address::Udp(_) => Transport::Datagrams(Datagrams {
                socket,
                id: 0,
                parts: Vec::new(),
                room: Vec::new(),
            }),
            Address::Tcp(_) | Address::Unix(_) => Transport::Stream(socket),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(out),
            Address::Unix(path) => path.display().fmt(out),
            Address::Udp(address) => write!(out, "udp://{address}"),
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub enum Transport {
    /// Bytes in order: TCP and unix sockets.
    Stream(Socket),
    /// Datagrams that may be lost: one request at a time.
    Datagrams(Datagrams),
}

impl Transport {
    /// The socket to wait on.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Transport::Stream(socket) => socket,
            Transport::Datagrams(datagrams) => &datagrams.socket,
        }
    }

    /// Sends of `bytes` as much as is taken now.
    pub(crate) fn send(&mut self, driver: &mut Epoll, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Stream(socket) => driver.write(socket, &[IoSlice::new(bytes)]),
            Transport::Datagrams(datagrams) => datagrams.send(driver, bytes),
        }
    }

    /// Receives what is there into `buffer`; 0 is the end.
    pub(crate) fn receive(&mut self, driver: &mut Epoll, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Stream(socket) => driver.read(socket, buffer),
            Transport::Datagrams(datagrams) => datagrams.receive(driver, buffer),
        }
    }
}

/// One request at a time over UDP. A reply's parts may come in any order; those of an earlier request are dropped.
#[derive(Debug)]
pub struct Datagrams {
    socket: Socket,
    /// Number of the last request.
    id: u16,
    /// Parts of its reply.
    parts: Vec<Option<Vec<u8>>>,
    /// Room for a datagram.
    room: Vec<u8>,
}

impl Datagrams {
    fn send(&mut self, driver: &mut Epoll, bytes: &[u8]) -> io::Result<usize> {
        let id = self.id.wrapping_add(1);
        let [high, low] = id.to_be_bytes();
        let frame = [high, low, 0, 0, 0, 1, 0, 0];
        driver.write(&self.socket, &[IoSlice::new(&frame), IoSlice::new(bytes)])?;
        self.id = id;
        self.parts.clear();
        Ok(bytes.len())
    }

    fn receive(&mut self, driver: &mut Epoll, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut room = std::mem::take(&mut self.room);
            room.resize(DATAGRAM_LEN_MAX, 0);
            let read = driver.read(&self.socket, &mut room);
            let whole = read.as_ref().ok().and_then(|len| self.add(&room[..*len]));
            self.room = room;
            read?;
            if let Some(payload) = whole {
                let room = buffer
                    .get_mut(..payload.len())
                    .ok_or(io::ErrorKind::InvalidData)?;
                room.copy_from_slice(&payload);
                return Ok(payload.len());
            }
        }
    }

    /// Takes a datagram, and gives the whole reply with its last part.
    fn add(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let (frame, payload) = datagram.split_at_checked(FRAME_LEN)?;
        let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (number, parts) = (usize::from(half(2)), usize::from(half(4)));
        if half(0) != self.id || number >= parts {
            return None;
        }
        self.parts.resize(parts, None);
        self.parts[number] = Some(payload.to_vec());
        let whole = self.parts.iter().all(Option::is_some);
        whole.then(|| self.parts.drain(..).flatten().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::path::Path;

    use scrubjay_io::driver::Socket;

    use super::{Address, Datagrams};

    #[test]
    fn addresses_are_read_and_what_is_none_is_refused() {
        let check = |text: &str| assert_eq!(Address::parse(text).expect(text).to_string(), text);
        check("127.0.0.1:11211");
        check("[::1]:11211");
        check("udp://127.0.0.1:11211");
        check("/tmp/a.sock");
        assert_eq!(
            Address::parse("./a.sock"),
            Ok(Address::Unix(Path::new("./a.sock").to_owned()))
        );
        for text in ["", "nohost", "127.0.0.1:port", "udp:/127.0.0.1"] {
            if let Err(why) = Address::parse(text) {
                assert!(why.contains("write HOST:PORT"), "{why}");
            } else {
                assert!(text.contains('/'), "{text}");
            }
        }
    }

    #[test]
    fn parts_of_a_datagram_reply_are_put_in_order_and_strangers_dropped() {
        let peer = UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
        let socket = Socket::connect_udp(peer.local_addr().expect("its address")).expect("a socket");
        let mut datagrams = Datagrams {
            socket,
            id: 0x0102,
            parts: Vec::new(),
            room: Vec::new(),
        };
        let part = |id: u8, number: u8, text: &str| {
            let mut datagram = vec![1, id, 0, number, 0, 2, 0, 0];
            datagram.extend_from_slice(text.as_bytes());
            datagram
        };
        assert_eq!(datagrams.add(b"short"), None);
        assert_eq!(datagrams.add(&part(2, 1, "END\r\n")), None);
        assert_eq!(datagrams.add(&part(1, 0, "old")), None);
        assert_eq!(datagrams.add(&part(2, 9, "no such part")), None);
        assert_eq!(
            datagrams.add(&part(2, 0, "VALUE")),
            Some(b"VALUEEND\r\n".to_vec())
        );
        assert_eq!(datagrams.add(&part(2, 0, "again")), None);
    }
}
