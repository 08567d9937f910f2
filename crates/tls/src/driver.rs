//! A driver over a driver: sockets of TLS listeners are encrypted, others pass through.
//!
//! Contract: as of any [`Driver`]. Everything that a read brings is decrypted in that read, so what the driver below reports
//! by level is all there is to report. A handshake costs a thousand times what a request costs: a turn does one step of one,
//! when all who are established have been served, and leaves the others where they are, in their sockets.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_io::driver::datagrams::{Inbox, Outbox};
use scrubjay_io::driver::{Driver, Interest, Name, PeerAddress, Ready, Released, Waker};

use crate::certificates::Tls;
use crate::session::Session;
use crate::settings::Certificate;

/// Steps of handshakes that a turn does; a handshake has two, of which the first costs most.
const HANDSHAKE_STEPS_PER_TURN: u32 = 1;

/// Input taken at a time, the part of a record that came before counted. Handshake messages may be as long.
const INPUT_LEN: usize = 64 << 10;

/// Longest record: 16 KiB, and what encryption may add.
const RECORD_LEN_MAX: usize = (16 << 10) + 2048 + 5;

/// Plaintext that is encrypted and sent at a time: four records.
const CHUNK_LEN: usize = 64 << 10;

/// What encryption adds to a chunk at most, with a change of keys.
const CHUNK_OVERHEAD: usize = 1 << 10;

/// A driver whose sockets may be encrypted.
#[derive(Debug)]
pub struct Secure<D> {
    plain: D,
    /// Made when the first encrypted connection comes.
    buffers: Option<Buffers>,
    steps_left: u32,
    /// What connections are reported by that are not established.
    handshaking: HashSet<u64>,
    /// What connections are reported by that have ciphertext which another driver had received, and whether input is wanted of
    /// them: then they are reported until it is read.
    unread: HashMap<u64, bool>,
}

#[derive(Debug)]
struct Buffers {
    input: Box<[u8]>,
    /// Plaintext in one piece.
    gathered: Vec<u8>,
    ciphertext: Box<[u8]>,
}

/// A listener whose connections may be encrypted.
#[derive(Debug)]
pub struct Listener<L> {
    plain: L,
    tls: Option<(Arc<Tls>, Certificate)>,
}

/// A connection that may be encrypted.
#[derive(Debug)]
pub struct Socket<S> {
    plain: S,
    /// Boxed: one that is not encrypted costs a word.
    session: Option<Box<RefCell<Session>>>,
}

impl<L> Listener<L> {
    /// A listener whose connections are not encrypted.
    pub fn plain(listener: L) -> Listener<L> {
        Listener {
            plain: listener,
            tls: None,
        }
    }

    /// A listener whose connections are encrypted. To ask for certificates, `tls` must know authorities.
    pub fn secure(listener: L, tls: &Arc<Tls>, asked: Certificate) -> Listener<L> {
        Listener {
            plain: listener,
            tls: Some((Arc::clone(tls), asked)),
        }
    }

    /// The listener of the driver below.
    pub fn below(&self) -> &L {
        &self.plain
    }

    /// As [`Listener::below`], without what encrypts.
    pub fn into_below(self) -> L {
        self.plain
    }

    /// What is asked of clients; `None` if nothing is encrypted.
    pub fn asked(&self) -> Option<Certificate> {
        self.tls.as_ref().map(|(_, asked)| *asked)
    }
}

impl<S> Socket<S> {
    /// A connection that is not encrypted.
    pub fn plain(socket: S) -> Socket<S> {
        Socket {
            plain: socket,
            session: None,
        }
    }

    /// The connection of the driver below; `None` if it is encrypted.
    pub fn below(&self) -> Option<&S> {
        self.session.is_none().then_some(&self.plain)
    }

    /// The connection of the driver below.
    ///
    /// # Errors
    /// It is encrypted: itself.
    pub fn into_plain(self) -> Result<S, Socket<S>> {
        match self.session {
            None => Ok(self.plain),
            Some(_) => Err(self),
        }
    }
}

impl Buffers {
    fn new() -> Buffers {
        Buffers {
            input: vec![0; INPUT_LEN].into_boxed_slice(),
            gathered: Vec::with_capacity(CHUNK_LEN),
            ciphertext: vec![0; CHUNK_LEN + CHUNK_OVERHEAD].into_boxed_slice(),
        }
    }
}

impl<D: Driver> Secure<D> {
    /// Over `plain`.
    pub fn new(plain: D) -> Secure<D> {
        Secure {
            plain,
            buffers: None,
            steps_left: HANDSHAKE_STEPS_PER_TURN,
            handshaking: HashSet::new(),
            unread: HashMap::new(),
        }
    }

    fn set_unread_wanted(&mut self, token: u64, is_wanted: bool) {
        if let Some(wanted) = self.unread.get_mut(&token) {
            *wanted = is_wanted;
        }
    }

    /// Reports connections whose ciphertext is not all in their sockets.
    fn report_unread(&self, ready: &mut Vec<Ready>) {
        let wanted = self.unread.iter().filter(|(_, is_wanted)| **is_wanted);
        for (&token, _) in wanted {
            match ready.iter_mut().find(|ready| ready.token == token) {
                Some(ready) => ready.readable = true,
                None => ready.push(Ready {
                    token,
                    readable: true,
                    writable: false,
                }),
            }
        }
    }

    /// Sends what waits. The caller waits for input: until all has gone, room to write is waited for instead.
    fn flush_before_reading(&mut self, socket: &D::Socket, session: &mut Session) -> io::Result<()> {
        let flushed = flush(&mut self.plain, socket, session);
        let waits_to_write = matches!(&flushed, Err(error) if is_block(error));
        if session.waits_to_write != waits_to_write {
            session.waits_to_write = waits_to_write;
            self.set_unread_wanted(session.token, !waits_to_write);
            let interest = if waits_to_write {
                Interest::Write
            } else {
                Interest::Read
            };
            self.plain.change(socket, session.token, interest)?;
        }
        flushed
    }

    fn read_encrypted(
        &mut self,
        socket: &D::Socket,
        session: &mut Session,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        assert!(
            buffer.len() >= RECORD_LEN_MAX,
            "a record is decrypted as a whole, into the caller's buffer"
        );
        self.flush_before_reading(socket, session)?;
        if session.has_ended() {
            return Ok(0);
        }
        let was_handshaking = session.is_handshaking();
        if was_handshaking && self.steps_left == 0 {
            // It waits where it is, and is reported again.
            return Err(ErrorKind::WouldBlock.into());
        }
        let input = &mut self.buffers.get_or_insert_with(Buffers::new).input;
        let held = session.partial().len();
        let room = INPUT_LEN.min(buffer.len());
        if held >= room {
            session.fail();
            return Err(ErrorKind::InvalidData.into());
        }
        let len = match session.take_released(&mut input[held..room]) {
            0 => self.plain.read(socket, &mut input[held..room])?,
            len => len,
        };
        if len == 0 {
            return Ok(0);
        }
        input[..held].copy_from_slice(session.partial());
        let received = session.receive(&mut input[..held + len], buffer);
        if was_handshaking {
            // What brought no answer has cost nothing yet.
            self.steps_left -= u32::from(!session.is_handshaking() || !session.unsent().is_empty());
            if !session.is_handshaking() {
                self.handshaking.remove(&session.token);
            }
        }
        let sent = self.flush_before_reading(socket, session);
        match (received, sent) {
            (Err(error), _) => Err(io::Error::new(ErrorKind::InvalidData, error)),
            (_, Err(error)) if !is_block(&error) => Err(error),
            (Ok(0), _) if session.has_ended() => Ok(0),
            (Ok(0), _) => Err(ErrorKind::WouldBlock.into()),
            (Ok(len), _) => {
                if session.has_ended() {
                    // The next read says so; without this nobody would be told to read.
                    self.plain.end_input(socket);
                }
                Ok(len)
            }
        }
    }

    fn write_encrypted(
        &mut self,
        socket: &D::Socket,
        session: &mut Session,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        if session.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        flush(&mut self.plain, socket, session)?;
        let buffers = self.buffers.get_or_insert_with(Buffers::new);
        let mut written = session.take_owed();
        let mut rest = Rest::after(pieces, written);
        loop {
            let chunk = rest.next_chunk(&mut buffers.gathered);
            if chunk.is_empty() {
                return Ok(written);
            }
            let len = session
                .encrypt(chunk, &mut buffers.ciphertext)
                .map_err(io::Error::other)?;
            let ciphertext = &buffers.ciphertext[..len];
            let sent = match self.plain.write(socket, &[IoSlice::new(ciphertext)]) {
                Err(error) if is_block(&error) => 0,
                sent => sent?,
            };
            if sent < len {
                session.keep(&ciphertext[sent..], chunk.len());
                return match written {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    _ => Ok(written),
                };
            }
            written += chunk.len();
        }
    }
}

/// Sends ciphertext that waits.
///
/// # Errors
/// `WouldBlock` if not all of it goes.
fn flush<D: Driver>(plain: &mut D, socket: &D::Socket, session: &mut Session) -> io::Result<()> {
    while !session.unsent().is_empty() {
        let len = plain.write(socket, &[IoSlice::new(session.unsent())])?;
        session.advance(len);
    }
    Ok(())
}

/// An interrupted call is taken for a full socket: it is tried again when there is room.
fn is_block(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What is left of pieces to be written.
struct Rest<'a> {
    first: &'a [u8],
    others: &'a [IoSlice<'a>],
}

impl<'a> Rest<'a> {
    /// What is behind the first `skipped` bytes.
    fn after(pieces: &'a [IoSlice<'a>], mut skipped: usize) -> Rest<'a> {
        let mut rest = Rest {
            first: &[],
            others: pieces,
        };
        while skipped > 0 {
            skipped -= rest.take(skipped).len();
        }
        rest
    }

    /// Up to `len_max` bytes that lie together; none only at the end.
    fn take(&mut self, len_max: usize) -> &'a [u8] {
        while self.first.is_empty() {
            let Some((first, others)) = self.others.split_first() else {
                break;
            };
            (self.first, self.others) = (first, others);
        }
        let taken;
        (taken, self.first) = self.first.split_at(self.first.len().min(len_max));
        taken
    }

    /// Up to [`CHUNK_LEN`] bytes: from where they lie, or from several pieces gathered.
    fn next_chunk<'b>(&mut self, gathered: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        let piece = self.take(CHUNK_LEN);
        if piece.len() == CHUNK_LEN || self.others.is_empty() {
            return piece;
        }
        gathered.clear();
        gathered.extend_from_slice(piece);
        while gathered.len() < CHUNK_LEN {
            let piece = self.take(CHUNK_LEN - gathered.len());
            if piece.is_empty() {
                break;
            }
            gathered.extend_from_slice(piece);
        }
        gathered
    }
}

impl<D: Driver> Driver for Secure<D> {
    type Socket = Socket<D::Socket>;
    type Listener = Listener<D::Listener>;
    type Datagrams = D::Datagrams;

    fn waker(&self) -> Option<Waker> {
        self.plain.waker()
    }

    fn now(&mut self) -> Now {
        self.plain.now()
    }

    fn processor_nanos(&self) -> u64 {
        self.plain.processor_nanos()
    }

    fn wait(&mut self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.steps_left = HANDSHAKE_STEPS_PER_TURN;
        let has_news = self.unread.values().any(|is_wanted| *is_wanted);
        let timeout_ms = if has_news { Some(0) } else { timeout_ms };
        self.plain.wait(timeout_ms, ready)?;
        self.report_unread(ready);
        if self.buffers.is_some() {
            // Reading goes on where it waited for room to write. Elsewhere a read too many finds nothing.
            ready
                .iter_mut()
                .for_each(|ready| ready.readable |= ready.writable);
        }
        if !self.handshaking.is_empty() {
            ready.sort_by_key(|ready| self.handshaking.contains(&ready.token));
        }
        Ok(())
    }

    fn add(&mut self, socket: &mut Self::Socket, token: u64) -> io::Result<()> {
        self.plain.add(&mut socket.plain, token)?;
        let Some(session) = &socket.session else {
            return Ok(());
        };
        let mut session = session.borrow_mut();
        session.token = token;
        if session.is_handshaking() {
            self.handshaking.insert(token);
        }
        // Another driver may have left something of either direction; where there are buffers, room to write is reported as
        // something to read.
        self.buffers.get_or_insert_with(Buffers::new);
        session.waits_to_write = !session.unsent().is_empty();
        if session.has_released() {
            self.unread.insert(token, !session.waits_to_write);
        }
        match session.waits_to_write {
            true => self.plain.change(&socket.plain, token, Interest::Write),
            false => Ok(()),
        }
    }

    fn change(&mut self, socket: &Self::Socket, token: u64, interest: Interest) -> io::Result<()> {
        let mut wanted = interest;
        if let Some(session) = &socket.session {
            let mut session = session.borrow_mut();
            session.waits_to_write = interest == Interest::Read && !session.unsent().is_empty();
            if session.waits_to_write {
                wanted = Interest::Write;
            }
            let reads = matches!(wanted, Interest::Read | Interest::ReadWrite);
            self.set_unread_wanted(session.token, reads);
        }
        self.plain.change(&socket.plain, token, wanted)
    }

    fn add_listener(&mut self, listener: &Self::Listener, token: u64) -> io::Result<()> {
        self.plain.add_listener(&listener.plain, token)
    }

    fn remove_listener(&mut self, listener: &Self::Listener) -> io::Result<()> {
        self.plain.remove_listener(&listener.plain)
    }

    fn add_datagrams(&mut self, socket: &Self::Datagrams, token: u64) -> io::Result<()> {
        self.plain.add_datagrams(socket, token)
    }

    fn receive(&mut self, socket: &mut Self::Datagrams, inbox: &mut Inbox) -> io::Result<()> {
        self.plain.receive(socket, inbox)
    }

    fn send(&mut self, socket: &mut Self::Datagrams, outbox: &mut Outbox) -> usize {
        self.plain.send(socket, outbox)
    }

    fn descriptor(&self, socket: &Self::Socket) -> u64 {
        self.plain.descriptor(&socket.plain)
    }

    fn last_peer(&self, socket: &Self::Socket) -> Option<PeerAddress> {
        self.plain.last_peer(&socket.plain)
    }

    fn name(&self, socket: &Self::Socket) -> Name {
        self.plain.name(&socket.plain)
    }

    fn listener_name(&self, listener: &Self::Listener) -> Name {
        self.plain.listener_name(&listener.plain)
    }

    fn datagrams_name(&self, socket: &Self::Datagrams) -> Name {
        self.plain.datagrams_name(socket)
    }

    fn accept(&mut self, listener: &Self::Listener) -> io::Result<(Self::Socket, PeerAddress)> {
        let (plain, peer) = self.plain.accept(&listener.plain)?;
        let session = match &listener.tls {
            None => None,
            Some((tls, asked)) => {
                let session = Session::new(tls, *asked).map_err(io::Error::other)?;
                Some(Box::new(RefCell::new(session)))
            }
        };
        Ok((Socket { plain, session }, peer))
    }

    fn read(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> io::Result<usize> {
        match &socket.session {
            None => self.plain.read(&socket.plain, buffer),
            Some(session) => {
                let session = &mut *session.borrow_mut();
                let result = self.read_encrypted(&socket.plain, session, buffer);
                let goes_on = matches!(&result, Err(error) if is_block(error));
                if !self.unread.is_empty() && !session.has_released() {
                    self.unread.remove(&session.token);
                }
                if session.is_handshaking() && !goes_on {
                    session.fail();
                }
                result
            }
        }
    }

    fn write(&mut self, socket: &Self::Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &socket.session {
            None => self.plain.write(&socket.plain, pieces),
            Some(session) => self.write_encrypted(&socket.plain, &mut session.borrow_mut(), pieces),
        }
    }

    fn flush(&mut self, socket: &Self::Socket) -> io::Result<()> {
        // What is encrypted and kept here was not taken by `write` either: it is offered again.
        self.plain.flush(&socket.plain)
    }

    fn acknowledge_now(&mut self, socket: &Self::Socket) {
        self.plain.acknowledge_now(&socket.plain);
    }

    fn end_input(&mut self, socket: &Self::Socket) {
        self.plain.end_input(&socket.plain);
    }

    fn end_output(&mut self, socket: &Self::Socket) {
        self.plain.end_output(&socket.plain);
    }

    fn be_quiet(&mut self) -> io::Result<()> {
        self.plain.be_quiet()
    }

    /// An encrypted connection keeps its keys, and what is encrypted: only a driver of this kind can go on with it.
    fn release(&mut self, socket: Self::Socket) -> io::Result<Released<Self::Socket>> {
        let mut released = self.plain.release(socket.plain)?;
        if let Some(session) = &socket.session {
            let mut session = session.borrow_mut();
            self.handshaking.remove(&session.token);
            self.unread.remove(&session.token);
            let input = std::mem::take(&mut released.input);
            let output = std::mem::take(&mut released.output);
            released.owed = session.leave(input, output);
        }
        Ok(Released {
            socket: Socket {
                plain: released.socket,
                session: socket.session,
            },
            input: released.input,
            output: released.output,
            owed: released.owed,
        })
    }

    fn peer(&self, socket: &Self::Socket) -> io::Result<PeerAddress> {
        self.plain.peer(&socket.plain)
    }

    fn held(&self, socket: &Self::Socket) -> usize {
        let session = socket.session.as_ref();
        self.plain.held(&socket.plain) + session.map_or(0, |session| session.borrow().held())
    }

    fn close(&mut self, socket: Self::Socket) {
        if let Some(session) = &socket.session {
            let token = session.borrow().token;
            self.handshaking.remove(&token);
            self.unread.remove(&token);
        }
        if let (Some(session), Some(buffers)) = (&socket.session, &mut self.buffers) {
            let len = session.borrow_mut().say_goodbye(&mut buffers.ciphertext);
            if len > 0 {
                // A courtesy: a peer that does not take it finds the connection closed all the same.
                let goodbye = IoSlice::new(&buffers.ciphertext[..len]);
                let _ = self.plain.write(&socket.plain, &[goodbye]);
            }
        }
        self.plain.close(socket.plain);
    }
}
