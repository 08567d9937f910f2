//! CRC-32C of few bytes: what a library does to line bytes up and to work on three parts of many at once costs more than it
//! saves when there are a hundred.

/// Bytes from which on the library is faster.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 1024;

/// The CRC-32C of `bytes` that go on from what has the CRC-32C `seed`.
#[inline]
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < MANY && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what it needs.
        return unsafe { crc_of_few(seed, bytes) };
    }
    crc32c::crc32c_append(seed, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc_of_few(seed: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let mut crc = u64::from(!seed);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let mut crc = crc as u32;
    let (fours, rest) = rest.as_chunks::<4>();
    for four in fours {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*four));
    }
    let (twos, rest) = rest.as_chunks::<2>();
    for two in twos {
        crc = _mm_crc32_u16(crc, u16::from_le_bytes(*two));
    }
    for byte in rest {
        crc = _mm_crc32_u8(crc, *byte);
    }
    !crc
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::crc;

    #[test]
    fn few_bytes_have_the_sum_that_the_library_gives_them() {
        let bytes: Vec<u8> = (0..2000u32).map(|at| ((at * 7919) >> 3) as u8).collect();
        for len in (0..70).chain([1000, 1023, 1024, 1025, 1990]) {
            for start in 0..9 {
                let part = &bytes[start..start + len];
                let seed = (len * 31 + start) as u32;
                assert_eq!(crc(seed, part), crc32c::crc32c_append(seed, part), "{len} bytes");
            }
        }
    }
}
