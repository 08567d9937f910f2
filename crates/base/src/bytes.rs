//! Looking through bytes that are few, as keys and words are: a call of a function for many takes longer than the work.

/// Where `byte` is first. Eight bytes at a time.
#[inline]
pub fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let eight = |word: &[u8; 8]| {
        let unlike = u64::from_le_bytes(*word) ^ (ONES * u64::from(byte));
        lowest(unlike.wrapping_sub(ONES) & !unlike)
    };
    find_by(bytes, eight, |other| other == byte)
}

/// Where the first byte is that is no more than `most`, which is below 127. Eight bytes at a time; of those that are among the first
/// sixteen, without a loop.
#[inline(always)]
pub fn find_at_most(bytes: &[u8], most: u8) -> Option<usize> {
    debug_assert!(most < 127, "the comparison needs the highest bit");
    let eight = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        lowest(word.wrapping_sub(ONES * u64::from(most + 1)) & !word)
    };
    #[inline(never)]
    fn further(bytes: &[u8], eight: impl Fn(&[u8; 8]) -> Option<usize>, most: u8) -> Option<usize> {
        find_by(bytes, eight, |byte| byte <= most)
    }
    if let Some((start, _)) = bytes.split_first_chunk::<16>()
        && let ([first, second], _) = start.as_chunks()
        && let Some(at) = eight(first).or_else(|| eight(second).map(|at| 8 + at))
    {
        return Some(at);
    }
    further(bytes, eight, most)
}

const ONES: u64 = u64::MAX / 0xff;

/// The number of the first byte whose highest bit is set. Where a byte has borrowed from the next, that one's may be wrong, and so those
/// behind the first mean nothing.
#[inline(always)]
fn lowest(bits: u64) -> Option<usize> {
    let high = bits & (ONES << 7);
    (high != 0).then(|| high.trailing_zeros() as usize / 8)
}

/// Where the first byte is that `one` is looking for, and `eight` among so many.
#[inline(always)]
fn find_by(
    bytes: &[u8],
    eight: impl Fn(&[u8; 8]) -> Option<usize>,
    one: impl Fn(u8) -> bool,
) -> Option<usize> {
    let (words, rest) = bytes.as_chunks();
    for (number, word) in words.iter().enumerate() {
        if let Some(at) = eight(word) {
            return Some(number * 8 + at);
        }
    }
    let rest = rest.iter().position(|&byte| one(byte))?;
    Some(words.len() * 8 + rest)
}

/// All bytes of what has at most eight, or the last eight: as a word that differs where they do, among those of equal length, and
/// in which no other byte is. `None` if there is none.
#[inline]
pub fn last_word(bytes: &[u8]) -> Option<u64> {
    let twice = |start: u32, end: u32| u64::from(start) | u64::from(end) << 32;
    match bytes.len() {
        0 => None,
        len @ 1..=3 => {
            let word = u32::from_le_bytes([bytes[0], bytes[len / 2], bytes[len - 1], bytes[0]]);
            Some(twice(word, word))
        }
        4..=7 => {
            let (start, end) = (bytes.first_chunk()?, bytes.last_chunk()?);
            Some(twice(u32::from_le_bytes(*start), u32::from_le_bytes(*end)))
        }
        _ => bytes.last_chunk().map(|word| u64::from_le_bytes(*word)),
    }
}

/// Whether both are the same bytes.
#[inline]
pub fn same(one: &[u8], other: &[u8]) -> bool {
    same_here(one, other)
}

/// As [`same`], for loops: never a call.
#[inline(always)]
pub fn same_here(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        33.. | ..4 => one == other,
        17.. => same_ends::<16>(one, other),
        8.. => same_ends::<8>(one, other),
        4.. => same_ends::<4>(one, other),
    }
}

/// Whether the first and the last bytes of both are the same, which may overlap. Both have so many at least.
#[inline(always)]
fn same_ends<const LEN: usize>(one: &[u8], other: &[u8]) -> bool {
    // By index: that the end of a slice is no null pointer, the compiler does not know.
    let first = |bytes| <[u8]>::as_chunks::<LEN>(bytes).0[0];
    first(one) == first(other) && first(&one[one.len() - LEN..]) == first(&other[other.len() - LEN..])
}

/// More bytes than these are copied by a function for many.
pub const FEW: usize = 32;

/// Copies `from`, at most [`FEW`], to `to`, which has as many bytes.
#[inline]
pub fn copy_few(to: &mut [u8], from: &[u8]) {
    assert!(from.len() <= FEW && to.len() == from.len());
    match from.len() {
        17.. => copy_ends::<16>(to, from),
        8.. => copy_ends::<8>(to, from),
        4.. => copy_ends::<4>(to, from),
        2.. => copy_ends::<2>(to, from),
        1 => to[0] = from[0],
        0 => {}
    }
}

/// Copies `from`, which is few bytes as a rule, to `to`, which has as many.
#[inline(always)]
pub fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        ..=FEW => copy_few(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last bytes, which may overlap, and so all. Both have so many at least.
#[inline(always)]
fn copy_ends<const LEN: usize>(to: &mut [u8], from: &[u8]) {
    let end = from.len() - LEN;
    let (first, last) = (from.as_chunks::<LEN>().0[0], from[end..].as_chunks::<LEN>().0[0]);
    to.as_chunks_mut::<LEN>().0[0] = first;
    to[end..].as_chunks_mut::<LEN>().0[0] = last;
}

#[cfg(test)]
mod tests {
    use super::{FEW, copy, copy_few, find, find_at_most, last_word, same};

    #[test]
    fn the_first_of_its_like_is_found_wherever_it_is() {
        // Neighbours of the byte in value, and bytes that borrow from the next, in front of it and behind.
        for filler in [b'a', b'!', 0x1f, 0x21, 0xa0, 0x00, 0xff] {
            for len in 0..40 {
                let mut bytes = vec![filler; len];
                assert_eq!(find(&bytes, b' '), None);
                bytes.extend_from_slice(b" and one ");
                assert_eq!(find(&bytes, b' '), Some(len));
            }
        }
    }

    #[test]
    fn the_first_that_is_low_is_found_wherever_it_is() {
        for filler in [b'a', b'!', 0x21, 0x7f, 0x80, 0xa0, 0xff] {
            for low in [0x00, 0x01, b'\r', 0x1f, b' '] {
                for len in 0..40 {
                    let mut bytes = vec![filler; len];
                    assert_eq!(find_at_most(&bytes, b' '), None);
                    bytes.extend_from_slice(&[low, b'!', b' ', 0x80, 0]);
                    bytes.resize(len + 12, b'a');
                    assert_eq!(find_at_most(&bytes, b' '), Some(len));
                }
            }
        }
    }

    #[test]
    fn every_one_of_the_last_bytes_is_in_their_word_and_no_other() {
        assert_eq!(last_word(b""), None);
        for len in 1..20_u8 {
            let bytes: Vec<u8> = (1..=len).collect();
            let word = last_word(&bytes).unwrap().to_le_bytes();
            let last = &bytes[bytes.len().saturating_sub(8)..];
            assert!(last.iter().all(|byte| word.contains(byte)), "{len} bytes");
            assert!(word.iter().all(|byte| last.contains(byte)), "{len} bytes");
        }
    }

    #[test]
    fn bytes_that_differ_anywhere_are_not_the_same() {
        for len in 0..70 {
            let one: Vec<u8> = (0..len).collect();
            assert!(same(&one, &one.clone()));
            assert!(!same(&one, &[&one[..], b"x"].concat()));
            for at in 0..one.len() {
                let mut other = one.clone();
                other[at] ^= 0x80;
                assert!(!same(&one, &other), "{len} bytes, the {at}th");
            }
        }
    }

    #[test]
    fn as_many_bytes_as_there_are_are_copied() {
        for len in 0..=FEW as u8 {
            let from: Vec<u8> = (1..=len).collect();
            let mut to = vec![0; from.len()];
            copy_few(&mut to, &from);
            assert_eq!(to, from);
            let more = [&from[..], &[7; FEW]].concat();
            let mut to = vec![0; more.len()];
            copy(&mut to, &more);
            assert_eq!(to, more);
        }
    }
}
