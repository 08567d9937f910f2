//! A copy of this process, for tests of what must not be shared with one.

use std::io;

/// Runs `act` in a child that is a copy of this process, but for its threads, and waits until that has ended. Gives whether the
/// child said so; a panic there counts as a no. What `act` uses must not depend on a lock that another thread of this process
/// may hold just now; the allocator's are seen to by the C library.
///
/// # Errors
/// What the system says.
pub fn run(act: impl FnOnce() -> bool) -> io::Result<bool> {
    // SAFETY: the child goes on in a copy of all memory, with this thread alone. It leaves by `_exit` in any case, so that
    // nothing that was meant for this process's end runs twice.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(false);
            // SAFETY: ends this process at once, without touching its memory.
            unsafe { libc::_exit(i32::from(!good)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is valid for the call, and the child is ours.
            while unsafe { libc::waitpid(child, &mut status, 0) } != child {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0)
        }
    }
}
