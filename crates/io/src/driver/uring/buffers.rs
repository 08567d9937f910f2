//! Buffers that the kernel takes from a ring when bytes arrive, and that go back when the bytes have been read.
//!
//! A connection owns one only from arrival to reading; all of them together bound what arrives by this way. What finds no
//! buffer stays in its socket.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The number by which requests name the ring of buffers.
pub(super) const GROUP: u16 = 0;

/// How many there are; a power of two.
const COUNT: u16 = 256;

/// Bytes of one: most requests fit, and hundreds of connections have one. With half of it a value of 10 kB cost a third more.
const LEN: usize = 2 << 10;

/// Bytes of the ring before them, whole pages.
const RING_LEN: usize = (COUNT as usize * size_of::<BufRingEntry>()).next_multiple_of(4096);

const MAPPED_LEN: usize = RING_LEN + COUNT as usize * LEN;

/// No buffer.
pub(super) const NONE: u16 = u16::MAX;

/// All buffers of a driver.
pub(super) struct Buffers {
    memory: NonNull<u8>,
    /// Entries ever put into the ring, modulo 2^16.
    tail: u16,
    filled: Box<[Filled]>,
}

/// What is in a buffer that is not in the ring.
#[derive(Clone, Copy, Debug)]
struct Filled {
    start: u16,
    end: u16,
    /// The connection's next one.
    next: u16,
}

/// A connection's buffers in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u16,
    last: u16,
}

// SAFETY: the mapping belongs to this value alone; the kernel writes to it during calls of the thread that has it.
unsafe impl Send for Buffers {}

impl Default for List {
    fn default() -> List {
        List {
            first: NONE,
            last: NONE,
        }
    }
}

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Buffers {
    /// Buffers that all lie in the ring.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn new() -> io::Result<Buffers> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let memory =
            unsafe { mmap_anonymous(std::ptr::null_mut(), MAPPED_LEN, protection, MapFlags::PRIVATE)? };
        let empty = Filled {
            start: 0,
            end: 0,
            next: NONE,
        };
        let mut buffers = Buffers {
            memory: NonNull::new(memory.cast()).expect("a mapping is not at address 0"),
            tail: 0,
            filled: vec![empty; COUNT.into()].into_boxed_slice(),
        };
        (0..COUNT).for_each(|number| buffers.give_back(number));
        Ok(buffers)
    }

    /// Where the ring begins.
    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    /// Entries of the ring.
    pub(super) fn entries(&self) -> u16 {
        COUNT
    }

    fn start_of(&self, number: u16) -> *mut u8 {
        assert!(number < COUNT, "the kernel names buffers that it was given");
        let offset = RING_LEN + usize::from(number) * LEN;
        // SAFETY: inside the mapping, as the number is below the count.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Puts a buffer back into the ring.
    pub(super) fn give_back(&mut self, number: u16) {
        let address = self.start_of(number) as u64;
        let ring = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: entry tail % COUNT is inside the ring's part of the mapping, which is page-aligned. The kernel reads it only
        // after the tail below says so, and there are never more entries than buffers.
        unsafe {
            let entry = &mut *ring.add(usize::from(self.tail % COUNT));
            entry.set_addr(address);
            entry.set_len(LEN as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, in bytes that the setters above leave alone; the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) };
        // Publishes the entry to the kernel, which loads with acquire.
        tail.store(self.tail, Ordering::Release);
    }

    /// The kernel filled a buffer with `len` bytes: they are the newest of `list`.
    pub(super) fn append(&mut self, list: &mut List, number: u16, len: usize) {
        assert!(len <= LEN && number < COUNT, "the kernel fills a buffer at most");
        self.filled[usize::from(number)] = Filled {
            start: 0,
            end: len as u16,
            next: NONE,
        };
        match list.last {
            NONE => list.first = number,
            last => self.filled[usize::from(last)].next = number,
        }
        list.last = number;
    }

    /// Moves bytes from the front of `list` to `into`; returns how many. Emptied buffers go back.
    pub(super) fn read(&mut self, list: &mut List, into: &mut [u8]) -> usize {
        let mut len = 0;
        while list.first != NONE && len < into.len() {
            let number = list.first;
            let Filled { start, end, next } = self.filled[usize::from(number)];
            let taken = usize::from(end - start).min(into.len() - len);
            // SAFETY: start + taken is at most what the kernel filled of this buffer, which it does not touch until it is
            // given back; `into` is not in the mapping.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.start_of(number).add(usize::from(start)), taken) };
            into[len..][..taken].copy_from_slice(bytes);
            len += taken;
            self.filled[usize::from(number)].start += taken as u16;
            if start + taken as u16 == end {
                list.first = next;
                self.give_back(number);
            }
        }
        if list.first == NONE {
            list.last = NONE;
        }
        len
    }

    /// Moves all of `list` to the end of `into`.
    pub(super) fn move_all(&mut self, list: &mut List, into: &mut Vec<u8>) {
        let mut bytes = [0; LEN];
        while !list.is_empty() {
            let len = self.read(list, &mut bytes);
            into.extend_from_slice(&bytes[..len]);
        }
    }

    /// Forgets what is in `list`.
    pub(super) fn drop_all(&mut self, list: &mut List) {
        while list.first != NONE {
            let number = list.first;
            list.first = self.filled[usize::from(number)].next;
            self.give_back(number);
        }
        list.last = NONE;
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: nothing of ours refers to it any more. The ring that received into it was dropped before, and receives
        // only inside calls.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), MAPPED_LEN) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}
