//! Flags and compression without the contents: for bindings that have their own strings, numbers and serializers, and want to copy
//! and convert nothing twice.

use std::borrow::Cow;

use super::profile::Form;
use super::{Choice, Error, Format, Layout, Limits, Value};

/// What the bytes of a value are, once they are not compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Bytes.
    Bytes,
    /// Text in UTF-8.
    Text,
    /// A whole number in decimal digits, of any length.
    Int,
    /// What a serializer wrote.
    Serialized(Format),
    /// Something else: [`Layout::decode`] knows.
    Other,
}

/// Flags and bytes, as they go to the server.
pub type Packed<'a> = (u32, Cow<'a, [u8]>);

impl Layout {
    /// What `flags` say of the contents, without a look at them; and whether they are compressed.
    ///
    /// # Errors
    /// When the flags are not of this profile.
    pub fn contents(&self, flags: u32) -> Result<(Contents, bool), Error> {
        let (form, codec) = self.profile.meaning(flags)?;
        let contents = match form {
            Form::Bytes => Contents::Bytes,
            Form::Text => Contents::Text,
            Form::Int | Form::BoolAsInt => Contents::Int,
            Form::Serialized(format) => Contents::Serialized(format),
            _ => Contents::Other,
        };
        Ok((contents, codec.is_some()))
    }

    /// The bytes as they were before compression, not read any further.
    ///
    /// # Errors
    /// When flags or bytes are not of this profile, or exceed `limits`.
    pub fn open<'a>(&self, bytes: &'a [u8], flags: u32, limits: &Limits) -> Result<Cow<'a, [u8]>, Error> {
        Ok(self.unpack(bytes, flags, limits)?.1)
    }

    /// Flags and bytes for contents that are written already; `None` if the profile does not have such.
    ///
    /// # Errors
    /// When the profile has no way to say the codec.
    pub fn seal<'a>(
        &self,
        contents: Contents,
        raw: Cow<'a, [u8]>,
        choice: Choice,
    ) -> Result<Option<Packed<'a>>, Error> {
        let format = match contents {
            Contents::Serialized(format) => Some(format),
            _ => None,
        };
        let sample = match contents {
            Contents::Bytes => Value::Bytes(Vec::new()),
            Contents::Text => Value::Text(String::new()),
            Contents::Int => Value::Int(0),
            Contents::Serialized(_) => Value::List(Vec::new()),
            Contents::Other => return Ok(None),
        };
        match self.profile.form_for(&sample, format) {
            // Not if that kind of value is written in some other way here.
            Ok((bits, _)) if self.contents(bits)?.0 == contents => self.pack(bits, raw, choice).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::Contents;
    use crate::value::{Choice, Format, Layout, Limits, Value, profile};

    #[test]
    fn what_is_sealed_is_what_encode_writes_and_opens_again() {
        for profile in profile::PROFILES {
            let layout = Layout::new(profile);
            for (contents, value, raw) in [
                (
                    Contents::Bytes,
                    Value::Bytes(b"\xff\x00".to_vec()),
                    &b"\xff\x00"[..],
                ),
                (
                    Contents::Text,
                    Value::Text("acorn".repeat(1_000)),
                    "acorn".repeat(1_000).as_bytes(),
                ),
                (Contents::Int, Value::Int(-7), b"-7"),
            ] {
                let sealed = layout.seal(contents, Cow::Borrowed(raw), Choice::ByThreshold);
                let Some((flags, bytes)) = sealed.expect("a codec of its own") else {
                    continue;
                };
                let written = layout.encode(&value, Choice::ByThreshold).expect("the same");
                assert_eq!(
                    (flags, &*bytes),
                    (written.flags, &*written.bytes),
                    "{}",
                    profile.name
                );
                let opened = layout.open(&bytes, flags, &Limits::default());
                assert_eq!(opened.expect("just sealed"), raw, "{}", profile.name);
            }
        }
    }

    #[test]
    fn pickles_are_sealed_where_the_profile_has_them() {
        let pickle = Contents::Serialized(Format::Pickle);
        for (profile, flags) in [
            (&profile::PYMEMCACHE, Some(1)),
            (&profile::SCRUBJAY, Some(0x5c00_000b)),
            (&profile::DALLI, None),
        ] {
            let sealed = Layout::new(profile).seal(pickle, Cow::Borrowed(b"."), Choice::Raw);
            assert_eq!(
                sealed.expect("no codec").map(|(flags, _)| flags),
                flags,
                "{}",
                profile.name
            );
        }
    }
}
