//! Types of the program as values, and back, by serde.
//!
//! Structs and maps become maps, sequences and tuples lists, options null or what is in them. A variant without fields becomes its
//! name, any other a map from its name to its fields. Keys are whole numbers, text or bytes. `Vec<u8>` is a list of numbers to
//! serde; the crate `serde_bytes` makes it bytes.

use std::fmt::Display;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde::ser::{self, Serialize, Serializer};

use super::{Error, Key, Value};

/// What a value of any type is as a [`Value`].
///
/// # Errors
/// Numbers beyond 64 bits with sign, keys that are neither numbers nor text, and what the type itself refuses.
pub fn to_value<T: Serialize + ?Sized>(it: &T) -> Result<Value, Error> {
    it.serialize(Writer)
}

/// The other way round.
///
/// # Errors
/// The value is not what the type wants.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(value)
}

impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error::Type(message.to_string())
    }
}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error::Type(message.to_string())
    }
}

struct Writer;

/// A list on its way, and the variant whose fields it is.
struct ListWriter {
    list: Vec<Value>,
    variant: Option<&'static str>,
}

/// A map on its way, and the variant whose fields it is.
struct MapWriter {
    pairs: Vec<(Key, Value)>,
    key: Option<Key>,
    variant: Option<&'static str>,
}

fn of_variant(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(name) => Value::Map(vec![(Key::Text(name.to_owned()), value)]),
        None => value,
    }
}

impl ListWriter {
    fn new(len: usize, variant: Option<&'static str>) -> ListWriter {
        ListWriter {
            list: Vec::with_capacity(len),
            variant,
        }
    }

    fn push<T: Serialize + ?Sized>(&mut self, it: &T) -> Result<(), Error> {
        self.list.push(to_value(it)?);
        Ok(())
    }

    fn finish(self) -> Value {
        of_variant(self.variant, Value::List(self.list))
    }
}

impl MapWriter {
    fn new(len: usize, variant: Option<&'static str>) -> MapWriter {
        MapWriter {
            pairs: Vec::with_capacity(len),
            key: None,
            variant,
        }
    }

    fn push<T: Serialize + ?Sized>(&mut self, name: &'static str, it: &T) -> Result<(), Error> {
        self.pairs.push((Key::Text(name.to_owned()), to_value(it)?));
        Ok(())
    }

    fn finish(self) -> Value {
        of_variant(self.variant, Value::Map(self.pairs))
    }
}

macro_rules! ints {
    ($($name:ident: $kind:ty)*) => {$(
        fn $name(self, int: $kind) -> Result<Value, Error> {
            Ok(Value::Int(int.into()))
        }
    )*};
}

impl Serializer for Writer {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = ListWriter;
    type SerializeTuple = ListWriter;
    type SerializeTupleStruct = ListWriter;
    type SerializeTupleVariant = ListWriter;
    type SerializeMap = MapWriter;
    type SerializeStruct = MapWriter;
    type SerializeStructVariant = MapWriter;

    ints! {
        serialize_i8: i8
        serialize_i16: i16
        serialize_i32: i32
        serialize_i64: i64
        serialize_u8: u8
        serialize_u16: u16
        serialize_u32: u32
    }

    fn serialize_u64(self, int: u64) -> Result<Value, Error> {
        match i64::try_from(int) {
            Ok(int) => Ok(Value::Int(int)),
            Err(_) => Err(Error::Type(format!("{int} is more than 64 bits with sign hold"))),
        }
    }

    fn serialize_bool(self, bool: bool) -> Result<Value, Error> {
        Ok(Value::Bool(bool))
    }

    fn serialize_f32(self, float: f32) -> Result<Value, Error> {
        Ok(Value::Float(float.into()))
    }

    fn serialize_f64(self, float: f64) -> Result<Value, Error> {
        Ok(Value::Float(float))
    }

    fn serialize_char(self, char: char) -> Result<Value, Error> {
        Ok(Value::Text(char.to_string()))
    }

    fn serialize_str(self, text: &str) -> Result<Value, Error> {
        Ok(Value::Text(text.to_owned()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value, Error> {
        Ok(Value::Bytes(bytes.to_vec()))
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, it: &T) -> Result<Value, Error> {
        to_value(it)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<Value, Error> {
        Ok(Value::Text(name.to_owned()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        it: &T,
    ) -> Result<Value, Error> {
        to_value(it)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        it: &T,
    ) -> Result<Value, Error> {
        Ok(of_variant(Some(name), to_value(it)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<ListWriter, Error> {
        Ok(ListWriter::new(len.unwrap_or_default(), None))
    }

    fn serialize_tuple(self, len: usize) -> Result<ListWriter, Error> {
        Ok(ListWriter::new(len, None))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<ListWriter, Error> {
        Ok(ListWriter::new(len, None))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        len: usize,
    ) -> Result<ListWriter, Error> {
        Ok(ListWriter::new(len, Some(name)))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<MapWriter, Error> {
        Ok(MapWriter::new(len.unwrap_or_default(), None))
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<MapWriter, Error> {
        Ok(MapWriter::new(len, None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        len: usize,
    ) -> Result<MapWriter, Error> {
        Ok(MapWriter::new(len, Some(name)))
    }
}

macro_rules! lists {
    ($($kind:ident::$push:ident)*) => {$(
        impl ser::$kind for ListWriter {
            type Ok = Value;
            type Error = Error;

            fn $push<T: Serialize + ?Sized>(&mut self, it: &T) -> Result<(), Error> {
                self.push(it)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.finish())
            }
        }
    )*};
}

lists! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field
}

macro_rules! structs {
    ($($kind:ident)*) => {$(
        impl ser::$kind for MapWriter {
            type Ok = Value;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                it: &T,
            ) -> Result<(), Error> {
                self.push(name, it)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.finish())
            }
        }
    )*};
}

structs! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for MapWriter {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let key = Key::from_value(to_value(key)?);
        let key =
            key.ok_or_else(|| Error::Type("a key that is neither number nor text nor bytes".to_owned()))?;
        self.key = Some(key);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, it: &T) -> Result<(), Error> {
        let key = self.key.take().expect("serde gives a key before its value");
        self.pairs.push((key, to_value(it)?));
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.finish())
    }
}

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Value;

    fn into_deserializer(self) -> Value {
        self
    }
}

impl IntoDeserializer<'_, Error> for Key {
    type Deserializer = Value;

    fn into_deserializer(self) -> Value {
        match self {
            Key::Int(int) => Value::Int(int),
            Key::Text(text) => Value::Text(text),
            Key::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(bool) => visitor.visit_bool(bool),
            Value::Int(int) => visitor.visit_i64(int),
            Value::Float(float) => visitor.visit_f64(float),
            Value::Bytes(bytes) => visitor.visit_byte_buf(bytes),
            Value::Text(text) => visitor.visit_string(text),
            Value::List(list) => {
                let mut list = SeqDeserializer::new(list.into_iter());
                let made = visitor.visit_seq(&mut list)?;
                list.end()?;
                Ok(made)
            }
            Value::Map(pairs) => {
                let mut pairs = MapDeserializer::new(pairs.into_iter());
                let made = visitor.visit_map(&mut pairs)?;
                pairs.end()?;
                Ok(made)
            }
            Value::Object(object) => Err(Error::Type(format!(
                "an object of PHP's class {}; read it as a Value",
                object.class
            ))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    // PHP has one kind of array: an empty one reads as a list.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::List(list) if list.is_empty() => Value::Map(Vec::new()).deserialize_any(visitor),
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Value::Text(name) => visitor.visit_enum(name.into_deserializer()),
            Value::Map(pairs) if pairs.len() == 1 => {
                let pairs = MapDeserializer::new(pairs.into_iter());
                visitor.visit_enum(MapAccessDeserializer::new(pairs))
            }
            value => value.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Serialize};

    use super::{from_value, to_value};
    use crate::value::{Format, Limits, Value};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Jay {
        name: String,
        weight: f64,
        nest: Option<Box<Jay>>,
        caches: BTreeMap<i64, Vec<Find>>,
        ring: (u32, char),
        wide: Wide,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wide(u64);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Find {
        Nothing,
        Acorn(bool),
        Two(i8, f32),
        Other { name: String, count: u16 },
    }

    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(it: &T) {
        let value = to_value(it).expect("it can be said");
        for format in [Format::Msgpack, Format::Igbinary, Format::Php] {
            let bytes = format.write(&value).expect("it can be written");
            let read = format.read(&bytes, &Limits::default()).expect("it can be read");
            assert_eq!(from_value::<T>(read).as_ref(), Ok(it), "{format:?}");
        }
    }

    #[test]
    fn types_come_back_through_every_format() {
        let finds = vec![
            Find::Nothing,
            Find::Acorn(true),
            Find::Two(-1, 0.5),
            Find::Other {
                name: "松鸦".to_owned(),
                count: 7,
            },
        ];
        let jay = |nest, caches| Jay {
            name: "scrub".to_owned(),
            weight: 0.1,
            nest,
            caches,
            ring: (u32::MAX, 'é'),
            wide: Wide(i64::MAX as u64),
        };
        check(&jay(None, BTreeMap::new()));
        let caches = BTreeMap::from([(-3, finds), (0, Vec::new())]);
        check(&jay(Some(Box::new(jay(None, BTreeMap::new()))), caches));
        check(&vec![Some(1), None]);
        check(&());
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(to_value(&u64::MAX).is_err());
        assert!(to_value(&BTreeMap::from([(Some(true), 1)])).is_err());
        assert!(from_value::<u8>(Value::Int(256)).is_err());
        assert!(from_value::<u8>(Value::Int(-1)).is_err());
        assert!(from_value::<(u8, u8)>(Value::List(vec![Value::Int(1); 3])).is_err());
        assert!(from_value::<Jay>(Value::Map(Vec::new())).is_err());
        assert!(from_value::<Find>(Value::Text("Feather".to_owned())).is_err());
    }
}
