//! What can be asked of a server, the same for both forms of the protocol; and what cannot be asked at all.

use std::borrow::Cow;
use std::fmt;

use scrubjay_base::bytes;

use super::Form;

/// Most bytes of a key on the wire.
pub const KEY_LEN_MAX: usize = 250;

/// Most bytes of a key that needs base64: 248 letters make so many.
pub const BINARY_KEY_LEN_MAX: usize = KEY_LEN_MAX / 4 * 3;

/// A request. What is given as borrowed is copied into the connection's buffer; a large value that is owned is not.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// A value is asked for.
    Get(Get<'a>),
    /// An item gets a new exptime.
    Touch(Touch<'a>),
    /// A value is stored.
    Store(Store<'a>),
    /// An item goes.
    Delete(Delete<'a>),
    /// A number goes up or down.
    Arith(Arith<'a>),
    /// Is anybody there? Also: everything before it has been executed.
    Noop,
    /// The server's version.
    Version,
    /// All items go, in so many seconds.
    Flush {
        /// Seconds from now.
        delay_secs: u32,
    },
}

/// `get`, `gets`, `gat` and `gats`, with leases where the server speaks meta.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The item's CAS number is asked for, too.
    pub with_cas: bool,
    /// How long the item has to live is asked for, too. Meta only: it is left out elsewhere.
    pub with_ttl: bool,
    /// A new exptime.
    pub touch: Option<i64>,
    /// On a miss an empty item is made with this exptime, and who made it has won. Meta only.
    pub vivify: Option<i64>,
    /// One asker wins if fewer seconds than these are left. Meta only.
    pub recache_below: Option<u32>,
    /// Whether somebody is to refill it is of no interest: where many such look-ups are asked at once, their [`Lease`] may be left
    /// out, which costs the server and the wire less.
    ///
    /// [`Lease`]: super::Lease
    pub plain: bool,
}

impl<'a> Get<'a> {
    /// A plain look-up.
    pub fn new(key: &'a [u8]) -> Get<'a> {
        Get {
            key,
            with_cas: false,
            with_ttl: false,
            touch: None,
            vivify: None,
            recache_below: None,
            plain: false,
        }
    }
}

/// `touch`
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new exptime.
    pub exptime: i64,
    /// No reply is wanted.
    pub quiet: bool,
}

/// When a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Always.
    Set,
    /// Only if there is nothing.
    Add,
    /// Only if there is something.
    Replace,
    /// Behind the bytes that are there.
    Append,
    /// Before the bytes that are there.
    Prepend,
}

/// `set` and its family.
#[derive(Clone, Debug)]
pub struct Store<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Cow<'a, [u8]>,
    /// When it is stored.
    pub mode: StoreMode,
    /// The client's flags.
    pub flags: u32,
    /// The exptime.
    pub exptime: i64,
    /// Only if the item still has this CAS number.
    pub cas: Option<u64>,
    /// If the item has a newer CAS number than the one given, it is stored all the same, as stale. Meta only.
    pub invalidate: bool,
    /// No reply is wanted.
    pub quiet: bool,
}

impl<'a> Store<'a> {
    /// A plain `set`.
    pub fn new(key: &'a [u8], value: impl Into<Cow<'a, [u8]>>) -> Store<'a> {
        Store {
            key,
            value: value.into(),
            mode: StoreMode::Set,
            flags: 0,
            exptime: 0,
            cas: None,
            invalidate: false,
            quiet: false,
        }
    }
}

/// `delete`
#[derive(Clone, Copy, Debug)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Only if the item still has this CAS number. Meta only.
    pub cas: Option<u64>,
    /// The item stays for these seconds as stale, and one asker wins. Meta only.
    pub invalidate: Option<i64>,
    /// No reply is wanted.
    pub quiet: bool,
}

impl<'a> Delete<'a> {
    /// A plain `delete`.
    pub fn new(key: &'a [u8]) -> Delete<'a> {
        Delete {
            key,
            cas: None,
            invalidate: None,
            quiet: false,
        }
    }
}

/// `incr` and `decr`
#[derive(Clone, Copy, Debug)]
pub struct Arith<'a> {
    /// The key.
    pub key: &'a [u8],
    /// By how much.
    pub delta: u64,
    /// Down instead of up; it stops at 0.
    pub decrement: bool,
    /// On a miss this number is stored, with this exptime. Meta only.
    pub initial: Option<(u64, i64)>,
    /// No reply is wanted.
    pub quiet: bool,
}

impl<'a> Arith<'a> {
    /// A plain `incr`.
    pub fn new(key: &'a [u8], delta: u64) -> Arith<'a> {
        Arith {
            key,
            delta,
            decrement: false,
            initial: None,
            quiet: false,
        }
    }
}

impl<'a> Request<'a> {
    /// The same without its key, and with a value of its own; what it borrowed is given back.
    pub(crate) fn into_owned(self) -> Request<'static> {
        match self.with_key(&[]) {
            Request::Get(get) => Request::Get(Get { key: &[], ..get }),
            Request::Touch(touch) => Request::Touch(Touch { key: &[], ..touch }),
            Request::Store(store) => Request::Store(Store {
                key: &[],
                value: Cow::Owned(store.value.into_owned()),
                ..store
            }),
            Request::Delete(delete) => Request::Delete(Delete { key: &[], ..delete }),
            Request::Arith(arith) => Request::Arith(Arith { key: &[], ..arith }),
            Request::Noop => Request::Noop,
            Request::Version => Request::Version,
            Request::Flush { delay_secs } => Request::Flush { delay_secs },
        }
    }

    /// The key, where there is one.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Request::Get(Get { key, .. })
            | Request::Touch(Touch { key, .. })
            | Request::Store(Store { key, .. })
            | Request::Delete(Delete { key, .. })
            | Request::Arith(Arith { key, .. }) => Some(key),
            Request::Noop | Request::Version | Request::Flush { .. } => None,
        }
    }

    /// The same with another key.
    pub fn with_key<'b>(self, key: &'b [u8]) -> Request<'b>
    where
        'a: 'b,
    {
        match self {
            Request::Get(get) => Request::Get(Get { key, ..get }),
            Request::Touch(touch) => Request::Touch(Touch { key, ..touch }),
            Request::Store(store) => Request::Store(Store { key, ..store }),
            Request::Delete(delete) => Request::Delete(Delete { key, ..delete }),
            Request::Arith(arith) => Request::Arith(Arith { key, ..arith }),
            keyless => keyless,
        }
    }

    /// Whether no reply is wanted.
    pub fn is_quiet(&self) -> bool {
        match self {
            Request::Touch(Touch { quiet, .. })
            | Request::Store(Store { quiet, .. })
            | Request::Delete(Delete { quiet, .. })
            | Request::Arith(Arith { quiet, .. }) => *quiet,
            Request::Get(_) | Request::Noop | Request::Version | Request::Flush { .. } => false,
        }
    }

    /// Bytes of the value that is sent.
    pub fn value_len(&self) -> usize {
        match self {
            Request::Store(store) => store.value.len(),
            _ => 0,
        }
    }

    /// Whether a server of this form can be asked this at all.
    pub(super) fn check(&self, form: Form) -> Result<(), Refused> {
        if let Some(key) = self.key() {
            let binary = needs_base64(key);
            let max = if binary { BINARY_KEY_LEN_MAX } else { KEY_LEN_MAX };
            if key.is_empty() || key.len() > max {
                return Err(Refused::KeyLen { len: key.len(), max });
            }
            if binary && form == Form::Classic {
                return Err(Refused::BinaryKey);
            }
        }
        let forgets = match self {
            Request::Get(get) => get.vivify.is_some(),
            Request::Store(store) => matches!(store.mode, StoreMode::Append | StoreMode::Prepend),
            _ => false,
        };
        let breaks_lines = |key: &[u8]| key.iter().any(|byte| matches!(byte, b' ' | b'\n'));
        if forgets && self.key().is_some_and(breaks_lines) {
            return Err(Refused::EchoedKey);
        }
        let meta_only = match self {
            Request::Get(get) => get.vivify.is_some() || get.recache_below.is_some(),
            Request::Store(store) => {
                store.invalidate || (store.cas.is_some() && store.mode != StoreMode::Set)
            }
            Request::Delete(delete) => delete.cas.is_some() || delete.invalidate.is_some(),
            Request::Arith(arith) => arith.initial.is_some(),
            Request::Touch(_) | Request::Noop | Request::Version | Request::Flush { .. } => false,
        };
        if meta_only && form == Form::Classic {
            return Err(Refused::NeedsMeta);
        }
        Ok(())
    }
}

/// Whether a key's bytes would break a line.
#[inline]
pub fn needs_base64(key: &[u8]) -> bool {
    let (words, _) = key.as_chunks::<8>();
    let Some(last) = bytes::last_word(key) else {
        return false;
    };
    let blanks = |found: u64, word: &[u8; 8]| found | blanks(u64::from_le_bytes(*word));
    words.iter().fold(self::blanks(last), blanks) != 0
}

/// Whether a key is ASCII without blanks and control characters, as most are.
#[inline]
pub fn is_plain(key: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, _) = key.as_chunks::<8>();
    let Some(last) = bytes::last_word(key) else {
        return true;
    };
    let unlike = |word: u64| blanks(word) | (word & HIGH);
    let add = |found: u64, word: &[u8; 8]| found | unlike(u64::from_le_bytes(*word));
    words.iter().fold(unlike(last), add) == 0
}

/// Not 0 if one of eight bytes is a blank, a control character or 0x7f.
#[inline(always)]
pub(super) fn blanks(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word & (ONES << 7);
    below(word, b' ' + 1) | below(word ^ (ONES * 0x7f), 1)
}

/// Why a request was not taken. Nothing of it has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The key is empty or too long.
    KeyLen {
        /// Its bytes.
        len: usize,
        /// How many there may be.
        max: usize,
    },
    /// The key has blanks or control bytes, and the server does not speak meta.
    BinaryKey,
    /// The key has blanks or line ends, and after this request memcached no longer knows that it must be sent as base64: it
    /// would break replies with it, ours or those of others.
    EchoedKey,
    /// The server does not speak meta, which this needs.
    NeedsMeta,
    /// The value is too long.
    ValueLen {
        /// Its bytes.
        len: usize,
        /// How many there may be.
        max: usize,
    },
    /// As much is outstanding as may be.
    Full,
    /// The conversation wants to be closed.
    Closing,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::KeyLen { len, max } => write!(f, "a key of {len} bytes; use 1 to {max}"),
            Refused::BinaryKey => f.write_str(
                "the key has blanks or control bytes, and the server does not speak the meta protocol; use other keys or a \
                 newer server",
            ),
            Refused::EchoedKey => f.write_str(
                "the key has blanks or line ends, which some servers send back as they are after a lease, append or prepend; use \
                 other keys for these",
            ),
            Refused::NeedsMeta => f.write_str("the server does not speak the meta protocol, which this needs; use a newer server"),
            Refused::ValueLen { len, max } => {
                write!(f, "a value of {len} bytes; the limit is {max}: raise it, or store less")
            }
            Refused::Full => f.write_str("too many requests are outstanding; wait for replies, or use another connection"),
            Refused::Closing => f.write_str("the connection is about to be closed; use another one"),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::{Arith, Get, Refused, Request, Store, StoreMode, is_plain, needs_base64};
    use crate::protocol::Form;

    #[test]
    fn every_byte_of_a_key_is_looked_at() {
        for len in 0..=33 {
            let mut key = vec![b'k'; len];
            assert!(!needs_base64(&key) && is_plain(&key), "{len}");
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    key[at] = byte;
                    let expected = byte <= b' ' || byte == 0x7f;
                    assert_eq!(needs_base64(&key), expected, "{byte} at {at} of {len}");
                    let plain = key.iter().all(|byte| (b'!'..0x7f).contains(byte));
                    assert_eq!(is_plain(&key), plain, "{byte} at {at} of {len}");
                }
                key[at] = if at % 2 == 0 { b'!' } else { 0xff };
            }
        }
    }

    #[test]
    fn what_a_server_cannot_be_asked_is_refused() {
        let check = |request: Request<'_>, classic: Result<(), Refused>, meta: Result<(), Refused>| {
            assert_eq!(request.check(Form::Classic), classic, "{request:?}");
            assert_eq!(request.check(Form::Meta), meta, "{request:?}");
        };
        let too_long = |len, max| Err(Refused::KeyLen { len, max });
        check(Request::Get(Get::new(b"k")), Ok(()), Ok(()));
        check(Request::Get(Get::new(b"")), too_long(0, 250), too_long(0, 250));
        check(Request::Get(Get::new(&[b'k'; 250])), Ok(()), Ok(()));
        check(
            Request::Get(Get::new(&[b'k'; 251])),
            too_long(251, 250),
            too_long(251, 250),
        );
        check(Request::Get(Get::new(b"a b")), Err(Refused::BinaryKey), Ok(()));
        check(
            Request::Get(Get::new(&[b'\n'; 186])),
            Err(Refused::BinaryKey),
            Ok(()),
        );
        check(
            Request::Get(Get::new(&[b'\n'; 187])),
            too_long(187, 186),
            too_long(187, 186),
        );
        let lease = Get {
            vivify: Some(30),
            ..Get::new(b"k")
        };
        check(Request::Get(lease), Err(Refused::NeedsMeta), Ok(()));
        let lease = Get {
            vivify: Some(30),
            ..Get::new(b"a b")
        };
        check(
            Request::Get(lease),
            Err(Refused::BinaryKey),
            Err(Refused::EchoedKey),
        );
        let counter = Arith {
            initial: Some((1, 0)),
            ..Arith::new(b"k", 1)
        };
        check(Request::Arith(counter), Err(Refused::NeedsMeta), Ok(()));
        let append = Store {
            mode: StoreMode::Append,
            cas: Some(1),
            ..Store::new(b"k", b"v".as_slice())
        };
        check(Request::Store(append), Err(Refused::NeedsMeta), Ok(()));
    }
}
