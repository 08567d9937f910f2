//! Replies: a header, then extras, key and value.

use super::{Echo, MAGIC_REPLY};

/// How a request ended. Source: memcached doc/protocol-binary.txt, "Response Status".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Done.
    Success = 0x00,
    /// No such item.
    NotFound = 0x01,
    /// The CAS number does not match, or there is an item where none should be.
    Exists = 0x02,
    /// Over the item size limit.
    TooLarge = 0x03,
    /// The request's parts do not fit its opcode.
    InvalidArguments = 0x04,
    /// Nothing to append or prepend to, or the result would be too large.
    NotStored = 0x05,
    /// The value is no number.
    NonNumeric = 0x06,
    /// Not allowed.
    AuthFailure = 0x20,
    /// The next step of the login is to come.
    AuthContinue = 0x21,
    /// No such opcode.
    UnknownCommand = 0x81,
    /// No room.
    OutOfMemory = 0x82,
    /// Not now.
    TemporaryFailure = 0x86,
}

impl Status {
    /// What memcached writes into the body of a reply with this status.
    pub const fn text(self) -> &'static str {
        match self {
            Status::Success | Status::AuthContinue => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::InvalidArguments => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NonNumeric => "Non-numeric server-side value for incr or decr",
            Status::AuthFailure => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::OutOfMemory => "Out of memory",
            Status::TemporaryFailure => "Temporary failure",
        }
    }
}

/// What a reply's header says. The body, extras, key and value, is to be appended behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it repeats of the request.
    pub echo: Echo,
    /// How the request ended.
    pub status: Status,
    /// The item's CAS number, 0 for none.
    pub cas: u64,
    /// Bytes of extras.
    pub extras_len: u8,
    /// Bytes of the key.
    pub key_len: u16,
    /// Bytes of the value.
    pub value_len: u32,
}

/// Appends a header.
#[inline]
pub fn encode_head(head: &Head, out: &mut Vec<u8>) {
    let body_len = u32::from(head.extras_len) + u32::from(head.key_len) + head.value_len;
    let key_len = head.key_len.to_be_bytes();
    let status = (head.status as u16).to_be_bytes();
    let mut bytes = [0; super::HEADER_LEN];
    (bytes[0], bytes[1]) = (MAGIC_REPLY, head.echo.opcode);
    bytes[2..4].copy_from_slice(&key_len);
    bytes[4] = head.extras_len;
    bytes[6..8].copy_from_slice(&status);
    bytes[8..12].copy_from_slice(&body_len.to_be_bytes());
    bytes[12..16].copy_from_slice(&head.echo.opaque);
    bytes[16..24].copy_from_slice(&head.cas.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends a successful reply whose body is a value only.
pub fn encode_value(echo: Echo, cas: u64, value: &[u8], out: &mut Vec<u8>) {
    let head = Head {
        echo,
        status: Status::Success,
        cas,
        extras_len: 0,
        key_len: 0,
        value_len: value.len() as u32,
    };
    encode_head(&head, out);
    out.extend_from_slice(value);
}

/// Appends a reply that says what went wrong: `text`, which is [`Status::text`] where nothing more is known.
pub fn encode_error(echo: Echo, status: Status, text: &str, out: &mut Vec<u8>) {
    encode_with_status(echo, status, text.as_bytes(), out);
}

/// Appends a reply with a status whose body is a value only.
pub fn encode_with_status(echo: Echo, status: Status, value: &[u8], out: &mut Vec<u8>) {
    let head = Head {
        echo,
        status,
        cas: 0,
        extras_len: 0,
        key_len: 0,
        value_len: value.len() as u32,
    };
    encode_head(&head, out);
    out.extend_from_slice(value);
}

/// Appends one statistic. One with an empty name and value ends them.
pub fn encode_stat(echo: Echo, name: &str, value: &str, out: &mut Vec<u8>) {
    let head = Head {
        echo,
        status: Status::Success,
        cas: 0,
        extras_len: 0,
        key_len: name.len() as u16,
        value_len: value.len() as u32,
    };
    encode_head(&head, out);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
}
