//! One connection's TLS: ciphertext in, plaintext out, and back. Knows no sockets.
//!
//! Buffers are lent. What stays with an idle connection is rustls's state and keys; beside that only a record that has not
//! come whole, and ciphertext that the socket did not take, both bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{Error, HandshakeKind};

use crate::certificates::Tls;
use crate::settings::Certificate;

/// What rustls and aws-lc keep for an established connection, roughly. Source: 10,000 idle connections, measured.
const STATE_BYTES: usize = 4 << 10;

/// TLS of one connection.
pub(crate) struct Session {
    tls: Arc<Tls>,
    rustls: UnbufferedServerConnection,
    phase: Phase,
    /// Input that is not a whole record or handshake message yet. rustls remembers places in it, so it is to be shown to
    /// rustls at every call.
    partial: Vec<u8>,
    /// Ciphertext that the socket did not take.
    unsent: Vec<u8>,
    /// How much of it has gone since.
    sent: usize,
    /// Ciphertext that a driver had received when it gave the connection back. It comes behind `partial`.
    released: Vec<u8>,
    /// Plaintext that lies encrypted at the end of `unsent`. It counts as written when that has gone.
    owed: usize,
    /// What the connection is reported by.
    pub(crate) token: u64,
    /// Room to write is waited for although the caller waits for input.
    pub(crate) waits_to_write: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Established,
    /// The peer has said that nothing more comes.
    Ended,
    Failed,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("phase", &self.phase).field("token", &self.token);
        shown.finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(tls: &Arc<Tls>, asked: Certificate) -> Result<Session, Error> {
        Ok(Session {
            tls: Arc::clone(tls),
            rustls: UnbufferedServerConnection::new(tls.config(asked))?,
            phase: Phase::Handshake,
            partial: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            released: Vec::new(),
            owed: 0,
            token: 0,
            waits_to_write: false,
        })
    }

    /// Whether it is not established yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// Whether no more plaintext comes.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Failed)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        STATE_BYTES + self.partial.capacity() + self.unsent.capacity() + self.released.capacity()
    }

    /// Input that was not used yet; new input goes behind it.
    pub(crate) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// The driver below has given the connection back, with ciphertext that it received and that it had taken. Returns how much
    /// plaintext counts as written from now on.
    pub(crate) fn leave(&mut self, received: Vec<u8>, taken: Vec<u8>) -> usize {
        self.released.extend_from_slice(&received);
        // What was taken was made before what was not.
        self.unsent = [&taken, self.unsent()].concat();
        self.sent = 0;
        self.waits_to_write = false;
        std::mem::take(&mut self.owed)
    }

    /// Whether there is ciphertext that had come before the connection was given back.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Moves ciphertext that had come before the connection was given back to `into`; returns how much.
    pub(crate) fn take_released(&mut self, into: &mut [u8]) -> usize {
        let len = self.released.len().min(into.len());
        if len > 0 {
            into[..len].copy_from_slice(&self.released[..len]);
            self.released.drain(..len);
        }
        len
    }

    /// Takes input, which starts with what was [`partial`](Session::partial), and fills `plaintext`, which is at least as
    /// long. Returns how much there is; there may be something to send as well.
    ///
    /// # Errors
    /// The peer broke the protocol, or is not let in. There may be last words to send; after them it is to be closed.
    pub(crate) fn receive(&mut self, input: &mut [u8], plaintext: &mut [u8]) -> Result<usize, Error> {
        let (mut used, mut filled) = (0, 0);
        loop {
            let UnbufferedStatus { mut discard, state } = self.rustls.process_tls_records(&mut input[used..]);
            let mut needs_more = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        plaintext[filled..][..record.payload.len()].copy_from_slice(record.payload);
                        filled += record.payload.len();
                        discard += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(&mut self.unsent, |room| data.encode(room))?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.phase = Phase::Ended,
                Ok(_) => needs_more = true,
                Err(error) => {
                    self.fail();
                    return Err(error);
                }
            }
            used += discard;
            if needs_more {
                break;
            }
        }
        if self.phase == Phase::Handshake && !self.rustls.is_handshaking() {
            self.establish();
        }
        self.partial = if self.phase == Phase::Ended {
            Vec::new()
        } else {
            input[used..].to_vec()
        };
        Ok(filled)
    }

    fn establish(&mut self) {
        self.phase = Phase::Established;
        let counters = &self.tls.counters;
        count(match self.rustls.handshake_kind() {
            Some(HandshakeKind::Resumed) => &counters.resumed_sessions,
            _ => &counters.new_sessions,
        });
    }

    /// It is over, by an error: counts it, and has rustls say why to the peer.
    pub(crate) fn fail(&mut self) {
        count(match self.phase {
            Phase::Handshake => &self.tls.counters.handshake_errors,
            _ => &self.tls.counters.protocol_errors,
        });
        self.phase = Phase::Failed;
        self.partial = Vec::new();
        // As long as it has something to say it looks at no input, which is not there any more.
        while self.rustls.wants_write() {
            match self.rustls.process_tls_records(&mut []).state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => while traffic.next_record().is_some() {},
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    // Whoever cannot be told why finds the connection closed.
                    let _ = append(&mut self.unsent, |room| data.encode(room));
                }
                _ => return,
            }
        }
    }

    /// Encrypts into `out`, which has room for the plaintext and what encryption adds; returns the length.
    pub(crate) fn encrypt(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        match self.rustls.process_tls_records(&mut self.partial).state? {
            ConnectionState::WriteTraffic(mut traffic) => traffic
                .encrypt(plaintext, out)
                .map_err(|error| Error::General(error.to_string())),
            state => Err(Error::General(format!("cannot encrypt in state {state:?}"))),
        }
    }

    /// Encrypts a goodbye into `out`; 0 if there is nobody to say it to.
    pub(crate) fn say_goodbye(&mut self, out: &mut [u8]) -> usize {
        if !matches!(self.phase, Phase::Established | Phase::Ended) || !self.unsent().is_empty() {
            return 0;
        }
        match self.rustls.process_tls_records(&mut self.partial).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => traffic.queue_close_notify(out).unwrap_or(0),
            _ => 0,
        }
    }

    /// Ciphertext to be sent before any other.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Some of it is sent.
    pub(crate) fn advance(&mut self, len: usize) {
        self.sent += len;
        if self.sent == self.unsent.len() {
            self.unsent = Vec::new();
            self.sent = 0;
        }
    }

    /// Keeps what the socket did not take, the encryption of `owed` bytes of plaintext.
    pub(crate) fn keep(&mut self, ciphertext: &[u8], owed: usize) {
        debug_assert!(self.unsent.is_empty());
        self.unsent = ciphertext.to_vec();
        self.owed = owed;
    }

    /// Plaintext that has gone since it was offered; it is offered again. To be called when nothing is unsent.
    pub(crate) fn take_owed(&mut self) -> usize {
        debug_assert!(self.unsent.is_empty());
        std::mem::take(&mut self.owed)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Appends what `encode` writes, with as much room as it asks for.
fn append(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let start = out.len();
    if let Err(EncodeError::InsufficientSize(needed)) = encode(&mut []) {
        out.resize(start + needed.required_size, 0);
        let len = encode(&mut out[start..]).map_err(|error| Error::General(error.to_string()))?;
        out.truncate(start + len);
    }
    Ok(())
}
