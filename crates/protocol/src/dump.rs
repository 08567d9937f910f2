//! Lists of keys: what may be asked for, and the lines that answer it, for the side that writes them and the side that reads.
//!
//! ```text
//! lru_crawler metadump|mgdump all|hash|CLASS[,CLASS...] [WORD...]
//! WORD: prefix=KEY  size>=N size<=N  age>=N age<=N  ttl>=N ttl<=N  limit=N  from=CURSOR
//! ```
//! Up to the classes it is memcached's; a server that does not know the words behind them answers `ERROR`. Keys are
//! percent-encoded, in the lines and behind `prefix=`.

use std::ops::RangeInclusive;

use scrubjay_base::number::parse_u64;

use crate::reply::{self, Words};
use crate::tokens::Tokens;

/// What is written for each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `metadump`: what is known of it.
    Facts,
    /// `mgdump`: a command that gets it.
    Gets,
    /// `stats cachedump`: key, length of the value, exptime.
    Items,
}

/// Which items are wanted; by default all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// What the key begins with.
    pub prefix: Vec<u8>,
    /// Bytes that the item takes, as the server counts them.
    pub size: RangeInclusive<u64>,
    /// Seconds since the last access.
    pub age: RangeInclusive<u64>,
    /// Seconds left to live; what never expires has more than any number of them.
    pub ttl: RangeInclusive<u64>,
}

impl Default for Filter {
    fn default() -> Filter {
        let all = 0..=u64::MAX;
        Filter {
            prefix: Vec::new(),
            size: all.clone(),
            age: all.clone(),
            ttl: all,
        }
    }
}

impl Filter {
    /// Whether an item is wanted.
    pub fn admits(&self, key: &[u8], size: u64, age: u64, ttl: Option<u64>) -> bool {
        key.starts_with(&self.prefix)
            && self.size.contains(&size)
            && self.age.contains(&age)
            && self.ttl.contains(&ttl.unwrap_or(u64::MAX))
    }

    /// Narrows it by a word of a line; `None` if it is no such word.
    fn take(&mut self, word: &[u8]) -> Option<()> {
        if let Some(prefix) = word.strip_prefix(b"prefix=") {
            self.prefix = percent_decode(prefix)?;
            return Some(());
        }
        let (name, bound) = word.split_at_checked(3)?;
        let (range, bound) = match (name, bound) {
            (b"siz", [b'e', bound @ ..]) => (&mut self.size, bound),
            (b"age", bound) => (&mut self.age, bound),
            (b"ttl", bound) => (&mut self.ttl, bound),
            _ => return None,
        };
        let (sign, number) = bound.split_at_checked(2)?;
        let number = parse_u64(number)?;
        *range = match sign {
            b">=" => number..=*range.end(),
            b"<=" => *range.start()..=number,
            _ => return None,
        };
        Some(())
    }

    /// The words that say it, a blank before each.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if !self.prefix.is_empty() {
            out.extend_from_slice(b" prefix=");
            percent_encode(out, &self.prefix);
        }
        for (name, range) in [("size", &self.size), ("age", &self.age), ("ttl", &self.ttl)] {
            if *range.start() > 0 {
                out.extend_from_slice(format!(" {name}>={}", range.start()).as_bytes());
            }
            if *range.end() < u64::MAX {
                out.extend_from_slice(format!(" {name}<={}", range.end()).as_bytes());
            }
        }
    }
}

/// Which size classes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// All.
    All,
    /// Those whose bits are set; the first class has bit 1.
    Some(u128),
}

impl Classes {
    /// Highest number of a class.
    pub const MAX: u64 = 127;

    /// Whether class `number`, from 1, is among them.
    pub fn contain(self, number: usize) -> bool {
        match self {
            Classes::All => true,
            Classes::Some(set) => number < 128 && set & (1 << number) != 0,
        }
    }

    fn parse(text: &[u8]) -> Result<Classes, Words> {
        if matches!(text, b"all" | b"hash") {
            return Ok(Classes::All);
        }
        let mut set = 0;
        for word in text.split(|&byte| byte == b',').filter(|word| !word.is_empty()) {
            match parse_u64(word) {
                Some(number @ 1..=Classes::MAX) => set |= 1 << number,
                _ => return Err(reply::BAD_CLASS),
            }
        }
        if set == 0 {
            return Err(reply::NOTHING_TO_CRAWL);
        }
        Ok(Classes::Some(set))
    }
}

/// An order for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// How items are listed.
    pub form: Form,
    /// Of which classes.
    pub classes: Classes,
    /// Which of them.
    pub filter: Filter,
    /// The cursor to go on from; 0 is the start.
    pub from: u64,
    /// After about so many items the list ends with the cursor behind them.
    pub limit: u64,
}

impl Order {
    /// Reads the line of a `metadump` or `mgdump`.
    ///
    /// # Errors
    /// With the words to answer.
    pub fn parse(tokens: &Tokens<'_>) -> Result<Order, Words> {
        let form = match tokens.get(1) {
            b"mgdump" => Form::Gets,
            _ => Form::Facts,
        };
        let mut order = Order {
            form,
            classes: Classes::parse(tokens.get(2))?,
            filter: Filter::default(),
            from: 0,
            limit: u64::MAX,
        };
        for word in tokens.all().iter().skip(3) {
            order.take(word).ok_or(reply::DUMP_WORDS)?;
        }
        Ok(order)
    }

    fn take(&mut self, word: &[u8]) -> Option<()> {
        if let Some(cursor) = word.strip_prefix(b"from=") {
            self.from = parse_cursor(cursor)?;
        } else if let Some(limit) = word.strip_prefix(b"limit=") {
            self.limit = parse_u64(limit).filter(|&limit| limit > 0)?;
        } else {
            self.filter.take(word)?;
        }
        Some(())
    }
}

/// A line of a `metadump`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<K> {
    /// The key.
    pub key: K,
    /// Unix second at which it expires.
    pub expires_at: Option<u64>,
    /// Unix second of the last access.
    pub accessed_at: u64,
    /// CAS number.
    pub cas: u64,
    /// Read since it was stored.
    pub fetched: bool,
    /// Its size class, from 1.
    pub class: u64,
    /// Bytes that it takes.
    pub size: u64,
    /// Client flags; memcached before 1.6.33 does not tell them.
    pub flags: Option<u32>,
}

impl Facts<&[u8]> {
    /// Appends the line, which ends without a return, as memcached's.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"key=");
        percent_encode(out, self.key);
        out.extend_from_slice(b" exp=");
        match self.expires_at {
            Some(second) => reply::number(out, second),
            None => out.extend_from_slice(b"-1"),
        }
        let numbers = [(" la=", self.accessed_at), (" cas=", self.cas)];
        for (name, number) in numbers {
            out.extend_from_slice(name.as_bytes());
            reply::number(out, number);
        }
        out.extend_from_slice(if self.fetched { b" fetch=yes" } else { b" fetch=no" });
        let numbers = [(" cls=", self.class), (" size=", self.size)];
        let flags = self.flags.map(|flags| (" flags=", u64::from(flags)));
        for (name, number) in numbers.into_iter().chain(flags) {
            out.extend_from_slice(name.as_bytes());
            reply::number(out, number);
        }
        out.push(b'\n');
    }
}

impl Facts<Vec<u8>> {
    /// Reads a line without its end; `None` if it is no such line. What it does not know it passes over.
    pub fn parse(line: &[u8]) -> Option<Facts<Vec<u8>>> {
        let mut words = line.split(|&byte| byte == b' ');
        let mut facts = Facts {
            key: percent_decode(words.next()?.strip_prefix(b"key=")?)?,
            expires_at: None,
            accessed_at: 0,
            cas: 0,
            fetched: false,
            class: 0,
            size: 0,
            flags: None,
        };
        for word in words {
            let Some(at) = word.iter().position(|&byte| byte == b'=') else {
                continue;
            };
            let (name, value) = (&word[..at], &word[at + 1..]);
            match name {
                b"exp" if value == b"-1" => {}
                b"exp" => facts.expires_at = Some(parse_u64(value)?),
                b"la" => facts.accessed_at = parse_u64(value)?,
                b"cas" => facts.cas = parse_u64(value)?,
                b"fetch" => facts.fetched = value == b"yes",
                b"cls" => facts.class = parse_u64(value)?,
                b"size" => facts.size = parse_u64(value)?,
                b"flags" => facts.flags = u32::try_from(parse_u64(value)?).ok(),
                _ => {}
            }
        }
        Some(facts)
    }
}

/// Appends a line of an `mgdump`.
pub fn encode_get(out: &mut Vec<u8>, key: &[u8], key_is_binary: bool) {
    let room = b"mg \r\n".len() + reply::key_len_max(key.len());
    reply::Line::append(out, room, |line| {
        line.push(*b"mg ").key(key, key_is_binary).push(*b"\r\n")
    });
}

/// Appends a line of a `stats cachedump`. A key that would break the line is percent-encoded.
pub fn encode_item(out: &mut Vec<u8>, key: &[u8], value_len: usize, expires_at: Option<u64>) {
    out.extend_from_slice(b"ITEM ");
    if key.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
        percent_encode(out, key);
    } else {
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b" [");
    reply::number(out, value_len as u64);
    out.extend_from_slice(b" b; ");
    reply::number(out, expires_at.unwrap_or(0));
    out.extend_from_slice(b" s]\r\n");
}

/// Appends the last line of a list, with the cursor to go on from if there is one.
pub fn encode_end(out: &mut Vec<u8>, form: Form, next: Option<u64>) {
    let end = if form == Form::Gets { "EN" } else { "END" };
    match next {
        Some(next) => reply::line(out, &format!("{end} next={next:016x}")),
        None => reply::line(out, end),
    }
}

/// Reads the last line of a list without its end, as the cursor to go on from if there is one; `None` if it is another line.
pub fn parse_end(line: &[u8]) -> Option<Option<u64>> {
    let rest = line.strip_prefix(b"END").or_else(|| line.strip_prefix(b"EN"))?;
    match rest {
        b"" => Some(None),
        rest => Some(Some(parse_cursor(rest.strip_prefix(b" next=")?)?)),
    }
}

/// Reads a cursor as a line says it.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let is_plain = text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_plain)?;
    u64::from_str_radix(text, 16).ok()
}

/// Appends `bytes` so that only letters, digits, and `-._~` stand for themselves.
pub fn percent_encode(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let (high, low) = (byte >> 4, byte & 15);
            out.extend_from_slice(&[b'%', DIGITS[usize::from(high)], DIGITS[usize::from(low)]]);
        }
    }
}

/// The reverse; `None` if two digits do not follow on a percent sign.
pub fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        bytes.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Classes, Facts, Filter, Form, Order, encode_end, encode_get, encode_item, parse_end};
    use crate::reply;
    use crate::tokens::Tokens;

    fn order(line: &str) -> Result<Order, &'static str> {
        Order::parse(&Tokens::cut(line.as_bytes()))
    }

    #[test]
    fn an_order_is_read_and_what_it_does_not_know_is_refused() {
        let plain = order("lru_crawler metadump all").expect("plain");
        assert_eq!(plain.filter, Filter::default());
        assert_eq!(
            (plain.form, plain.classes, plain.from, plain.limit),
            (Form::Facts, Classes::All, 0, u64::MAX)
        );
        let all = order("lru_crawler mgdump hash prefix=a%20b size>=5 size<=9 ttl>=1 age<=7 limit=3 from=ff")
            .expect("full");
        assert_eq!((all.form, all.from, all.limit), (Form::Gets, 255, 3));
        assert_eq!(all.filter.prefix, b"a b");
        assert_eq!(
            (all.filter.size, all.filter.age, all.filter.ttl),
            (5..=9, 0..=7, 1..=u64::MAX)
        );
        let classes = order("lru_crawler metadump 1,,3,105").expect("classes").classes;
        let contained: Vec<usize> = (0..200).filter(|&number| classes.contain(number)).collect();
        assert_eq!(contained, [1, 3, 105]);
        for classes in ["0", "128", "x", "1,x", "-1"] {
            assert_eq!(
                order(&format!("lru_crawler metadump {classes}")),
                Err(reply::BAD_CLASS)
            );
        }
        assert_eq!(order("lru_crawler metadump ,"), Err(reply::NOTHING_TO_CRAWL));
        for word in [
            "x",
            "size=5",
            "size>5",
            "ttl>=",
            "ttl<=x",
            "prefix=%4",
            "prefix=%zz",
            "limit=0",
            "from=g",
            "from=+1",
            "si",
        ] {
            let line = format!("lru_crawler metadump all {word}");
            assert_eq!(order(&line), Err(reply::DUMP_WORDS), "{word}");
        }
    }

    #[test]
    fn a_filter_is_read_as_it_is_written() {
        let mut filter = Filter {
            prefix: b"\0 %ab".to_vec(),
            size: 0..=100,
            age: 5..=6,
            ttl: 7..=u64::MAX,
        };
        let mut line = b"lru_crawler metadump all".to_vec();
        filter.encode(&mut line);
        assert_eq!(
            order(std::str::from_utf8(&line).expect("text"))
                .expect("an order")
                .filter,
            filter
        );
        assert!(filter.admits(b"\0 %abc", 100, 5, None));
        assert!(filter.admits(b"\0 %ab", 0, 6, Some(7)));
        assert!(!filter.admits(b"\0 %a", 0, 6, Some(7)));
        assert!(!filter.admits(b"\0 %ab", 101, 6, Some(7)));
        assert!(!filter.admits(b"\0 %ab", 0, 7, Some(7)));
        assert!(!filter.admits(b"\0 %ab", 0, 6, Some(6)));
        filter.ttl = 0..=7;
        assert!(!filter.admits(b"\0 %ab", 0, 6, None));
    }

    fn facts<K>(key: K, expires_at: Option<u64>, flags: Option<u32>) -> Facts<K> {
        Facts {
            key,
            expires_at,
            accessed_at: 5,
            cas: u64::MAX,
            fetched: expires_at.is_some(),
            class: 105,
            size: 99,
            flags,
        }
    }

    #[test]
    fn facts_are_read_as_they_are_written() {
        let every: Vec<u8> = (0..=255).collect();
        let mut line = Vec::new();
        facts(&b"a%b~"[..], None, Some(7)).encode(&mut line);
        assert_eq!(
            String::from_utf8_lossy(&line),
            "key=a%25b~ exp=-1 la=5 cas=18446744073709551615 fetch=no cls=105 size=99 flags=7\n"
        );
        for (expires_at, flags) in [(None, None), (Some(1_900_000_000), Some(u32::MAX))] {
            line.clear();
            facts(&every[..], expires_at, flags).encode(&mut line);
            line.pop();
            assert_eq!(Facts::parse(&line), Some(facts(every.clone(), expires_at, flags)));
        }
        for line in ["", "END", "key=a%2", "key=a exp=x", "ky=a exp=-1"] {
            assert_eq!(Facts::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn other_lines_are_as_memcached_writes_them() {
        let mut out = Vec::new();
        encode_get(&mut out, b"key", false);
        encode_get(&mut out, b"key", true);
        encode_get(&mut out, b"a b", false);
        encode_item(&mut out, b"key", 3, Some(9));
        encode_item(&mut out, b"a b", 3, None);
        encode_end(&mut out, Form::Gets, None);
        encode_end(&mut out, Form::Facts, Some(10));
        assert_eq!(
            String::from_utf8_lossy(&out),
            "mg key\r\nmg a2V5 b\r\nmg YSBi b\r\nITEM key [3 b; 9 s]\r\nITEM a%20b [3 b; 0 s]\r\nEN\r\nEND next=000000000000000a\r\n"
        );
        assert_eq!(parse_end(b"END"), Some(None));
        assert_eq!(parse_end(b"EN"), Some(None));
        assert_eq!(parse_end(b"END next=000000000000000a"), Some(Some(10)));
        assert_eq!(parse_end(b"ENDE"), None);
        assert_eq!(parse_end(b"key=a"), None);
    }
}
