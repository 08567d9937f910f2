//! FastLZ, read only: php-memcached compresses with it unless told otherwise. It is 3 bits of length and 13 of distance.

use super::Error;

const NAME: &str = "FastLZ";
/// The farthest that 13 bits reach.
const DISTANCE_MAX: usize = 8191;

/// Decompresses to at most `len_max` bytes.
pub(super) fn decompress(bytes: &[u8], len_max: usize) -> Result<Vec<u8>, Error> {
    let mut input = Input { bytes, at: 0 };
    let mut out = Vec::with_capacity(len_max.min(bytes.len().saturating_mul(4)));
    let first = input.byte()?;
    let far = match first >> 5 {
        0 => false,
        1 => true,
        _ => return Err(input.malformed("neither level 1 nor 2")),
    };
    let mut control = usize::from(first & 31);
    loop {
        if control < 32 {
            let len = control + 1;
            let literal = input.take(len)?;
            room(&out, len, len_max)?;
            out.extend_from_slice(literal);
        } else {
            let (len, distance) = if far {
                input.match_far(control)?
            } else {
                input.match_near(control)?
            };
            room(&out, len, len_max)?;
            let Some(start) = out.len().checked_sub(distance) else {
                return Err(input.malformed("repeats what was not there"));
            };
            for at in start..start + len {
                out.push(out[at]);
            }
        }
        if input.at == bytes.len() {
            return Ok(out);
        }
        control = usize::from(input.byte()?);
    }
}

fn room(out: &[u8], len: usize, len_max: usize) -> Result<(), Error> {
    if out.len() + len > len_max {
        return Err(Error::Beyond {
            what: "bytes after decompression",
            limit: len_max,
        });
    }
    Ok(())
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed {
            format: NAME,
            offset: self.at,
            what,
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let taken = self
            .bytes
            .get(self.at..self.at + len)
            .ok_or_else(|| self.malformed("ends too early"))?;
        self.at += len;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    /// Level 1: one byte may lengthen the match.
    fn match_near(&mut self, control: usize) -> Result<(usize, usize), Error> {
        let mut len = (control >> 5) + 2;
        if control >> 5 == 7 {
            len += usize::from(self.byte()?);
        }
        Ok((len, ((control & 31) << 8 | usize::from(self.byte()?)) + 1))
    }

    /// Level 2: any number of bytes may, and the farthest distance goes on in two more.
    fn match_far(&mut self, control: usize) -> Result<(usize, usize), Error> {
        let mut len = (control >> 5) + 2;
        if control >> 5 == 7 {
            loop {
                let more = self.byte()?;
                len += usize::from(more);
                if more != 255 {
                    break;
                }
            }
        }
        let mut distance = (control & 31) << 8 | usize::from(self.byte()?);
        if distance == DISTANCE_MAX {
            distance += usize::from(self.byte()?) << 8;
            distance += usize::from(self.byte()?);
        }
        Ok((len, distance + 1))
    }
}
