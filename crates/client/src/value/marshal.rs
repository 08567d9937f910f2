//! Plain values out of Ruby's Marshal 4.8, as Dalli stores them: nil, bools, numbers, strings, symbols, arrays and hashes.
//!
//! Symbols become text. Links are copies, made by reading their target again.

use super::reader::Reader;
use super::{Error, Key, Limits, Value, number};

const NAME: &str = "Marshal";

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let mut reader = Reader::new(NAME, bytes, limits);
    reader.expect(&[4, 8], "not version 4.8")?;
    let mut parser = Parser {
        reader,
        symbols: Vec::new(),
        targets: Vec::new(),
    };
    let value = parser.value()?;
    parser.reader.end(value)
}

struct Parser<'a> {
    reader: Reader<'a>,
    symbols: Vec<String>,
    /// Where each object stands that a link may mean.
    targets: Vec<usize>,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Value, Error> {
        self.reader.spend()?;
        let start = self.reader.offset();
        let tag = self.reader.byte()?;
        if matches!(tag, b'"' | b'[' | b'{' | b'f' | b'l' | b'I') && !self.reader.is_again() {
            self.targets.push(start);
        }
        Ok(match tag {
            b'0' => Value::Null,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            b'i' => Value::Int(self.int()?),
            b'l' => Value::Int(self.great_int()?),
            b'f' => self.float()?,
            b'"' => Value::Bytes(self.bytes()?.to_vec()),
            b'I' => self.string()?,
            b':' | b';' => Value::Text(self.symbol(tag)?),
            b'[' => {
                let len = self.length()?;
                self.reader.enter()?;
                let mut list = self.reader.room(len);
                for _ in 0..len {
                    list.push(self.value()?);
                }
                self.reader.leave();
                Value::List(list)
            }
            b'{' => {
                let len = self.length()?;
                self.reader.enter()?;
                let mut map = self.reader.room(len);
                for _ in 0..len {
                    let Some(key) = Key::from_value(self.value()?) else {
                        return Err(self.reader.malformed("key that is neither number nor string"));
                    };
                    map.push((key, self.value()?));
                }
                self.reader.leave();
                Value::Map(map)
            }
            b'@' => self.follow()?,
            _ => return Err(self.reader.malformed("type that is no plain value")),
        })
    }

    /// One byte for what is near 0; else how many follow, the lowest first.
    fn int(&mut self) -> Result<i64, Error> {
        let first = self.reader.byte()?.cast_signed();
        Ok(match first {
            0 => 0,
            1..=4 | -4..=-1 => {
                let fill = if first < 0 { 0xff } else { 0 };
                let width = usize::from(first.unsigned_abs());
                let mut bytes = [fill; 8];
                bytes[..width].copy_from_slice(self.reader.take(width)?);
                i64::from_le_bytes(bytes)
            }
            5.. => i64::from(first) - 5,
            _ => i64::from(first) + 5,
        })
    }

    fn length(&mut self) -> Result<usize, Error> {
        let int = self.int()?;
        usize::try_from(int).map_err(|_| self.reader.malformed("length below 0"))
    }

    fn bytes(&mut self) -> Result<&[u8], Error> {
        let len = self.length()?;
        self.reader.take(len)
    }

    /// Beyond 31 bits: a sign, how many pairs of bytes, and those, the lowest first.
    fn great_int(&mut self) -> Result<i64, Error> {
        let sign = self.reader.byte()?;
        let len = self.length()?.saturating_mul(2);
        let bytes = self.reader.take(len)?;
        let mut magnitude = [0; 8];
        let int = match magnitude.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(bytes);
                let magnitude = u64::from_le_bytes(magnitude);
                if sign == b'-' {
                    0i64.checked_sub_unsigned(magnitude)
                } else {
                    i64::try_from(magnitude).ok()
                }
            }
            None => None,
        };
        int.ok_or_else(|| self.reader.malformed("number beyond 64 bits with sign"))
    }

    fn float(&mut self) -> Result<Value, Error> {
        let float = number::read_float(self.bytes()?);
        float
            .map(Value::Float)
            .ok_or_else(|| self.reader.malformed("not a number"))
    }

    /// A string and its encoding.
    fn string(&mut self) -> Result<Value, Error> {
        self.reader.expect(b"\"", "variables of what is no string")?;
        let bytes = self.bytes()?.to_vec();
        let mut unicode = false;
        for _ in 0..self.length()? {
            let tag = self.reader.byte()?;
            let name = self.symbol(tag)?;
            self.reader.enter()?;
            self.value()?;
            self.reader.leave();
            unicode |= name == "E";
        }
        Ok(if unicode {
            Value::from_bytes(&bytes)
        } else {
            Value::Bytes(bytes)
        })
    }

    fn symbol(&mut self, tag: u8) -> Result<String, Error> {
        match tag {
            b':' => {
                let bytes = self.bytes()?.to_vec();
                let name = String::from_utf8(bytes)
                    .map_err(|_| self.reader.malformed("symbol that is not UTF-8"))?;
                if !self.reader.is_again() {
                    self.symbols.push(name.clone());
                }
                Ok(name)
            }
            b';' => {
                let index = self.length()?;
                let Some(name) = self.symbols.get(index) else {
                    return Err(self.reader.malformed("symbol that was not there"));
                };
                self.reader.spend_bytes(name.len())?;
                Ok(name.clone())
            }
            _ => Err(self.reader.malformed("no symbol where one belongs")),
        }
    }

    /// Reads again what a link means.
    fn follow(&mut self) -> Result<Value, Error> {
        let index = self.length()?;
        let Some(&offset) = self.targets.get(index) else {
            return Err(self.reader.malformed("link to what was not there"));
        };
        let back = self.reader.go_back(offset)?;
        let value = self.value()?;
        self.reader.come_back(back);
        Ok(value)
    }
}
