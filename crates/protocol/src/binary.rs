//! memcached's binary protocol: requests out of bytes, replies into bytes. No sockets, no state.
//!
//! ```text
//!   0 magic   1 opcode   2..4 key length   4 extras length   5 data type   6..8 vBucket (request), status (reply)
//!   8..12 body length = extras + key + value   12..16 opaque, echoed   16..24 CAS number   24.. extras, key, value
//! ```
//!
//! The value is no part of what is parsed: it may be larger than any buffer, and the caller receives it as it comes.
//! Source: memcached doc/protocol-binary.txt; where that leaves a choice, what memcached 1.6.18 does.

mod opcode;
mod reply;

pub use opcode::{OPCODES, Opcode, Reply, Shape, Verb};
pub use reply::{Head, Status, encode_error, encode_head, encode_stat, encode_value, encode_with_status};

/// First byte of a request.
pub const MAGIC_REQUEST: u8 = 0x80;
/// First byte of a reply.
pub const MAGIC_REPLY: u8 = 0x81;
/// Bytes of a header.
pub const HEADER_LEN: usize = 24;
/// Longest key, in bytes.
pub const KEY_LEN_MAX: usize = 250;
/// Most bytes that are needed to parse a request: a header with the longest extras and key that its fields can name.
pub const REQUEST_LEN_MAX: usize = HEADER_LEN + u8::MAX as usize + u16::MAX as usize;
/// The exptime with which arithmetic does not create a missing item.
pub const EXPTIME_DO_NOT_CREATE: u32 = u32::MAX;

/// What a reply repeats of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The opcode's number.
    pub opcode: u8,
    /// Bytes that mean something to the client only.
    pub opaque: [u8; 4],
}

/// A request but for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What replies to it repeat.
    pub echo: Echo,
    /// The CAS number, 0 for none.
    pub cas: u64,
    /// The key, at most [`KEY_LEN_MAX`] bytes unless the command is a [`Command::Invalid`] one.
    pub key: &'a [u8],
    /// Bytes from the header's first to the key's last; the value follows.
    pub len: usize,
    /// Bytes of the value, as declared.
    pub value_len: u32,
    /// Only the unusual outcome is answered.
    pub quiet: bool,
    /// What to do.
    pub command: Command,
}

/// What a request asks for. Numbers are as on the wire: exptimes are never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Look up.
    Get {
        /// New exptime on a hit.
        touch: Option<u32>,
        /// What to send of a hit.
        reply: Reply,
    },
    /// Store the value that follows.
    Store {
        /// How.
        verb: Verb,
        /// Client flags; 0 for append and prepend.
        flags: u32,
        /// Exptime; 0 for append and prepend.
        exptime: u32,
    },
    /// Delete.
    Delete,
    /// Add to or subtract from a decimal value.
    Arithmetic {
        /// Subtract.
        decrement: bool,
        /// How much.
        delta: u64,
        /// Number of an item to be created on a miss.
        initial: u64,
        /// Its exptime; [`EXPTIME_DO_NOT_CREATE`] creates none.
        exptime: u32,
    },
    /// Forget everything, now (0) or at this exptime.
    Flush {
        /// When.
        exptime: u32,
    },
    /// Answer.
    Noop,
    /// Send the version.
    Version,
    /// Send statistics; the key says which.
    Stat,
    /// Close.
    Quit,
    /// Name the ways to log in.
    SaslList,
    /// Log in; the key is the mechanism, the value that follows is its message.
    SaslAuth,
    /// Go on with a login.
    SaslStep,
    /// To be answered with [`Status::UnknownCommand`]; the value is passed over.
    Unknown,
    /// To be answered with [`Status::UnknownCommand`], then closed: the body is shorter than its parts.
    Contradictory,
    /// To be answered with [`Status::InvalidArguments`], then closed.
    Invalid,
}

/// Why no request could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// More bytes are needed: this many in all, at most [`REQUEST_LEN_MAX`].
    Incomplete(usize),
    /// Not a request; close without an answer.
    BadMagic,
}

/// Reads the request at the start of `input`, up to its value. Cost: no allocation, nothing copied.
///
/// # Errors
/// [`ParseError`]. As in memcached, magic and lengths are looked at when the header is whole, and everything else when
/// extras and key are there too.
#[inline]
pub fn parse(input: &[u8]) -> Result<Request<'_>, ParseError> {
    let Some(header) = input.first_chunk::<HEADER_LEN>() else {
        return Err(ParseError::Incomplete(HEADER_LEN));
    };
    if header[0] != MAGIC_REQUEST {
        return Err(ParseError::BadMagic);
    }
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras_len = usize::from(header[4]);
    let body_len = u32_at(header, 8);
    let len = HEADER_LEN + extras_len + key_len;
    let Some((extras, key)) = input.get(HEADER_LEN..len).map(|parts| parts.split_at(extras_len)) else {
        return Err(ParseError::Incomplete(len));
    };
    let opcode = Opcode::find(header[1]);
    let parts_len = (extras_len + key_len) as u32;
    let command = match (body_len.checked_sub(parts_len), opcode) {
        (None, _) => Command::Contradictory,
        _ if key_len > KEY_LEN_MAX => Command::Invalid,
        (_, None) => Command::Unknown,
        (Some(value_len), Some(opcode)) => {
            if opcode.shape.allows(extras_len, key_len, value_len as usize) {
                command(opcode.shape, extras)
            } else {
                Command::Invalid
            }
        }
    };
    Ok(Request {
        echo: Echo {
            opcode: header[1],
            opaque: [header[12], header[13], header[14], header[15]],
        },
        cas: u64_at(header, 16),
        key,
        len,
        value_len: body_len.saturating_sub(parts_len),
        quiet: opcode.is_some_and(|opcode| opcode.quiet),
        command,
    })
}

/// The command of a shape whose extras have a length that it allows.
fn command(shape: Shape, extras: &[u8]) -> Command {
    match shape {
        Shape::Get(reply) => Command::Get { touch: None, reply },
        Shape::GetAndTouch(reply) => Command::Get {
            touch: Some(u32_at(extras, 0)),
            reply,
        },
        Shape::Store(verb) => Command::Store {
            verb,
            flags: u32_at(extras, 0),
            exptime: u32_at(extras, 4),
        },
        Shape::Join(verb) => Command::Store {
            verb,
            flags: 0,
            exptime: 0,
        },
        Shape::Delete => Command::Delete,
        Shape::Arithmetic { decrement } => Command::Arithmetic {
            decrement,
            delta: u64_at(extras, 0),
            initial: u64_at(extras, 8),
            exptime: u32_at(extras, 16),
        },
        Shape::Flush => Command::Flush {
            exptime: if extras.is_empty() { 0 } else { u32_at(extras, 0) },
        },
        Shape::Noop => Command::Noop,
        Shape::Version => Command::Version,
        Shape::Stat => Command::Stat,
        Shape::Quit => Command::Quit,
        Shape::SaslList => Command::SaslList,
        Shape::SaslAuth => Command::SaslAuth,
        Shape::SaslStep => Command::SaslStep,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

#[cfg(test)]
mod tests;
