//! JSON, in UTF-8 as it is; what others have escaped is read too.
//!
//! The order of pairs is kept. The parser has its own limit of nesting, 128, besides ours.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserializer, Serialize, Serializer};

use super::{Error, Key, Limits, Value};

pub(super) fn write(value: &Value) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(&Json(value)).map_err(|error| Error::Json(error.to_string()))
}

struct Json<'a>(&'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(bool) => serializer.serialize_bool(*bool),
            Value::Int(int) => serializer.serialize_i64(*int),
            Value::Float(float) if float.is_finite() => serializer.serialize_f64(*float),
            Value::Float(_) => Err(S::Error::custom("cannot express infinity and NaN")),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => Err(S::Error::custom("cannot express bytes that are not UTF-8")),
            },
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(list) => serializer.collect_seq(list.iter().map(Json)),
            Value::Map(map) => {
                let mut pairs = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map {
                    match key {
                        Key::Int(int) => pairs.serialize_entry(&int.to_string(), &Json(value))?,
                        Key::Text(text) => pairs.serialize_entry(text, &Json(value))?,
                        Key::Bytes(_) => {
                            return Err(S::Error::custom("cannot express keys that are not UTF-8"));
                        }
                    }
                }
                pairs.end()
            }
            Value::Object(_) => Err(S::Error::custom("cannot express objects")),
        }
    }
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let left = Cell::new(limits.values_max);
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = Seed {
        left: &left,
        depth: limits.depth_max,
    }
    .deserialize(&mut parser);
    value
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|error| Error::Json(error.to_string()))
}

/// How much may still be made.
#[derive(Clone, Copy)]
struct Seed<'a> {
    left: &'a Cell<usize>,
    depth: usize,
}

impl Seed<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth, ..self }),
            None => Err(E::custom("nested deeper than the limit")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(D::Error::custom("more values than the limit"));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value, E> {
        Ok(Value::Bool(bool))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Value, E> {
        Ok(Value::Int(int))
    }

    /// A number beyond 64 bits with sign becomes a double, as in PHP.
    fn visit_u64<E>(self, int: u64) -> Result<Value, E> {
        Ok(i64::try_from(int).map_or(Value::Float(int as f64), Value::Int))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Value, E> {
        Ok(Value::Float(float))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut list = Vec::new();
        while let Some(value) = elements.next_element_seed(seed)? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut map = Vec::new();
        while let Some(key) = pairs.next_key()? {
            map.push((Key::Text(key), pairs.next_value_seed(seed)?));
        }
        Ok(Value::Map(map))
    }
}
