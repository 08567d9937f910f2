//! MessagePack. Objects are written as PHP's extension does: as a map whose first key is nil, with the class for its value.

use rmp::Marker;
use rmp::encode::{self, RmpWrite};

use super::reader::Reader;
use super::{Body, Error, Key, Limits, Object, Value};

const NAME: &str = "MessagePack";
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
    let mut writer = Writer {
        out: Vec::new(),
        strings,
    };
    writer.value(value)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    strings: Strings,
}

impl Writer {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Null => self.out.push(Marker::Null.to_u8()),
            Value::Bool(bool) => self
                .out
                .push(if *bool { Marker::True } else { Marker::False }.to_u8()),
            Value::Int(int) => {
                encode::write_sint(&mut self.out, *int).map_err(written)?;
            }
            Value::Float(float) => encode::write_f64(&mut self.out, *float).map_err(written)?,
            Value::Bytes(bytes) => self.bytes(bytes)?,
            Value::Text(text) => self.string(text.as_bytes())?,
            Value::List(list) => {
                encode::write_array_len(&mut self.out, len(list.len())?).map_err(written)?;
                for value in list {
                    self.value(value)?;
                }
            }
            Value::Map(map) => {
                encode::write_map_len(&mut self.out, len(map.len())?).map_err(written)?;
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
        encode::write_map_len(&mut self.out, len(properties.len() + 1)?).map_err(written)?;
        self.out.push(Marker::Null.to_u8());
        self.string(object.class.as_bytes())?;
        self.pairs(properties)
    }

    fn pairs(&mut self, pairs: &[(Key, Value)]) -> Result<(), Error> {
        for (key, value) in pairs {
            match key {
                Key::Int(int) => {
                    encode::write_sint(&mut self.out, *int).map_err(written)?;
                }
                Key::Text(text) => self.string(text.as_bytes())?,
                Key::Bytes(bytes) => self.bytes(bytes)?,
            }
            self.value(value)?;
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.strings == Strings::Php {
            return self.string(bytes);
        }
        encode::write_bin_len(&mut self.out, len(bytes.len())?).map_err(written)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Error> {
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

fn read_value(reader: &mut Reader<'_>) -> Result<Value, Error> {
    reader.spend()?;
    let marker = Marker::from_u8(reader.byte()?);
    let value = match marker {
        Marker::FixPos(int) => Value::Int(i64::from(int)),
        Marker::FixNeg(int) => Value::Int(i64::from(int)),
        Marker::Null => Value::Null,
        Marker::True => Value::Bool(true),
        Marker::False => Value::Bool(false),
        Marker::U8 => Value::Int(i64::from(reader.byte()?)),
        Marker::U16 => Value::Int(i64::from(u16::from_be_bytes(reader.array()?))),
        Marker::U32 => Value::Int(i64::from(u32::from_be_bytes(reader.array()?))),
        Marker::U64 => {
            let int = reader.number(8)?;
            Value::Int(i64::try_from(int).map_err(|_| reader.malformed("number beyond 64 bits with sign"))?)
        }
        Marker::I8 => Value::Int(i64::from(i8::from_be_bytes(reader.array()?))),
        Marker::I16 => Value::Int(i64::from(i16::from_be_bytes(reader.array()?))),
        Marker::I32 => Value::Int(i64::from(i32::from_be_bytes(reader.array()?))),
        Marker::I64 => Value::Int(i64::from_be_bytes(reader.array()?)),
        Marker::F32 => Value::Float(f64::from(f32::from_be_bytes(reader.array()?))),
        Marker::F64 => Value::Float(f64::from_be_bytes(reader.array()?)),
        Marker::FixStr(len) => text(reader, usize::from(len))?,
        Marker::Str8 => read_sized(reader, 1, text)?,
        Marker::Str16 => read_sized(reader, 2, text)?,
        Marker::Str32 => read_sized(reader, 4, text)?,
        Marker::Bin8 => read_sized(reader, 1, binary)?,
        Marker::Bin16 => read_sized(reader, 2, binary)?,
        Marker::Bin32 => read_sized(reader, 4, binary)?,
        Marker::FixArray(len) => list(reader, usize::from(len))?,
        Marker::Array16 => read_sized(reader, 2, list)?,
        Marker::Array32 => read_sized(reader, 4, list)?,
        Marker::FixMap(len) => map(reader, usize::from(len))?,
        Marker::Map16 => read_sized(reader, 2, map)?,
        Marker::Map32 => read_sized(reader, 4, map)?,
        _ => return Err(reader.malformed("extension type")),
    };
    Ok(value)
}

type Read = fn(&mut Reader<'_>, usize) -> Result<Value, Error>;

fn read_sized(reader: &mut Reader<'_>, width: usize, read: Read) -> Result<Value, Error> {
    let len = reader.length(width)?;
    read(reader, len)
}

/// Text, or bytes where it is none: PHP writes both as text.
fn text(reader: &mut Reader<'_>, len: usize) -> Result<Value, Error> {
    Ok(Value::from_bytes(reader.take(len)?))
}

fn binary(reader: &mut Reader<'_>, len: usize) -> Result<Value, Error> {
    Ok(Value::Bytes(reader.take(len)?.to_vec()))
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
