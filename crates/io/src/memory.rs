//! One mapping of shared memory: reserved at once, taken page by page, given back page by page.
//!
//! It lies in a file of memory, which can be handed to another process of ours and outlives this one.

use std::io;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};

mod file;
mod owner;
mod scratch;

pub use file::{Claim, MemoryFile};
pub use scratch::Scratch;

/// Bytes of a huge page; a mapping starts at a multiple of it.
pub const HUGE_PAGE_SIZE: usize = 2 << 20;

/// A mapping. Pages that were never written take no memory and read as zero.
#[derive(Debug)]
pub struct Memory {
    start: *mut u8,
    len: usize,
    /// Where the address space begins that `start` was aligned in.
    reserved: *mut u8,
    file: MemoryFile,
}

// SAFETY: the mapping belongs to no thread; who may access which bytes when is the user's affair.
unsafe impl Send for Memory {}
// SAFETY: the methods only pass addresses to the kernel.
unsafe impl Sync for Memory {}

impl Memory {
    /// Reserves `len` bytes of address space, in a file of their own.
    ///
    /// # Errors
    /// What the operating system says: no address space, no descriptors, memfd forbidden.
    pub fn reserve(len: usize) -> io::Result<Memory> {
        Memory::map(MemoryFile::anonymous()?, len)
    }

    /// Maps the first `len` bytes of `file`, which is made exactly so long.
    ///
    /// # Errors
    /// What the operating system says: no address space, no room.
    pub fn map(file: MemoryFile, len: usize) -> io::Result<Memory> {
        file.set_len(len as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        let nowhere = std::ptr::null_mut();
        let (nothing, private) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let reserved: *mut u8 =
            unsafe { mmap_anonymous(nowhere, len + HUGE_PAGE_SIZE, nothing, private)?.cast() };
        let start = reserved.wrapping_add(reserved.align_offset(HUGE_PAGE_SIZE));
        // SAFETY: it takes the place of a part of the mapping above, which nobody uses.
        let mapped = unsafe { mmap(start.cast(), len, protection, flags, &file, 0) };
        let memory = Memory {
            start,
            len,
            reserved,
            file,
        };
        mapped.map(|_| memory).map_err(io::Error::from)
    }

    /// The file that it lies in.
    pub fn file(&self) -> &MemoryFile {
        &self.file
    }

    /// The mapping's first byte; page-aligned.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Bytes reserved.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Gives the memory of `offset..offset + len` back; it reads as zero after. Both are multiples of the page size.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or the kernel cannot punch holes in its own memory file.
    pub fn punch(&self, offset: usize, len: usize) {
        self.check(offset, len);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(&self.file, flags, offset as u64, len as u64);
        punched.expect("a memory file can always be punched");
    }

    /// Locks `offset..offset + len` into RAM.
    ///
    /// # Errors
    /// `ENOMEM` or `EPERM` when RLIMIT_MEMLOCK forbids it.
    pub fn lock(&self, offset: usize, len: usize) -> io::Result<()> {
        self.check(offset, len);
        // SAFETY: inside the mapping; locking changes no byte.
        unsafe { mlock(self.start.add(offset).cast(), len)? };
        Ok(())
    }

    /// Asks for huge pages under `offset..offset + len`.
    ///
    /// # Errors
    /// `EINVAL` where the kernel was built without them.
    pub fn advise_huge(&self, offset: usize, len: usize) -> io::Result<()> {
        self.check(offset, len);
        // SAFETY: inside the mapping; the advice changes no byte.
        unsafe { madvise(self.start.add(offset).cast(), len, Advice::LinuxHugepage)? };
        Ok(())
    }

    /// Puts a huge page under `offset..offset + HUGE_PAGE_SIZE`, a multiple of it; bytes that had no memory get some. Who
    /// touches the range meanwhile waits. Cost: a copy of the range, some 0.2 ms.
    ///
    /// # Errors
    /// `EINVAL` where the kernel cannot (before 6.1), `ENOMEM` when it has none to give, `EAGAIN` and `EBUSY` when the range
    /// is in use in a way that forbids it now.
    pub fn collapse(&self, offset: usize) -> io::Result<()> {
        self.check(offset, HUGE_PAGE_SIZE);
        // SAFETY: inside the mapping; no byte changes.
        let refused =
            unsafe { libc::madvise(self.start.add(offset).cast(), HUGE_PAGE_SIZE, libc::MADV_COLLAPSE) };
        if refused == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn check(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len).expect("a range of addresses");
        assert!(end <= self.len, "{offset}..{end} of {}", self.len);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and whoever has pointers into it has borrowed it or keeps it.
        let unmapped = unsafe { munmap(self.reserved.cast(), self.len + HUGE_PAGE_SIZE) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::{HUGE_PAGE_SIZE, Memory};

    const PAGE: usize = 4096;

    fn byte(memory: &Memory, at: usize) -> u8 {
        assert!(at < memory.len());
        // SAFETY: inside the mapping, and no other thread knows it.
        unsafe { memory.as_ptr().add(at).read() }
    }

    fn fill(memory: &Memory, byte: u8) {
        // SAFETY: exactly the mapping, and no other thread knows it.
        unsafe { memory.as_ptr().write_bytes(byte, memory.len()) };
    }

    #[test]
    fn punched_pages_read_as_zero_and_their_neighbours_stay() {
        let memory = Memory::reserve(64 * PAGE).expect("a mapping");
        assert_eq!((memory.len(), memory.as_ptr() as usize % PAGE), (64 * PAGE, 0));
        assert_eq!((byte(&memory, 0), byte(&memory, 64 * PAGE - 1)), (0, 0));
        fill(&memory, 7);
        memory.punch(16 * PAGE, 32 * PAGE);
        assert_eq!((byte(&memory, 16 * PAGE - 1), byte(&memory, 48 * PAGE)), (7, 7));
        assert!((16 * PAGE..48 * PAGE).all(|at| byte(&memory, at) == 0));
        fill(&memory, 9);
        assert_eq!(byte(&memory, 20 * PAGE), 9);
    }

    #[test]
    fn much_more_can_be_reserved_than_is_taken() {
        let memory = Memory::reserve(64 << 30).expect("address space");
        assert_eq!(byte(&memory, memory.len() - 1), 0);
    }

    #[test]
    fn a_range_keeps_its_bytes_when_it_gets_a_huge_page() {
        let memory = Memory::reserve(2 * HUGE_PAGE_SIZE).expect("a mapping");
        assert_eq!(memory.as_ptr().align_offset(HUGE_PAGE_SIZE), 0);
        fill(&memory, 7);
        // A kernel may refuse; it must not lose anything either way.
        match memory.collapse(HUGE_PAGE_SIZE) {
            Ok(()) => memory.punch(HUGE_PAGE_SIZE + PAGE, PAGE),
            Err(error) => assert!(error.raw_os_error().is_some()),
        }
        assert_eq!(
            (
                byte(&memory, HUGE_PAGE_SIZE),
                byte(&memory, 2 * HUGE_PAGE_SIZE - 1)
            ),
            (7, 7)
        );
    }

    #[test]
    fn a_page_is_locked_or_refused_cleanly() {
        let memory = Memory::reserve(4 * PAGE).expect("a mapping");
        match memory.lock(PAGE, PAGE) {
            Ok(()) => assert_eq!(byte(&memory, PAGE), 0),
            Err(error) => assert!(error.raw_os_error().is_some()),
        }
    }

    #[test]
    #[should_panic(expected = "0..16384 of 8192")]
    fn a_range_beyond_the_mapping_is_refused() {
        Memory::reserve(2 * PAGE).expect("a mapping").punch(0, 4 * PAGE);
    }
}
