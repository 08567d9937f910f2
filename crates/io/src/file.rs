//! Small files that are read whole, and again when they have changed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Reads all of a file of at most `len_max` bytes.
///
/// # Errors
/// What the system says, and `FileTooLarge`.
pub fn read(path: &Path, len_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(len_max as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > len_max {
        let message = format!("it has more than {len_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Whether others than owner and group may read the file; `false` if nobody can tell.
pub fn is_readable_by_all(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

/// The path from the root, so that it stays the same file when the process changes its directory.
///
/// # Errors
/// The path is empty, or there is no present directory.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

/// Tells one state of a file from another, without reading it: time of change, length, and which file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    modified: (i64, i64),
    len: u64,
    inode: u64,
}

impl Stamp {
    /// The file's present state; `None` if it cannot be seen.
    pub fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            len: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

/// A file that is looked at from time to time.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    /// As it was when its change was told last.
    told: Option<Stamp>,
    /// As it was at the last look.
    last: Option<Stamp>,
}

impl Watched {
    /// Watches `path` from now on.
    pub fn new(path: impl Into<PathBuf>) -> Watched {
        let path = path.into();
        let stamp = Stamp::of(&path);
        Watched {
            path,
            told: stamp,
            last: stamp,
        }
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks: whether the file has changed since this was last answered with yes, and has not changed since the look
    /// before. So nobody reads what is still being written.
    pub fn has_changed(&mut self) -> bool {
        let now = Stamp::of(&self.path);
        let rests = now == self.last;
        self.last = now;
        let changed = rests && now != self.told;
        if changed {
            self.told = now;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::{Watched, read};

    #[test]
    fn a_change_is_told_once_and_when_it_rests() {
        let path = std::env::temp_dir().join(format!("scrubjay-watched-{}", std::process::id()));
        std::fs::write(&path, "one").expect("writable");
        let mut watched = Watched::new(&path);
        assert!(!watched.has_changed());
        std::fs::write(&path, "three").expect("writable");
        assert!(!watched.has_changed(), "it may go on changing");
        assert!(watched.has_changed());
        assert!(!watched.has_changed(), "that was told");
        assert_eq!(read(&path, 5).expect("readable"), b"three");
        assert!(read(&path, 4).is_err());
        std::fs::remove_file(&path).expect("ours");
        assert!(!watched.has_changed());
        assert!(watched.has_changed(), "to be gone is a change");
        assert!(!watched.has_changed());
    }
}
