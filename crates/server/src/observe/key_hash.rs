//! A hash of keys for sketches: every store pays for it, and the index's own would cost twice as much for keys as short as most
//! are. Two words at a time are multiplied and folded, as in Wang Yi's wyhash; nothing but an estimate depends on it.

/// Odd numbers whose bits are set about half.
const FACTORS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
];

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// The bytes as a number, if there are as many as one has.
#[inline]
fn word(bytes: Option<&[u8; 8]>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The hash of `key`; nobody who does not know `seed` can tell which keys meet.
#[inline]
pub(super) fn key_hash(key: &[u8], seed: u64) -> u64 {
    let mut hash = seed;
    let mut rest = key;
    while rest.len() > 16 {
        let left = word(rest.first_chunk());
        let right = word(rest[8..].first_chunk());
        hash = fold(left ^ FACTORS[0], right ^ hash);
        rest = &rest[16..];
    }
    // The first and the last of what is left may overlap.
    let (left, right) = match rest.len() {
        8.. => (word(rest.first_chunk()), word(rest.last_chunk())),
        4.. => {
            let half =
                |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
            (half(rest.first_chunk()), half(rest.last_chunk()))
        }
        1.. => {
            let ends = u64::from(rest[0]) << 8 | u64::from(rest[rest.len() - 1]);
            (ends, rest[rest.len() / 2].into())
        }
        0 => (0, 0),
    };
    let mixed = fold(left ^ FACTORS[1], right ^ hash);
    fold(mixed ^ FACTORS[2], key.len() as u64 ^ FACTORS[0])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::key_hash;

    #[test]
    fn keys_that_differ_anywhere_have_other_hashes() {
        for len in 1..100 {
            let mut hashes = HashSet::new();
            let mut key = vec![b'a'; len];
            hashes.insert(key_hash(&key, 7));
            for at in 0..len {
                key[at] = b'b';
                assert!(hashes.insert(key_hash(&key, 7)), "{len} bytes, the {at}th");
                key[at] = b'a';
            }
            assert!(hashes.insert(key_hash(&key, 8)), "{len} bytes, another seed");
        }
    }

    #[test]
    fn every_bit_is_set_in_half_of_the_hashes() {
        for bit in 0..64 {
            let hashes = (0..4000).map(|number| key_hash(format!("user:{number}").as_bytes(), 1));
            let set = hashes.filter(|hash| hash >> bit & 1 == 1).count();
            assert!((1850..2150).contains(&set), "{bit}: {set}");
        }
    }
}
