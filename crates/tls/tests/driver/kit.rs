//! Certificates, a server that echoes over a simulated network, and clients.

use std::collections::HashMap;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use scrubjay_base::time::Now;
use scrubjay_io::driver::sim::{Faults, Network, Peer, Sim, Socket as SimSocket};
use scrubjay_io::driver::{Driver as _, Interest, Ready};
use scrubjay_tls::{Certificate, Listener, Secure, Settings, Socket, Tls};

/// More turns than any test needs.
const TURNS_MAX: usize = 200_000;

/// A certificate and its key.
pub struct Pair {
    pub certificate: CertificateDer<'static>,
    pub pem: String,
    pub key: KeyPair,
}

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `name`, signed by it.
    pub fn sign(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            key,
        }
    }
}

/// A folder with a server's files; gone when dropped.
pub struct Files {
    folder: PathBuf,
    pub settings: Settings,
}

impl Files {
    /// Files of a server that `authority` vouches for, and that checks clients by it.
    pub fn new(authority: &Authority) -> Files {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("scrubjay-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let settings = Settings {
            chain: folder.join("chain.pem"),
            key: folder.join("key.pem"),
            authorities: Some(folder.join("authorities.pem")),
            resumption: true,
            ..Settings::default()
        };
        let files = Files { folder, settings };
        files.write(&authority.sign("localhost"), authority);
        files
    }

    pub fn write(&self, pair: &Pair, authority: &Authority) {
        let authorities = self.settings.authorities.as_deref().unwrap();
        replace(&self.settings.chain, &pair.pem);
        replace(&self.settings.key, &pair.key.serialize_pem());
        replace(authorities, &authority.pem());
    }

    pub fn tls(&self) -> Arc<Tls> {
        Tls::load(self.settings.clone(), Now::default()).unwrap()
    }
}

/// Writes a file anew, as another file: its stamp changes whatever the clock says.
pub fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A client's configuration: trusts `authority`, shows `pair`.
pub fn client_config(
    authority: &Authority,
    pair: Option<&Pair>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::try_from(pair.key.serialize_der()).unwrap();
            builder
                .with_client_auth_cert(vec![pair.certificate.clone()], key)
                .unwrap()
        }
    })
}

/// What the server has of a connection.
struct Echoed {
    socket: Socket<SimSocket>,
    waiting: Vec<u8>,
    interest: Interest,
    held_max: usize,
}

/// An echo server over the driver under test, as the event loop uses it.
pub struct Rig {
    pub network: Network,
    pub driver: Secure<Sim>,
    listener: Listener<scrubjay_io::driver::sim::Listener>,
    sockets: HashMap<u64, Echoed>,
    next_token: u64,
    ready: Vec<Ready>,
    buffer: Vec<u8>,
    /// Bytes that came out of connections.
    pub echoed: usize,
    /// Most that a connection held.
    pub held_max: usize,
}

impl Rig {
    pub fn new(tls: &Arc<Tls>, asked: Certificate, seed: u64, faults: Faults) -> Rig {
        let network = Network::new(seed, faults);
        let mut driver = Secure::new(network.driver());
        let listener = Listener::secure(network.listen(), tls, asked);
        driver.add_listener(&listener, u64::MAX - 1).unwrap();
        Rig {
            network,
            driver,
            listener,
            sockets: HashMap::new(),
            next_token: 0,
            ready: Vec::new(),
            buffer: vec![0; 64 << 10],
            echoed: 0,
            held_max: 0,
        }
    }

    pub fn connect(&self, config: &Arc<ClientConfig>) -> Client {
        let name = ServerName::try_from("localhost").unwrap();
        Client {
            peer: self.raw_connect(),
            tls: ClientConnection::new(Arc::clone(config), name).unwrap(),
            received: Vec::new(),
            error: None,
        }
    }

    pub fn raw_connect(&self) -> Peer {
        self.network.connect(self.listener.below())
    }

    /// Connections that the server has not closed.
    pub fn open(&self) -> usize {
        self.sockets.len()
    }

    /// One turn of the loop.
    pub fn turn(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        self.driver.wait(Some(1), &mut ready).unwrap();
        for ready in &ready {
            if ready.token == u64::MAX - 1 {
                while let Ok((mut socket, _)) = self.driver.accept(&self.listener) {
                    self.driver.add(&mut socket, self.next_token).unwrap();
                    let (waiting, interest) = (Vec::new(), Interest::Read);
                    let echoed = Echoed {
                        socket,
                        waiting,
                        interest,
                        held_max: 0,
                    };
                    self.sockets.insert(self.next_token, echoed);
                    self.next_token += 1;
                }
            } else if let Some(mut echoed) = self.sockets.remove(&ready.token) {
                if self.serve(&mut echoed, ready) {
                    self.held_max = self.held_max.max(echoed.held_max);
                    self.sockets.insert(ready.token, echoed);
                } else {
                    self.driver.close(echoed.socket);
                }
            }
        }
        self.ready = ready;
    }

    /// All connections leave their driver and go on with another one.
    pub fn change_driver(&mut self) {
        self.driver.be_quiet().unwrap();
        let mut next = Secure::new(self.network.driver());
        next.add_listener(&self.listener, u64::MAX - 1).unwrap();
        for (token, mut echoed) in std::mem::take(&mut self.sockets) {
            let released = self.driver.release(echoed.socket).unwrap();
            assert!(
                released.input.is_empty() && released.output.is_empty(),
                "ciphertext stays with its keys"
            );
            echoed.socket = released.socket;
            echoed.waiting.drain(..released.owed);
            next.add(&mut echoed.socket, token).unwrap();
            if !echoed.waiting.is_empty() {
                next.change(&echoed.socket, token, Interest::Write).unwrap();
            }
            echoed.interest = if echoed.waiting.is_empty() {
                Interest::Read
            } else {
                Interest::Write
            };
            self.sockets.insert(token, echoed);
        }
        self.driver = next;
    }

    /// As the event loop does it: send what waits, read once, send. Whether the connection stays.
    fn serve(&mut self, echoed: &mut Echoed, ready: &Ready) -> bool {
        if !echoed.waiting.is_empty() && !self.send(echoed) {
            return false;
        }
        if echoed.waiting.is_empty() && ready.readable {
            match self.driver.read(&echoed.socket, &mut self.buffer) {
                Ok(0) => return false,
                Ok(len) => {
                    echoed.waiting.extend_from_slice(&self.buffer[..len]);
                    self.echoed += len;
                    if !self.send(echoed) {
                        return false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        echoed.held_max = echoed.held_max.max(self.driver.held(&echoed.socket));
        let wanted = if echoed.waiting.is_empty() {
            Interest::Read
        } else {
            Interest::Write
        };
        if echoed.interest != wanted {
            echoed.interest = wanted;
            self.driver.change(&echoed.socket, ready.token, wanted).unwrap();
        }
        true
    }

    fn send(&mut self, echoed: &mut Echoed) -> bool {
        // Cut where a pinned value might begin and end.
        let (head, tail) = echoed.waiting.split_at(echoed.waiting.len() / 3);
        let pieces = [IoSlice::new(head), IoSlice::new(tail)];
        match self.driver.write(&echoed.socket, &pieces) {
            Ok(len) => {
                echoed.waiting.drain(..len);
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// Turns the client and the loop until `done`.
    pub fn run(&mut self, client: &mut Client, mut done: impl FnMut(&mut Client) -> bool) {
        for _ in 0..TURNS_MAX {
            client.turn();
            if done(client) {
                return;
            }
            self.turn();
        }
        panic!("not done: {client:?}");
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    pub peer: Peer,
    pub tls: ClientConnection,
    pub received: Vec<u8>,
    pub error: Option<String>,
}

impl Client {
    /// Encrypts `bytes`; they go with the next turn.
    pub fn send(&mut self, bytes: &[u8]) {
        self.tls.writer().write_all(bytes).unwrap();
        self.flush();
    }

    pub fn flush(&mut self) {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).unwrap();
        }
        if !out.is_empty() {
            self.peer.send(&out);
        }
    }

    /// Takes what has come.
    pub fn turn(&mut self) {
        self.take(usize::MAX);
        self.flush();
    }

    /// Takes at most `most` bytes of what has come.
    pub fn take(&mut self, most: usize) {
        let came = self.peer.receive(most);
        let mut input = &came[..];
        while !input.is_empty() && self.error.is_none() {
            self.tls.read_tls(&mut input).unwrap();
            match self.tls.process_new_packets() {
                Ok(state) => {
                    let mut plain = vec![0; state.plaintext_bytes_to_read()];
                    self.tls.reader().read_exact(&mut plain).unwrap();
                    self.received.extend(plain);
                }
                Err(error) => self.error = Some(error.to_string()),
            }
        }
    }
}

pub fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
