//! What a text connection is in the middle of, for another server.

use std::borrow::Cow;

use super::swallow::Unwanted;
use super::{Keys, Step, TextState};
use crate::service::Shared;
use crate::session::Listing;
use crate::session::carry::{Reader, Writer};

const LINE: u8 = 0;
const KEYS: u8 = 1;
const SWALLOW: u8 = 2;
const SWALLOW_LINE: u8 = 3;
const LIST: u8 = 4;

impl TextState {
    /// `None` if the value that is being received was cut off.
    pub(in crate::session) fn pack(self, writer: &mut Writer, input: &mut Vec<u8>) -> Option<()> {
        match self.step {
            Step::Line => writer.byte(LINE),
            Step::Keys(keys) => {
                writer.byte(KEYS);
                writer.flag(keys.cas);
                writer.option(keys.touch, |writer, exptime| writer.number(exptime as u64));
            }
            Step::Value(incoming) => {
                writer.byte(LINE);
                let value = incoming.upload.received()?;
                input.splice(..0, incoming.line.iter().copied().chain(value));
            }
            Step::Swallow(unwanted) => {
                writer.byte(SWALLOW);
                writer.number(unwanted.left as u64);
                writer.option(unwanted.words, |writer, words| writer.bytes(words.as_bytes()));
            }
            Step::SwallowLine => writer.byte(SWALLOW_LINE),
            Step::List(listing) => {
                writer.byte(LIST);
                writer.number(listing.next);
            }
        }
        Some(())
    }

    pub(in crate::session) fn unpack(reader: &mut Reader<'_>, shared: &Shared) -> Option<TextState> {
        let step = match reader.byte()? {
            LINE => Step::Line,
            KEYS => Step::Keys(Box::new(Keys {
                cas: reader.flag()?,
                touch: reader.option(Reader::number)?.map(|exptime| exptime as i64),
            })),
            SWALLOW => Step::Swallow(Box::new(Unwanted {
                left: usize::try_from(reader.number()?).ok()?,
                words: reader.option(|reader| {
                    let words = str::from_utf8(reader.bytes()?).ok()?;
                    Some(Cow::Owned(words.to_owned()))
                })?,
            })),
            SWALLOW_LINE => Step::SwallowLine,
            LIST => Step::List(Box::new(Listing::from(shared, reader.number()?))),
            _ => return None,
        };
        Some(TextState { step })
    }
}
