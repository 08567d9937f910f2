//! PHP's `serialize`, byte for byte.
//!
//! References are read: as copies, by reading their target again. Nothing is written as a reference.

use std::io::Write;

use super::reader::{Gather, Reader};
use super::{Body, Error, Key, Limits, Object, PhpKey, Value, number};

const NAME: &str = "PHP serialize";

pub(super) fn write(value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    write_value(&mut out, value);
    Ok(out)
}

/// Appends decimal text. Writing to memory cannot fail.
macro_rules! append {
    ($out:expr, $($arguments:tt)*) => {
        write!($out, $($arguments)*).expect("memory takes what is written")
    };
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"N;"),
        Value::Bool(bool) => append!(out, "b:{};", u8::from(*bool)),
        Value::Int(int) => write_int(out, *int),
        Value::Float(float) => append!(out, "d:{};", number::php(*float)),
        Value::Bytes(bytes) => write_string(out, bytes),
        Value::Text(text) => write_string(out, text.as_bytes()),
        Value::List(list) => {
            append!(out, "a:{}:{{", list.len());
            for (key, value) in (0..).zip(list) {
                write_int(out, key);
                write_value(out, value);
            }
            out.push(b'}');
        }
        Value::Map(map) => {
            append!(out, "a:");
            write_pairs(out, map);
        }
        Value::Object(object) => write_object(out, object),
    }
}

fn write_object(out: &mut Vec<u8>, Object { class, body }: &Object) {
    let len = class.len();
    match body {
        Body::Properties(properties) => {
            append!(out, "O:{len}:\"{class}\":");
            write_pairs(out, properties);
        }
        Body::Custom(bytes) => {
            append!(out, "C:{len}:\"{class}\":{}:{{", bytes.len());
            out.extend_from_slice(bytes);
            out.push(b'}');
        }
        Body::Case(case) => append!(out, "E:{}:\"{class}:{case}\";", len + 1 + case.len()),
    }
}

fn write_pairs(out: &mut Vec<u8>, pairs: &[(Key, Value)]) {
    append!(out, "{}:{{", pairs.len());
    for (key, value) in pairs {
        match key.php() {
            PhpKey::Int(int) => write_int(out, int),
            PhpKey::String(bytes) => write_string(out, bytes),
        }
        write_value(out, value);
    }
    out.push(b'}');
}

fn write_string(out: &mut Vec<u8>, bytes: &[u8]) {
    append!(out, "s:{}:\"", bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\";");
}

fn write_int(out: &mut Vec<u8>, int: i64) {
    append!(out, "i:{int};");
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let mut parser = Parser {
        reader: Reader::new(NAME, bytes, limits),
        targets: Vec::new(),
    };
    let value = parser.value()?;
    parser.reader.end(value)
}

struct Parser<'a> {
    reader: Reader<'a>,
    /// Where each value stands; references count them from 1.
    targets: Vec<usize>,
}

impl<'a> Parser<'a> {
    fn value(&mut self) -> Result<Value, Error> {
        self.reader.spend()?;
        let start = self.reader.offset();
        let tag = self.reader.byte()?;
        if tag != b'R' && !self.reader.is_again() {
            self.targets.push(start);
        }
        if tag == b'N' {
            self.reader.expect(b";", "no ; after N")?;
            return Ok(Value::Null);
        }
        self.reader.expect(b":", "no : after the type")?;
        Ok(match tag {
            b'b' => match self.reader.array()? {
                [b'0', b';'] => Value::Bool(false),
                [b'1', b';'] => Value::Bool(true),
                _ => return Err(self.reader.malformed("bool that is neither 0 nor 1")),
            },
            b'i' => Value::Int(self.reader.decimal(b';')?),
            b'd' => {
                let text = self.reader.until(b';')?;
                Value::Float(number::read_float(text).ok_or_else(|| self.reader.malformed("not a number"))?)
            }
            b's' => Value::from_bytes(self.terminated(b";")?),
            b'a' => self.gather()?.value(),
            b'O' | b'C' | b'E' => self.object(tag)?,
            b'R' | b'r' => self.follow()?,
            _ => return Err(self.reader.malformed("unknown type")),
        })
    }

    /// `LEN:"BYTES"` and what ends it.
    fn terminated(&mut self, end: &[u8]) -> Result<&'a [u8], Error> {
        let len = self.reader.decimal(b':')?;
        self.reader.expect(b"\"", "no \" before a string")?;
        let bytes = self.reader.take(len)?;
        self.reader.expect(b"\"", "no \" after a string")?;
        self.reader.expect(end, "string without its end")?;
        Ok(bytes)
    }

    /// `COUNT:{` pairs `}`
    fn gather(&mut self) -> Result<Gather, Error> {
        let count: usize = self.reader.decimal(b':')?;
        self.reader.expect(b"{", "no { before pairs")?;
        self.reader.enter()?;
        let mut gather = Gather::new(self.reader.room(count));
        for _ in 0..count {
            let key = match self.reader.array()? {
                [b'i', b':'] => Key::Int(self.reader.decimal(b';')?),
                [b's', b':'] => Key::from_bytes(self.terminated(b";")?),
                _ => return Err(self.reader.malformed("key that is neither number nor string")),
            };
            let value = self.value()?;
            gather.push(key, value);
        }
        self.reader.leave();
        self.reader.expect(b"}", "no } after pairs")?;
        Ok(gather)
    }

    fn object(&mut self, tag: u8) -> Result<Value, Error> {
        let name = self.terminated(if tag == b'E' { b";" } else { b":" })?;
        let name =
            std::str::from_utf8(name).map_err(|_| self.reader.malformed("class whose name is not UTF-8"))?;
        let (class, body) = match tag {
            b'O' => (name, Body::Properties(self.gather()?.pairs())),
            b'C' => {
                let len = self.reader.decimal(b':')?;
                self.reader.expect(b"{", "no { before what a class wrote")?;
                let bytes = self.reader.take(len)?.to_vec();
                self.reader.expect(b"}", "no } after what a class wrote")?;
                (name, Body::Custom(bytes))
            }
            _ => {
                let Some((class, case)) = name.split_once(':') else {
                    return Err(self.reader.malformed("case without its enumeration"));
                };
                (class, Body::Case(case.to_owned()))
            }
        };
        Ok(Value::Object(Box::new(Object {
            class: class.to_owned(),
            body,
        })))
    }

    /// Reads again what a reference means.
    fn follow(&mut self) -> Result<Value, Error> {
        let number: usize = self.reader.decimal(b';')?;
        let Some(&offset) = number.checked_sub(1).and_then(|index| self.targets.get(index)) else {
            return Err(self.reader.malformed("reference to what was not there"));
        };
        let back = self.reader.go_back(offset)?;
        let value = self.value()?;
        self.reader.come_back(back);
        Ok(value)
    }
}
