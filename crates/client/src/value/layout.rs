//! From a value to bytes and flags, and back: form, then compression.

use std::borrow::Cow;

use super::opened::Packed;
use super::profile::{Form, Profile};
use super::{Compression, Error, Format, Limits, Value};

/// What goes to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// How to read the bytes.
    pub flags: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Whether one value is compressed. The threshold wins over whatever flags a caller passes, upwards and downwards; who means
/// something else for one call says so here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// From the threshold on, if enough is saved.
    #[default]
    ByThreshold,
    /// Whatever its size, if anything is saved.
    Compress,
    /// Never.
    Raw,
}

/// How values are written, and by whose flags they are read.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What flags mean.
    pub profile: &'static Profile,
    /// The serializer for values that have no form of their own.
    pub format: Option<Format>,
    /// When values are compressed, and how; `None`: never, whatever the choice. Its dictionary serves for reading too.
    pub compression: Option<Compression>,
}

impl Layout {
    /// A profile's own serializer and codec, from 2,000 bytes on, if a fifth is saved.
    #[must_use]
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            format: profile.format,
            compression: Some(Compression::new(profile.codec())),
        }
    }

    /// Writes `value`: serialized once, whatever is decided about those bytes then.
    ///
    /// # Errors
    /// When the profile has no way to say the value, the serializer or the codec.
    pub fn encode(&self, value: &Value, choice: Choice) -> Result<Stored, Error> {
        let (form_bits, form) = self.profile.form_for(value, self.format)?;
        let raw = form.write(value)?;
        #[cfg(test)]
        tests::WRITES.set(tests::WRITES.get() + 1);
        let (flags, bytes) = self.pack(form_bits, raw, choice)?;
        Ok(Stored {
            flags,
            bytes: bytes.into_owned(),
        })
    }

    /// Compression, if it pays, of what is written already, whose flags are `form_bits`; gives the flags of both.
    ///
    /// # Errors
    /// When the profile has no bits for the codec, or the codec fails.
    pub fn pack<'a>(&self, form_bits: u32, raw: Cow<'a, [u8]>, choice: Choice) -> Result<Packed<'a>, Error> {
        if let Some(compression) = &self.compression
            && let Some(small) = compression.shrink(&raw, choice)?
        {
            let flags = form_bits | self.profile.codec_bits(compression.codec)?;
            return Ok((flags, Cow::Owned(self.prefixed(raw.len(), small)?)));
        }
        Ok((form_bits, raw))
    }

    fn prefixed(&self, len: usize, small: Vec<u8>) -> Result<Vec<u8>, Error> {
        if !self.profile.length_prefix {
            return Ok(small);
        }
        let len = u32::try_from(len);
        let len = len.map_err(|_| Error::Inexpressible {
            format: self.profile.name,
            what: "lengths beyond 4 GiB",
        })?;
        Ok([&len.to_le_bytes(), small.as_slice()].concat())
    }

    /// Reads what a server sent.
    ///
    /// # Errors
    /// When flags or bytes are not of this profile, or exceed `limits`.
    pub fn decode(&self, bytes: &[u8], flags: u32, limits: &Limits) -> Result<Value, Error> {
        let (form, raw) = self.unpack(bytes, flags, limits)?;
        form.read(raw, limits)
    }

    /// The form and its bytes, no longer compressed.
    pub(super) fn unpack<'a>(
        &self,
        bytes: &'a [u8],
        flags: u32,
        limits: &Limits,
    ) -> Result<(Form, Cow<'a, [u8]>), Error> {
        let (form, codec) = self.profile.meaning(flags)?;
        let Some(codec) = codec else {
            return Ok((form, Cow::Borrowed(bytes)));
        };
        let dictionary = self
            .compression
            .as_ref()
            .and_then(|compression| compression.dictionary.as_deref());
        let announced = self.profile.length_prefix.then(|| bytes.split_first_chunk::<4>());
        let raw = match announced {
            None => codec.decompress(bytes, limits, dictionary)?,
            Some(None) => return Err(LENGTH),
            Some(Some((len, small))) => {
                let len = u32::from_le_bytes(*len) as usize;
                if len > limits.bytes_max {
                    return Err(Error::Beyond {
                        what: "bytes after decompression",
                        limit: limits.bytes_max,
                    });
                }
                let limits = Limits {
                    bytes_max: len,
                    ..limits.clone()
                };
                let raw = codec.decompress(small, &limits, dictionary)?;
                if raw.len() != len {
                    return Err(LENGTH);
                }
                raw
            }
        };
        Ok((form, Cow::Owned(raw)))
    }
}

const LENGTH: Error = Error::Malformed {
    format: "compressed value",
    offset: 0,
    what: "length is not the one announced",
};

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Choice, Layout, Value};
    use crate::value::profile;

    thread_local! {
        /// How often a value was serialized.
        pub(super) static WRITES: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn value_is_serialized_once_whatever_is_decided() {
        let layout = Layout::new(&profile::SCRUBJAY);
        for len in [10, 100_000] {
            for choice in [Choice::ByThreshold, Choice::Compress, Choice::Raw] {
                WRITES.set(0);
                let value = Value::List(vec![Value::Int(5_000); len]);
                layout.encode(&value, choice).expect("our own layout takes lists");
                assert_eq!(WRITES.get(), 1, "{len} numbers, {choice:?}");
            }
        }
    }
}
