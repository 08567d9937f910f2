//! Where a server listens, and how bytes get there and back. Another transport is another variant.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::datagrams::{self, Inbox};
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Driver, Interest, Socket};
use scrubjay_tls::{Client, ClientSession};

use crate::datagrams::Datagrams;

/// Most bytes received at once.
const ROOM: usize = 256 << 10;

/// A driver of this machine's sockets.
pub(crate) trait Sockets: Driver<Socket = Socket, Datagrams = datagrams::Socket> {}

impl<D: Driver<Socket = Socket, Datagrams = datagrams::Socket>> Sockets for D {}

/// Where a thread's connections receive, one after the other.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes in order.
    pub(crate) bytes: Vec<u8>,
    /// Datagrams.
    pub(crate) inbox: Inbox,
}

impl Room {
    /// With so many requests in flight on a connection.
    pub(crate) fn new(pipeline: usize) -> Room {
        Room {
            bytes: vec![0; ROOM],
            // A call that has all that can come at once does not ask for more.
            inbox: Inbox::for_messages(pipeline),
        }
    }
}

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
    fn connect(&self, patience: Duration) -> Result<Transport, String> {
        let transport = match self {
            Address::Tcp(address) => Socket::connect_tcp(*address, patience).map(Transport::Stream),
            Address::Unix(path) => Socket::connect_unix(path, patience).map(Transport::Stream),
            Address::Udp(address) => Datagrams::connect(*address).map(Transport::Datagrams),
        };
        transport.map_err(|why| format!("{self}: {why}; is a server listening there?"))
    }

    /// Where the same server takes what goes in order: a server of UDP listens by TCP at the same port.
    pub fn in_order(&self) -> Address {
        match self {
            Address::Udp(address) => Address::Tcp(*address),
            address => address.clone(),
        }
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
                self.wrap(socket.map(Transport::Stream).map_err(|why| {
                    format!("no further connection: {why}; ask for fewer a second by --rate")
                })?)
            }
            address => self.wrap(address.connect(patience)?),
        }
    }

    fn wrap(&self, transport: Transport) -> Result<Transport, String> {
        let open = |tls: &Client| tls.open().map_err(|why| format!("no TLS: {why}"));
        Ok(match (transport, &self.tls) {
            (Transport::Stream(socket), Some(tls)) => Transport::Encrypted(socket, Box::new(open(tls)?)),
            (transport, _) => transport,
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
    /// Datagrams that may be lost: a request each.
    Datagrams(Datagrams),
}

impl Transport {
    /// Has the driver report it.
    pub(crate) fn watch(&mut self, driver: &mut impl Sockets, token: u64) -> io::Result<()> {
        match self {
            Transport::Stream(socket) | Transport::Encrypted(socket, _) => driver.add(socket, token),
            Transport::Datagrams(datagrams) => driver.add_datagrams(&datagrams.socket, token),
        }
    }

    /// Changes what it is reported for. Datagrams are so for reading always: what is sent is taken or lost.
    pub(crate) fn change(&self, driver: &mut impl Sockets, token: u64, interest: Interest) -> io::Result<()> {
        match self {
            Transport::Stream(socket) | Transport::Encrypted(socket, _) => {
                driver.change(socket, token, interest)
            }
            Transport::Datagrams(_) => Ok(()),
        }
    }

    /// Sends of `bytes` as much as is taken now. What is encrypted is taken and sent by turns: while there is something
    /// [unsent](Transport::has_unsent), this is to be called again. Datagrams are sent as they were pushed.
    pub(crate) fn send(&mut self, driver: &mut impl Sockets, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Stream(socket) => driver.write(socket, &[IoSlice::new(bytes)]),
            Transport::Encrypted(socket, session) if bytes.is_empty() => {
                session.flush(driver, socket).map(|()| 0)
            }
            Transport::Encrypted(_, session) => session.take(bytes).map(|()| bytes.len()),
            Transport::Datagrams(datagrams) => datagrams.send(driver).map(|()| bytes.len()),
        }
    }

    /// Whether something that was taken is not sent yet.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Transport::Stream(_) => false,
            Transport::Encrypted(_, session) => session.has_unsent(),
            Transport::Datagrams(datagrams) => datagrams.has_unsent(),
        }
    }

    /// Whether it goes on with an earlier connection's session; none if it is not encrypted.
    pub(crate) fn is_resumed(&self) -> Option<bool> {
        match self {
            Transport::Encrypted(_, session) => Some(session.is_resumed()),
            Transport::Stream(_) | Transport::Datagrams(_) => None,
        }
    }

    /// Receives what is there into `room` and returns how many bytes, or datagrams; 0 is the end.
    pub(crate) fn receive(&mut self, driver: &mut impl Sockets, room: &mut Room) -> io::Result<usize> {
        match self {
            Transport::Stream(socket) => driver.read(socket, &mut room.bytes),
            Transport::Encrypted(socket, session) => session.receive(driver, socket, &mut room.bytes),
            Transport::Datagrams(datagrams) => {
                driver.receive(&mut datagrams.socket, &mut room.inbox)?;
                Ok(room.inbox.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Address;

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
}
