//! igbinary 2, byte for byte as PHP's extension writes it with compact strings: a string that was written before is its number.
//!
//! Objects are written each for itself, arrays without references. References are read: as copies, by reading their target again.

use super::reader::{Gather, Reader};
use super::stream::Event;
use super::strings::Strings;
use super::{Body, Error, Key, Limits, Object, PhpKey, Value};

const NAME: &str = "igbinary";
/// 4 bytes of version; 1 differs from 2 in nothing that concerns us.
const HEADER: [u8; 4] = [0, 0, 0, 2];

const NULL: u8 = 0x00;
const FALSE: u8 = 0x04;
const TRUE: u8 = 0x05;
/// The first of 8, 16 and 32 bits; each is followed by its negative twin.
const LONG: u8 = 0x06;
const DOUBLE: u8 = 0x0c;
const STRING_EMPTY: u8 = 0x0d;
/// Each of these is the first of three, with a number of 8, 16 and 32 bits.
const STRING_ID: u8 = 0x0e;
const STRING: u8 = 0x11;
const ARRAY: u8 = 0x14;
const OBJECT: u8 = 0x17;
const OBJECT_ID: u8 = 0x1a;
const OBJECT_CUSTOM: u8 = 0x1d;
const REFERENCE: u8 = 0x01;
const OBJECT_REFERENCE: u8 = 0x22;
const LONG64: u8 = 0x20;
const LONG64_NEGATIVE: u8 = 0x21;
const BY_REFERENCE: u8 = 0x25;
const ENUM_CASE: u8 = 0x27;

pub(super) fn write(value: &Value) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new();
    writer.value(value)?;
    Ok(writer.out)
}

/// Writes one value after another: arrays are their count, then a key and a value each.
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
    strings: Strings,
}

impl Writer {
    pub(super) fn new() -> Writer {
        Writer {
            out: HEADER.to_vec(),
            strings: Strings::default(),
        }
    }

    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Null => self.null(),
            Value::Bool(bool) => self.bool(*bool),
            Value::Int(int) => self.int(*int),
            Value::Float(float) => self.float(*float),
            Value::Bytes(bytes) => self.string(bytes)?,
            Value::Text(text) => self.string(text.as_bytes())?,
            Value::List(list) => {
                self.array(list.len())?;
                for (key, value) in (0..).zip(list) {
                    self.int(key);
                    self.value(value)?;
                }
            }
            Value::Map(map) => self.pairs(map)?,
            Value::Object(object) => self.object(object)?,
        }
        Ok(())
    }

    fn object(&mut self, object: &Object) -> Result<(), Error> {
        self.name(object.class.as_bytes(), OBJECT, OBJECT_ID)?;
        match &object.body {
            Body::Properties(properties) => self.pairs(properties),
            Body::Custom(bytes) => {
                self.sized(OBJECT_CUSTOM, bytes.len())?;
                self.out.extend_from_slice(bytes);
                Ok(())
            }
            Body::Case(case) => {
                self.out.push(ENUM_CASE);
                self.string(case.as_bytes())
            }
        }
    }

    fn pairs(&mut self, pairs: &[(Key, Value)]) -> Result<(), Error> {
        self.array(pairs.len())?;
        for (key, value) in pairs {
            match key.php() {
                PhpKey::Int(int) => self.int(int),
                PhpKey::String(bytes) => self.string(bytes)?,
            }
            self.value(value)?;
        }
        Ok(())
    }

    pub(super) fn null(&mut self) {
        self.out.push(NULL);
    }

    pub(super) fn bool(&mut self, bool: bool) {
        self.out.push(if bool { TRUE } else { FALSE });
    }

    pub(super) fn float(&mut self, float: f64) {
        self.out.push(DOUBLE);
        self.out.extend_from_slice(&float.to_be_bytes());
    }

    /// The beginning of an array of so many pairs.
    pub(super) fn array(&mut self, len: usize) -> Result<(), Error> {
        self.sized(ARRAY, len)
    }

    pub(super) fn string(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            self.out.push(STRING_EMPTY);
            return Ok(());
        }
        self.name(bytes, STRING, STRING_ID)
    }

    /// A string or the name of a class: both count in one table.
    fn name(&mut self, bytes: &[u8], literal: u8, known: u8) -> Result<(), Error> {
        if let Some(number) = self.strings.number(&self.out, bytes) {
            return self.sized(known, number);
        }
        self.sized(literal, bytes.len())?;
        self.strings.add(self.out.len(), bytes);
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn int(&mut self, int: i64) {
        let magnitude = int.unsigned_abs();
        let negative = u8::from(int < 0);
        let bytes = magnitude.to_be_bytes();
        let (tag, width) = match magnitude {
            0..=0xff => (LONG, 1),
            0x100..=0xffff => (LONG + 2, 2),
            0x1_0000..=0xffff_ffff => (LONG + 4, 4),
            _ => (LONG64, 8),
        };
        self.out.push(tag + negative);
        self.out.extend_from_slice(&bytes[8 - width..]);
    }

    /// A tag of three by the width of its number.
    fn sized(&mut self, first: u8, number: usize) -> Result<(), Error> {
        let bytes = (number as u64).to_be_bytes();
        let (step, width) = match number {
            0..=0xff => (0, 1),
            0x100..=0xffff => (1, 2),
            0x1_0000..=0xffff_ffff => (2, 4),
            _ => {
                return Err(Error::Inexpressible {
                    format: NAME,
                    what: "lengths beyond 4 GiB",
                });
            }
        };
        self.out.push(first + step);
        self.out.extend_from_slice(&bytes[8 - width..]);
        Ok(())
    }
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let mut parser = Parser::new(bytes, limits)?;
    let value = parser.value()?;
    parser.reader.end(value)
}

pub(super) struct Parser<'a> {
    pub(super) reader: Reader<'a>,
    strings: Vec<&'a [u8]>,
    /// Where each value stands that a reference may mean.
    targets: Vec<usize>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(bytes: &'a [u8], limits: &'a Limits) -> Result<Parser<'a>, Error> {
        let mut reader = Reader::new(NAME, bytes, limits);
        let header: [u8; 4] = reader.array()?;
        if header != HEADER && header != [0, 0, 0, 1] {
            return Err(Error::Malformed {
                format: NAME,
                offset: 0,
                what: "neither version 1 nor 2",
            });
        }
        Ok(Parser {
            reader,
            strings: Vec::new(),
            targets: Vec::new(),
        })
    }

    /// What comes next, keys included; of objects and references only that there are some.
    pub(super) fn event(&mut self) -> Result<Event<'a>, Error> {
        self.reader.spend()?;
        let tag = self.reader.byte()?;
        Ok(match tag {
            NULL => Event::Null,
            FALSE => Event::Bool(false),
            TRUE => Event::Bool(true),
            DOUBLE => Event::Float(f64::from_be_bytes(self.reader.array()?)),
            LONG..DOUBLE | LONG64 | LONG64_NEGATIVE => Event::Int(self.int(tag)?),
            ARRAY..OBJECT => Event::Map(self.reader.length(1 << (tag - ARRAY))?),
            OBJECT..LONG64 | ENUM_CASE => Event::Object,
            REFERENCE..FALSE | OBJECT_REFERENCE..=BY_REFERENCE => Event::Reference,
            tag => Event::Text(self.string(tag)?),
        })
    }

    fn value(&mut self) -> Result<Value, Error> {
        self.reader.spend()?;
        let start = self.reader.offset();
        let tag = self.reader.byte()?;
        match tag {
            ARRAY..OBJECT => {
                self.target(start);
                Ok(self.gather(1 << (tag - ARRAY))?.value())
            }
            OBJECT..OBJECT_CUSTOM => {
                self.target(start);
                self.object(tag)
            }
            REFERENCE..FALSE => self.follow(1 << (tag - REFERENCE)),
            OBJECT_REFERENCE..BY_REFERENCE => self.follow(1 << (tag - OBJECT_REFERENCE)),
            BY_REFERENCE => {
                let start = self.reader.offset();
                let tag = self.reader.byte()?;
                match tag {
                    BY_REFERENCE => Err(self.reader.malformed("reference to a reference")),
                    ARRAY..OBJECT_CUSTOM | REFERENCE..FALSE | OBJECT_REFERENCE..BY_REFERENCE => {
                        self.reader.seek(start);
                        self.value()
                    }
                    tag => {
                        self.target(start);
                        self.scalar(tag)
                    }
                }
            }
            tag => self.scalar(tag),
        }
    }

    fn scalar(&mut self, tag: u8) -> Result<Value, Error> {
        Ok(match tag {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            DOUBLE => Value::Float(f64::from_be_bytes(self.reader.array()?)),
            LONG..DOUBLE | LONG64 | LONG64_NEGATIVE => Value::Int(self.int(tag)?),
            _ => Value::from_bytes(self.string(tag)?),
        })
    }

    fn int(&mut self, tag: u8) -> Result<i64, Error> {
        let (width, negative) = match tag {
            LONG64 | LONG64_NEGATIVE => (8, tag == LONG64_NEGATIVE),
            tag => (1 << ((tag - LONG) / 2), (tag - LONG) % 2 == 1),
        };
        let magnitude = self.reader.number(width)?;
        let int = if negative {
            0i64.checked_sub_unsigned(magnitude)
        } else {
            i64::try_from(magnitude).ok()
        };
        int.ok_or_else(|| self.reader.malformed("number beyond 64 bits with sign"))
    }

    fn string(&mut self, tag: u8) -> Result<&'a [u8], Error> {
        match tag {
            STRING_EMPTY => Ok(&[]),
            STRING..ARRAY => self.literal(1 << (tag - STRING)),
            STRING_ID..STRING => self.known(1 << (tag - STRING_ID)),
            _ => Err(self.reader.malformed("unknown type")),
        }
    }

    fn literal(&mut self, width: usize) -> Result<&'a [u8], Error> {
        let len = self.reader.length(width)?;
        let bytes = self.reader.take(len)?;
        if !self.reader.is_again() {
            self.strings.push(bytes);
        }
        Ok(bytes)
    }

    fn known(&mut self, width: usize) -> Result<&'a [u8], Error> {
        let id = self.reader.length(width)?;
        let Some(&bytes) = self.strings.get(id) else {
            return Err(self.reader.malformed("number of a string that was not there"));
        };
        self.reader.spend_bytes(bytes.len())?;
        Ok(bytes)
    }

    fn gather(&mut self, width: usize) -> Result<Gather, Error> {
        let count = self.reader.length(width)?;
        self.reader.enter()?;
        let mut gather = Gather::new(self.reader.room(count));
        for _ in 0..count {
            let key = match self.reader.byte()? {
                tag @ (LONG..DOUBLE | LONG64 | LONG64_NEGATIVE) => Key::Int(self.int(tag)?),
                tag => Key::from_bytes(self.string(tag)?),
            };
            let value = self.value()?;
            gather.push(key, value);
        }
        self.reader.leave();
        Ok(gather)
    }

    fn object(&mut self, tag: u8) -> Result<Value, Error> {
        let name = match tag {
            OBJECT..OBJECT_ID => self.literal(1 << (tag - OBJECT))?,
            tag => self.known(1 << (tag - OBJECT_ID))?,
        };
        let class = String::from_utf8(name.to_vec())
            .map_err(|_| self.reader.malformed("class whose name is not UTF-8"))?;
        let body = match self.reader.byte()? {
            tag @ ARRAY..OBJECT => Body::Properties(self.gather(1 << (tag - ARRAY))?.pairs()),
            tag @ OBJECT_CUSTOM..LONG64 => {
                let len = self.reader.length(1 << (tag - OBJECT_CUSTOM))?;
                Body::Custom(self.reader.take(len)?.to_vec())
            }
            ENUM_CASE => {
                let tag = self.reader.byte()?;
                let case = self.string(tag)?.to_vec();
                Body::Case(
                    String::from_utf8(case)
                        .map_err(|_| self.reader.malformed("case whose name is not UTF-8"))?,
                )
            }
            _ => return Err(self.reader.malformed("object of no known kind")),
        };
        Ok(Value::Object(Box::new(Object { class, body })))
    }

    fn target(&mut self, offset: usize) {
        if !self.reader.is_again() {
            self.targets.push(offset);
        }
    }

    /// Reads again what a reference means.
    fn follow(&mut self, width: usize) -> Result<Value, Error> {
        let id = self.reader.length(width)?;
        let Some(&offset) = self.targets.get(id) else {
            return Err(self.reader.malformed("reference to what was not there"));
        };
        let back = self.reader.go_back(offset)?;
        let value = match self.reader.peek() {
            Some(ARRAY..OBJECT_CUSTOM) => self.value()?,
            _ => {
                let tag = self.reader.byte()?;
                self.scalar(tag)?
            }
        };
        self.reader.come_back(back);
        Ok(value)
    }
}
