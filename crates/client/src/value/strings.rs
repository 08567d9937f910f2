//! Strings that were written before, by their number. They are not kept: their bytes stand in what was written.

use xxhash_rust::xxh3::xxh3_64;

/// Free places of a table stay at least as many as taken ones.
const LOAD: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Strings {
    /// Each is 0, or one more than a number.
    table: Vec<u32>,
    written: Vec<Written>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    hash: u64,
    offset: usize,
    len: usize,
}

impl Strings {
    /// The number of `bytes`, if they were written to `out` before.
    pub(super) fn number(&self, out: &[u8], bytes: &[u8]) -> Option<usize> {
        if self.table.is_empty() {
            return None;
        }
        let hash = xxh3_64(bytes);
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        while let Some(number) = (self.table[place] as usize).checked_sub(1) {
            let found = self.written[number];
            if found.hash == hash && &out[found.offset..found.offset + found.len] == bytes {
                return Some(number);
            }
            place = (place + 1) & mask;
        }
        None
    }

    /// Gives `bytes`, which are new and about to be written at `offset`, the next number.
    pub(super) fn add(&mut self, offset: usize, bytes: &[u8]) {
        self.written.push(Written {
            hash: xxh3_64(bytes),
            offset,
            len: bytes.len(),
        });
        if self.table.len() < self.written.len() * LOAD {
            let len = (self.written.len() * LOAD * LOAD).next_power_of_two().max(16);
            self.table = vec![0; len];
            (0..self.written.len()).for_each(|number| self.place(number));
        } else {
            self.place(self.written.len() - 1);
        }
    }

    fn place(&mut self, number: usize) {
        let mask = self.table.len() - 1;
        let mut place = self.written[number].hash as usize & mask;
        while self.table[place] != 0 {
            place = (place + 1) & mask;
        }
        // More than 4 billion strings do not fit into memory: each took some bytes.
        self.table[place] = number as u32 + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Strings;

    #[test]
    fn what_was_written_is_found_by_its_number() {
        let (mut strings, mut out) = (Strings::default(), Vec::new());
        for number in 0..1_000 {
            let text = format!("text {number}");
            assert_eq!(strings.number(&out, text.as_bytes()), None);
            strings.add(out.len(), text.as_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        for number in 0..1_000 {
            let text = format!("text {number}");
            assert_eq!(strings.number(&out, text.as_bytes()), Some(number), "{text}");
        }
    }
}
