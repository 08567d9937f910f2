//! Objects to bytes and flags, and back, in one of three ways: as pymemcache does it without any serializer, by functions of the
//! caller's, or typed by one of the client's layouts.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::types::{PyAnyMethods, PyBytes, PyBytesMethods, PyInt, PyString, PyStringMethods};
use pyo3::{Bound, FromPyObject, IntoPyObject, Py, PyAny, PyErr, PyResult, Python};
use scrubjay_client::Seen;
use scrubjay_client::value::{
    Choice, Codec, Compression, Contents, Dictionary, Error, Format, Layout, Limits, Packed, profile,
};

use crate::convert::{self, Taken};
use crate::failure;

/// How values are written and read.
#[derive(Debug)]
pub(crate) enum Values {
    /// Bytes come back as bytes, and so does everything else, in this encoding.
    Plain(Encoding),
    /// Functions of the caller's: `serialize(key, value)` and `deserialize(key, value, flags)`.
    Serde {
        serialize: Py<PyAny>,
        deserialize: Py<PyAny>,
        encoding: Encoding,
    },
    /// By a layout.
    Typed(Box<Typed>),
}

/// An encoding, by Python's name for it.
#[derive(Debug)]
pub(crate) struct Encoding {
    name: String,
    is_utf8: bool,
}

/// A layout, and what becomes of what it cannot tell.
#[derive(Debug)]
pub(crate) struct Typed {
    layout: Layout,
    limits: Limits,
    /// `pickle.dumps` and `pickle.loads`, where pickles are wanted.
    pickle: Option<(Py<PyAny>, Py<PyAny>)>,
}

/// What goes to the server.
#[derive(Debug)]
pub(crate) struct Encoded<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) flags: u32,
}

impl Encoding {
    pub(crate) fn new(name: String) -> Encoding {
        let is_utf8 = matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8");
        Encoding { name, is_utf8 }
    }

    /// Bytes as they are, anything else as its text.
    fn encode<'a>(&self, object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Cow::Borrowed(bytes.as_bytes()));
        }
        if let Ok(text) = object.cast_exact::<PyString>()
            && let Ok(text) = text.to_str()
            && (self.is_utf8 || (text.is_ascii() && self.name == "ascii"))
        {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let encoded = object.str()?.call_method1("encode", (self.name.as_str(),));
        let encoded = encoded.map_err(|error| {
            if error.is_instance_of::<PyUnicodeEncodeError>(object.py()) {
                failure::illegal(format!("a value is no {}: {error}; set encoding", self.name))
            } else {
                error
            }
        })?;
        Ok(Cow::Owned(encoded.cast::<PyBytes>()?.as_bytes().to_vec()))
    }
}

impl Values {
    /// What is sent for `value`.
    pub(crate) fn encode<'a>(
        &self,
        key: &Bound<'_, PyAny>,
        value: &'a Bound<'_, PyAny>,
    ) -> PyResult<Encoded<'a>> {
        match self {
            Values::Plain(encoding) => Ok(Encoded {
                bytes: encoding.encode(value)?,
                flags: 0,
            }),
            Values::Serde {
                serialize, encoding, ..
            } => {
                let pair = serialize.bind(value.py()).call1((key, value))?;
                let (data, flags): (Bound<'_, PyAny>, u32) = pair.extract()?;
                let bytes = Cow::Owned(encoding.encode(&data)?.into_owned());
                Ok(Encoded { bytes, flags })
            }
            Values::Typed(typed) => typed.encode(value),
        }
    }

    /// The object that was stored.
    #[inline]
    pub(crate) fn decode(&self, py: Python<'_>, key: &Py<PyAny>, value: Seen<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Values::Plain(_) => Ok(PyBytes::new(py, value.bytes).into_any().unbind()),
            Values::Serde { deserialize, .. } => deserialized(py, deserialize, key, value),
            Values::Typed(typed) => typed.decode(py, value),
        }
    }

    /// Whether keys are needed to read values.
    pub(crate) fn wants_key(&self) -> bool {
        matches!(self, Values::Serde { .. })
    }
}

/// What can be chosen of a layout.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Choices {
    profile: String,
    format: Option<String>,
    /// `None`: the profile's; `"none"`: no compression.
    compression: Option<String>,
    compression_threshold: Option<usize>,
    compression_saving_min: Option<f64>,
    dictionary: Option<Vec<u8>>,
    value_len_max: Option<usize>,
    pickles_plain: bool,
}

impl Typed {
    /// Checks everything that was chosen.
    pub(crate) fn new(chosen: Choices, pickle: Option<(Py<PyAny>, Py<PyAny>)>) -> PyResult<Typed> {
        let profile = named(
            &profile::PROFILES,
            |profile| profile.name,
            &chosen.profile,
            "profile",
        )?;
        let mut layout = Layout::new(profile);
        if let Some(name) = &chosen.format {
            layout.format = Some(named(FORMATS, |row| row.0, name, "format")?.1);
        }
        if let Some(name) = &chosen.compression {
            let codec = named(CODECS, |row| row.0, name, "compression")?.1;
            layout.compression = codec.map(Compression::new);
        }
        if let Some(compression) = &mut layout.compression {
            let threshold = chosen.compression_threshold;
            compression.threshold = threshold.unwrap_or(compression.threshold);
            let saving = chosen.compression_saving_min.unwrap_or(compression.saving_min);
            if !(0.0..=1.0).contains(&saving) {
                let words = format!("compression_saving_min: {saving} is not from 0 to 1");
                return Err(PyValueError::new_err(words));
            }
            compression.saving_min = saving;
            if let Some(bytes) = &chosen.dictionary {
                let dictionary =
                    Dictionary::new(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
                compression.dictionary = Some(Arc::new(dictionary));
            }
        }
        let mut limits = Limits {
            pickle_allowed: chosen.pickles_plain,
            ..Limits::default()
        };
        limits.bytes_max = chosen.value_len_max.unwrap_or(limits.bytes_max);
        Ok(Typed {
            layout,
            limits,
            pickle,
        })
    }

    fn encode<'a>(&self, object: &'a Bound<'_, PyAny>) -> PyResult<Encoded<'a>> {
        if let Some((contents, raw)) = simple(object)?
            && let Some((flags, bytes)) = self.seal(contents, raw)?
        {
            return Ok(Encoded { bytes, flags });
        }
        let taken = match self.pickle {
            Some(_) => Taken::Exact,
            None => Taken::Alike,
        };
        let value = match convert::to_value(object, taken) {
            Ok(value) => value,
            Err(error) if self.pickle.is_some() && is_no_value(object.py(), &error) => {
                return self.pickled(object);
            }
            Err(error) => return Err(error),
        };
        match self.layout.encode(&value, Choice::ByThreshold) {
            Ok(stored) => Ok(Encoded {
                bytes: Cow::Owned(stored.bytes),
                flags: stored.flags,
            }),
            Err(Error::ReadOnly { .. } | Error::Inexpressible { .. }) if self.pickle.is_some() => {
                self.pickled(object)
            }
            Err(error @ (Error::ReadOnly { .. } | Error::Inexpressible { .. })) => Err(PyTypeError::new_err(
                format!("{error}, another profile, or pickle=True if every writer to the cache is trusted"),
            )),
            Err(error) => Err(failure::of_value(error.to_string())),
        }
    }

    fn seal<'a>(&self, contents: Contents, raw: Cow<'a, [u8]>) -> PyResult<Option<Packed<'a>>> {
        let sealed = self.layout.seal(contents, raw, Choice::ByThreshold);
        sealed.map_err(|error| failure::of_value(error.to_string()))
    }

    fn pickled<'a>(&self, object: &Bound<'_, PyAny>) -> PyResult<Encoded<'a>> {
        let Some((dumps, _)) = &self.pickle else {
            return Err(failure::of_value("pickles are not asked for".to_owned()));
        };
        // 4: the newest that every Python still in use reads.
        let pickle = dumps.bind(object.py()).call1((object, 4))?;
        let raw = Cow::Owned(pickle.cast::<PyBytes>()?.as_bytes().to_vec());
        let sealed = self.seal(Contents::Serialized(Format::Pickle), raw)?;
        let (flags, bytes) = sealed.ok_or_else(|| {
            let name = self.layout.profile.name;
            PyTypeError::new_err(format!("{name} has no pickles; use another profile"))
        })?;
        Ok(Encoded { bytes, flags })
    }

    fn decode(&self, py: Python<'_>, value: Seen<'_>) -> PyResult<Py<PyAny>> {
        let fail = |error: Error| failure::of_value(error.to_string());
        let (contents, _) = self.layout.contents(value.flags).map_err(fail)?;
        let open = || {
            self.layout
                .open(value.bytes, value.flags, &self.limits)
                .map_err(fail)
        };
        match contents {
            Contents::Bytes => Ok(PyBytes::new(py, &open()?).into_any().unbind()),
            Contents::Text => {
                let bytes = open()?;
                let text =
                    std::str::from_utf8(&bytes).map_err(|error| failure::of_value(error.to_string()))?;
                Ok(PyString::new(py, text).into_any().unbind())
            }
            Contents::Int => {
                let bytes = open()?;
                let digits = std::str::from_utf8(&bytes).unwrap_or("?").trim();
                match digits.parse::<i64>() {
                    Ok(int) => Ok(int.into_pyobject(py)?.into_any().unbind()),
                    // Counters go up to 64 bits without a sign, Python's own numbers further.
                    Err(_) => (py.get_type::<PyInt>().call1((digits,)))
                        .map(Bound::unbind)
                        .map_err(|error| failure::of_value(error.to_string())),
                }
            }
            Contents::Serialized(Format::Pickle) if let Some((_, loads)) = &self.pickle => {
                loads.call1(py, (PyBytes::new(py, &open()?),))
            }
            Contents::Serialized(_) | Contents::Other => {
                let value = self.layout.decode(value.bytes, value.flags, &self.limits);
                convert::to_object(py, &value.map_err(fail)?)
            }
        }
    }
}

/// Apart, so that what most values need stays small where there are many.
#[inline(never)]
fn deserialized(
    py: Python<'_>,
    deserialize: &Py<PyAny>,
    key: &Py<PyAny>,
    value: Seen<'_>,
) -> PyResult<Py<PyAny>> {
    deserialize.call1(py, (key, PyBytes::new(py, value.bytes), value.flags))
}

/// What needs no conversion.
fn simple<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Option<(Contents, Cow<'a, [u8]>)>> {
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(Some((Contents::Bytes, Cow::Borrowed(bytes.as_bytes()))));
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(Some((Contents::Text, Cow::Borrowed(text.to_str()?.as_bytes()))));
    }
    Ok(None)
}

/// Whether an object was refused for what it is, not because asking it failed.
fn is_no_value(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyOverflowError>(py)
}

const FORMATS: &[(&str, Format)] = &[
    ("msgpack", Format::Msgpack),
    ("json", Format::Json),
    ("igbinary", Format::Igbinary),
    ("php", Format::Php),
    ("fb", Format::Fb),
];

const CODECS: &[(&str, Option<Codec>)] = &[
    ("none", None),
    ("zstd", Some(Codec::Zstd)),
    ("lz4", Some(Codec::Lz4)),
    ("zlib", Some(Codec::Zlib)),
];

fn named<'a, T>(
    rows: &'a [T],
    name_of: impl Fn(&T) -> &'static str,
    name: &str,
    what: &str,
) -> PyResult<&'a T> {
    rows.iter().find(|row| name_of(row) == name).ok_or_else(|| {
        let names: Vec<&str> = rows.iter().map(name_of).collect();
        PyValueError::new_err(format!(
            "{what}: there is no {name:?}; there are: {}",
            names.join(" ")
        ))
    })
}
