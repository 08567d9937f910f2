//! The classic text protocol: command lines to requests.

use scrubjay_base::bytes;
use scrubjay_base::number::{parse_i64, parse_u64};

use crate::command::{self, Command, Insides, Shape, StoreVerb};
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::reply::{self, Words};
use crate::tokens::{Tokens, next_token};

/// A complete command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes without the end.
    pub bytes: &'a [u8],
    /// Bytes of input that it takes, with its end.
    pub len: usize,
}

/// The first line of `input`, ended by `\n` or `\r\n`; `None` if it is not complete.
#[inline]
pub fn first_line(input: &[u8]) -> Option<Line<'_>> {
    let first = memchr::memchr2(b'\n', 0, input)?;
    if input[first] == 0 {
        // As memcached: what is behind a zero byte is not looked at.
        let end = first + memchr::memchr(b'\n', &input[first..])?;
        let bytes = without_return(&input[..end]);
        return Some(Line {
            bytes: &bytes[..first.min(bytes.len())],
            len: end + 1,
        });
    }
    let (bytes, end) = (without_return(&input[..first]), first);
    Some(Line { bytes, len: end + 1 })
}

/// A line of one `\r` keeps it, as in memcached.
fn without_return(line: &[u8]) -> &[u8] {
    match line {
        [bytes @ .., b'\r'] if !bytes.is_empty() => bytes,
        bytes => bytes,
    }
}

/// A storage command's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLine<'a> {
    /// Which of the six.
    pub verb: StoreVerb,
    /// The key.
    pub key: &'a [u8],
    /// Client flags.
    pub flags: u32,
    /// Wire exptime, 32 bits of it.
    pub exptime: i64,
    /// Bytes of the data block, without its line end.
    pub value_len: usize,
    /// The CAS number of `cas`.
    pub cas: Option<u64>,
}

/// What a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Items by their keys, which follow in the line.
    Get {
        /// Answer CAS numbers too.
        cas: bool,
        /// New exptime of what is found.
        touch: Option<i64>,
        /// The rest of the line: keys and blanks.
        keys: &'a [u8],
    },
    /// A data block follows the line.
    Store(StoreLine<'a>),
    /// A deletion.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Arithmetic.
    Arith {
        /// The key.
        key: &'a [u8],
        /// How much.
        delta: u64,
        /// Subtract.
        decrement: bool,
    },
    /// A new exptime.
    Touch {
        /// The key.
        key: &'a [u8],
        /// Wire exptime.
        exptime: i64,
    },
    /// Everything goes, `delay` as a wire exptime.
    FlushAll {
        /// 0: now.
        delay: i64,
    },
    /// How much the server says.
    Verbosity {
        /// From 0.
        level: u64,
    },
    /// The version.
    Version,
    /// Statistics; the words after `stats`.
    Stats(&'a [u8]),
    /// Close.
    Quit,
    /// Stop the server.
    Shutdown {
        /// `graceful`: answer what was received first; nothing: at once; anything else is no mode.
        mode: &'a [u8],
    },
    /// A new memory limit.
    CacheMemlimit {
        /// In units of 2^20 bytes.
        megabytes: u64,
    },
    /// About insides that this server does not have; the whole line.
    Insides(Insides, &'a [u8]),
    /// A meta command and its line; see [`crate::meta`].
    Meta(Shape),
    /// An HTTP request: the peer is no client of ours.
    Http,
}

/// A parsed line: the request or the words of its refusal, and whether the peer wants no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// What to do, or what to answer instead.
    pub request: Result<Request<'a>, Words>,
    /// `noreply` was given: nothing is answered, not even an error that is found after it.
    pub noreply: bool,
}

impl<'a> Parsed<'a> {
    fn refused(words: Words) -> Parsed<'a> {
        Parsed {
            request: Err(words),
            noreply: false,
        }
    }

    fn plain(request: Request<'a>) -> Parsed<'a> {
        Parsed {
            request: Ok(request),
            noreply: false,
        }
    }
}

/// Reads a command line. Cost: one pass, no allocation.
pub fn parse(line: &[u8]) -> Parsed<'_> {
    let Some((verb, rest)) = next_token(line) else {
        return Parsed::refused(reply::ERROR);
    };
    let Some(command) = command::find(verb) else {
        let last = Tokens::cut(line).last();
        // As memcached, which looks for other commands first under their initial.
        let looks_like_get = verb[0] == b'g';
        return if last.starts_with(b"HTTP/") && !looks_like_get {
            Parsed::plain(Request::Http)
        } else {
            Parsed::refused(reply::ERROR)
        };
    };
    match command.shape {
        Shape::Get { cas, touch } => parse_get(rest, cas, touch),
        Shape::MetaGet | Shape::MetaSet | Shape::MetaDelete | Shape::MetaArith
            if next_token(rest).is_none() =>
        {
            Parsed::refused(reply::ERROR)
        }
        Shape::MetaGet
        | Shape::MetaSet
        | Shape::MetaDelete
        | Shape::MetaArith
        | Shape::MetaNoop
        | Shape::MetaDebug
        | Shape::Why => Parsed::plain(Request::Meta(command.shape)),
        Shape::Store(verb) => {
            parse_plain_store(verb, rest).unwrap_or_else(|| parse_store(verb, command.tokens, rest))
        }
        _ => parse_tokens(command, line, rest),
    }
}

fn parse_get(rest: &[u8], cas: bool, touch: bool) -> Parsed<'_> {
    let Some((first, after)) = next_token(rest) else {
        return Parsed::refused(reply::ERROR);
    };
    if !touch {
        return Parsed::plain(Request::Get {
            cas,
            touch: None,
            keys: rest,
        });
    }
    match parse_exptime(first) {
        Some(exptime) => Parsed::plain(Request::Get {
            cas,
            touch: Some(exptime),
            keys: after,
        }),
        None => Parsed::refused(reply::BAD_EXPTIME),
    }
}

fn parse_tokens<'a>(command: &Command, line: &'a [u8], rest: &'a [u8]) -> Parsed<'a> {
    let tokens = Tokens::cut(line);
    let (least, most) = command.tokens;
    if tokens.count() < least || tokens.count() > most {
        return Parsed::refused(reply::ERROR);
    }
    let says_noreply = tokens.last() == b"noreply";
    let (request, noreply) = match command.shape {
        Shape::Delete => return parse_delete(&tokens, says_noreply),
        Shape::Arith { decrement } => (parse_arith(&tokens, decrement), says_noreply),
        Shape::Touch => (parse_touch(&tokens), says_noreply),
        Shape::FlushAll => (parse_flush(&tokens, says_noreply), says_noreply),
        Shape::Verbosity => (parse_verbosity(&tokens), says_noreply),
        Shape::CacheMemlimit => {
            let megabytes = parse_u64(tokens.get(1)).ok_or(reply::ERROR);
            (
                megabytes.map(|megabytes| Request::CacheMemlimit { megabytes }),
                says_noreply,
            )
        }
        Shape::Shutdown => (Ok(Request::Shutdown { mode: tokens.get(1) }), false),
        Shape::Version => (Ok(Request::Version), false),
        Shape::Stats => (Ok(Request::Stats(rest)), false),
        Shape::Quit => (Ok(Request::Quit), false),
        Shape::Insides(insides) => (Ok(Request::Insides(insides, line)), false),
        Shape::Get { .. }
        | Shape::Store(_)
        | Shape::MetaGet
        | Shape::MetaSet
        | Shape::MetaDelete
        | Shape::MetaArith
        | Shape::MetaNoop
        | Shape::MetaDebug
        | Shape::Why => (Err(reply::ERROR), false),
    };
    Parsed { request, noreply }
}

fn key<'a>(tokens: &Tokens<'a>) -> Result<&'a [u8], Words> {
    check_key(tokens.get(1))
}

#[inline]
fn check_key(key: &[u8]) -> Result<&[u8], Words> {
    if key.len() <= KEY_LEN_MAX {
        Ok(key)
    } else {
        Err(reply::BAD_FORMAT)
    }
}

/// An exptime: read with 64 bits, kept with 32, as memcached does.
pub(crate) fn parse_exptime(token: &[u8]) -> Option<i64> {
    parse_i64(token).map(|number| i64::from(number as i32))
}

/// Client flags: read with 64 bits, kept with 32, as memcached does.
pub(crate) fn parse_flags(token: &[u8]) -> Option<u32> {
    parse_u64(token).map(|number| number as u32)
}

/// The length of a data block. One beyond 32 bits is refused; memcached takes its low bits and loses the stream.
pub(crate) fn parse_value_len(token: &[u8]) -> Option<usize> {
    let len = parse_i64(token)?;
    (0..=i64::from(VALUE_LEN_MAX))
        .contains(&len)
        .then_some(len as usize)
}

/// A storage command's line as nearly all are written: single blanks, and numbers of digits only. `None`: it has to be read the
/// long way, which says the same of such a line.
#[inline]
fn parse_plain_store(verb: StoreVerb, rest: &[u8]) -> Option<Parsed<'_>> {
    let (line, rest) = plain_store(verb, rest).filter(|_| verb != StoreVerb::Cas)?;
    let noreply = !rest.is_empty();
    if noreply && rest != b" noreply" {
        return None;
    }
    Some(Parsed {
        request: Ok(Request::Store(line)),
        noreply,
    })
}

/// What follows on the verb of a storage command without a CAS number, and what follows on that.
#[inline(always)]
fn plain_store(verb: StoreVerb, rest: &[u8]) -> Option<(StoreLine<'_>, &[u8])> {
    let rest = rest.strip_prefix(b" ")?;
    let start = &rest[..rest.len().min(KEY_LEN_MAX + 1)];
    // Whoever has not looked for the line's end yet learns here that it does not come before.
    let key_len = bytes::find_at_most(start, b' ').filter(|len| *len > 0 && start[*len] == b' ')?;
    let (key, rest) = rest.split_at(key_len);
    let (flags, rest) = digits(rest)?;
    let (exptime, rest) = digits(rest)?;
    let (value_len, rest) = digits(rest)?;
    if value_len > VALUE_LEN_MAX as u64 {
        return None;
    }
    let line = StoreLine {
        verb,
        key,
        flags: flags as u32,
        exptime: i64::from(exptime as i32),
        value_len: value_len as usize,
        cas: None,
    };
    Some((line, rest))
}

/// A `set` with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeSet<'a> {
    /// Its line.
    pub line: StoreLine<'a>,
    /// Whether it is to be answered with nothing.
    pub noreply: bool,
    /// The data block without its line end.
    pub value: &'a [u8],
    /// Bytes of the whole request.
    pub len: usize,
}

/// The `set` that `input` starts with, if it has come wholly and is written as nearly all are: single blanks, numbers of digits only,
/// both line ends of two bytes. `None`: it has to be read the long way, which says the same of such a one. Cost: the line is read
/// once, of the value only the end.
#[inline(always)]
pub fn whole_set(input: &[u8]) -> Option<WholeSet<'_>> {
    let (line, rest) = plain_store(StoreVerb::Set, input.strip_prefix(b"set")?)?;
    let (noreply, rest) = match rest.strip_prefix(b"\r\n") {
        Some(rest) => (false, rest),
        None => (true, rest.strip_prefix(b" noreply\r\n")?),
    };
    let (value, rest) = rest.split_at_checked(line.value_len)?;
    let rest = rest.strip_prefix(b"\r\n")?;
    Some(WholeSet {
        line,
        noreply,
        value,
        len: input.len() - rest.len(),
    })
}

/// The number of digits that `rest` starts with behind a blank, and what follows on it. Few enough for any number of 63 bits.
#[inline(always)]
fn digits(rest: &[u8]) -> Option<(u64, &[u8])> {
    const DIGITS_MAX: usize = 18;
    // Most flags and exptimes are one digit.
    if let [b' ', digit @ b'0'..=b'9', b' ', ..] = rest {
        return Some((u64::from(digit - b'0'), &rest[2..]));
    }
    let text = rest.strip_prefix(b" ")?;
    let mut number = 0_u64;
    for (at, byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (at > 0).then_some((number, &text[at..]));
        }
        if at == DIGITS_MAX {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    (!text.is_empty()).then_some((number, &[]))
}

/// Words behind the verb of a storage command: key, flags, exptime, length, CAS number, `noreply`.
const STORE_WORDS_MAX: usize = 6;

/// The `rest` of a storage command's line, which has so many tokens at least and at most, its verb counted. With room for so many
/// words only: to clear that for as many as a line may have took longer than to read this one.
fn parse_store(verb: StoreVerb, (least, most): (usize, usize), rest: &[u8]) -> Parsed<'_> {
    let (mut words, mut count, mut left) = ([b"".as_slice(); STORE_WORDS_MAX], 0, rest);
    while let Some((word, after)) = next_token(left) {
        if count + 1 == most {
            return Parsed::refused(reply::ERROR);
        }
        words[count] = word;
        count += 1;
        left = after;
    }
    if count + 1 < least {
        return Parsed::refused(reply::ERROR);
    }
    Parsed {
        request: store_line(verb, &words).map(Request::Store),
        noreply: words[count - 1] == b"noreply",
    }
}

#[inline]
fn store_line<'a>(verb: StoreVerb, words: &[&'a [u8]; STORE_WORDS_MAX]) -> Result<StoreLine<'a>, Words> {
    let key = check_key(words[0])?;
    let flags = parse_flags(words[1]).ok_or(reply::BAD_FORMAT)?;
    let exptime = parse_exptime(words[2]).ok_or(reply::BAD_FORMAT)?;
    let value_len = parse_value_len(words[3]).ok_or(reply::BAD_FORMAT)?;
    let cas = match verb {
        StoreVerb::Cas => Some(parse_u64(words[4]).ok_or(reply::BAD_FORMAT)?),
        _ => None,
    };
    Ok(StoreLine {
        verb,
        key,
        flags,
        exptime,
        value_len,
        cas,
    })
}

fn parse_delete<'a>(tokens: &Tokens<'a>, says_noreply: bool) -> Parsed<'a> {
    // An old client's hold time of 0 is let pass.
    let zero = tokens.get(2) == b"0";
    let (valid, noreply) = match tokens.count() {
        2 => (true, false),
        3 => (zero || says_noreply, says_noreply),
        _ => (zero && says_noreply, says_noreply),
    };
    let request = if valid {
        key(tokens).map(|key| Request::Delete { key })
    } else {
        Err(reply::BAD_DELETE)
    };
    Parsed { request, noreply }
}

fn parse_arith<'a>(tokens: &Tokens<'a>, decrement: bool) -> Result<Request<'a>, Words> {
    let key = key(tokens)?;
    let delta = parse_u64(tokens.get(2)).ok_or(reply::BAD_DELTA)?;
    Ok(Request::Arith {
        key,
        delta,
        decrement,
    })
}

fn parse_touch<'a>(tokens: &Tokens<'a>) -> Result<Request<'a>, Words> {
    let key = key(tokens)?;
    let exptime = parse_exptime(tokens.get(2)).ok_or(reply::BAD_EXPTIME)?;
    Ok(Request::Touch { key, exptime })
}

fn parse_flush<'a>(tokens: &Tokens<'a>, noreply: bool) -> Result<Request<'a>, Words> {
    if tokens.count() == 1 + usize::from(noreply) {
        return Ok(Request::FlushAll { delay: 0 });
    }
    let delay = parse_exptime(tokens.get(1)).ok_or(reply::BAD_EXPTIME)?;
    Ok(Request::FlushAll { delay })
}

fn parse_verbosity<'a>(tokens: &Tokens<'a>) -> Result<Request<'a>, Words> {
    if tokens.get(1) == b"noreply" && tokens.count() == 2 {
        return Err(reply::ERROR);
    }
    let level = parse_u64(tokens.get(1)).ok_or(reply::BAD_FORMAT)?;
    Ok(Request::Verbosity { level })
}

#[cfg(test)]
mod tests {
    use super::{
        Line, Parsed, Request, StoreVerb, first_line, parse, parse_plain_store, parse_store, whole_set,
    };
    use crate::reply;

    #[test]
    fn lines_end_with_or_without_carriage_return() {
        let check = |input: &[u8], line: Option<(&[u8], usize)>| {
            assert_eq!(first_line(input).map(|Line { bytes, len }| (bytes, len)), line);
        };
        check(b"get k\r\nmore", Some((b"get k", 7)));
        check(b"get k\n", Some((b"get k", 6)));
        check(b"\n", Some((b"", 1)));
        check(b"\r\n", Some((b"\r", 2)));
        check(b"get k\r", None);
    }

    #[test]
    fn refusals_have_memcacheds_words_and_noreply_covers_what_comes_after_it() {
        let check = |line: &str, words: &str, noreply: bool| {
            let parsed = parse(line.as_bytes());
            assert_eq!(
                (parsed.request, parsed.noreply),
                (Err(words_of(words)), noreply),
                "{line}"
            );
        };
        check("", "ERROR", false);
        check("gett k", "ERROR", false);
        check("set k 0 0", "ERROR", false);
        check("set k 0 0 noreply", reply::BAD_FORMAT, true);
        check("set k -1 0 1", reply::BAD_FORMAT, false);
        check("delete k 5", reply::BAD_DELETE, false);
        check("incr k x", reply::BAD_DELTA, false);
        check("touch k x noreply", reply::BAD_EXPTIME, true);
        check("cas k 0 0 1", "ERROR", false);
    }

    #[test]
    fn a_storage_command_means_the_same_however_it_is_read() {
        fn read(line: &str) -> (Option<Parsed<'_>>, Parsed<'_>) {
            let (verb, rest) = (StoreVerb::Set, line.as_bytes());
            (parse_plain_store(verb, rest), parse_store(verb, (5, 6), rest))
        }
        let plain = [
            " k 0 0 1",
            " key:1 4294967297 2592001 100 noreply",
            " k 0 4294967295 2147483645",
            " k 000000000000000007 1 2",
        ];
        for line in plain {
            let (short, long) = read(line);
            assert_eq!(short, Some(long), "{line}");
        }
        let words = [
            "",
            " ",
            "  ",
            "k",
            " k",
            " 0",
            " -1",
            " 12",
            " +1",
            " 1x",
            " noreply",
            " 99999999999999999999",
        ];
        let numbers = |mut number: usize| {
            let mut line = String::from(" k");
            for _ in 0..5 {
                line.push_str(words[number % words.len()]);
                number /= words.len();
            }
            line
        };
        for number in 0..words.len().pow(5) {
            let line = numbers(number);
            let (short, long) = read(&line);
            assert!(short.is_none_or(|short| short == long), "{line:?}");
        }
    }

    #[test]
    fn a_whole_set_says_what_its_line_says_or_nothing() {
        let check = |input: &str, wanted: Option<(&str, usize)>| {
            let found = whole_set(input.as_bytes());
            let said = found.map(|set| (std::str::from_utf8(set.value).unwrap(), set.len));
            assert_eq!(said, wanted, "{input:?}");
            let Some(set) = found else {
                return;
            };
            let line = first_line(input.as_bytes()).unwrap();
            let parsed = parse(line.bytes);
            assert_eq!(parsed.request, Ok(Request::Store(set.line)), "{input:?}");
            assert_eq!(parsed.noreply, set.noreply, "{input:?}");
            assert_eq!(set.len, line.len + set.value.len() + 2, "{input:?}");
        };
        check("set k 0 0 3\r\nabc\r\nset", Some(("abc", 18)));
        check("set key 7 60 0 noreply\r\n\r\n", Some(("", 26)));
        check("set k 4294967297 4294967295 1\r\n\n\r\n", Some(("\n", 34)));
        let longest = format!("set {} 0 0 1\r\nx\r\n", "k".repeat(250));
        check(&longest, Some(("x", 265)));
        for cut in 0..longest.len() {
            check(&longest[..cut], None);
        }
        for unusual in [
            "set k 0 0 3\nabc\r\n",
            "set k 0 0 3\r\nabcd\r\n",
            "set k 0 0 3\r\nab\r\n",
            "set k 0 0 3 \r\nabc\r\n",
            "set k 0 0 3 noreply \r\nabc\r\n",
            "set k 0 0 3 norepl\r\nabc\r\n",
            "set  k 0 0 3\r\nabc\r\n",
            "set k -1 0 3\r\nabc\r\n",
            "set k 0 -1 3\r\nabc\r\n",
            "set k 0 0 -1\r\n\r\n",
            "set k 0 0 99999999999999999999\r\n",
            "set k 0 0 4294967296\r\n",
            "set  0 0 3\r\nabc\r\n",
            "set k\n 0 0 3\r\nabc\r\n",
            "set k\r\n 0 0 3\r\nabc\r\n",
            "setk 0 0 3\r\nabc\r\n",
            "get k\r\n",
        ] {
            check(unusual, None);
        }
        check(&format!("set {} 0 0 1\r\nx\r\n", "k".repeat(251)), None);
    }

    #[test]
    fn what_looks_like_a_set_is_none_unless_its_line_says_so() {
        const WORDS: [&str; 14] = [
            "set", "set k", " ", " k", "key", " 0", " 1", " 2", "\r\n", "\r\n", "\n", "\r", " noreply", "x",
        ];
        let (mut state, mut sets) = (1_u64, 0);
        for _ in 0..1_000_000 {
            let mut input = String::from(["set", "set k"][(state >> 40) as usize % 2]);
            for _ in 0..9 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                input.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
            }
            sets += usize::from(whole_set(input.as_bytes()).is_some());
            crate::fuzz::text(input.as_bytes());
        }
        assert!(sets > 100, "{sets} sets");
    }

    fn words_of(words: &str) -> &'static str {
        [
            reply::ERROR,
            reply::BAD_FORMAT,
            reply::BAD_DELETE,
            reply::BAD_DELTA,
            reply::BAD_EXPTIME,
        ]
        .into_iter()
        .find(|known| *known == words)
        .unwrap()
    }

    #[test]
    fn http_requests_are_known_by_their_last_word() {
        assert_eq!(parse(b"GET / HTTP/1.1").request, Ok(Request::Http));
        assert_eq!(
            parse(b"get HTTP/1.1").request,
            Ok(Request::Get {
                cas: false,
                touch: None,
                keys: b" HTTP/1.1"
            })
        );
    }
}
