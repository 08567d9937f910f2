//! Counts the system calls of a process, by the kernel's tracepoint at their entrance. While somebody counts, every system
//! call on the machine takes a longer way in.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::usage::Whose;

/// Where the tracepoint's number may be read.
const PLACES: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];

/// Counters of threads; those that they start later are counted with them.
#[derive(Debug)]
pub struct Syscalls(Vec<OwnedFd>);

impl Syscalls {
    /// Begins to count.
    ///
    /// # Errors
    /// In words: the kernel does not tell, or not this user.
    pub fn watch(whose: Whose) -> Result<Syscalls, String> {
        let id = PLACES
            .iter()
            .find_map(|place| std::fs::read_to_string(place).ok()?.trim().parse().ok())
            .ok_or_else(|| {
                format!(
                    "{} cannot be read; be root, and mount -t tracefs tracefs /sys/kernel/tracing",
                    PLACES[0]
                )
            })?;
        let threads = whose.threads();
        if threads.is_empty() {
            return Err("there is no such process".to_owned());
        }
        let counters = threads.into_iter().map(|thread| open(id, thread));
        // A thread may have ended since.
        let counters = counters.filter(|opened| !matches!(opened, Err(why) if is_gone(why)));
        let counters = counters.collect::<io::Result<_>>();
        counters
            .map(Syscalls)
            .map_err(|why| format!("{why}; be root, or lower /proc/sys/kernel/perf_event_paranoid to -1"))
    }

    /// System calls since counting began.
    pub fn count(&self) -> u64 {
        let one = |counter: &OwnedFd| {
            let mut count = [0; 8];
            // A counter that cannot be read has counted nothing.
            let _ = rustix::io::read(counter, &mut count);
            u64::from_ne_bytes(count)
        };
        self.0.iter().map(one).sum()
    }
}

fn is_gone(why: &io::Error) -> bool {
    why.raw_os_error() == Some(libc::ESRCH)
}

/// A counter of how often `thread` passes the tracepoint of that number.
fn open(id: u64, thread: u32) -> io::Result<OwnedFd> {
    const TRACEPOINT: u64 = 2;
    const INHERITED: u64 = 1 << 1;
    const CLOSED_ON_EXEC: libc::c_ulong = 1 << 3;
    /// `struct perf_event_attr` in its first version: type and size, config, period, sample type, read format, flags, and
    /// what only other kinds of events use. Source: include/uapi/linux/perf_event.h.
    const LEN: usize = 8;
    let size = (LEN * size_of::<u64>()) as u64;
    let attributes: [u64; LEN] = [TRACEPOINT | (size << 32), id, 0, 0, 0, INHERITED, 0, 0];
    let (any_processor, no_group) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of `attributes`, which says so itself and lives until the call returns; nothing is
    // written to memory of ours.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            thread as libc::pid_t,
            any_processor,
            no_group,
            CLOSED_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it is a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

#[cfg(test)]
mod tests {
    use super::Syscalls;
    use crate::usage::Whose;

    #[test]
    fn calls_are_counted_or_it_is_said_why_not() {
        match Syscalls::watch(Whose::Process(std::process::id())) {
            Ok(calls) => {
                let before = calls.count();
                for _ in 0..100 {
                    let _ = std::fs::metadata("/proc/self");
                }
                assert!(calls.count() >= before + 100);
            }
            Err(why) => assert!(why.contains("root"), "{why}"),
        }
        assert!(Syscalls::watch(Whose::Process(u32::MAX)).is_err());
    }
}
