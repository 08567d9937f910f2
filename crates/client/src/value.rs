//! How values are written as bytes and flags.
//!
//! A cache holds bytes and 32 bits of flags. What they mean is a matter between the clients, and every client library has
//! answered it differently. A [`Layout`] is one answer: a [`profile`] says which flags mean what, a serializer writes what is
//! neither text nor number, and [`Compression`] makes the result smaller where that pays. Everything that is read may come from
//! anybody: [`Limits`] bound what is made of it, and nothing here panics because of it.

mod compress;
mod error;
mod fastlz;
mod fb;
mod igbinary;
mod json;
mod layout;
mod marshal;
mod msgpack;
mod number;
mod opened;
mod php;
mod pickle;
pub mod profile;
mod reader;
mod stream;
mod strings;
mod typed;

pub use compress::{Codec, Compression, Dictionary};
pub use error::Error;
pub use layout::{Choice, Layout, Stored};
pub use opened::{Contents, Packed};
pub use stream::{Event, StreamReader, StreamWriter};
pub use typed::{from_value, to_value};

/// A value, as far as the formats agree on what one is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number of double precision.
    Float(f64),
    /// Bytes that are no text, or of which nobody has said that they are.
    Bytes(Vec<u8>),
    /// Text. Formats that do not tell text from bytes read as text what is valid UTF-8.
    Text(String),
    /// Values in order; to PHP an array whose keys count up from 0.
    List(Vec<Value>),
    /// Pairs in the order they were written; to PHP an array with any other keys.
    Map(Vec<(Key, Value)>),
    /// An instance of a class of PHP.
    Object(Box<Object>),
}

/// The key of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
}

/// An instance of a class of PHP.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its class, with namespaces.
    pub class: String,
    /// What it holds.
    pub body: Body,
}

/// What an object holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Properties; names of protected and private ones as PHP mangles them, with zero bytes.
    Properties(Vec<(Key, Value)>),
    /// What the class itself has written (PHP's `Serializable`).
    Custom(Vec<u8>),
    /// A case of an enumeration, by its name.
    Case(String),
}

/// How much may be made of what was stored.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Levels of nesting, at most [`Limits::DEPTH_MAX`].
    pub depth_max: usize,
    /// Values in one, copies of references included.
    pub values_max: usize,
    /// Bytes after decompression, and of all texts and bytes made of them, copies included.
    pub bytes_max: usize,
    /// Whether pickles are read: only plain values are, but others who share the cache may still mean them for programs.
    pub pickle_allowed: bool,
}

impl Limits {
    /// The deepest nesting that fits on any thread's stack.
    pub const DEPTH_MAX: usize = 256;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth_max: Self::DEPTH_MAX,
            values_max: 16 << 20,
            bytes_max: 256 << 20,
            pickle_allowed: false,
        }
    }
}

/// A serializer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON in UTF-8.
    Json,
    /// MessagePack; bytes are its binary type.
    Msgpack,
    /// MessagePack as PHP's extension writes it: bytes are its string type.
    PhpMsgpack,
    /// igbinary 2 with compact strings.
    Igbinary,
    /// PHP's `serialize`.
    Php,
    /// HHVM's `fb_serialize`.
    Fb,
    /// Python's pickle: read only.
    Pickle,
    /// Ruby's Marshal: read only.
    Marshal,
}

impl Format {
    /// Writes `value`.
    ///
    /// # Errors
    /// When the format cannot express the value, or is one that is only read.
    pub fn write(self, value: &Value) -> Result<Vec<u8>, Error> {
        match self {
            Self::Json => json::write(value),
            Self::Msgpack => msgpack::write(value, msgpack::Strings::Told),
            Self::PhpMsgpack => msgpack::write(value, msgpack::Strings::Php),
            Self::Igbinary => igbinary::write(value),
            Self::Php => php::write(value),
            Self::Fb => fb::write(value),
            Self::Pickle => Err(Error::ReadOnly { format: "pickle" }),
            Self::Marshal => Err(Error::ReadOnly { format: "Marshal" }),
        }
    }

    /// Reads one value that takes all of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not of this format, exceed `limits`, or hold something that no [`Value`] is.
    pub fn read(self, bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
        let depth_max = limits.depth_max.min(Limits::DEPTH_MAX);
        let limits = &Limits {
            depth_max,
            ..limits.clone()
        };
        match self {
            Self::Json => json::read(bytes, limits),
            Self::Msgpack | Self::PhpMsgpack => msgpack::read(bytes, limits),
            Self::Igbinary => igbinary::read(bytes, limits),
            Self::Php => php::read(bytes, limits),
            Self::Fb => fb::read(bytes, limits),
            Self::Pickle if limits.pickle_allowed => pickle::read(bytes, limits),
            Self::Pickle => Err(Error::PickleRefused),
            Self::Marshal => marshal::read(bytes, limits),
        }
    }
}

impl Value {
    /// Text if `bytes` are valid UTF-8, else bytes: for formats that do not tell.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match simdutf8::basic::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }
}

impl Key {
    /// Text if `bytes` are valid UTF-8, else bytes: for formats that do not tell.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match simdutf8::basic::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    /// The key of a value, where one can be.
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Int(int) => Some(Self::Int(int)),
            Value::Text(text) => Some(Self::Text(text)),
            Value::Bytes(bytes) => Some(Self::Bytes(bytes)),
            _ => None,
        }
    }
}

/// A key, borrowed, in the only two kinds that PHP has.
enum PhpKey<'a> {
    Int(i64),
    String(&'a [u8]),
}

impl Key {
    fn php(&self) -> PhpKey<'_> {
        match self {
            Self::Int(int) => PhpKey::Int(*int),
            Self::Text(text) => PhpKey::String(text.as_bytes()),
            Self::Bytes(bytes) => PhpKey::String(bytes),
        }
    }
}
