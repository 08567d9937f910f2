//! What is a key: by pymemcache's rules, so that the same keys are taken and the same are refused.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyAnyMethods, PyBytes, PyBytesMethods, PyString, PyStringMethods, PyTypeMethods};
use pyo3::{Bound, PyAny, PyErr, PyResult};
use scrubjay_client::protocol::request::{KEY_LEN_MAX, is_plain, needs_base64};

use crate::failure;

/// How keys are read.
#[derive(Debug)]
pub(crate) struct KeyRules {
    /// Put before every key on the wire; it has no say in which server has the key, as with pymemcache.
    pub(crate) prefix: Vec<u8>,
    /// Whether text may be other than ASCII.
    pub(crate) unicode: bool,
}

/// A key.
#[derive(Debug)]
pub(crate) struct Key<'a> {
    /// As it goes to the server.
    pub(crate) wire: Cow<'a, [u8]>,
    /// Without the prefix.
    pub(crate) bare: &'a [u8],
}

impl KeyRules {
    /// Reads one; its bytes stay where they are unless there is a prefix.
    pub(crate) fn read<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<Key<'a>> {
        let bare = self.bare(key)?;
        let wire = if self.prefix.is_empty() {
            Cow::Borrowed(bare)
        } else {
            check_blanks(key, &self.prefix)?;
            Cow::Owned([&self.prefix, bare].concat())
        };
        Ok(Key { wire, bare })
    }

    /// The same without the prefix.
    #[inline]
    pub(crate) fn bare<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
        if let Ok(text) = key.cast_exact::<PyString>()
            && let Ok(text) = text.to_str()
            && is_plain(text.as_bytes())
            && self.prefix.len() + text.len() <= KEY_LEN_MAX
        {
            return Ok(text.as_bytes());
        }
        self.bare_of_any(key)
    }

    /// The same whatever it is.
    fn bare_of_any<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
        let bare = if let Ok(bytes) = key.cast::<PyBytes>() {
            bytes.as_bytes()
        } else if let Ok(text) = key.cast::<PyString>() {
            self.text(key, text)?
        } else {
            return Err(PyTypeError::new_err(format!(
                "a key is str or bytes, not {}",
                key.get_type().name()?
            )));
        };
        if self.prefix.len() + bare.len() > KEY_LEN_MAX {
            return Err(illegal("is too long", key));
        }
        check_blanks(key, bare)?;
        Ok(bare)
    }

    fn text<'a>(&self, key: &Bound<'_, PyAny>, text: &'a Bound<'_, PyString>) -> PyResult<&'a [u8]> {
        let text = text
            .to_str()
            .map_err(|_| illegal("is no text that can be sent", key))?;
        if !self.unicode && !text.is_ascii() {
            return Err(illegal("is not ASCII; pass allow_unicode_keys=True", key));
        }
        Ok(text.as_bytes())
    }
}

/// What Python takes for white space, and zero. Hardly a key has any control character at all.
fn check_blanks(key: &Bound<'_, PyAny>, bytes: &[u8]) -> PyResult<()> {
    let is_blank = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ' | 0);
    if needs_base64(bytes) && bytes.iter().any(is_blank) {
        return Err(illegal("contains whitespace or null", key));
    }
    Ok(())
}

#[cold]
fn illegal(what: &str, key: &Bound<'_, PyAny>) -> PyErr {
    let shown = key
        .repr()
        .map_or_else(|_| "?".to_owned(), |text| text.to_string());
    failure::illegal(format!("key {shown} {what}"))
}
