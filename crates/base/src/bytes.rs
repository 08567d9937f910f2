//! Looking through bytes that are few, as keys and words are: a call of a function for many takes longer than the work.

/// Where `byte` is first. Eight bytes at a time.
#[inline]
pub fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, &word) in words.iter().enumerate() {
        let unlike = u64::from_le_bytes(word) ^ (ONES * u64::from(byte));
        // The lowest high bit that is set stands for the first byte without a difference; only those above it may be wrong.
        let like = unlike.wrapping_sub(ONES) & !unlike & (ONES << 7);
        if like != 0 {
            return Some(number * 8 + like.trailing_zeros() as usize / 8);
        }
    }
    let rest = rest.iter().position(|&other| other == byte)?;
    Some(words.len() * 8 + rest)
}

/// Whether both are the same bytes.
#[inline]
pub fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // The first and the last of them may overlap.
    match one.len() {
        8..=16 => {
            one.first_chunk::<8>() == other.first_chunk() && one.last_chunk::<8>() == other.last_chunk()
        }
        17..=32 => {
            one.first_chunk::<16>() == other.first_chunk() && one.last_chunk::<16>() == other.last_chunk()
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::{find, same};

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
}
