//! Two queues shared with the kernel: requests go in, completions come out.
//!
//! The kernel works for the ring inside `submit` and `enter` only (DEFER_TASKRUN): between two calls nothing is received and
//! no buffer is written. All of this driver's order rests on that.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::buffers::{Buffers, GROUP};

/// Requests that go to the kernel in one call; more take another.
const REQUESTS_MAX: u32 = 512;

/// Completions that lie in the ring; the kernel keeps more in memory of its own.
const COMPLETIONS_MAX: u32 = 2048;

/// Completions taken at a time.
pub(super) const BATCH: usize = 64;

/// Sends never wait: what the socket does not take at once comes back with the completion.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;

/// IORING_ENTER_GETEVENTS.
const GET_EVENTS: u32 = 1;

/// What a completion belongs to: a kind, a place, and the place's generation, so that a late one is told from its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    pub(super) generation: u32,
    pub(super) place: u32,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Receive,
    Send,
    PollIn,
    PollOut,
    Others,
    Cancel,
    Lend,
    Close,
}

/// A file that requests are about.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    number: RawFd,
    flags: squeue::Flags,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) tag: Tag,
    /// Bytes, or an error number below zero.
    pub(super) result: i32,
    /// The buffer that was filled.
    pub(super) buffer: Option<u16>,
    /// The request goes on.
    pub(super) goes_on: bool,
}

pub(super) struct Ring {
    ring: IoUring,
    is_enabled: bool,
    /// Whether files in slots can be had back as descriptors. What cannot be is not read in bulk, nor handed over.
    lends: bool,
    /// Slots for direct descriptors; 0 until one is wanted.
    slots: u32,
}

impl File {
    /// An open file of the process.
    pub(super) fn descriptor(number: RawFd) -> File {
        let flags = squeue::Flags::empty();
        File { number, flags }
    }

    /// A file in a slot of the ring.
    pub(super) fn direct(slot: u32) -> File {
        let flags = squeue::Flags::FIXED_FILE;
        File {
            number: slot as RawFd,
            flags,
        }
    }
}

impl Tag {
    const KINDS: [Kind; 8] = [
        Kind::Receive,
        Kind::Send,
        Kind::PollIn,
        Kind::PollOut,
        Kind::Others,
        Kind::Cancel,
        Kind::Lend,
        Kind::Close,
    ];

    /// Generations count up to this and begin again.
    pub(super) const GENERATION_MAX: u32 = (1 << 28) - 1;

    fn to_word(self) -> u64 {
        (self.kind as u64) << 60 | u64::from(self.generation) << 32 | u64::from(self.place)
    }

    fn of_word(word: u64) -> Tag {
        Tag {
            kind: Tag::KINDS[(word >> 60) as usize],
            generation: (word >> 32) as u32 & Tag::GENERATION_MAX,
            place: word as u32,
        }
    }
}

impl Ring {
    /// A ring that receives into `buffers`. It may be made on one thread and used on another.
    ///
    /// # Errors
    /// What the operating system says: forbidden, too old, no memory.
    pub(super) fn new(buffers: &Buffers) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(COMPLETIONS_MAX)
            .setup_r_disabled()
            .build(REQUESTS_MAX)?;
        let kernel = ring.params();
        if !kernel.is_feature_nodrop()
            || !kernel.is_feature_ext_arg()
            || !kernel.is_feature_skip_cqe_on_success()
        {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // SAFETY: the ring of buffers is mapped, has this many entries, and is unmapped after this ring is gone.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(buffers.address(), buffers.entries(), GROUP, 0)?;
        }
        let mut known = Probe::new();
        ring.submitter().register_probe(&mut known)?;
        Ok(Ring {
            ring,
            is_enabled: false,
            lends: known.is_supported(opcode::FixedFdInstall::CODE),
            slots: 0,
        })
    }

    /// From now on it belongs to this thread.
    ///
    /// # Errors
    /// It belongs to another.
    pub(super) fn enable(&mut self) -> io::Result<()> {
        if !self.is_enabled {
            self.is_enabled = true;
            self.ring.submitter().register_enable_rings()?;
            // Saves looking the descriptor up with every call; works without as well.
            let _ = self.ring.submitter().register_ring_fd();
        }
        Ok(())
    }

    /// Whether files in slots can be had back as descriptors.
    pub(super) fn lends(&self) -> bool {
        self.lends
    }

    /// Puts an open file into a slot, of which there are `slots` from the first time on; what was there is closed. The
    /// descriptor may be closed then.
    ///
    /// # Errors
    /// There is no such slot, no memory, or more slots than this process may open files.
    pub(super) fn take_file(&mut self, slot: u32, fd: BorrowedFd<'_>, slots: u32) -> io::Result<()> {
        if self.slots == 0 {
            self.ring.submitter().register_files_sparse(slots)?;
            self.slots = slots;
        }
        if slot >= self.slots {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let files = [fd.as_raw_fd()];
        self.ring
            .submitter()
            .register_files_update(slot, &files)
            .map(drop)
    }

    /// Asks for a descriptor of the file in a slot; the completion bears it.
    pub(super) fn lend(&mut self, slot: u32, tag: Tag) -> io::Result<()> {
        let entry = opcode::FixedFdInstall::new(Fixed(slot), 0).build();
        // SAFETY: it names no memory.
        unsafe { self.push(entry, tag) }
    }

    /// Closes the file in a slot.
    pub(super) fn close(&mut self, slot: u32, tag: Tag) -> io::Result<()> {
        let entry = opcode::Close::new(Fixed(slot)).build();
        // SAFETY: it names no memory.
        unsafe { self.push(entry.flags(squeue::Flags::SKIP_SUCCESS), tag) }
    }

    /// Asks for bytes into buffers of the ring, again and again.
    pub(super) fn receive(&mut self, file: File, tag: Tag) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(file.number), GROUP).build();
        let entry = entry.flags(file.flags);
        // SAFETY: it names no memory; the buffers are the ring's.
        unsafe { self.push(entry, tag) }
    }

    /// Asks for one report of readiness.
    pub(super) fn poll(&mut self, file: File, events: i16, tag: Tag) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(file.number), events as u32).build();
        let entry = entry.flags(file.flags);
        // SAFETY: it names no memory.
        unsafe { self.push(entry, tag) }
    }

    /// Ends a request: it completes, if it has not.
    pub(super) fn cancel(&mut self, ended: Tag) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(ended.to_word()).build();
        let tag = Tag {
            kind: Kind::Cancel,
            ..ended
        };
        // SAFETY: it names no memory.
        unsafe { self.push(entry.flags(squeue::Flags::SKIP_SUCCESS), tag) }
    }

    /// Sends bytes as far as the socket takes them at once; completes only if it did not take all.
    ///
    /// # Safety
    /// The bytes stay where they are until `submit` or `enter` has left nothing to submit.
    pub(super) unsafe fn send(&mut self, file: File, bytes: &[u8], tag: Tag) -> io::Result<()> {
        let entry = opcode::Send::new(Fd(file.number), bytes.as_ptr(), bytes.len() as u32)
            .flags(SEND_FLAGS)
            .build()
            .flags(file.flags | squeue::Flags::SKIP_SUCCESS);
        // SAFETY: as the caller promises: the kernel copies the bytes while it takes the request.
        unsafe { self.push(entry, tag) }
    }

    /// # Safety
    /// What the entry names stays until the kernel is done with it.
    unsafe fn push(&mut self, entry: squeue::Entry, tag: Tag) -> io::Result<()> {
        let entry = entry.user_data(tag.to_word());
        loop {
            // SAFETY: as the caller promises.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Hands over what waits to be submitted, runs what has become due, and waits for nothing.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        passed(self.ring.submit()).map(drop)
    }

    /// Hands over what waits to be submitted and waits for a completion; `false` if the time was over before.
    pub(super) fn enter(&mut self, timeout_ms: Option<u32>) -> io::Result<bool> {
        let result = match timeout_ms {
            Some(0) => {
                let len = self.ring.submission().len() as u32;
                // SAFETY: as `submit` does it, but what has become due through the requests themselves runs as well.
                unsafe {
                    self.ring
                        .submitter()
                        .enter::<libc::sigset_t>(len, 0, GET_EVENTS, None)
                }
            }
            None => self.ring.submit_and_wait(1),
            Some(ms) => {
                let time = Timespec::new()
                    .sec(u64::from(ms / 1000))
                    .nsec(ms % 1000 * 1_000_000);
                self.ring
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        passed(result)
    }

    /// Whether the kernel has not taken all requests yet.
    pub(super) fn has_requests(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Whether completions wait in the kernel for room.
    pub(super) fn has_overflown(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Takes completions that are there; 0 if there are none.
    pub(super) fn take(&mut self, completions: &mut [Option<Completion>; BATCH]) -> usize {
        let mut raw = [const { MaybeUninit::<cqueue::Entry>::uninit() }; BATCH];
        let taken = self.ring.completion().fill(&mut raw);
        for (slot, entry) in completions.iter_mut().zip(&*taken) {
            *slot = Some(Completion {
                tag: Tag::of_word(entry.user_data()),
                result: entry.result(),
                buffer: cqueue::buffer_select(entry.flags()),
                goes_on: cqueue::more(entry.flags()),
            });
        }
        taken.len()
    }
}

/// The descriptor that the completion of a loan bears.
pub(super) fn lent(completion: &Completion) -> io::Result<OwnedFd> {
    if completion.result < 0 {
        return Err(io::Error::from_raw_os_error(-completion.result));
    }
    debug_assert!(completion.tag.kind == Kind::Lend);
    // SAFETY: the kernel opened it for this completion, which is taken once, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(completion.result) })
}

/// Whether a call went well; `false` if its time was over. What only means "again" is no error.
fn passed(result: io::Result<usize>) -> io::Result<bool> {
    match result.as_ref().map_err(io::Error::raw_os_error) {
        Ok(_) | Err(Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(true),
        Err(Some(libc::ETIME)) => Ok(false),
        Err(_) => result.map(|_| true),
    }
}
