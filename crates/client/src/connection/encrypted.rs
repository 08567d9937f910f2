//! TLS between a socket and its stream. The writer encrypts and the reader decrypts: what both share is locked for no longer than that
//! takes, and never while the socket is waited for.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags};

use super::Patience;
use super::stream::poll;
use crate::protocol::Output;
use crate::tls::{TlsError, TlsStream};

/// Plaintext that is encrypted at once; it goes with one call as a rule.
const PLAINTEXT_LEN_MAX: usize = 256 * 1024;
/// Plaintext of one record.
const RECORD_TEXT_LEN_MAX: usize = 8 * 1024;
/// Ciphertext that is received at once, and with a small buffer to put it in.
const CIPHERTEXT_LEN: usize = 48 * 1024;
const CIPHERTEXT_LEN_MIN: usize = 4 * 1024;
/// What a record may bring more than was received at last: its beginning came before.
const RECORD_LEN_MAX: usize = 17 * 1024;
/// How often is received for one reader while nothing comes but what TLS has to say: then it looks at the time.
const ROUNDS_MAX: u32 = 16;
/// A buffer of more bytes is given back when it is empty.
const KEPT_LEN_MAX: usize = 64 * 1024;

/// Bytes to the socket; how many it took.
type Put<'a> = &'a dyn Fn(&[u8]) -> Result<usize>;

/// The encrypted side of a connected socket.
#[derive(Debug)]
pub(super) struct Encrypted {
    outgoing: Mutex<Outgoing>,
    /// The reader's.
    incoming: Mutex<Incoming>,
}

#[derive(Debug)]
struct Outgoing {
    tls: TlsStream,
    ciphertext: Vec<u8>,
    sent: usize,
    /// Bytes of the caller's that are among it: they have gone when all of it has.
    owed: usize,
    /// A part of these has.
    begun: bool,
    /// The last record ended where a request does.
    is_whole: bool,
}

#[derive(Debug)]
struct Incoming {
    ciphertext: Vec<u8>,
    /// What came, and how much of it was given.
    plaintext: Vec<u8>,
    given: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Encrypted {
    /// Makes the handshake on a connected socket, within the patience.
    ///
    /// # Errors
    /// Why not, and what to do; the server was told as well.
    pub(super) fn begin<S: AsFd>(
        socket: S,
        tls: TlsStream,
        patience: &Patience,
        put: Put<'_>,
        take: &dyn Fn(&mut [u8]) -> Result<usize>,
    ) -> Result<Encrypted> {
        let mut outgoing = Outgoing {
            tls,
            ciphertext: Vec::new(),
            sent: 0,
            owed: 0,
            begun: false,
            is_whole: true,
        };
        let mut incoming = Incoming {
            ciphertext: vec![0; CIPHERTEXT_LEN],
            plaintext: Vec::new(),
            given: 0,
        };
        let late = || {
            let waited = patience.total().as_millis();
            let words = format!(
                "connected, but no handshake in {waited} ms; check that the server speaks TLS on this port, or give it more time"
            );
            Err(Error::other(TlsError::Failed(words)))
        };
        loop {
            outgoing.encrypted();
            let wanted = match outgoing.flush(put) {
                Ok(()) if outgoing.tls.is_established() => break,
                Ok(()) => PollFlags::IN,
                Err(error) if error.kind() == ErrorKind::WouldBlock => PollFlags::OUT,
                Err(error) => return Err(error),
            };
            if patience.is_over() {
                return late();
            }
            let mut fds = [PollFd::new(&socket, wanted)];
            poll(&mut fds, Some(patience.left()))?;
            if wanted != PollFlags::IN || fds[0].revents().is_empty() {
                continue;
            }
            let len = match take(&mut incoming.ciphertext) {
                Ok(0) => return Err(Error::other(ended())),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(Error::other(ended()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                taken => taken?,
            };
            let fed = outgoing
                .tls
                .feed(&incoming.ciphertext[..len], &mut incoming.plaintext);
            if let Err(error) = fed {
                outgoing.encrypted();
                // It is an alert; the error is the same if it cannot be sent.
                let _ = outgoing.flush(put);
                return Err(Error::other(error));
            }
        }
        Ok(Encrypted {
            outgoing: Mutex::new(outgoing),
            incoming: Mutex::new(incoming),
        })
    }

    /// As [`Wire::send`](super::stream::Wire::send). What was encrypted and did not go stays here and is first the next time, which is
    /// to come with the same output.
    pub(super) fn send(&self, output: &Output, put: Put<'_>) -> Result<usize> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.owed == 0 {
            outgoing.owed = outgoing.encrypt(output).map_err(Error::other)?;
            outgoing.begun = false;
            outgoing.encrypted();
        }
        match outgoing.flush(put) {
            Ok(()) => {}
            // It is not known how much of it the server understands: nobody may think that nothing was sent.
            Err(error) if error.kind() != ErrorKind::WouldBlock && outgoing.begun => {}
            Err(error) => return Err(error),
        }
        let owed = std::mem::take(&mut outgoing.owed);
        Ok(owed.min(output.slices().map(<[u8]>::len).sum()))
    }

    /// As [`Wire::receive`](super::stream::Wire::receive), of what `take` receives. With a buffer of 64 KiB nothing is left over that
    /// the socket does not tell of.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
        put: Put<'_>,
        take: &dyn Fn(&mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        let mut incoming = lock(&self.incoming);
        let incoming = &mut *incoming;
        for _ in 0..ROUNDS_MAX {
            if let Some(len) = incoming.give(buffer) {
                return Ok(len);
            }
            let room = buffer.len().saturating_sub(RECORD_LEN_MAX);
            let room = room.clamp(CIPHERTEXT_LEN_MIN, CIPHERTEXT_LEN);
            let len = take(&mut incoming.ciphertext[..room])?;
            if len == 0 {
                return Ok(0);
            }
            let mut outgoing = lock(&self.outgoing);
            let fed = outgoing
                .tls
                .feed(&incoming.ciphertext[..len], &mut incoming.plaintext);
            outgoing.encrypted();
            // An alert, or the answer to a change of keys: if there is no room, it goes with what is sent next.
            let _ = outgoing.flush(put);
            fed.map_err(Error::other)?;
            if incoming.plaintext.is_empty() && outgoing.tls.is_ended() {
                return Ok(0);
            }
        }
        incoming.give(buffer).ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// Tells the server that nothing follows, if the socket takes that.
    pub(super) fn close(&self, put: Put<'_>) {
        let mut outgoing = lock(&self.outgoing);
        outgoing.tls.close();
        outgoing.encrypted();
        let _ = outgoing.flush(put);
    }
}

/// The bytes of `output` from one to the other.
fn pieces(output: &Output, from: usize, to: usize) -> Vec<IoSlice<'_>> {
    let mut before = 0;
    let piece = |slice: &'_ [u8]| {
        let start = before;
        before += slice.len();
        (from.max(start) - start, to.min(before).saturating_sub(start))
    };
    let bounds: Vec<_> = output.slices().map(piece).collect();
    let pieces = output
        .slices()
        .zip(bounds)
        .filter(|(_, (start, end))| start < end);
    pieces
        .map(|(slice, (start, end))| IoSlice::new(&slice[start..end]))
        .collect()
}

fn ended() -> TlsError {
    let words = "the server ended the connection at the handshake; check that it speaks TLS on this port, and see its log";
    TlsError::Failed(words.to_owned())
}

impl Outgoing {
    /// Makes records of what is to be sent; of how many bytes. It fails for all of them or for none: only what is received can break
    /// TLS, and that waits for the lock.
    ///
    /// memcached (1.6.18 at least) waits for its socket although its TLS holds more of a record that it has read a part of, so a
    /// request would wait there until another one comes. So it has to find each record at an end: none has more bytes than it reads
    /// at once behind the beginning of a line, and where a value goes over several records, nothing follows it in the last one.
    fn encrypt(&mut self, output: &Output) -> std::result::Result<usize, TlsError> {
        let whole: usize = output.slices().map(<[u8]>::len).sum();
        let len = whole.min(PLAINTEXT_LEN_MAX);
        let mut ends = output.ends().peekable();
        let mut at = 0;
        while at < len {
            let room = len.min(at + RECORD_TEXT_LEN_MAX);
            let mut of_value = ends.next_if(|end| *end <= room);
            while self.is_whole
                && let Some(later) = ends.next_if(|end| *end <= room)
            {
                of_value = Some(later);
            }
            let end = match of_value {
                Some(end) if !(self.is_whole && room == whole) => end,
                _ => room,
            };
            self.tls.write(&pieces(output, at, end))?;
            self.is_whole = of_value.is_some() || end == whole;
            at = end;
        }
        Ok(len)
    }

    /// Takes over what rustls has to send.
    fn encrypted(&mut self) {
        self.tls.take_output(&mut self.ciphertext);
    }

    /// Sends all of it.
    fn flush(&mut self, put: Put<'_>) -> Result<()> {
        while self.sent < self.ciphertext.len() {
            self.sent += put(&self.ciphertext[self.sent..])?;
            self.begun = true;
        }
        self.sent = 0;
        empty(&mut self.ciphertext);
        Ok(())
    }
}

impl Incoming {
    fn give(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let left = &self.plaintext[self.given..];
        if left.is_empty() {
            return None;
        }
        let len = left.len().min(buffer.len());
        buffer[..len].copy_from_slice(&left[..len]);
        self.given += len;
        if self.given == self.plaintext.len() {
            self.given = 0;
            empty(&mut self.plaintext);
        }
        Some(len)
    }
}

fn empty(bytes: &mut Vec<u8>) {
    bytes.clear();
    if bytes.capacity() > KEPT_LEN_MAX {
        *bytes = Vec::new();
    }
}
