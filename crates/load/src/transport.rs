//! Where a server listens, and how bytes get there and back. Another transport is another variant.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::Driver;
use scrubjay_io::driver::Socket;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_tls::{Client, ClientSession};

/// Bytes before the payload of each datagram. Source: memcached doc/protocol.txt, "UDP protocol".
const FRAME_LEN: usize = 8;

/// Most bytes received at once.
pub(crate) const ROOM: usize = 256 << 10;

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
    fn connect(&self, patience: Duration) -> Result<Socket, String> {
        let socket = match self {
            Address::Tcp(address) => Socket::connect_tcp(*address, patience),
            Address::Unix(path) => Socket::connect_unix(path, patience),
            Address::Udp(address) => Socket::connect_udp(*address),
        };
        socket.map_err(|why| format!("{self}: {why}; is a server listening there?"))
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

/// A server's address, and how bytes are wrapped on their way there.
#[derive(Clone, Debug)]
pub struct Route {
    /// Where it listens.
    pub address: Address,
    /// They are encrypted: TCP and unix sockets only.
    pub tls: Option<Client>,
}

impl Route {
    /// Opens a connection and, where it is encrypted, establishes it. An error names the address and says what to look at.
    pub fn connect(&self, patience: Duration) -> Result<Transport, String> {
        let mut transport = self.wrap(self.address.connect(patience)?)?;
        if let Transport::Encrypted(socket, session) = &mut transport {
            establish(socket, session, patience).map_err(|why| format!("{}: {why}", self.address))?;
        }
        Ok(transport)
    }

    /// Begins to open a connection; what is sent goes when it is open. Unix sockets have no such thing: they are opened.
    pub(crate) fn begin(&self, patience: Duration) -> Result<Transport, String> {
        match &self.address {
            Address::Tcp(address) => {
                let socket = Socket::begin_tcp(*address);
                self.wrap(socket.map_err(|why| {
                    format!("no further connection: {why}; ask for fewer a second by --rate")
                })?)
            }
            address => self.wrap(address.connect(patience)?),
        }
    }

    fn wrap(&self, socket: Socket) -> Result<Transport, String> {
        let open = |tls: &Client| tls.open().map_err(|why| format!("no TLS: {why}"));
        Ok(match (&self.address, &self.tls) {
            (Address::Udp(_), _) => Transport::Datagrams(Datagrams {
                socket,
                id: 0,
                parts: Vec::new(),
                room: Vec::new(),
            }),
            (_, None) => Transport::Stream(socket),
            (_, Some(tls)) => Transport::Encrypted(socket, Box::new(open(tls)?)),
        })
    }
}

/// What may help a connection that ended so.
pub(crate) fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::InvalidInput => {
            "give its authority by --tls-ca and its name by --tls-name, or believe it by --tls-no-verify"
        }
        io::ErrorKind::PermissionDenied => "if it wants a certificate, show one by --tls-cert and --tls-key",
        io::ErrorKind::InvalidData => "does it speak TLS there?",
        _ => "look whether the server still runs, and at what it says",
    }
}

/// Shakes hands, and waits for it.
fn establish(socket: &mut Socket, session: &mut ClientSession, patience: Duration) -> Result<(), String> {
    let explain = |why: io::Error| format!("no TLS: {why}; {}", advice(&why));
    let clock = Clock::start();
    let end = clock.now().nanos() + patience.as_nanos() as u64;
    let mut driver = Epoll::new(clock).map_err(explain)?;
    driver.add(socket, 0).map_err(explain)?;
    let (mut ready, mut room) = (Vec::new(), vec![0; ROOM]);
    loop {
        // A handshake is short enough for any socket's buffer.
        session.flush(&mut driver, socket).map_err(explain)?;
        if !session.is_handshaking() {
            return Ok(());
        }
        let left = end.saturating_sub(clock.now().nanos());
        if left == 0 {
            return Err(explain(io::ErrorKind::TimedOut.into()));
        }
        driver.wait_nanos(left, &mut ready).map_err(explain)?;
        match session.receive(&mut driver, socket, &mut room) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(explain(why)),
            Ok(_) => return Err(explain(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub enum Transport {
    /// Bytes in order: TCP and unix sockets.
    Stream(Socket),
    /// The same, encrypted.
    Encrypted(Socket, Box<ClientSession>),
    /// Datagrams that may be lost: one request at a time.
    Datagrams(Datagrams),
}

impl Transport {
    /// The socket, for a driver to take.
    pub(crate) fn socket_mut(&mut self) -> &mut Socket {
        match self {
            Transport::Stream(socket) | Transport::Encrypted(socket, _) => socket,
            Transport::Datagrams(datagrams) => &mut datagrams.socket,
        }
    }

    /// The socket to wait on.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Transport::Stream(socket) | Transport::Encrypted(socket, _) => socket,
            Transport::Datagrams(datagrams) => &datagrams.socket,
        }
    }

    /// Sends of `bytes` as much as is taken now. What is encrypted is taken and sent by turns: while there is something
    /// [unsent](Transport::has_unsent), this is to be called again.
    pub(crate) fn send(
        &mut self,
        driver: &mut impl Driver<Socket = Socket>,
        bytes: &[u8],
    ) -> io::Result<usize> {
        match self {
            Transport::Stream(socket) => driver.write(socket, &[IoSlice::new(bytes)]),
            Transport::Encrypted(socket, session) if bytes.is_empty() => {
                session.flush(driver, socket).map(|()| 0)
            }
            Transport::Encrypted(_, session) => session.take(bytes).map(|()| bytes.len()),
            Transport::Datagrams(datagrams) => datagrams.send(driver, bytes),
        }
    }

    /// Whether something that was taken is not sent yet.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Transport::Encrypted(_, session) if session.has_unsent())
    }

    /// Whether it goes on with an earlier connection's session; none if it is not encrypted.
    pub(crate) fn is_resumed(&self) -> Option<bool> {
        match self {
            Transport::Encrypted(_, session) => Some(session.is_resumed()),
            Transport::Stream(_) | Transport::Datagrams(_) => None,
        }
    }

    /// Receives what is there into `buffer`, of [`ROOM`]; 0 is the end.
    pub(crate) fn receive(
        &mut self,
        driver: &mut impl Driver<Socket = Socket>,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        match self {
            Transport::Stream(socket) => driver.read(socket, buffer),
            Transport::Encrypted(socket, session) => session.receive(driver, socket, buffer),
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
    fn send(&mut self, driver: &mut impl Driver<Socket = Socket>, bytes: &[u8]) -> io::Result<usize> {
        let id = self.id.wrapping_add(1);
        let [high, low] = id.to_be_bytes();
        let frame = [high, low, 0, 0, 0, 1, 0, 0];
        driver.write(&self.socket, &[IoSlice::new(&frame), IoSlice::new(bytes)])?;
        self.id = id;
        self.parts.clear();
        Ok(bytes.len())
    }

    fn receive(&mut self, driver: &mut impl Driver<Socket = Socket>, buffer: &mut [u8]) -> io::Result<usize> {
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
