//! The meta protocol: `mg`, `ms`, `md`, `ma`, `me` and their flags. A flag is a letter and perhaps a token behind it; what
//! comes back is asked for by flags too, in their order.

mod alike;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use scrubjay_base::number::parse_u64;

use crate::limits::{KEY_LEN_MAX, META_TOKENS_MAX, OPAQUE_LEN_MAX};
use crate::reply::{self, Words};
use crate::text::{parse_exptime, parse_flags, parse_value_len};
use crate::tokens::{Tokens, next_token, tokens};

pub use self::alike::{GET, Gets};

/// As memcached: padding is needed, bits that are left over are not looked at.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Most bytes of a key that 250 base64 letters make.
const DECODED_KEY_MAX: usize = KEY_LEN_MAX / 4 * 3 + 3;

/// A key as the cache knows it.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// As it stands in the line.
    Plain(&'a [u8]),
    /// It came as base64 (flag `b`).
    Binary {
        /// The decoded bytes, and behind them nothing.
        bytes: [u8; DECODED_KEY_MAX],
        /// How many.
        len: usize,
    },
}

impl Key<'_> {
    /// The bytes of the key.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Key::Plain(bytes) => bytes,
            Key::Binary { bytes, len } => &bytes[..*len],
        }
    }

    /// Whether it came as base64.
    pub fn is_binary(&self) -> bool {
        matches!(self, Key::Binary { .. })
    }
}

/// How `ms` stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// `MS`, the default.
    Set,
    /// `ME`: only if there is nothing.
    Add,
    /// `MA`.
    Append,
    /// `MP`.
    Prepend,
    /// `MR`: only if there is something.
    Replace,
}

/// A meta command's line.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The key as it stands in the line.
    pub raw_key: &'a [u8],
    /// `ms`: bytes of the data block.
    pub value_len: usize,
    /// `q`: nominal replies are left out.
    pub quiet: bool,
    /// `v`: the value is asked for.
    pub return_value: bool,
    /// `u`: do not count this as an access.
    pub no_bump: bool,
    /// `I`: invalidate.
    pub invalidate: bool,
    /// `x`: drop the value.
    pub drop_value: bool,
    /// `T`: new exptime.
    pub exptime: Option<i64>,
    /// `N`: create on a miss, with this exptime.
    pub vivify: Option<i64>,
    /// `N` stands behind `T`, so that its exptime holds for what it creates.
    pub vivify_last: bool,
    /// `R`: win if fewer seconds are left.
    pub recache_below: Option<i64>,
    /// `F`: client flags.
    pub client_flags: u32,
    /// `C`: compare with this CAS number.
    pub compare_cas: Option<u64>,
    /// `E`: the new CAS number.
    pub new_cas: Option<u64>,
    /// `M` of `ms`.
    pub mode: SetMode,
    /// `M` of `ma`: subtract.
    pub decrement: bool,
    /// `J`: what `ma N` starts with.
    pub initial: u64,
    /// `D`: how much `ma` adds or subtracts.
    pub delta: u64,
    /// `O` with its letter; empty if it was not given.
    pub opaque: &'a [u8],
    wanted: Wanted,
}

/// Flags that have a say in the reply, by their letters. None is given twice.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    letters: [u8; WANTED_MAX],
    count: u8,
}

/// So many letters there are of flags that have a say in the reply.
pub const WANTED_MAX: usize = 9;

/// Why a line was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reply.
    pub words: Words,
    /// `ms`: a data block of this length follows all the same and is to be swallowed.
    pub swallow: Option<usize>,
}

/// Which of the meta commands a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `mg`
    Get,
    /// `ms`
    Set,
    /// `md`
    Delete,
    /// `ma`
    Arith,
}

impl<'a> Meta<'a> {
    /// The letters of flags that have a say in the reply, in the order in which they were given: what is asked for, and `T`.
    #[inline]
    pub fn wanted(&self) -> &[u8] {
        &self.wanted.letters[..usize::from(self.wanted.count)]
    }
}

/// Reads a meta command's line.
///
/// # Errors
/// [`Refused`] has the words that memcached answers.
#[inline]
pub fn parse(verb: Verb, line: &[u8]) -> Result<Meta<'_>, Refused> {
    let refuse = |words| Err(Refused { words, swallow: None });
    let after = |line| next_token(line).unwrap_or_default();
    let (_, rest) = after(line);
    let (raw_key, rest) = after(rest);
    if raw_key.len() > KEY_LEN_MAX {
        return refuse(reply::BAD_FORMAT);
    }
    if has_too_many_tokens(line) {
        return refuse(match verb {
            Verb::Get => reply::META_GET_TOO_MANY_FLAGS,
            Verb::Set | Verb::Delete | Verb::Arith => reply::META_TOO_MANY_FLAGS,
        });
    }
    let mut meta = blank(raw_key);
    let (mut flags, mut swallow) = (rest, None);
    if verb == Verb::Set {
        let len = next_token(rest).and_then(|(len, flags)| Some((parse_value_len(len)?, flags)));
        let Some((value_len, behind)) = len else {
            return refuse(reply::BAD_FORMAT);
        };
        (meta.value_len, flags, swallow) = (value_len, behind, Some(value_len));
    }
    match meta.read_flags(verb, flags) {
        Ok(()) => Ok(meta),
        Err(words)
            if matches!(verb, Verb::Delete | Verb::Arith)
                && words != reply::META_OPAQUE_TOO_LONG
                && words != reply::META_ARITH_MODE =>
        {
            refuse(reply::META_INVALID_OR_DUPLICATE)
        }
        Err(words) => Err(Refused { words, swallow }),
    }
}

/// Whether the line has more than it may. A short one cannot, as each takes a byte and a blank.
fn has_too_many_tokens(line: &[u8]) -> bool {
    line.len() + 1 >= 2 * META_TOKENS_MAX && tokens(line).count() >= META_TOKENS_MAX
}

fn blank(raw_key: &[u8]) -> Meta<'_> {
    Meta {
        key: Key::Plain(raw_key),
        raw_key,
        value_len: 0,
        quiet: false,
        return_value: false,
        no_bump: false,
        invalidate: false,
        drop_value: false,
        exptime: None,
        vivify: None,
        vivify_last: false,
        recache_below: None,
        client_flags: 0,
        compare_cas: None,
        new_cas: None,
        mode: SetMode::Set,
        decrement: false,
        initial: 0,
        delta: 1,
        opaque: &[],
        wanted: Wanted::default(),
    }
}

impl<'a> Meta<'a> {
    fn read_flags(&mut self, verb: Verb, flags: &'a [u8]) -> Result<(), Words> {
        let mut seen = 0u128;
        let mut mode = None;
        let mut error = None;
        for flag in tokens(flags) {
            let letter = flag[0];
            if letter >= 127 || seen & (1 << letter) != 0 {
                return Err(reply::META_DUPLICATE);
            }
            seen |= 1 << letter;
            match self.read_flag(verb, letter, flag) {
                Ok(()) if letter == b'M' => mode = Some(flag[1]),
                Ok(()) => {}
                Err(Wrong::Fatal(words)) => return Err(words),
                Err(Wrong::Token(words)) => error = Some(words.unwrap_or(error.unwrap_or(reply::BAD_FORMAT))),
            }
        }
        if let Some(words) = error {
            return Err(words);
        }
        if self.opaque.len() > OPAQUE_LEN_MAX {
            return Err(reply::META_OPAQUE_TOO_LONG);
        }
        mode.map_or(Ok(()), |mode| self.read_mode(verb, mode))
    }

    fn read_mode(&mut self, verb: Verb, mode: u8) -> Result<(), Words> {
        match (verb, mode) {
            (Verb::Set, b'S') => self.mode = SetMode::Set,
            (Verb::Set, b'E') => self.mode = SetMode::Add,
            (Verb::Set, b'A') => self.mode = SetMode::Append,
            (Verb::Set, b'P') => self.mode = SetMode::Prepend,
            (Verb::Set, b'R') => self.mode = SetMode::Replace,
            (Verb::Set, _) => return Err(reply::META_SET_MODE),
            (Verb::Arith, b'I' | b'+') => self.decrement = false,
            (Verb::Arith, b'D' | b'-') => self.decrement = true,
            (Verb::Arith, _) => return Err(reply::META_ARITH_MODE),
            (Verb::Get | Verb::Delete, _) => {}
        }
        Ok(())
    }

    fn want(&mut self, letter: u8) {
        self.wanted.letters[usize::from(self.wanted.count)] = letter;
        self.wanted.count += 1;
    }

    fn read_flag(&mut self, verb: Verb, letter: u8, flag: &'a [u8]) -> Result<(), Wrong> {
        let token = &flag[1..];
        let number = || parse_u64(token).ok_or(Wrong::Token(Some(reply::META_BAD_TOKEN)));
        let exptime = || parse_exptime(token).ok_or(Wrong::Token(Some(reply::META_BAD_TOKEN)));
        match letter {
            b'b' => {
                self.key = decode_key(self.raw_key).ok_or(Wrong::Token(Some(reply::META_BAD_KEY)))?;
            }
            b'N' => {
                self.vivify = Some(exptime()?);
                self.vivify_last = true;
            }
            b'T' => {
                self.exptime = Some(exptime()?);
                self.vivify_last = false;
                self.want(letter);
            }
            b'R' => self.recache_below = Some(exptime()?),
            b'F' => self.client_flags = parse_flags(token).ok_or(Wrong::Token(None))?,
            b'C' => self.compare_cas = Some(number()?),
            b'E' => self.new_cas = Some(number()?),
            b'J' => self.initial = parse_u64(token).ok_or(Wrong::Token(Some(reply::META_BAD_INITIAL)))?,
            b'D' => self.delta = parse_u64(token).ok_or(Wrong::Token(Some(reply::META_BAD_DELTA)))?,
            b'M' if token.len() != 1 => return Err(Wrong::Token(Some(reply::META_MODE_LENGTH))),
            b'v' => self.return_value = true,
            b'q' => self.quiet = true,
            b'u' => self.no_bump = true,
            b'I' => self.invalidate = true,
            b'x' if verb == Verb::Delete => self.drop_value = true,
            b'O' => {
                self.opaque = flag;
                self.want(letter);
            }
            b'k' | b's' | b't' | b'c' | b'f' | b'h' | b'l' => self.want(letter),
            // Was looked at, or is for proxies.
            b'M' | b'P' | b'L' => {}
            _ => return Err(Wrong::Fatal(reply::META_INVALID)),
        }
        Ok(())
    }
}

/// What is wrong with a flag.
enum Wrong {
    /// Nothing after it is looked at.
    Fatal(Words),
    /// Its token is no good; the last such flag decides the words.
    Token(Option<Words>),
}

fn decode_key<'a>(raw: &[u8]) -> Option<Key<'a>> {
    let mut bytes = [0; DECODED_KEY_MAX];
    let len = BASE64.decode_slice(raw, &mut bytes).ok()?;
    (len > 0).then_some(Key::Binary { bytes, len })
}

/// The key of an `me` or `why` line, and how the line says it.
///
/// # Errors
/// The words of its refusal.
pub fn parse_debug(line: &[u8]) -> Result<(Key<'_>, &[u8]), Words> {
    let tokens = Tokens::cut(line);
    let raw_key = tokens.get(1);
    if raw_key.is_empty() || raw_key.len() > KEY_LEN_MAX {
        return Err(reply::BAD_FORMAT);
    }
    if tokens.get(2) != b"b" {
        return Ok((Key::Plain(raw_key), raw_key));
    }
    decode_key(raw_key)
        .map(|key| (key, raw_key))
        .ok_or(reply::BAD_FORMAT)
}

#[cfg(test)]
mod tests {
    use super::{Key, SetMode, Verb, parse};
    use crate::reply;

    #[test]
    fn flags_are_read_or_refused_with_memcacheds_words() {
        let check = |verb, line: &str, words: Option<&str>| {
            assert_eq!(
                parse(verb, line.as_bytes()).err().map(|refused| refused.words),
                words,
                "{line}"
            );
        };
        check(Verb::Get, "mg k v t O1", None);
        check(Verb::Get, "mg k v v", Some(reply::META_DUPLICATE));
        check(Verb::Get, "mg k T", Some(reply::META_BAD_TOKEN));
        check(Verb::Get, "mg k !", Some(reply::META_INVALID));
        check(Verb::Get, "mg k x", Some(reply::META_INVALID));
        check(Verb::Get, "mg k M", Some(reply::META_MODE_LENGTH));
        check(Verb::Delete, "md k x", None);
        check(Verb::Delete, "md k !", Some(reply::META_INVALID_OR_DUPLICATE));
        check(Verb::Set, "ms k 2 Fabc", Some(reply::BAD_FORMAT));
        check(Verb::Set, "ms k abc", Some(reply::BAD_FORMAT));
        check(Verb::Arith, "ma k Mx", Some(reply::META_ARITH_MODE));
    }

    #[test]
    fn a_refused_set_says_what_to_swallow_once_the_length_is_known() {
        assert_eq!(parse(Verb::Set, b"ms k abc").unwrap_err().swallow, None);
        assert_eq!(parse(Verb::Set, b"ms k 7 k k").unwrap_err().swallow, Some(7));
        assert_eq!(parse(Verb::Set, b"ms k 7 MA").unwrap().mode, SetMode::Append);
    }

    #[test]
    fn base64_keys_are_decoded() {
        let meta = parse(Verb::Get, b"mg Zm9v b v").unwrap();
        assert_eq!(meta.key.bytes(), b"foo");
        assert!(matches!(meta.key, Key::Binary { .. }));
        assert_eq!(
            parse(Verb::Get, b"mg Zm9 b").unwrap_err().words,
            reply::META_BAD_KEY
        );
    }
}
