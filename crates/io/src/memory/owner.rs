//! Who has claimed a file of memory.

use std::os::fd::AsFd;
use std::path::Path;

use super::MemoryFile;

/// Longest list of locks that is read.
const LOCKS_LEN_MAX: usize = 4 << 20;

impl MemoryFile {
    /// The process that has claimed it; `None` if nobody has, or nobody can tell.
    pub fn owner(&self) -> Option<u32> {
        let stat = rustix::fs::fstat(self.as_fd()).ok()?;
        let locks = crate::file::read(Path::new("/proc/locks"), LOCKS_LEN_MAX).ok()?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        find(
            &String::from_utf8_lossy(&locks),
            &format!("{major:02x}:{minor:02x}:{}", stat.st_ino),
        )
    }
}

/// Finds the exclusive lock of `file` in a list such as `1: FLOCK  ADVISORY  WRITE 123 00:1d:456 0 EOF`. Source: proc(5).
fn find(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, place, ..] if place == file => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{MemoryFile, find};

    #[test]
    fn whoever_claimed_a_file_is_found() {
        let file = MemoryFile::anonymous().expect("a memfd");
        assert_eq!(file.owner(), None);
        let claim = file.claim().expect("it is free");
        assert_eq!(file.owner(), Some(std::process::id()));
        drop(claim);
        assert_eq!(file.owner(), None);
    }

    #[test]
    fn other_locks_are_passed_over() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1d:456 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 8 00:1d:456 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 9 00:1d:456 0 EOF\n4: FLOCK  ADVISORY  WRITE 10 00:1d:456 0 EOF\n";
        assert_eq!(find(locks, "00:1d:456"), Some(10));
        assert_eq!(find(locks, "00:1d:457"), None);
    }
}
