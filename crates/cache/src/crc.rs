//! Sums of an item's bytes: the CRC-32C of four lanes of words, each of which every fourth word belongs to.
//!
//! A processor begins a step of a CRC in each cycle and needs three for it, so one lane leaves it idle. A library's CRC is that of
//! all bytes in one lane, which it cuts into parts only where there are many. What is over behind the last word is one step more,
//! not one for each byte. (A last block that lies across the one before would be simpler. A byte that is in two lanes may cancel
//! itself out.)

/// Lanes, and words of a block.
const LANES: usize = 4;

const WORD: usize = size_of::<u64>();
const BLOCK: usize = LANES * WORD;

/// Whether [`sum`] may be called.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_instruction() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
}

/// The sum of `bytes`, which begins with `seed`, by the processor's own instruction.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
pub(crate) fn sum(seed: u32, bytes: &[u8]) -> u32 {
    sum_by(
        |lane, word| std::arch::x86_64::_mm_crc32_u64(lane, word),
        seed,
        bytes,
    )
}

/// A sum by the library, for other processors. It is another one: no file comes from one kind of processor to another.
#[inline]
pub(crate) fn library_sum(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

/// The sum of `bytes`, which begins with `seed`; `step` takes a word into a lane.
#[inline(always)]
fn sum_by(step: impl Fn(u64, u64) -> u64, seed: u32, bytes: &[u8]) -> u32 {
    let mut lanes = [u64::from(seed), 0, 0, 0];
    let mut add = |words: &[[u8; WORD]]| {
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    };
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    blocks.iter().for_each(|block| add(block.as_chunks().0));
    let (words, few) = rest.as_chunks::<WORD>();
    add(words);
    if !few.is_empty() {
        lanes[LANES - 1] = step(lanes[LANES - 1], last_bytes(bytes, few));
    }
    // What a lane came to is as good as a word. The length tells zeros from none.
    let [first, second, third, fourth] = lanes;
    let len = (bytes.len() as u64) << u32::BITS;
    step(step(step(first, second), third), fourth | len) as u32
}

/// `few`, with which `bytes` end, as a number. One load, where there is a word to be loaded: a copy of so many bytes is a call.
#[inline(always)]
fn last_bytes(bytes: &[u8], few: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk::<WORD>() {
        return u64::from_le_bytes(*word) >> (u64::BITS as usize - 8 * few.len());
    }
    few.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_byte_and_the_length_and_the_seed_count() {
        let bytes: Vec<u8> = (0..200u32).map(|at| ((at * 7919) >> 3) as u8).collect();
        if !super::has_instruction() {
            return;
        }
        // SAFETY: the processor has what it needs.
        let sum = |seed: u32, bytes: &[u8]| unsafe { super::sum(seed, bytes) };
        for len in 0..bytes.len() {
            let mut part = bytes[..len].to_vec();
            let before = sum(7, &part);
            assert_eq!(sum(7, &part), before);
            assert_ne!(sum(8, &part), before, "{len} bytes");
            part.push(0);
            assert_ne!(sum(7, &part), before, "{len} bytes and a zero");
            for at in 0..len {
                let mut other = bytes[..len].to_vec();
                other[at] ^= 1 << (at % 8);
                assert_ne!(sum(7, &other), before, "byte {at} of {len}");
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_block_is_the_crc_of_its_lanes() {
        let bytes: [u8; 32] = std::array::from_fn(|at| (at * 37) as u8);
        let lane = |seed: u32, at: usize| !crc32c::crc32c_append(!seed, &bytes[at * 8..at * 8 + 8]);
        let word = |seed: u32, word: u64| !crc32c::crc32c_append(!seed, &word.to_le_bytes());
        let lanes = [lane(5, 0), lane(0, 1), lane(0, 2), lane(0, 3)].map(u64::from);
        let whole = word(
            word(word(lanes[0] as u32, lanes[1]), lanes[2]),
            lanes[3] | 32 << 32,
        );
        if super::has_instruction() {
            // SAFETY: the processor has what it needs.
            assert_eq!(unsafe { super::sum(5, &bytes) }, whole);
        }
    }
}
