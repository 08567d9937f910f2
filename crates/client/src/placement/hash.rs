//! The hash functions of memcached's clients, with the truncations and slips that their placements depend on.
//!
//! libmemcached's functions are twemproxy's too. Where they read a key as C's `char`, that is signed on x86-64: bytes from
//! 128 on enter with their sign. A library built for a machine whose `char` is unsigned places such keys elsewhere.

use md5::{Digest as _, Md5};

/// A hash function by its name in libmemcached or twemproxy.
#[derive(Debug, Clone, Copy)]
pub struct Hash {
    /// What configurations call it.
    pub name: &'static str,
    /// The hash of a key.
    pub of: fn(&[u8]) -> u32,
}

const ONE_AT_A_TIME: Hash = Hash {
    name: "one_at_a_time",
    of: one_at_a_time,
};
const MD5: Hash = Hash {
    name: "md5",
    of: md5_first,
};
const CRC: Hash = Hash { name: "crc", of: crc };
const FNV1_64: Hash = Hash {
    name: "fnv1_64",
    of: fnv1_64,
};
const FNV1A_64: Hash = Hash {
    name: "fnv1a_64",
    of: fnv1a_64,
};
const FNV1_32: Hash = Hash {
    name: "fnv1_32",
    of: fnv1_32,
};
const FNV1A_32: Hash = Hash {
    name: "fnv1a_32",
    of: fnv1a_32,
};
const HSIEH: Hash = Hash {
    name: "hsieh",
    of: hsieh,
};
const MURMUR: Hash = Hash {
    name: "murmur",
    of: murmur2,
};
const MURMUR3: Hash = Hash {
    name: "murmur3",
    of: murmur3_by_length,
};
const JENKINS: Hash = Hash {
    name: "jenkins",
    of: jenkins,
};

/// libmemcached's, which differ in what is first and so the default.
macro_rules! libmemcached {
    ($default:expr) => {
        &[
            $default,
            ONE_AT_A_TIME,
            MD5,
            CRC,
            FNV1_64,
            FNV1A_64,
            FNV1_32,
            FNV1A_32,
            HSIEH,
            MURMUR,
            MURMUR3,
            JENKINS,
        ]
    };
}

/// libmemcached's if nothing is said.
pub(super) const LIBMEMCACHED: &[Hash] = libmemcached!(ONE_AT_A_TIME);
/// libmemcached's once ketama is set.
pub(super) const LIBMEMCACHED_MD5: &[Hash] = libmemcached!(MD5);
/// libmemcached's with the default of moxi.
pub(super) const LIBMEMCACHED_CRC: &[Hash] = libmemcached!(CRC);

/// twemproxy's.
pub(super) const TWEMPROXY: &[Hash] = &[
    FNV1A_64,
    ONE_AT_A_TIME,
    MD5,
    Hash {
        name: "crc16",
        of: crc16,
    },
    Hash {
        name: "crc32",
        of: crc,
    },
    Hash {
        name: "crc32a",
        of: crc32fast::hash,
    },
    FNV1_64,
    FNV1_32,
    FNV1A_32,
    HSIEH,
    MURMUR,
    JENKINS,
];

/// A byte as C's signed `char` becomes a number of 32 bits.
fn signed(byte: u8) -> u32 {
    byte as i8 as u32
}

/// Up to four bytes as a number, the first lowest.
fn little(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Jenkins' hash of 1997, a byte at a time.
pub(super) fn one_at_a_time(key: &[u8]) -> u32 {
    let mut value = 0u32;
    for byte in key {
        value = value.wrapping_add(signed(*byte));
        value = value.wrapping_add(value << 10);
        value ^= value >> 6;
    }
    value = value.wrapping_add(value << 3);
    value ^= value >> 11;
    value.wrapping_add(value << 15)
}

/// MD5 as four numbers, each of four bytes with the lowest first: the points of ketama.
pub(super) fn md5_quarters(text: &[u8]) -> [u32; 4] {
    let digest = Md5::digest(text);
    std::array::from_fn(|quarter| little(&digest[quarter * 4..quarter * 4 + 4]))
}

/// The first quarter of MD5.
pub(super) fn md5_first(key: &[u8]) -> u32 {
    little(&Md5::digest(key)[..4])
}

/// What a byte does to a CRC-32.
const CRC32_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ ((value & 1) * 0xedb8_8320);
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// The CRC-32 of what has this one, and a byte more. The library begins anew with every text, which costs ten times that.
pub(super) fn crc32_with(hash: u32, byte: u8) -> u32 {
    let state = !hash;
    !(CRC32_TABLE[(state as u8 ^ byte) as usize] ^ (state >> 8))
}

/// 15 bits of CRC-32; twemproxy calls it `crc32`.
pub(super) fn crc(key: &[u8]) -> u32 {
    crc32fast::hash(key) >> 16 & 0x7fff
}

/// CRC-16 (polynomial 1021, from 0) that is not cut to 16 bits after each byte, as in twemproxy 0.5.
fn crc16(key: &[u8]) -> u32 {
    key.iter().fold(0, |crc, byte| {
        (crc << 8) ^ u32::from(CRC16_TABLE[usize::from((crc >> 8) as u8 ^ byte)])
    })
}

const CRC16_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut crc, mut bit) = ((index as u16) << 8, 0);
        while bit < 8 {
            crc = (crc << 1) ^ (0x1021 * (crc >> 15));
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

const FNV_64_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_64_PRIME: u64 = 0x100_0000_01b3;
const FNV_32_BASIS: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;

/// The lower half of FNV-1 of 64 bits.
fn fnv1_64(key: &[u8]) -> u32 {
    key.iter().fold(FNV_64_BASIS, |hash, byte| {
        hash.wrapping_mul(FNV_64_PRIME) ^ *byte as i8 as u64
    }) as u32
}

/// Not FNV-1a of 64 bits, but what comes of computing it in 32.
fn fnv1a_64(key: &[u8]) -> u32 {
    key.iter().fold(FNV_64_BASIS as u32, |hash, byte| {
        (hash ^ signed(*byte)).wrapping_mul(FNV_64_PRIME as u32)
    })
}

fn fnv1_32(key: &[u8]) -> u32 {
    key.iter().fold(FNV_32_BASIS, |hash, byte| {
        hash.wrapping_mul(FNV_32_PRIME) ^ signed(*byte)
    })
}

/// FNV-1a, php-memcache's too.
pub(super) fn fnv1a_32(key: &[u8]) -> u32 {
    key.iter()
        .fold(FNV_32_BASIS, |hash, byte| fnv1a_32_with(hash, *byte))
}

/// The FNV-1a of what has this one, and a byte more.
pub(super) fn fnv1a_32_with(hash: u32, byte: u8) -> u32 {
    (hash ^ signed(byte)).wrapping_mul(FNV_32_PRIME)
}

/// Paul Hsieh's SuperFastHash, from 0.
fn hsieh(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    let words = key.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        hash = hash.wrapping_add(little(&word[..2]));
        hash = hash << 16 ^ little(&word[2..]) << 11 ^ hash;
        hash = hash.wrapping_add(hash >> 11);
    }
    match rest {
        [first, second, third] => {
            hash = hash.wrapping_add(little(&[*first, *second]));
            hash ^= hash << 16;
            hash ^= signed(*third) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [_, _] => {
            hash = hash.wrapping_add(little(rest));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [only] => {
            hash = hash.wrapping_add(u32::from(*only));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    for (left, right) in [(3, 5), (4, 17), (25, 6)] {
        hash ^= hash << left;
        hash = hash.wrapping_add(hash >> right);
    }
    hash
}

/// libmemcached's seed of both Murmur hashes, from a key's length.
fn seed_of_length(key: &[u8]) -> u32 {
    0xdead_beef_u32.wrapping_mul(key.len() as u32)
}

/// MurmurHash2.
fn murmur2(key: &[u8]) -> u32 {
    const FACTOR: u32 = 0x5bd1_e995;
    let mut hash = seed_of_length(key) ^ key.len() as u32;
    let words = key.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        let mixed = little(word).wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR) ^ (mixed ^ mixed >> 24).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        hash = (hash ^ little(rest)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(FACTOR);
    hash ^ hash >> 15
}

/// MurmurHash3 of 32 bits for x86, seeded with the length.
fn murmur3_by_length(key: &[u8]) -> u32 {
    Murmur3::new(seed_of_length(key)).then(key).finish()
}

/// MurmurHash3 of 32 bits for x86, of texts that come in parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Murmur3 {
    hash: u32,
    /// What came since the last whole word, lowest first.
    pending: u32,
    len: u32,
}

impl Murmur3 {
    pub(super) fn new(seed: u32) -> Murmur3 {
        Murmur3 {
            hash: seed,
            pending: 0,
            len: 0,
        }
    }

    fn mixed(word: u32) -> u32 {
        word.wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    }

    fn add(&mut self, word: u32) {
        self.hash = (self.hash ^ Murmur3::mixed(word))
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }

    /// The state after this part.
    pub(super) fn then(mut self, part: &[u8]) -> Murmur3 {
        let mut shift = self.len % 4 * 8;
        self.len += part.len() as u32;
        let words = part.chunks_exact(4);
        let rest = words.remainder();
        for word in words {
            let both = u64::from(little(word)) << shift | u64::from(self.pending);
            self.add(both as u32);
            self.pending = (both >> 32) as u32;
        }
        for byte in rest {
            self.pending |= u32::from(*byte) << shift;
            shift += 8;
            if shift == 32 {
                self.add(self.pending);
                (self.pending, shift) = (0, 0);
            }
        }
        self
    }

    pub(super) fn finish(self) -> u32 {
        let mut hash = self.hash ^ Murmur3::mixed(self.pending) ^ self.len;
        hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
        hash ^ hash >> 16
    }
}

/// Jenkins' lookup3 of 2006, with 13 as the initial value.
fn jenkins(key: &[u8]) -> u32 {
    let [mut a, mut b, mut c] = [0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(13); 3];
    if key.is_empty() {
        return c;
    }
    let mut blocks = key.chunks(12).peekable();
    while let Some(block) = blocks.next() {
        let word = |at: usize| little(block.get(at..block.len().min(at + 4)).unwrap_or_default());
        a = a.wrapping_add(word(0));
        b = b.wrapping_add(word(4));
        c = c.wrapping_add(word(8));
        if blocks.peek().is_some() {
            // Each step is the one before with the three in other roles; after six they are in their own again.
            for bits in [4, 6, 8, 16, 19, 4] {
                let mixed = a.wrapping_sub(c) ^ c.rotate_left(bits);
                (a, b, c) = (b, c.wrapping_add(b), mixed);
            }
        }
    }
    let (mut this, mut last, mut next) = (c, b, a);
    for bits in [14, 11, 25, 16, 4, 14, 24] {
        this = (this ^ last).wrapping_sub(last.rotate_left(bits));
        (this, last, next) = (next, this, last);
    }
    last
}
