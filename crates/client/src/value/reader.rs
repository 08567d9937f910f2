//! Reads bytes that nobody vouches for: every format reads through this one, so that bounds are checked in one place.

use super::{Error, Limits, Value};

/// A place in bytes, and how much may still be made of them.
pub(super) struct Reader<'a> {
    format: &'static str,
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    depth: usize,
    /// How many references are being followed.
    again: usize,
    values: usize,
    bytes_made: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(format: &'static str, bytes: &'a [u8], limits: &'a Limits) -> Self {
        Self {
            format,
            bytes,
            at: 0,
            limits,
            depth: 0,
            again: 0,
            values: 0,
            bytes_made: 0,
        }
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn seek(&mut self, offset: usize) {
        self.at = offset;
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The error that something at the present offset is not of this format.
    pub(super) fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed {
            format: self.format,
            offset: self.at,
            what,
        }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        if len > self.remaining() {
            return Err(self.malformed("ends too early"));
        }
        self.spend_bytes(len)?;
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let Some(byte) = self.peek() else {
            return Err(self.malformed("ends too early"));
        };
        self.at += 1;
        Ok(byte)
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// An unsigned number of `width` bytes, at most 8, the highest first.
    pub(super) fn number(&mut self, width: usize) -> Result<u64, Error> {
        Ok(self
            .take(width)?
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A length or count of `width` bytes, the highest first.
    pub(super) fn length(&mut self, width: usize) -> Result<usize, Error> {
        let number = self.number(width)?;
        usize::try_from(number).map_err(|_| self.malformed("length beyond memory"))
    }

    pub(super) fn expect(&mut self, bytes: &[u8], what: &'static str) -> Result<(), Error> {
        if !self.bytes[self.at..].starts_with(bytes) {
            return Err(self.malformed(what));
        }
        self.at += bytes.len();
        Ok(())
    }

    /// What stands before `end`, which is consumed too.
    pub(super) fn until(&mut self, end: u8) -> Result<&'a [u8], Error> {
        let Some(len) = self.bytes[self.at..].iter().position(|&byte| byte == end) else {
            return Err(self.malformed("ends too early"));
        };
        let taken = self.take(len)?;
        self.at += 1;
        Ok(taken)
    }

    /// A decimal number, up to `end`.
    pub(super) fn decimal<N: std::str::FromStr>(&mut self, end: u8) -> Result<N, Error> {
        let start = self.at;
        let digits = self.until(end)?;
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or(Error::Malformed {
                format: self.format,
                offset: start,
                what: "not a number, or one too great",
            })
    }

    /// Counts a value that is about to be made.
    pub(super) fn spend(&mut self) -> Result<(), Error> {
        self.values += 1;
        if self.values > self.limits.values_max {
            return Err(Error::Beyond {
                what: "values in one",
                limit: self.limits.values_max,
            });
        }
        Ok(())
    }

    /// Counts bytes that are about to be made; those that are [taken](Self::take) count by themselves, each time.
    pub(super) fn spend_bytes(&mut self, len: usize) -> Result<(), Error> {
        self.bytes_made = self.bytes_made.saturating_add(len);
        if self.bytes_made > self.limits.bytes_max {
            return Err(Error::Beyond {
                what: "bytes in one",
                limit: self.limits.bytes_max,
            });
        }
        Ok(())
    }

    /// Goes one level deeper; [`leave`](Self::leave) comes back.
    pub(super) fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > self.limits.depth_max {
            return Err(Error::Beyond {
                what: "levels of nesting",
                limit: self.limits.depth_max,
            });
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Goes to `offset`, to read again what a reference means; [`come_back`](Self::come_back), with what this returns, goes on
    /// behind the reference. One that contains itself ends at the limit of nesting.
    pub(super) fn go_back(&mut self, offset: usize) -> Result<usize, Error> {
        self.enter()?;
        self.again += 1;
        Ok(std::mem::replace(&mut self.at, offset))
    }

    pub(super) fn come_back(&mut self, offset: usize) {
        self.again -= 1;
        self.leave();
        self.at = offset;
    }

    /// Whether what is read was read before: it is not counted again as what references may mean.
    pub(super) fn is_again(&self) -> bool {
        self.again > 0
    }

    /// Room for `announced` elements, as far as the bytes that are there may hold them: half as many with each level, so that
    /// nesting does not multiply it. The rest grows as it arrives.
    pub(super) fn room<T>(&self, announced: usize) -> Vec<T> {
        let half = u32::try_from(self.depth)
            .ok()
            .and_then(|depth| self.remaining().checked_shr(depth));
        Vec::with_capacity(announced.min(half.unwrap_or(0).max(16)))
    }

    /// `value`, if nothing follows it.
    pub(super) fn end(self, value: Value) -> Result<Value, Error> {
        if self.remaining() > 0 {
            return Err(self.malformed("goes on after its end"));
        }
        Ok(value)
    }
}

/// Gathers the pairs of a PHP array: a list as long as keys count up from 0.
pub(super) struct Gather {
    list: Vec<Value>,
    map: Option<Vec<(super::Key, Value)>>,
}

impl Gather {
    pub(super) fn new(room: Vec<Value>) -> Self {
        Self {
            list: room,
            map: None,
        }
    }

    pub(super) fn push(&mut self, key: super::Key, value: Value) {
        if let Some(map) = &mut self.map {
            map.push((key, value));
        } else if key == super::Key::Int(self.list.len() as i64) {
            self.list.push(value);
        } else {
            let list = std::mem::take(&mut self.list);
            // With the room that was made for the list.
            let mut map = Vec::with_capacity(list.capacity());
            map.extend((0..).map(super::Key::Int).zip(list));
            map.push((key, value));
            self.map = Some(map);
        }
    }

    pub(super) fn value(self) -> Value {
        self.map.map_or(Value::List(self.list), Value::Map)
    }

    /// The pairs, for the properties of an object.
    pub(super) fn pairs(self) -> Vec<(super::Key, Value)> {
        match self.map {
            Some(map) => map,
            None => (0..).map(super::Key::Int).zip(self.list).collect(),
        }
    }
}
