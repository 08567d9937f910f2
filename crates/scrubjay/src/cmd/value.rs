//! Values that belong to their keys: whatever its length, a wrong, shifted or mixed one is noticed.

/// Appends `len` bytes of the value that belongs to `key`.
pub(crate) fn append_value(key: &[u8], len: u32, out: &mut Vec<u8>) {
    let seed = hash(key);
    let end = out.len() + len as usize;
    let mut at = 0u64;
    while out.len() + 8 <= end {
        out.extend_from_slice(&(seed ^ at).to_le_bytes());
        at += 1;
    }
    let rest = end - out.len();
    out.extend_from_slice(&(seed ^ at).to_le_bytes()[..rest]);
}

/// Whether `value` is the start of `key`'s bytes; its length is checked by who stored it.
pub(crate) fn is_value(key: &[u8], value: &[u8]) -> bool {
    let seed = hash(key);
    value
        .chunks(8)
        .enumerate()
        .all(|(at, chunk)| chunk == &(seed ^ at as u64).to_le_bytes()[..chunk.len()])
}

/// FNV-1a: cheap, and even enough to spread keys and to tell their values apart.
pub(crate) fn hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{append_value, is_value};

    #[test]
    fn a_value_of_another_key_or_with_a_changed_byte_is_noticed() {
        for len in [8, 9, 15, 16, 1000] {
            let mut value = Vec::new();
            append_value(b"one", len, &mut value);
            assert_eq!(value.len(), len as usize);
            assert!(is_value(b"one", &value));
            assert!(!is_value(b"two", &value));
            value[len as usize / 2] ^= 1;
            assert!(!is_value(b"one", &value));
        }
        assert!(is_value(b"any", b""));
    }
}
