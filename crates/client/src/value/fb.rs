//! HHVM's `fb_serialize`: tags of Thrift's, numbers as short as they fit, the highest byte first; doubles as the machine has them.
//!
//! "The machine" is one with the lowest byte first, as all that HHVM ran on.

use super::reader::{Gather, Reader};
use super::{Error, Key, Limits, PhpKey, Value};

const NAME: &str = "fb_serialize";

const STOP: u8 = 1;
const INT8: u8 = 2;
const INT16: u8 = 4;
const INT32: u8 = 6;
const INT64: u8 = 8;
const STRING: u8 = 9;
const STRUCT: u8 = 10;
const NULL: u8 = 14;
const VARCHAR: u8 = 15;
const DOUBLE: u8 = 16;
const BOOL: u8 = 17;

pub(super) fn write(value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    write_value(&mut out, value)?;
    Ok(out)
}

fn write_value(out: &mut Vec<u8>, value: &Value) -> Result<(), Error> {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(bool) => out.extend_from_slice(&[BOOL, u8::from(*bool)]),
        Value::Int(int) => write_int(out, *int),
        Value::Float(float) => {
            out.push(DOUBLE);
            out.extend_from_slice(&float.to_le_bytes());
        }
        Value::Bytes(bytes) => write_string(out, bytes)?,
        Value::Text(text) => write_string(out, text.as_bytes())?,
        Value::List(list) => {
            out.push(STRUCT);
            for (key, value) in (0..).zip(list) {
                write_int(out, key);
                write_value(out, value)?;
            }
            out.push(STOP);
        }
        Value::Map(map) => {
            out.push(STRUCT);
            for (key, value) in map {
                match key.php() {
                    PhpKey::Int(int) => write_int(out, int),
                    PhpKey::String(bytes) => write_string(out, bytes)?,
                }
                write_value(out, value)?;
            }
            out.push(STOP);
        }
        Value::Object(_) => {
            return Err(Error::Inexpressible {
                format: NAME,
                what: "objects",
            });
        }
    }
    Ok(())
}

fn write_int(out: &mut Vec<u8>, int: i64) {
    let (tag, width) = if i8::try_from(int).is_ok() {
        (INT8, 1)
    } else if i16::try_from(int).is_ok() {
        (INT16, 2)
    } else if i32::try_from(int).is_ok() {
        (INT32, 4)
    } else {
        (INT64, 8)
    };
    out.push(tag);
    out.extend_from_slice(&int.to_be_bytes()[8 - width..]);
}

fn write_string(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
    if let Ok(len) = u8::try_from(bytes.len()) {
        out.extend_from_slice(&[VARCHAR, len]);
    } else {
        let len = u32::try_from(bytes.len());
        let len = len.map_err(|_| Error::Inexpressible {
            format: NAME,
            what: "lengths beyond 4 GiB",
        })?;
        out.push(STRING);
        out.extend_from_slice(&len.to_be_bytes());
    }
    out.extend_from_slice(bytes);
    Ok(())
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let mut reader = Reader::new(NAME, bytes, limits);
    let value = read_value(&mut reader)?;
    reader.end(value)
}

fn read_value(reader: &mut Reader<'_>) -> Result<Value, Error> {
    reader.spend()?;
    let tag = reader.byte()?;
    Ok(match tag {
        NULL => Value::Null,
        BOOL => match reader.byte()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return Err(reader.malformed("bool that is neither 0 nor 1")),
        },
        DOUBLE => Value::Float(f64::from_le_bytes(reader.array()?)),
        STRUCT => {
            reader.enter()?;
            let mut gather = Gather::new(Vec::new());
            while reader.peek() != Some(STOP) {
                let tag = reader.byte()?;
                let Some(key) = Key::from_value(read_scalar(reader, tag)?) else {
                    return Err(reader.malformed("key that is neither number nor string"));
                };
                gather.push(key, read_value(reader)?);
            }
            reader.byte()?;
            reader.leave();
            gather.value()
        }
        tag => read_scalar(reader, tag)?,
    })
}

/// What may be a key too.
fn read_scalar(reader: &mut Reader<'_>, tag: u8) -> Result<Value, Error> {
    Ok(match tag {
        INT8 => Value::Int(i64::from(i8::from_be_bytes(reader.array()?))),
        INT16 => Value::Int(i64::from(i16::from_be_bytes(reader.array()?))),
        INT32 => Value::Int(i64::from(i32::from_be_bytes(reader.array()?))),
        INT64 => Value::Int(i64::from_be_bytes(reader.array()?)),
        VARCHAR | STRING => {
            let len = reader.length(if tag == VARCHAR { 1 } else { 4 })?;
            Value::from_bytes(reader.take(len)?)
        }
        _ => return Err(reader.malformed("unknown type")),
    })
}
