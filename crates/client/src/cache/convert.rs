//! What becomes a value without being asked.

use crate::value::{Key, Value};

macro_rules! from {
    ($($kind:ty => $make:expr;)*) => {$(
        impl From<$kind> for Value {
            fn from(it: $kind) -> Value {
                $make(it)
            }
        }
    )*};
}

from! {
    bool => Value::Bool;
    i64 => Value::Int;
    i32 => |it| Value::Int(i64::from(it));
    u32 => |it| Value::Int(i64::from(it));
    f64 => Value::Float;
    &str => |it: &str| Value::Text(it.to_owned());
    String => Value::Text;
    &[u8] => |it: &[u8]| Value::Bytes(it.to_vec());
    Vec<u8> => Value::Bytes;
    Vec<Value> => Value::List;
    Vec<(Key, Value)> => Value::Map;
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(it: Option<T>) -> Value {
        it.map_or(Value::Null, Into::into)
    }
}

impl From<&str> for Key {
    fn from(it: &str) -> Key {
        Key::Text(it.to_owned())
    }
}

impl From<i64> for Key {
    fn from(it: i64) -> Key {
        Key::Int(it)
    }
}
