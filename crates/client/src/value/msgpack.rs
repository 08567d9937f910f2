//! MessagePack. Objects are written as PHP's extension does: as a map whose first key is nil, with the class for its value.

use rmp::Marker;
use rmp::encode::{self, RmpWrite};

use super::reader::Reader;
use super::stream::Event;
use super::{Body, Error, Key, Limits, Object, Value};

pub(super) const NAME: &str = "MessagePack";
/// PHP's marks beside a nil key: what else than a class may follow there.
const PHP_REFERENCE: &str = "reference of PHP's extension, which are not read";

/// How bytes are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    /// Text as text, bytes as bytes.
    Told,
    /// All as text, which PHP does not check.
    Php,
}

pub(super) fn write(value: &Value, strings: Strings) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(strings);
    writer.value(value)?;
    Ok(writer.out)
}

/// Writes one value after another: lists are their count, then the values; maps theirs, then a key and a value each.
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
    strings: Strings,
}

impl Writer {
    pub(super) fn new(strings: Strings) -> Writer {
        Writer {
            out: Vec::new(),
            strings,
        }
    }

    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Null => self.null(),
            Value::Bool(bool) => self.bool(*bool),
            Value::Int(int) => self.int(*int)?,
            Value::Float(float) => self.float(*float)?,
            Value::Bytes(bytes) => self.bytes(bytes)?,
            Value::Text(text) => self.string(text.as_bytes())?,
            Value::List(list) => {
                self.list(list.len())?;
                for value in list {
                    self.value(value)?;
                }
            }
            Value::Map(map) => {
                self.map(map.len())?;
                self.pairs(map)?;
            }
            Value::Object(object) => self.object(object)?,
        }
        Ok(())
    }

    fn object(&mut self, object: &Object) -> Result<(), Error> {
        let Body::Properties(properties) = &object.body else {
            return Err(Error::Inexpressible {
                format: NAME,
                what: "cases and what a class wrote itself",
            });
        };
        self.map(properties.len() + 1)?;
        self.null();
        self.string(object.class.as_bytes())?;
        self.pairs(properties)
    }

    fn pairs(&mut self, pairs: &[(Key, Value)]) -> Result<(), Error> {
        for (key, value) in pairs {
            match key {
                Key::Int(int) => self.int(*int)?,
                Key::Text(text) => self.string(text.as_bytes())?,
                Key::Bytes(bytes) => self.bytes(bytes)?,
            }
            self.value(value)?;
        }
        Ok(())
    }

    pub(super) fn null(&mut self) {
        self.out.push(Marker::Null.to_u8());
    }

    pub(super) fn bool(&mut self, bool: bool) {
        self.out
            .push(if bool { Marker::True } else { Marker::False }.to_u8());
    }

    pub(super) fn int(&mut self, int: i64) -> Result<(), Error> {
        encode::write_sint(&mut self.out, int).map(drop).map_err(written)
    }

    pub(super) fn float(&mut self, float: f64) -> Result<(), Error> {
        encode::write_f64(&mut self.out, float).map_err(written)
    }

    /// The beginning of a list of so many values.
    pub(super) fn list(&mut self, count: usize) -> Result<(), Error> {
        encode::write_array_len(&mut self.out, len(count)?)
            .map(drop)
            .map_err(written)
    }

    /// The beginning of a map of so many pairs.
    pub(super) fn map(&mut self, count: usize) -> Result<(), Error> {
        encode::write_map_len(&mut self.out, len(count)?)
            .map(drop)
            .map_err(written)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.strings == Strings::Php {
            return self.string(bytes);
        }
        encode::write_bin_len(&mut self.out, len(bytes.len())?).map_err(written)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn string(&mut self, bytes: &[u8]) -> Result<(), Error> {
        encode::write_str_len(&mut self.out, len(bytes.len())?).map_err(written)?;
        self.out.write_bytes(bytes).map_err(|_| TOO_LONG)
    }
}

const TOO_LONG: Error = Error::Inexpressible {
    format: NAME,
    what: "lengths beyond 4 GiB",
};

fn len(len: usize) -> Result<u32, Error> {
    u32::try_from(len).map_err(|_| TOO_LONG)
}

/// Memory takes whatever is written, so that this is never called.
fn written<E>(_: E) -> Error {
    TOO_LONG
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let mut reader = Reader::new(NAME, bytes, limits);
    let value = read_value(&mut reader)?;
    reader.end(value)
}

/// What comes next, keys included.
pub(super) fn event<'a>(reader: &mut Reader<'a>) -> Result<Event<'a>, Error> {
    reader.spend()?;
    let marker = Marker::from_u8(reader.byte()?);
    let event = match marker {
        Marker::FixPos(int) => Event::Int(i64::from(int)),
        Marker::FixNeg(int) => Event::Int(i64::from(int)),
        Marker::Null => Event::Null,
        Marker::True => Event::Bool(true),
        Marker::False => Event::Bool(false),
        Marker::U8 => Event::Int(i64::from(reader.byte()?)),
        Marker::U16 => Event::Int(i64::from(u16::from_be_bytes(reader.array()?))),
        Marker::U32 => Event::Int(i64::from(u32::from_be_bytes(reader.array()?))),
        Marker::U64 => {
            let int = reader.number(8)?;
            Event::Int(i64::try_from(int).map_err(|_| reader.malformed("number beyond 64 bits with sign"))?)
        }
        Marker::I8 => Event::Int(i64::from(i8::from_be_bytes(reader.array()?))),
        Marker::I16 => Event::Int(i64::from(i16::from_be_bytes(reader.array()?))),
        Marker::I32 => Event::Int(i64::from(i32::from_be_bytes(reader.array()?))),
        Marker::I64 => Event::Int(i64::from_be_bytes(reader.array()?)),
        Marker::F32 => Event::Float(f64::from(f32::from_be_bytes(reader.array()?))),
        Marker::F64 => Event::Float(f64::from_be_bytes(reader.array()?)),
        Marker::FixStr(len) => Event::Text(reader.take(usize::from(len))?),
        Marker::Str8 => Event::Text(sized(reader, 1)?),
        Marker::Str16 => Event::Text(sized(reader, 2)?),
        Marker::Str32 => Event::Text(sized(reader, 4)?),
        Marker::Bin8 => Event::Bytes(sized(reader, 1)?),
        Marker::Bin16 => Event::Bytes(sized(reader, 2)?),
        Marker::Bin32 => Event::Bytes(sized(reader, 4)?),
        Marker::FixArray(len) => Event::List(usize::from(len)),
        Marker::Array16 => Event::List(reader.length(2)?),
        Marker::Array32 => Event::List(reader.length(4)?),
        Marker::FixMap(len) => Event::Map(usize::from(len)),
        Marker::Map16 => Event::Map(reader.length(2)?),
        Marker::Map32 => Event::Map(reader.length(4)?),
        _ => return Err(reader.malformed("extension type")),
    };
    Ok(event)
}

fn sized<'a>(reader: &mut Reader<'a>, width: usize) -> Result<&'a [u8], Error> {
    let len = reader.length(width)?;
    reader.take(len)
}

fn read_value(reader: &mut Reader<'_>) -> Result<Value, Error> {
    Ok(match event(reader)? {
        Event::Null => Value::Null,
        Event::Bool(bool) => Value::Bool(bool),
        Event::Int(int) => Value::Int(int),
        Event::Float(float) => Value::Float(float),
        // Text, or bytes where it is none: PHP writes both as text.
        Event::Text(bytes) => Value::from_bytes(bytes),
        Event::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        Event::List(len) => list(reader, len)?,
        Event::Map(len) => map(reader, len)?,
        Event::Object | Event::Reference => return Err(reader.malformed(PHP_REFERENCE)),
    })
}

fn list(reader: &mut Reader<'_>, len: usize) -> Result<Value, Error> {
    reader.enter()?;
    let mut list = reader.room(len);
    for _ in 0..len {
        let value = match short_int(reader)? {
            Some(int) => Value::Int(int),
            None => read_value(reader)?,
        };
        list.push(value);
    }
    reader.leave();
    Ok(Value::List(list))
}

/// A short number that comes next: what long lists are made of, read without the way round by all types.
#[inline]
fn short_int(reader: &mut Reader<'_>) -> Result<Option<i64>, Error> {
    let (len, int) = match *reader.rest() {
        [int @ 0..=0x7f, ..] => (1, i64::from(int)),
        [0xcc, int, ..] => (2, i64::from(int)),
        [0xcd, high, low, ..] => (3, i64::from(u16::from_be_bytes([high, low]))),
        _ => return Ok(None),
    };
    reader.spend()?;
    reader.seek(reader.offset() + len);
    Ok(Some(int))
}

fn map(reader: &mut Reader<'_>, len: usize) -> Result<Value, Error> {
    reader.enter()?;
    let mut map = reader.room(len);
    let mut class = None;
    for index in 0..len {
        if index == 0 && reader.peek() == Some(Marker::Null.to_u8()) {
            reader.byte()?;
            let Value::Text(name) = read_value(reader)? else {
                return Err(reader.malformed(PHP_REFERENCE));
            };
            class = Some(name);
            continue;
        }
        let Some(key) = Key::from_value(read_value(reader)?) else {
            return Err(reader.malformed("key that is neither number nor string"));
        };
        map.push((key, read_value(reader)?));
    }
    reader.leave();
    Ok(match class {
        Some(class) => Value::Object(Box::new(Object {
            class,
            body: Body::Properties(map),
        })),
        None => Value::Map(map),
    })
}
