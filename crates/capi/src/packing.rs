//! Compression of what C has serialized.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};

use scrubjay_client::value::profile::{PROFILES, Profile};
use scrubjay_client::value::{Choice, Codec, Compression, Layout, Limits};

use crate::border::{SjResult, bytes, fill, object, status, text};

/// `sj_packing`
#[repr(C)]
pub struct SjPacking {
    profile: *const c_char,
    codec: i32,
    choice: i32,
    threshold: usize,
    saving_min: f64,
}

const CODECS: [Codec; 4] = [Codec::Zstd, Codec::Lz4, Codec::Zlib, Codec::FastLz];
const CHOICES: [Choice; 3] = [Choice::ByThreshold, Choice::Compress, Choice::Raw];

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_pack(
    packing: *const SjPacking,
    flags: u32,
    raw: *const c_void,
    len: usize,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them.
    unsafe {
        fill(result, || {
            let packing = object(packing, "packing")?;
            let profile = profile(text(packing.profile, "profile")?)?;
            let codec = row(&CODECS, i64::from(packing.codec) - 1, "codec")?;
            let choice = row(&CHOICES, i64::from(packing.choice), "choice")?;
            let compression = Compression {
                threshold: packing.threshold,
                saving_min: packing.saving_min,
                ..Compression::new(codec)
            };
            let layout = Layout {
                compression: Some(compression),
                ..Layout::new(profile)
            };
            let packed = layout.pack(flags, Cow::Borrowed(bytes(raw, len)), choice);
            Ok(match packed.map_err(value_error)? {
                (_, Cow::Borrowed(_)) => SjResult::new(status::AS_IS),
                (flags, Cow::Owned(small)) => {
                    let mut result = SjResult::new(status::OK).with_data(small);
                    result.flags = flags;
                    result
                }
            })
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_unpack(
    profile_name: *const c_char,
    flags: u32,
    packed: *const c_void,
    len: usize,
    len_max: usize,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them.
    unsafe {
        fill(result, || {
            let profile = profile(text(profile_name, "profile")?)?;
            let limits = Limits {
                bytes_max: len_max,
                ..Limits::default()
            };
            let raw = Layout::new(profile).open(bytes(packed, len), flags, &limits);
            Ok(match raw.map_err(value_error)? {
                Cow::Borrowed(_) => SjResult::new(status::AS_IS),
                Cow::Owned(raw) => SjResult::new(status::OK).with_data(raw),
            })
        })
    }
}

/// What is wrong with a value, as C sees it.
pub(crate) fn value_error(error: scrubjay_client::value::Error) -> SjResult {
    SjResult::error(status::VALUE, error)
}

fn profile(name: &str) -> Result<&'static Profile, SjResult> {
    let found = PROFILES.iter().find(|profile| profile.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        let words = format_args!("there is no profile {name:?}; there are {}", names.join(", "));
        SjResult::error(status::ARGUMENT, words)
    })
}

fn row<T: Copy>(rows: &[T], number: i64, what: &str) -> Result<T, SjResult> {
    let row = usize::try_from(number).ok().and_then(|number| rows.get(number));
    row.copied()
        .ok_or_else(|| SjResult::error(status::ARGUMENT, format_args!("there is no such {what}")))
}
