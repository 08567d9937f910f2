//! Small files that a server is told of: read whole, and watched for changes.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Reads a file of at most `len_max` bytes.
///
/// # Errors
/// What the system says; `FileTooLarge` if it is longer.
pub fn read(path: &Path, len_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > len_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The path from the root, so that it stays the same file when the process changes its directory.
///
/// # Errors
/// The path is empty, or there is no present directory.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

/// Tells one state of a file from another, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl Stamp {
    /// The file's present state; `None` if it cannot be seen.
    pub fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            modified: metadata.modified().ok(),
            len: metadata.len(),
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Stamp, absolute, read};

    #[test]
    fn a_file_is_read_up_to_a_length_and_its_changes_are_seen() {
        let path = std::env::temp_dir().join(format!("scrubjay-file-{}", std::process::id()));
        assert_eq!(Stamp::of(&path), None);
        std::fs::write(&path, "12345").expect("writable");
        let before = Stamp::of(&path);
        assert!(before.is_some());
        assert_eq!(read(&path, 5).expect("short enough"), b"12345");
        assert_eq!(
            read(&path, 4).expect_err("too long").kind(),
            std::io::ErrorKind::FileTooLarge
        );
        std::fs::write(&path, "123456").expect("writable");
        assert_ne!(Stamp::of(&path), before);
        std::fs::remove_file(&path).expect("ours");
        assert!(absolute("x".as_ref()).expect("a directory").is_absolute());
    }
}
