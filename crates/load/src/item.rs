//! What belongs to a key: its bytes, the length and bytes of its value, its life. All of it follows from the key's number, so
//! that nothing is kept by key and every value that comes back can be checked.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

/// Versions of a value. They travel as client flags, of one digit so that requests of one kind are of one length.
pub const VERSIONS: u32 = 10;

/// Bytes that values are cut from. A longer value is cut from several places.
const POOL_LEN: usize = 64 << 10;

/// Longest key that a server takes.
pub const KEY_LEN_MAX: u32 = 250;

/// A number that belongs to each key: a length or a life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The same for all.
    Fixed(u32),
    /// Evenly from the first to the second, both of them too.
    Between(u32, u32),
    /// By chance one of these. Tables of one length take the same row for a key, so that what belongs together stays so.
    Table(Arc<[u32]>),
}

impl Amount {
    fn of(&self, key: u64, salt: u64) -> u32 {
        match self {
            Amount::Fixed(amount) => *amount,
            Amount::Between(low, high) => {
                let span = u64::from(high - low) + 1;
                low + (mix(key ^ salt) % span) as u32
            }
            Amount::Table(table) => table[(mix(key) % table.len() as u64) as usize],
        }
    }

    /// The largest of all keys.
    pub fn max(&self) -> u32 {
        match self {
            Amount::Fixed(amount) => *amount,
            Amount::Between(_, high) => *high,
            Amount::Table(table) => table.iter().copied().max().unwrap_or(0),
        }
    }

    /// The mean over all keys.
    pub fn mean(&self) -> f64 {
        match self {
            Amount::Fixed(amount) => f64::from(*amount),
            Amount::Between(low, high) => (f64::from(*low) + f64::from(*high)) / 2.0,
            Amount::Table(table) => table.iter().map(|one| f64::from(*one)).sum::<f64>() / table.len() as f64,
        }
    }
}

/// What belongs to the keys of a workload.
#[derive(Clone, Debug)]
pub struct Items {
    /// What every key begins with.
    pub prefix: String,
    /// Bytes of a key: zeros between prefix and number fill it up. 0: no zeros.
    pub key_len: Amount,
    /// Bytes of a value.
    pub value_len: Amount,
    /// Seconds of life; 0: for ever.
    pub ttl: Amount,
    pool: Arc<[u8]>,
}

impl Items {
    /// Items with these properties.
    pub fn new(prefix: &str, key_len: Amount, value_len: Amount, ttl: Amount) -> Items {
        // Letters and digits: values can be read on the wire, and a line end is the end of a line.
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut random = SmallRng::seed_from_u64(POOL_LEN as u64);
        let mut pool = vec![0; POOL_LEN];
        random.fill_bytes(&mut pool);
        for byte in &mut pool {
            *byte = LETTERS[usize::from(*byte) % LETTERS.len()];
        }
        // A cut of any length up to the pool's may begin anywhere.
        pool.extend_from_within(..);
        Items {
            prefix: prefix.to_owned(),
            key_len,
            value_len,
            ttl,
            pool: pool.into(),
        }
    }

    /// Appends the bytes of `key`.
    pub fn append_key(&self, key: u64, out: &mut Vec<u8>) {
        let mut digits = [b'0'; 20];
        let first = write_digits(key, &mut digits);
        let len = self.key_len.of(key, 0) as usize;
        let zeros = len.saturating_sub(self.prefix.len() + digits.len() - first);
        out.extend_from_slice(self.prefix.as_bytes());
        if zeros <= first {
            out.extend_from_slice(&digits[first - zeros..]);
        } else {
            out.resize(out.len() + zeros, b'0');
            out.extend_from_slice(&digits[first..]);
        }
    }

    /// Bytes of the value of `key`.
    pub fn value_len_of(&self, key: u64) -> u32 {
        self.value_len.of(key, 1)
    }

    /// Seconds of life of `key`.
    pub fn ttl_of(&self, key: u64) -> u32 {
        self.ttl.of(key, 2)
    }

    /// Appends the value of `key` in that version.
    pub fn append_value(&self, key: u64, version: u32, out: &mut Vec<u8>) {
        for piece in self.pieces(key, version, self.value_len_of(key) as usize) {
            out.extend_from_slice(piece);
        }
    }

    /// Whether `value` is that of `key` in that version, to the last byte.
    pub fn is_value(&self, key: u64, version: u32, value: &[u8]) -> bool {
        if value.len() != self.value_len_of(key) as usize {
            return false;
        }
        let mut rest = value;
        self.pieces(key, version, value.len()).all(|piece| {
            let (found, behind) = rest.split_at(piece.len());
            rest = behind;
            found == piece
        })
    }

    fn pieces(&self, key: u64, version: u32, len: usize) -> impl Iterator<Item = &[u8]> {
        let seed = mix(key ^ (u64::from(version) << 56));
        (0..len.div_ceil(POOL_LEN)).map(move |at| {
            let start = mix(seed ^ at as u64) as usize % POOL_LEN;
            &self.pool[start..start + POOL_LEN.min(len - at * POOL_LEN)]
        })
    }
}

/// Writes the decimal digits of `number` at the end of `digits` and returns where they begin.
pub(crate) fn write_digits(mut number: u64, digits: &mut [u8; 20]) -> usize {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return at;
        }
    }
}

/// Spreads a number over all 64 bits. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Amount, Items, POOL_LEN};

    fn items(prefix: &str, key_len: u32, value_len: Amount) -> Items {
        Items::new(prefix, Amount::Fixed(key_len), value_len, Amount::Fixed(0))
    }

    #[test]
    fn keys_are_their_numbers_filled_up() {
        let check = |prefix: &str, len, key, expected: &str| {
            let mut bytes = Vec::new();
            items(prefix, len, Amount::Fixed(1)).append_key(key, &mut bytes);
            assert_eq!(String::from_utf8(bytes).expect("ASCII"), expected);
        };
        check("", 0, 1, "1");
        check("", 0, 5_000_000, "5000000");
        check("key", 11, 42, "key00000042");
        check("key", 4, 42, "key42");
        check("k", 40, u64::MAX, &format!("k{:039}", u64::MAX));
        check("", 20, 0, &"0".repeat(20));
    }

    #[test]
    fn a_value_of_another_key_version_or_length_or_with_a_changed_byte_is_noticed() {
        for len in [1u32, 8, 100, 20_000, POOL_LEN as u32, POOL_LEN as u32 * 3 + 5] {
            let items = items("", 0, Amount::Fixed(len));
            let mut value = Vec::new();
            items.append_value(7, 3, &mut value);
            assert_eq!(value.len(), len as usize);
            assert!(items.is_value(7, 3, &value));
            assert!(!items.is_value(7, 3, &value[1..]));
            assert!(len < 8 || !items.is_value(8, 3, &value));
            assert!(len < 8 || !items.is_value(7, 4, &value));
            value[len as usize / 2] ^= 1;
            assert!(!items.is_value(7, 3, &value));
        }
    }

    #[test]
    fn amounts_stay_within_their_bounds_and_belong_to_the_key() {
        let range = items("", 0, Amount::Between(10, 13));
        let mut seen: Vec<u32> = (0..1000).map(|key| range.value_len_of(key)).collect();
        assert_eq!(seen[5], range.value_len_of(5));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [10, 11, 12, 13]);
        let table: Amount = Amount::Table([5, 6].into());
        assert_eq!((table.max(), table.mean()), (6, 5.5));
        let both = Items::new("", table.clone(), table.clone(), table);
        for key in 0..100 {
            let mut bytes = Vec::new();
            both.append_key(key, &mut bytes);
            assert_eq!(bytes.len(), both.value_len_of(key) as usize);
            assert_eq!(both.ttl_of(key), both.value_len_of(key));
        }
    }
}
