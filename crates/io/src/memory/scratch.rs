//! Words of this process's own that are needed for a moment.

use std::io;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Words that are zero at first, of memory that is taken when they are touched, in huge pages where the kernel has some: they may
/// be touched in any order. All is given back at the end.
#[derive(Debug)]
pub struct Scratch {
    start: *mut AtomicU64,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and all access to it is atomic.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Reserves so many words, 1 at least.
    ///
    /// # Errors
    /// What the operating system says: no address space.
    pub fn reserve(words: usize) -> io::Result<Scratch> {
        let len = words * size_of::<AtomicU64>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags)? };
        // Small pages are slower, nothing else.
        // SAFETY: this mapping; the advice changes no byte.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        Ok(Scratch {
            start: start.cast(),
            words,
        })
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, page-aligned and lives as long as `self`; any bytes are a value.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and whoever has its words has borrowed it.
        let unmapped = unsafe { munmap(self.start.cast(), self.words * size_of::<AtomicU64>()) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::Scratch;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_are_zero_at_first_and_keep_what_they_are_given() {
        let scratch = Scratch::reserve(1_000_000).expect("memory");
        let words = scratch.words();
        assert!(
            words
                .iter()
                .step_by(511)
                .all(|word| word.load(Ordering::Relaxed) == 0)
        );
        words[999_999].store(7, Ordering::Relaxed);
        assert_eq!(words[999_999].load(Ordering::Relaxed), 7);
    }
}
