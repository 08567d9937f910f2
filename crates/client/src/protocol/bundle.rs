//! Look-ups that one caller asks together and that are answered together: one exchange for all of them instead of one each. In
//! which bytes they are asked depends on what is wanted of them; that each reply is its own key's is told by [`Arriving`].

use std::mem;
use std::ops::Range;

use scrubjay_base::{bytes, number};

use super::Form;
use super::conversation::REQUEST_LEN_EXTRA;
use super::reply::{Reply, Value};
use super::request::{Get, KEY_LEN_MAX, blanks, needs_base64};

/// Most keys of one, so that others on the connection are not kept waiting for long.
const KEYS_MAX: usize = 128;
/// Most bytes of its keys: servers of long ago read no longer lines.
const LEN_MAX: usize = 2000;
/// Bits by which it is told that a key is not here yet.
const SEEN_BITS: u32 = 11;
const SEEN_WORDS: usize = 1 << (SEEN_BITS - 6);

/// Most bytes of a value that shares its memory with the others of its bundle, and most that is taken for them before they come.
const SHARED_LEN_MAX: usize = 1024;
const SHARED_START_MAX: usize = 64 * 1024;

const LINE_END: &[u8; 2] = b"\r\n";

/// Digits that are a number of 64 bits whatever they are; one with one more is read otherwise.
const DIGITS_MAX: usize = 18;

/// Most bytes of [`Arriving::own_end`].
const OWN_END_LEN_MAX: usize = 32;

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// All keys in one line of classic gets; where meta commands are spoken the last one by itself, by a meta command that bears
    /// the number of the exchange: so it is certain which replies end here.
    Line,
    /// Each by a meta command of its own, all with the number of the exchange.
    Each,
}

/// Look-ups to be asked as one. No key is here twice: a server may answer it once.
#[derive(Debug)]
pub struct Bundle {
    pub(super) style: Style,
    pub(super) with_cas: bool,
    pub(super) keys: Keys,
    seen: [u64; SEEN_WORDS],
    /// What is to come is kept here.
    came: Came,
}

/// Keys, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// What lies behind the last one means nothing: there is room for all from the first on.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Keys {}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes_len(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// The same and what is behind it, if as many bytes as [`bytes::FEW`] are more than it has: they can be copied without asking for
    /// its length.
    #[inline]
    pub(super) fn wide(&self, at: usize) -> (&[u8], Option<&[u8; bytes::FEW]>) {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let key = &self.bytes[start..self.ends[at]];
        let wide = self.bytes[start..].first_chunk();
        (key, wide.filter(|_| key.len() <= bytes::FEW))
    }
}

impl Bundle {
    /// An empty one for look-ups that are wanted as `get` is; none if such a one has to be asked by itself.
    pub(super) fn new(get: &Get<'_>, form: Form) -> Option<Bundle> {
        let style = match form {
            Form::Meta if !get.plain => Style::Each,
            _ => Style::Line,
        };
        let bundle = Bundle {
            style,
            with_cas: get.with_cas,
            keys: Keys::default(),
            seen: [0; SEEN_WORDS],
            came: Came::default(),
        };
        (bundle.suits(get, form)).then_some(bundle)
    }

    /// Takes the memory of another one's, of which nothing is wanted any more. Before anything is added.
    pub(crate) fn reuse(&mut self, mut came: Came) {
        self.keys = mem::take(&mut came.keys);
        self.keys.ends.clear();
        self.came = came;
    }

    #[inline]
    fn suits(&self, get: &Get<'_>, form: Form) -> bool {
        let alone =
            get.with_ttl || get.touch.is_some() || get.vivify.is_some() || get.recache_below.is_some();
        let style = form == Form::Classic || get.plain == (self.style == Style::Line);
        !alone && is_good(get.key) && style && get.with_cas == self.with_cas
    }

    /// Adds a look-up; false if it does not fit in here.
    #[inline]
    pub(super) fn add(&mut self, get: &Get<'_>, form: Form) -> bool {
        self.suits(get, form) && self.add_alike(&[get.key], usize::MAX) == 1
    }

    /// Adds those that are wanted as those that are here, up to the first that does not fit in here; their keys may have so many bytes,
    /// with [`REQUEST_LEN_EXTRA`] each. Gives how many.
    pub(super) fn add_alike(&mut self, keys: &[&[u8]], mut len_max: usize) -> usize {
        let mut end = self.keys.bytes_len();
        if self.keys.bytes.len() < LEN_MAX {
            self.keys.bytes.resize(LEN_MAX, 0);
            self.keys.ends.reserve(KEYS_MAX);
        }
        let room = KEYS_MAX.saturating_sub(self.keys.len());
        let mut count = 0;
        for key in keys.iter().take(room) {
            let (start, len) = (end, key.len() + REQUEST_LEN_EXTRA);
            let Some((place, bit)) = place_and_bit(key) else {
                break;
            };
            if len > len_max || start + key.len() >= LEN_MAX {
                break;
            }
            if self.seen[place] & bit != 0 && self.keys.iter().any(|other| other == *key) {
                break;
            }
            len_max -= len;
            end += key.len();
            self.seen[place] |= bit;
            bytes::copy(&mut self.keys.bytes[start..end], key);
            self.keys.ends.push(end);
            count += 1;
        }
        count
    }

    /// How many of its keys, from the first, are in one line.
    pub(super) fn in_line(&self, form: Form) -> usize {
        match (self.style, form) {
            (Style::Each, _) => 0,
            (Style::Line, Form::Meta) => self.len() - 1,
            (Style::Line, Form::Classic) => self.len(),
        }
    }

    /// How many look-ups it is.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.keys.len() == 0
    }

    /// The look-up that it is, if it is only one.
    pub fn only(&self) -> Option<Get<'_>> {
        (self.keys.len() == 1).then(|| Get {
            with_cas: self.with_cas,
            plain: self.style == Style::Line,
            ..Get::new(self.keys.get(0))
        })
    }
}

/// Whether a key can be asked as it is.
#[inline]
fn is_good(key: &[u8]) -> bool {
    (1..=KEY_LEN_MAX).contains(&key.len()) && !needs_base64(key)
}

/// Where it is noted that a key is here, if it can be asked as it is.
#[inline(always)]
fn place_and_bit(key: &[u8]) -> Option<(usize, u64)> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // Each word is looked at once, for both.
    let (mut hash, mut blank) = (0u64, 0);
    let mut add = |word: u64| {
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
        blank |= blanks(word);
    };
    let (words, _) = key.as_chunks::<8>();
    words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    add(bytes::last_word(key)?);
    let bit = hash >> (64 - SEEN_BITS);
    let is_good = blank == 0 && key.len() <= KEY_LEN_MAX;
    is_good.then_some(((bit >> 6) as usize, 1 << (bit & 63)))
}

#[inline]
fn skip(rest: &mut &[u8], expected: &[u8]) -> Option<()> {
    *rest = rest.strip_prefix(expected)?;
    Some(())
}

/// The same of what is few bytes, but how many is not known before.
#[inline(always)]
fn skip_word(rest: &mut &[u8], expected: &[u8]) -> Option<()> {
    let (word, behind) = rest.split_at_checked(expected.len())?;
    *rest = behind;
    bytes::same_here(word, expected).then_some(())
}

/// Digits at the front; no more than fit for certain.
#[inline(always)]
fn number(rest: &mut &[u8]) -> Option<u64> {
    if let Some(word) = rest.first_chunk()
        && let Some((number, len)) = number::leading(u64::from_le_bytes(*word))
    {
        *rest = &rest[len..];
        return Some(number);
    }
    long_number(rest)
}

/// The same of any length.
#[inline(never)]
fn long_number(rest: &mut &[u8]) -> Option<u64> {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let len = rest.iter().take(DIGITS_MAX + 1).take_while(is_digit).count();
    let (digits, behind) = rest.split_at(len);
    *rest = behind;
    let add = |number: u64, digit: &u8| number * 10 + u64::from(digit - b'0');
    (1..=DIGITS_MAX)
        .contains(&len)
        .then(|| digits.iter().fold(0, add))
}

/// `VA` and what follows, up to the key.
#[inline(always)]
fn read_size(rest: &mut &[u8]) -> Option<Size> {
    skip(rest, b"VA ")?;
    let len = number(rest)?.try_into().ok()?;
    // No flags, as most values have, are no number to be read.
    let flags = match skip(rest, b" f0 k") {
        Some(()) => 0,
        None => {
            skip(rest, b" f")?;
            let flags = number(rest)?.try_into().ok()?;
            skip(rest, b" k")?;
            flags
        }
    };
    Some(Size { len, flags })
}

/// This key and what follows, to the end of the line: the CAS number, if there is one.
#[inline(always)]
fn read_key(rest: &mut &[u8], key: &[u8], own_end: &[u8]) -> Option<Option<u64>> {
    skip_word(rest, key)?;
    let cas = match skip(rest, b" c") {
        Some(()) => Some(number(rest)?),
        None => None,
    };
    skip_word(rest, own_end)?;
    Some(cas)
}

/// The replies to a bundle, as far as they have come.
#[derive(Debug)]
pub(super) struct Arriving {
    keys: Keys,
    /// So many of the keys are in the line, the others have a command each.
    in_line: usize,
    /// The line's `END` has come.
    ended: bool,
    /// The place that the next reply is expected for.
    next: usize,
    came: Came,
}

/// What stands before the key of a value.
#[derive(Clone, Copy, Default)]
struct Size {
    len: usize,
    flags: u32,
}

/// What stands before a value.
struct Head {
    len: usize,
    flags: u32,
    cas: Option<u64>,
}

/// What has come of a bundle, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Came {
    parts: Vec<Part>,
    /// Small values, one behind the other.
    bytes: Vec<u8>,
    /// Whose it is, if all has come.
    keys: Keys,
    /// How many of the parts are small values, and how many misses.
    hits: usize,
    misses: usize,
}

/// What has come of one look-up. There are many of them: what is rare lies elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    #[default]
    Open,
    /// There is no value.
    Miss,
    /// A small value.
    Shared(Shared),
    /// Any other reply.
    Reply(Box<Reply>),
}

/// A value of which nothing is to be told but this; its bytes lie among those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    start: usize,
    len: u32,
    /// The client's flags.
    pub flags: u32,
    /// The CAS number, if it was asked for.
    pub cas: Option<u64>,
}

impl Shared {
    /// Where its bytes lie.
    pub fn place(&self) -> Range<usize> {
        self.start..self.start + self.len as usize
    }

    /// The same with bytes of its own.
    pub fn to_value(self, bytes: &[u8]) -> Value {
        Value {
            bytes: bytes[self.place()].to_vec(),
            flags: self.flags,
            cas: self.cas,
            ..Value::default()
        }
    }
}

impl Came {
    fn nothing(len: usize) -> Came {
        let mut nothing = Came::default();
        nothing.clear(len);
        nothing
    }

    /// Nothing has come of so many.
    fn clear(&mut self, len: usize) {
        self.parts.clear();
        self.parts.resize_with(len, Part::default);
        self.bytes.clear();
        (self.hits, self.misses) = (0, 0);
    }

    /// Memory for so many keys and so many bytes of values.
    #[cfg(test)]
    pub(crate) fn with_room(keys: usize, bytes: usize) -> Came {
        let mut came = Came::nothing(keys);
        came.bytes.reserve(bytes);
        came.keys.ends.resize(keys, 0);
        came
    }

    /// For how many bytes of values there is memory.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether its memory is enough to be kept for another one, and not too much.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        !self.keys.ends.is_empty() && self.bytes.capacity() <= SHARED_START_MAX
    }

    /// Whether nothing has come of any.
    fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Open))
    }

    /// What came of each look-up, and the bytes that values share.
    pub fn into_parts(self) -> (impl Iterator<Item = Part>, Vec<u8>) {
        (self.parts.into_iter(), self.bytes)
    }

    /// What came of each look-up, as a reply of its own.
    pub fn into_replies(self) -> Vec<Option<Reply>> {
        let (parts, bytes) = self.into_parts();
        let whole = |part| match part {
            Part::Open => None,
            Part::Miss => Some(Reply::Miss),
            Part::Reply(reply) => Some(*reply),
            Part::Shared(shared) => Some(Reply::Value(shared.to_value(&bytes))),
        };
        parts.map(whole).collect()
    }

    /// How many values and how many misses it is, if it is nothing but those.
    pub(crate) fn count(&self) -> Option<(u64, u64)> {
        let is_all = self.hits + self.misses == self.parts.len();
        is_all.then_some((self.hits as u64, self.misses as u64))
    }

    /// How many look-ups it is.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// One of them, if it is a small value, and its bytes.
    #[inline]
    pub(crate) fn shared(&self, at: usize) -> Option<(Shared, &[u8])> {
        match self.parts[at] {
            Part::Shared(shared) => Some((shared, &self.bytes[shared.place()])),
            _ => None,
        }
    }

    fn has(&self, at: usize) -> bool {
        !matches!(self.parts[at], Part::Open)
    }

    /// Of one of which nothing has come yet.
    fn put(&mut self, at: usize, reply: Reply) {
        debug_assert!(!self.has(at));
        self.parts[at] = match reply {
            Reply::Miss => {
                self.misses += 1;
                Part::Miss
            }
            reply => Part::Reply(Box::new(reply)),
        };
    }

    fn put_value(&mut self, at: usize, head: &Head, bytes: &[u8]) {
        let mut shared = Shared {
            start: self.bytes.len(),
            len: bytes.len() as u32,
            flags: head.flags,
            cas: head.cas,
        };
        if bytes.len() > SHARED_LEN_MAX {
            shared.start = 0;
            return self.put(at, Reply::Value(shared.to_value(bytes)));
        }
        if self.bytes.is_empty() {
            // As if all were as long.
            self.bytes
                .reserve((self.parts.len() * bytes.len()).min(SHARED_START_MAX));
        }
        self.bytes.extend_from_slice(bytes);
        self.parts[at] = Part::Shared(shared);
        self.hits += 1;
    }
}

impl Arriving {
    pub(super) fn new(mut bundle: Bundle, form: Form) -> Arriving {
        let in_line = bundle.in_line(form);
        bundle.came.clear(bundle.keys.len());
        Arriving {
            in_line,
            ended: in_line == 0,
            next: 0,
            came: bundle.came,
            keys: bundle.keys,
        }
    }

    /// How a reply that bears this number ends.
    pub(super) fn own_end(number: u64) -> Vec<u8> {
        let mut end = Vec::with_capacity(OWN_END_LEN_MAX);
        end.extend_from_slice(b" O");
        number::append(&mut end, number);
        end.extend_from_slice(b"\r\n");
        end
    }

    /// How many look-ups it is.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        self.keys.get(at)
    }

    /// Whether the line's replies are coming.
    pub(super) fn is_in_line(&self) -> bool {
        !self.ended
    }

    /// Which key of the line a value is for. They come in the order of the keys, as a rule, misses left out; but only the key counts.
    pub(super) fn place_in_line(&self, key: &[u8]) -> Option<usize> {
        let is_it = |at: &usize| !self.came.has(*at) && self.keys.get(*at) == key;
        let next = self.next.min(self.in_line);
        (!self.ended).then(|| (next..self.in_line).chain(0..next).find(is_it))?
    }

    /// Which key the reply to a meta command is for.
    pub(super) fn place_in_turn(&self) -> Option<usize> {
        (self.ended && self.next < self.len()).then_some(self.next)
    }

    /// Takes replies with small values to meta commands from the front as [`Arriving::take_value`] does, up to the first that is something
    /// else. All at once: the values stay as far apart as they came.
    pub(super) fn take_run(&mut self, bytes: &mut &[u8], own_end: &[u8], len_max: usize) {
        let Some(first) = self.place_in_turn() else {
            return;
        };
        let (whole, base) = (*bytes, self.came.bytes.len());
        let len_max = len_max.min(SHARED_LEN_MAX);
        let (mut left, mut count) = (whole, 0);
        let mut start = first.checked_sub(1).map_or(0, |before| self.keys.ends[before]);
        let (mut text, mut size) = ([].as_slice(), Size::default());
        for (part, end) in self.came.parts[first..].iter_mut().zip(&self.keys.ends[first..]) {
            // Values that follow each other are often as long. Then where the next one begins need not be waited for.
            let mut rest = match left.split_at_checked(text.len()) {
                Some((same, rest)) if count > 0 && bytes::same_here(same, text) => rest,
                _ => {
                    let mut rest = left;
                    let Some(read) = read_size(&mut rest) else {
                        break;
                    };
                    size = read;
                    text = &left[..left.len() - rest.len()];
                    rest
                }
            };
            let key = &self.keys.bytes[start..*end];
            let Some(cas) = read_key(&mut rest, key, own_end) else {
                break;
            };
            let value = whole.len() - rest.len();
            let Some((_, ends)) = rest.split_at_checked(size.len) else {
                break;
            };
            if size.len > len_max || !ends.starts_with(LINE_END) || !matches!(part, Part::Open) {
                break;
            }
            *part = Part::Shared(Shared {
                start: base + value,
                len: size.len as u32,
                flags: size.flags,
                cas,
            });
            left = &ends[LINE_END.len()..];
            start = *end;
            count += 1;
        }
        self.next = first + count;
        self.came.hits += count;
        self.came
            .bytes
            .extend_from_slice(&whole[..whole.len() - left.len()]);
        *bytes = left;
    }

    /// Takes a reply with a value from the front, if that is whole, bears the next key that can have one, and is written as all
    /// servers write it: the reply to a meta command ends with [`Arriving::own_end`]. Whatever else there is, also if it is right, is
    /// left to those who read every word.
    pub(super) fn take_value(&mut self, bytes: &mut &[u8], own_end: &[u8], len_max: usize) -> Option<()> {
        let mut rest = *bytes;
        let (at, head) = if self.ended {
            let at = self.place_in_turn()?;
            let Size { len, flags } = read_size(&mut rest)?;
            let cas = read_key(&mut rest, self.keys.get(at), own_end)?;
            (at, Head { len, flags, cas })
        } else {
            self.read_line(&mut rest)?
        };
        let (value, ends) = rest.split_at_checked(head.len)?;
        if head.len > len_max || !ends.starts_with(LINE_END) || self.came.has(at) {
            return None;
        }
        self.came.put_value(at, &head, value);
        self.next = at + 1;
        *bytes = &ends[LINE_END.len()..];
        Some(())
    }

    /// `VALUE` and what follows, to the end of the line.
    fn read_line(&self, rest: &mut &[u8]) -> Option<(usize, Head)> {
        skip(rest, b"VALUE ")?;
        let is_it = |at: &usize| {
            let behind = rest.strip_prefix(self.keys.get(*at));
            behind.is_some_and(|behind| behind.first() == Some(&b' '))
        };
        let at = (self.next..self.in_line).find(is_it)?;
        *rest = &rest[self.keys.get(at).len() + 1..];
        let flags = number(rest)?.try_into().ok()?;
        skip(rest, b" ")?;
        let len = number(rest)?.try_into().ok()?;
        let cas = match skip(rest, b" ") {
            Some(()) => Some(number(rest)?),
            None => None,
        };
        skip(rest, b"\r\n")?;
        Some((at, Head { len, flags, cas }))
    }

    pub(super) fn put(&mut self, at: usize, reply: Reply) {
        self.came.put(at, reply);
        self.next = at + 1;
    }

    /// The line has ended: keys without a value get this.
    pub(super) fn end_line(&mut self, reply: &Reply) {
        for at in 0..self.in_line {
            if !self.came.has(at) {
                self.came.put(at, reply.clone());
            }
        }
        self.ended = true;
        self.next = self.in_line;
    }

    /// Whether all have come.
    pub(super) fn is_whole(&self) -> bool {
        self.ended && self.next == self.len()
    }

    /// What has come, in the order of the keys; nothing if nothing has. Whatever comes then is not kept.
    pub(super) fn give_up(&mut self) -> Option<Came> {
        let came = mem::replace(&mut self.came, Came::nothing(self.keys.len()));
        Some(came).filter(|came| !came.is_empty())
    }

    /// What has come of all.
    pub(super) fn take(&mut self) -> Came {
        debug_assert!(self.is_whole());
        let mut came = mem::take(&mut self.came);
        came.keys = mem::take(&mut self.keys);
        came
    }
}
