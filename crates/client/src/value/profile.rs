//! What flags mean, by client library: one table.
//!
//! A row gives bits and what they mean. The first row that takes a value is the one by which it is written; all are read.

use std::borrow::Cow;

use super::{Codec, Error, Format, Value, number};

/// What one client library means by flags.
#[derive(Debug)]
pub struct Profile {
    /// Whose they are.
    pub name: &'static str,
    /// The serializer for what has no form of its own, unless another is chosen; `None`: its own is not read.
    pub format: Option<Format>,
    /// The bits that tell forms apart.
    form_mask: u32,
    forms: &'static [(u32, Form)],
    /// The bits that tell codecs apart; none of them set: not compressed.
    codec_mask: u32,
    codecs: &'static [(u32, Codec)],
    /// Whether the length before compression stands before compressed bytes, in 4 bytes, the lowest first.
    pub(super) length_prefix: bool,
    /// Bits that the library leaves to its users.
    free_mask: u32,
}

/// How a value is written, before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Bytes as they are.
    Bytes,
    /// Text in UTF-8 as it is.
    Text,
    /// Text and bytes as they are: read as text if they are valid UTF-8.
    String,
    /// Decimal, so that servers can count on it.
    Int,
    /// A double with the letters that PHP's `serialize` uses.
    Float,
    /// A double as php-memcache writes it.
    PhpMemcacheFloat,
    /// A double as php-memcached writes it.
    PhpMemcachedFloat,
    /// `1` or `0`.
    Bool,
    /// `1` or nothing.
    PhpBool,
    /// A bool as `1` or `0`, which its writer reads as a number.
    BoolAsInt,
    /// Nothing at all.
    Null,
    /// What Java's byte order makes of it, without leading zero bytes.
    Java(Java),
    /// By a serializer.
    Serialized(Format),
    /// By a serializer that is not read, whose name this is.
    Unreadable(&'static str),
}

/// Numbers as spymemcached packs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Java {
    Bool,
    Byte,
    Int,
    Long,
    Float,
    Double,
}

/// Our own. The highest byte is a mark, so that another's flags are not taken for ours; 0 is what writers without any layout use.
pub static SCRUBJAY: Profile = Profile {
    name: "scrubjay",
    format: Some(Format::Msgpack),
    form_mask: 0xff00_000f,
    forms: &[
        (0x5c00_0000, Form::Bytes),
        (0x5c00_0001, Form::Text),
        (0x5c00_0002, Form::Int),
        (0x5c00_0003, Form::Float),
        (0x5c00_0004, Form::Bool),
        (0x5c00_0005, Form::Null),
        (0x5c00_0006, Form::Serialized(Format::Msgpack)),
        (0x5c00_0007, Form::Serialized(Format::Json)),
        (0x5c00_0008, Form::Serialized(Format::Igbinary)),
        (0x5c00_0009, Form::Serialized(Format::Php)),
        (0x5c00_000a, Form::Serialized(Format::Fb)),
        (0x5c00_000b, Form::Serialized(Format::Pickle)),
        (0, Form::Bytes),
    ],
    codec_mask: 0x70,
    codecs: &[(0x10, Codec::Zstd), (0x20, Codec::Lz4), (0x30, Codec::Zlib)],
    length_prefix: false,
    free_mask: 0,
};

/// PHP's extension `memcached`. The upper half of the flags is its users'.
pub static PHP_MEMCACHED: Profile = Profile {
    name: "php-memcached",
    format: Some(Format::Php),
    form_mask: 0xf,
    forms: &[
        (0, Form::String),
        (1, Form::Int),
        (2, Form::PhpMemcachedFloat),
        (3, Form::PhpBool),
        (4, Form::Serialized(Format::Php)),
        (5, Form::Serialized(Format::Igbinary)),
        (6, Form::Serialized(Format::Json)),
        (7, Form::Serialized(Format::PhpMsgpack)),
    ],
    codec_mask: 0xff0,
    codecs: &[(0x30, Codec::Zlib), (0x50, Codec::FastLz), (0x90, Codec::Zstd)],
    length_prefix: true,
    free_mask: 0xffff_0000,
};

/// PHP's extension `memcache`.
pub static PHP_MEMCACHE: Profile = Profile {
    name: "php-memcache",
    format: Some(Format::Php),
    form_mask: 0x0f01,
    forms: &[
        (0x000, Form::String),
        (0x100, Form::Bool),
        (0x300, Form::Int),
        (0x700, Form::PhpMemcacheFloat),
        (0x001, Form::Serialized(Format::Php)),
    ],
    codec_mask: 0x2,
    codecs: &[(0x2, Codec::Zlib)],
    length_prefix: false,
    free_mask: 0xffff_0000,
};

/// Python's pylibmc.
pub static PYLIBMC: Profile = Profile {
    name: "pylibmc",
    forms: &[
        (0x00, Form::Bytes),
        (0x10, Form::Text),
        (0x02, Form::BoolAsInt),
        (0x04, Form::Int),
        (0x01, Form::Serialized(Format::Pickle)),
    ],
    ..PYTHON
};

/// Python's pymemcache, with its serializer and, beside that, its compression.
pub static PYMEMCACHE: Profile = Profile {
    name: "pymemcache",
    ..PYTHON
};

/// Python's python-memcached.
pub static PYTHON_MEMCACHED: Profile = Profile {
    name: "python-memcached",
    ..PYTHON
};

/// What Python's clients have in common.
const PYTHON: Profile = Profile {
    name: "python",
    format: Some(Format::Pickle),
    form_mask: 0x17,
    forms: &[
        (0x00, Form::Bytes),
        (0x10, Form::Text),
        (0x02, Form::Int),
        (0x04, Form::Int),
        (0x01, Form::Serialized(Format::Pickle)),
    ],
    codec_mask: 0x8,
    codecs: &[(0x8, Codec::Zlib)],
    length_prefix: false,
    free_mask: 0,
};

/// Ruby's Dalli.
pub static DALLI: Profile = Profile {
    name: "dalli",
    format: Some(Format::Marshal),
    form_mask: 0x5,
    forms: &[
        (0, Form::String),
        (4, Form::Text),
        (1, Form::Serialized(Format::Marshal)),
    ],
    codec_mask: 0x2,
    codecs: &[(0x2, Codec::Zlib)],
    length_prefix: false,
    free_mask: 0,
};

/// Java's spymemcached, with its serializing transcoder.
pub static SPYMEMCACHED: Profile = Profile {
    name: "spymemcached",
    format: None,
    form_mask: 0xff01,
    forms: &[
        (0x000, Form::Text),
        (0x800, Form::Bytes),
        (0x100, Form::Java(Java::Bool)),
        (0x300, Form::Java(Java::Long)),
        (0x200, Form::Java(Java::Int)),
        (0x400, Form::Java(Java::Long)),
        (0x500, Form::Java(Java::Byte)),
        (0x700, Form::Java(Java::Double)),
        (0x600, Form::Java(Java::Float)),
        (0x001, Form::Unreadable("Java's serialization")),
    ],
    codec_mask: 0x2,
    codecs: &[(0x2, Codec::Gzip)],
    length_prefix: false,
    free_mask: 0,
};

/// All of them.
pub static PROFILES: [&Profile; 8] = [
    &SCRUBJAY,
    &PHP_MEMCACHED,
    &PHP_MEMCACHE,
    &PYLIBMC,
    &PYMEMCACHE,
    &PYTHON_MEMCACHED,
    &DALLI,
    &SPYMEMCACHED,
];

impl Profile {
    /// The codec that is used unless another is chosen.
    pub(super) fn codec(&self) -> Codec {
        self.codecs[0].1
    }

    /// The bits and form by which `value` is written, and what else is by `format`.
    pub(super) fn form_for(&self, value: &Value, format: Option<Format>) -> Result<(u32, Form), Error> {
        let row = self.forms.iter().find(|(_, form)| form.takes(value, format));
        row.copied().ok_or(Error::Inexpressible {
            format: self.name,
            what: "such a value with the serializer chosen",
        })
    }

    /// The bits that say `codec`.
    pub(super) fn codec_bits(&self, codec: Codec) -> Result<u32, Error> {
        let row = self.codecs.iter().find(|(_, row)| *row == codec);
        row.map(|(bits, _)| *bits).ok_or(Error::Inexpressible {
            format: self.name,
            what: "the compression chosen",
        })
    }

    /// What `flags` mean.
    pub(super) fn meaning(&self, flags: u32) -> Result<(Form, Option<Codec>), Error> {
        let unknown = Error::UnknownFlags {
            profile: self.name,
            flags,
        };
        if flags & !(self.form_mask | self.codec_mask | self.free_mask) != 0 {
            return Err(unknown);
        }
        let form = self
            .forms
            .iter()
            .find(|(bits, _)| *bits == flags & self.form_mask);
        let codec = self
            .codecs
            .iter()
            .find(|(bits, _)| *bits == flags & self.codec_mask);
        match (form, codec) {
            (Some((_, form)), None) if flags & self.codec_mask == 0 => Ok((*form, None)),
            // Where bytes of the profile's own carry a mark, 0 is for those without any layout, which are not compressed.
            (Some((0, _)), Some(_)) if self.forms[0].0 != 0 => Err(unknown),
            (Some((_, form)), Some((_, codec))) => Ok((*form, Some(*codec))),
            _ => Err(unknown),
        }
    }
}

impl Form {
    fn takes(self, value: &Value, format: Option<Format>) -> bool {
        match self {
            Self::Bytes => matches!(value, Value::Bytes(_)),
            Self::Text => matches!(value, Value::Text(_)),
            Self::String => matches!(value, Value::Bytes(_) | Value::Text(_)),
            Self::Int | Self::Java(Java::Long) => matches!(value, Value::Int(_)),
            Self::Float | Self::PhpMemcacheFloat | Self::PhpMemcachedFloat | Self::Java(Java::Double) => {
                matches!(value, Value::Float(_))
            }
            Self::Bool | Self::PhpBool | Self::BoolAsInt | Self::Java(Java::Bool) => {
                matches!(value, Value::Bool(_))
            }
            Self::Null => matches!(value, Value::Null),
            Self::Serialized(own) => Some(own) == format,
            Self::Java(_) | Self::Unreadable(_) => false,
        }
    }

    /// Writes a value that this form [takes](Self::takes).
    pub(super) fn write(self, value: &Value) -> Result<Cow<'_, [u8]>, Error> {
        Ok(Cow::Owned(match (self, value) {
            (Self::Serialized(format), value) => format.write(value)?,
            (Self::Java(_), Value::Int(int)) => packed(*int as u64),
            (Self::Java(_), Value::Float(float)) => packed(float.to_bits()),
            (Self::Java(_), Value::Bool(bool)) => vec![if *bool { b'1' } else { b'0' }],
            (Self::PhpMemcacheFloat, Value::Float(float)) => number::php_memcache(*float).into_bytes(),
            (Self::PhpMemcachedFloat, Value::Float(float)) => number::php_memcached(*float).into_bytes(),
            (Self::PhpBool, Value::Bool(false)) | (_, Value::Null) => Vec::new(),
            (_, Value::Bytes(bytes)) => return Ok(Cow::Borrowed(bytes)),
            (_, Value::Text(text)) => return Ok(Cow::Borrowed(text.as_bytes())),
            (_, Value::Int(int)) => int.to_string().into_bytes(),
            (_, Value::Float(float)) => number::php(*float).into_bytes(),
            (_, Value::Bool(bool)) => vec![if *bool { b'1' } else { b'0' }],
            (_, Value::List(_) | Value::Map(_) | Value::Object(_)) => {
                return Err(Error::Inexpressible {
                    format: "a plain form",
                    what: "arrays and objects",
                });
            }
        }))
    }

    /// Reads what this form has written.
    pub(super) fn read(self, bytes: Cow<'_, [u8]>, limits: &super::Limits) -> Result<Value, Error> {
        const NUMBER: Error = Error::Malformed {
            format: "number",
            offset: 0,
            what: "not a number, or one too great",
        };
        const BOOL: Error = Error::Malformed {
            format: "bool",
            offset: 0,
            what: "neither true nor false",
        };
        match self {
            Self::Bytes => Ok(Value::Bytes(bytes.into_owned())),
            Self::Text => String::from_utf8(bytes.into_owned())
                .map(Value::Text)
                .map_err(|error| Error::Malformed {
                    format: "text",
                    offset: error.utf8_error().valid_up_to(),
                    what: "not UTF-8",
                }),
            Self::String => Ok(String::from_utf8(bytes.into_owned())
                .map_or_else(|error| Value::Bytes(error.into_bytes()), Value::Text)),
            Self::Int | Self::BoolAsInt => number::read_int(&bytes).map(Value::Int).ok_or(NUMBER),
            Self::Float | Self::PhpMemcacheFloat | Self::PhpMemcachedFloat => {
                number::read_float(&bytes).map(Value::Float).ok_or(NUMBER)
            }
            Self::Bool | Self::PhpBool | Self::Java(Java::Bool) => match bytes.as_ref() {
                b"1" => Ok(Value::Bool(true)),
                b"0" | b"" => Ok(Value::Bool(false)),
                _ => Err(BOOL),
            },
            Self::Null if bytes.is_empty() => Ok(Value::Null),
            Self::Null => Err(Error::Malformed {
                format: "null",
                offset: 0,
                what: "something",
            }),
            Self::Java(java) => unpacked(&bytes, java).ok_or(NUMBER),
            Self::Serialized(format) => format.read(&bytes, limits),
            Self::Unreadable(format) => Err(Error::Inexpressible {
                format,
                what: "what others than its own can read",
            }),
        }
    }
}

/// The highest byte first, without leading zeros; 0 is no bytes.
fn packed(bits: u64) -> Vec<u8> {
    let zeros = bits.leading_zeros() as usize / 8;
    bits.to_be_bytes()[zeros..].to_vec()
}

fn unpacked(bytes: &[u8], java: Java) -> Option<Value> {
    if bytes.len() > 8 {
        return None;
    }
    let bits = bytes
        .iter()
        .fold(0, |bits: u64, &byte| bits << 8 | u64::from(byte));
    Some(match java {
        Java::Bool => return None,
        Java::Byte => Value::Int(i64::from(u8::try_from(bits).ok()?.cast_signed())),
        Java::Int => Value::Int(i64::from(u32::try_from(bits).ok()?.cast_signed())),
        Java::Long => Value::Int(bits.cast_signed()),
        Java::Float => Value::Float(f64::from(f32::from_bits(u32::try_from(bits).ok()?))),
        Java::Double => Value::Float(f64::from_bits(bits)),
    })
}
