//! Makes what is stored smaller where that pays, and large again within bounds.

use std::io::{Read, Write};
use std::sync::Arc;

use super::layout::Choice;
use super::{Error, Limits, fastlz};

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Zstandard, with or without a dictionary.
    Zstd,
    /// LZ4: one block after its length in 4 bytes, the lowest first.
    Lz4,
    /// zlib.
    Zlib,
    /// gzip.
    Gzip,
    /// FastLZ, which is only read.
    FastLz,
}

/// When values are compressed, and how.
#[derive(Debug, Clone)]
pub struct Compression {
    /// How.
    pub codec: Codec,
    /// Nothing smaller than so many bytes is compressed.
    pub threshold: usize,
    /// The part of the bytes that must be saved, from 0 to 1: with less, the value is stored as it is.
    pub saving_min: f64,
    /// What zstd knows beforehand; readers need the same.
    pub dictionary: Option<Arc<Dictionary>>,
}

impl Compression {
    /// From 2,000 bytes on, if a fifth is saved.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self {
            codec,
            threshold: 2_000,
            saving_min: 0.2,
            dictionary: None,
        }
    }

    /// `raw` compressed, unless it is to be stored as it is.
    pub(super) fn shrink(&self, raw: &[u8], choice: Choice) -> Result<Option<Vec<u8>>, Error> {
        let len_max = match choice {
            Choice::Raw => return Ok(None),
            Choice::ByThreshold if raw.len() < self.threshold => return Ok(None),
            Choice::ByThreshold => raw.len() as f64 * (1.0 - self.saving_min),
            Choice::Compress => raw.len() as f64 - 1.0,
        };
        let small = self.codec.compress(raw, self.dictionary.as_deref())?;
        Ok((small.len() as f64 <= len_max).then_some(small))
    }
}

/// A dictionary of zstd: what values have in common, so that small ones compress too.
pub struct Dictionary {
    id: u32,
    writer: zstd::dict::EncoderDictionary<'static>,
    reader: zstd::dict::DecoderDictionary<'static>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({})", self.id)
    }
}

impl Dictionary {
    /// The bytes of a dictionary made of `samples`, at most `len_max` of them.
    ///
    /// # Errors
    /// When the samples are too few or too much alike: zstd wants some dozens.
    pub fn train(samples: &[Vec<u8>], len_max: usize) -> Result<Vec<u8>, Error> {
        zstd::dict::from_samples(samples, len_max).map_err(|error| Error::Dictionary(error.to_string()))
    }

    /// Prepares the dictionary for use.
    ///
    /// # Errors
    /// When it is none that was trained: those have an identity, by which a reader knows that it has another one.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let Some(id) = zstd::zstd_safe::get_dict_id_from_dict(bytes) else {
            return Err(Error::Dictionary(
                "these bytes are no trained dictionary".to_owned(),
            ));
        };
        Ok(Self {
            id: id.get(),
            writer: zstd::dict::EncoderDictionary::copy(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
            reader: zstd::dict::DecoderDictionary::copy(bytes),
        })
    }
}

const IN_MEMORY: &str = "memory takes what is written";

impl Codec {
    fn compress(self, raw: &[u8], dictionary: Option<&Dictionary>) -> Result<Vec<u8>, Error> {
        Ok(match self {
            Self::Zstd => {
                let compressor = match dictionary {
                    Some(dictionary) => zstd::bulk::Compressor::with_prepared_dictionary(&dictionary.writer),
                    None => zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL),
                };
                let small = compressor.and_then(|mut compressor| compressor.compress(raw));
                small.map_err(|error| Error::Dictionary(error.to_string()))?
            }
            Self::Lz4 => lz4_flex::block::compress_prepend_size(raw),
            Self::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(raw).expect(IN_MEMORY);
                encoder.finish().expect(IN_MEMORY)
            }
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(raw).expect(IN_MEMORY);
                encoder.finish().expect(IN_MEMORY)
            }
            Self::FastLz => return Err(Error::ReadOnly { format: "FastLZ" }),
        })
    }

    /// Decompresses to at most as many bytes as `limits` allow.
    pub(super) fn decompress(
        self,
        small: &[u8],
        limits: &Limits,
        dictionary: Option<&Dictionary>,
    ) -> Result<Vec<u8>, Error> {
        let limit = limits.bytes_max;
        match self {
            Self::Zstd => zstd_decompress(small, limit, dictionary),
            Self::Lz4 => lz4_decompress(small, limit),
            Self::Zlib => drain(flate2::read::ZlibDecoder::new(small), "zlib", limit),
            Self::Gzip => drain(flate2::read::GzDecoder::new(small), "gzip", limit),
            Self::FastLz => fastlz::decompress(small, limit),
        }
    }
}

/// Reads all there is, unless it is more than `limit`.
fn drain(reader: impl Read, format: &'static str, limit: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let read = reader.take(limit as u64 + 1).read_to_end(&mut out);
    if out.len() > limit {
        return Err(Error::Beyond {
            what: "bytes after decompression",
            limit,
        });
    }
    read.map_err(|_| Error::Malformed {
        format,
        offset: out.len(),
        what: "compressed bytes are damaged",
    })?;
    Ok(out)
}

fn zstd_decompress(small: &[u8], limit: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, Error> {
    let wanted = zstd::zstd_safe::get_dict_id_from_frame(small).map(std::num::NonZeroU32::get);
    if let Some(wanted) = wanted
        && dictionary.is_none_or(|dictionary| dictionary.id != wanted)
    {
        return Err(Error::Dictionary(format!(
            "the value was written with dictionary {wanted}"
        )));
    }
    // A frame announces how much of itself must be remembered; more than the limit is refused before it is allocated.
    let window_log = limit.max(1 << 10).next_power_of_two().ilog2().min(27);
    let damaged = |_| Error::Malformed {
        format: "zstd",
        offset: 0,
        what: "compressed bytes are damaged",
    };
    let mut decoder = match (wanted, dictionary) {
        (Some(_), Some(dictionary)) => zstd::Decoder::with_prepared_dictionary(small, &dictionary.reader),
        _ => zstd::Decoder::with_buffer(small),
    }
    .map_err(damaged)?;
    decoder.window_log_max(window_log).map_err(damaged)?;
    drain(decoder, "zstd", limit)
}

fn lz4_decompress(small: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    const DAMAGED: Error = Error::Malformed {
        format: "LZ4",
        offset: 0,
        what: "compressed bytes are damaged",
    };
    /// No byte of LZ4 stands for more.
    const RATIO_MAX: usize = 255;
    let (len, block) = lz4_flex::block::uncompressed_size(small).map_err(|_| DAMAGED)?;
    if len > limit {
        return Err(Error::Beyond {
            what: "bytes after decompression",
            limit,
        });
    }
    if len / RATIO_MAX > block.len() {
        return Err(DAMAGED);
    }
    let out = lz4_flex::block::decompress(block, len).map_err(|_| DAMAGED)?;
    if out.len() != len { Err(DAMAGED) } else { Ok(out) }
}
