//! The connections of a worker, by number. Grows by a chunk at a time, so that nothing moves when one more comes: a vector
//! that doubles would copy a hundred thousand of them in one turn and keep room for as many again.

/// Connections of a chunk: some five kilobytes.
const CHUNK_LEN: usize = 64;

/// Things by number. A number is used again when what had it is taken out.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: Vec<Box<[Option<T>]>>,
    vacant: Vec<u32>,
    /// Numbers given out so far, those vacant now included.
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            chunks: Vec::new(),
            vacant: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Table<T> {
    /// One more than the greatest number ever used.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number that the next one to come will have.
    pub(crate) fn next(&self) -> usize {
        self.vacant.last().map_or(self.len, |index| *index as usize)
    }

    /// Puts something in, under the number [`Table::next`].
    pub(crate) fn insert(&mut self, thing: T) {
        let index = self.next();
        if self.vacant.pop().is_none() {
            self.len += 1;
        }
        if index / CHUNK_LEN == self.chunks.len() {
            self.chunks.push((0..CHUNK_LEN).map(|_| None).collect());
        }
        self.chunks[index / CHUNK_LEN][index % CHUNK_LEN] = Some(thing);
    }

    /// What has this number, if anything has.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let chunk = self.chunks.get(index / CHUNK_LEN)?;
        chunk[index % CHUNK_LEN].as_ref()
    }

    /// As [`Table::get`], to be changed.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(index / CHUNK_LEN)?;
        chunk[index % CHUNK_LEN].as_mut()
    }

    /// Takes out what has this number.
    pub(crate) fn take(&mut self, index: usize) -> Option<T> {
        let chunk = self.chunks.get_mut(index / CHUNK_LEN)?;
        let thing = chunk[index % CHUNK_LEN].take()?;
        self.vacant.push(index as u32);
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_LEN, Table};

    #[test]
    fn numbers_are_used_again_and_nothing_else_moves() {
        let mut table = Table::default();
        for number in 0..3 * CHUNK_LEN {
            assert_eq!(table.next(), number);
            table.insert(number);
        }
        assert_eq!(table.get(3 * CHUNK_LEN), None);
        assert_eq!(table.take(5), Some(5));
        assert_eq!((table.take(5), table.get(5)), (None, None));
        assert_eq!(table.take(CHUNK_LEN), Some(CHUNK_LEN));
        assert_eq!(table.next(), CHUNK_LEN);
        table.insert(1_000);
        table.insert(1_001);
        assert_eq!(table.get(CHUNK_LEN), Some(&1_000));
        assert_eq!(table.get_mut(5), Some(&mut 1_001));
        assert_eq!((table.next(), table.len()), (3 * CHUNK_LEN, 3 * CHUNK_LEN));
    }
}
