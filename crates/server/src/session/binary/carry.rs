//! What a binary connection is in the middle of, for another server.

use scrubjay_protocol::binary::Echo;

use super::{BinaryState, Step};
use crate::service::Shared;
use crate::session::Listing;
use crate::session::carry::{Reader, Writer};

const REQUEST: u8 = 0;
const SWALLOW: u8 = 1;
const LIST: u8 = 2;

impl BinaryState {
    /// `None` if the value that is being received was cut off.
    pub(in crate::session) fn pack(self, writer: &mut Writer, input: &mut Vec<u8>) -> Option<()> {
        match self.step {
            Step::Request => writer.byte(REQUEST),
            Step::Value(pending) => {
                writer.byte(REQUEST);
                input.splice(..0, pending.into_input()?);
            }
            Step::Swallow(left) => {
                writer.byte(SWALLOW);
                writer.number(left.into());
            }
            Step::List(echo, listing) => {
                writer.byte(LIST);
                writer.byte(echo.opcode);
                writer.number(u32::from_le_bytes(echo.opaque).into());
                writer.number(listing.next);
            }
        }
        Some(())
    }

    pub(in crate::session) fn unpack(reader: &mut Reader<'_>, shared: &Shared) -> Option<BinaryState> {
        let number = |reader: &mut Reader<'_>| u32::try_from(reader.number()?).ok();
        let step = match reader.byte()? {
            REQUEST => Step::Request,
            SWALLOW => Step::Swallow(number(reader)?),
            LIST => {
                let echo = Echo {
                    opcode: reader.byte()?,
                    opaque: number(reader)?.to_le_bytes(),
                };
                Step::List(echo, Box::new(Listing::from(shared, reader.number()?)))
            }
            _ => return None,
        };
        Some(BinaryState { step })
    }
}
