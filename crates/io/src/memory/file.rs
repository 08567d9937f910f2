//! The file that a mapping lies in: a memfd, or a file on tmpfs. It outlives the process while somebody holds it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{
    FlockOperation, MemfdFlags, SeekFrom, flock, fstat, fstatfs, ftruncate, memfd_create, seek,
};

/// What `statfs` calls memory. Source: linux/magic.h.
const TMPFS: u64 = 0x0102_1994;
const HUGETLBFS: u64 = 0x9584_58f6;
const RAMFS: u64 = 0x8584_58f6;

/// A file of memory that a cache lives in.
#[derive(Debug)]
pub struct MemoryFile(OwnedFd);

/// The right to use a file of memory. Dropped, or by any death of its process, it is free again.
#[derive(Debug)]
pub struct Claim(OwnedFd);

impl Drop for Claim {
    fn drop(&mut self) {
        // Not left to the descriptor's end: a child that was forked and has not come to its own program yet still has it. An
        // error would leave it to that end.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl MemoryFile {
    /// A new file without a name, which goes with its last holder.
    ///
    /// # Errors
    /// What the operating system says: no descriptors, memfd forbidden.
    pub fn anonymous() -> io::Result<MemoryFile> {
        Ok(MemoryFile(memfd_create("scrubjay", MemfdFlags::CLOEXEC)?))
    }

    /// Opens the file of this name, or creates it so that nobody else may read it.
    ///
    /// # Errors
    /// What the operating system says of the path.
    pub fn at(path: &Path) -> io::Result<MemoryFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            let message = format!("{} is no regular file", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(MemoryFile(file.into()))
    }

    /// The file that another process, or a keeper, has passed on.
    pub fn from_fd(fd: OwnedFd) -> MemoryFile {
        MemoryFile(fd)
    }

    /// The same file under another descriptor.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn try_clone(&self) -> io::Result<MemoryFile> {
        self.0.try_clone().map(MemoryFile)
    }

    /// Whether it lies in memory: on a disk, the kernel writes its pages out again and again.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn is_in_memory(&self) -> io::Result<bool> {
        let kind = fstatfs(&self.0)?.f_type as u64 & u64::from(u32::MAX);
        Ok([TMPFS, HUGETLBFS, RAMFS].contains(&kind))
    }

    /// Takes the file for this process alone. The lock is on an opening of the file of its own, which no child and no
    /// receiver of the descriptor shares.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while somebody else has it; what the operating system says.
    pub fn claim(&self) -> io::Result<Claim> {
        let itself = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        // The standard library sets O_CLOEXEC.
        let own = OpenOptions::new().read(true).write(true).open(&itself);
        let own = own
            .map_err(|why| io::Error::new(why.kind(), format!("{itself}: {why} (is /proc mounted here?)")))?;
        flock(&own, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Claim(own.into()))
    }

    /// Bytes from its start to its end, holes among them.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn len(&self) -> io::Result<u64> {
        Ok(fstat(&self.0)?.st_size as u64)
    }

    /// Whether it has no bytes at all.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes it this long: a hole comes, or what is too much goes.
    ///
    /// # Errors
    /// What the operating system says: no room, a limit on files' sizes.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(ftruncate(&self.0, len)?)
    }

    /// Another file without a name that has the same bytes, and holes where this one has some. Whoever changes this one
    /// meanwhile may be seen half done.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn copy(&self) -> io::Result<MemoryFile> {
        let copy = MemoryFile::anonymous()?;
        copy.set_len(self.len()?)?;
        let mut hole = 0;
        // Behind the last data there is nothing to seek.
        while let Ok(data) = seek(&self.0, SeekFrom::Data(hole)) {
            hole = seek(&self.0, SeekFrom::Hole(data))?;
            let mut bytes = vec![0; (hole - data) as usize];
            self.read_at(&mut bytes, data)?;
            let mut written = 0;
            while written < bytes.len() {
                written += rustix::io::pwrite(&copy.0, &bytes[written..], data + written as u64)?;
            }
        }
        Ok(copy)
    }

    /// Reads from `offset` on; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::io::pread(&self.0, &mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryFile;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_has_one_owner_at_a_time_whatever_descriptors_lead_to_it() {
        let file = MemoryFile::anonymous().expect("a memfd");
        let other = file.try_clone().expect("a descriptor");
        let claim = file.claim().expect("nobody has it");
        for file in [&file, &other] {
            let refused = file.claim().expect_err("it is taken");
            assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        }
        drop(claim);
        assert!(other.claim().is_ok());
    }

    #[test]
    fn a_memfd_is_in_memory_and_reads_as_long_as_it_is() {
        let file = MemoryFile::anonymous().expect("a memfd");
        assert!(file.is_in_memory().expect("a file system"));
        assert!(file.is_empty().expect("a length"));
        file.set_len(10).expect("room");
        let mut bytes = [7; 20];
        assert_eq!(file.read_at(&mut bytes, 4).expect("bytes"), 6);
        assert_eq!((bytes[5], bytes[6]), (0, 7));
    }

    #[test]
    fn a_copy_has_the_same_bytes_and_holes() {
        let memory = crate::memory::Memory::reserve(1 << 20).expect("a mapping");
        // SAFETY: inside the mapping, and nobody else knows it.
        unsafe { memory.as_ptr().add(70_000).write(7) };
        let copy = memory.file().copy().expect("a copy");
        let mut bytes = [1; 3];
        assert_eq!(copy.len().expect("a length"), 1 << 20);
        assert_eq!(copy.read_at(&mut bytes, 69_999).expect("bytes"), 3);
        assert_eq!(bytes, [0, 7, 0]);
    }

    #[test]
    fn a_named_file_is_its_owners_alone_and_no_folder() {
        let folder = std::env::temp_dir().join(format!("scrubjay-memory-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let path = folder.join("cache");
        let made = MemoryFile::at(&path).expect("a file");
        made.set_len(5).expect("room");
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        let again = MemoryFile::at(&path).expect("the same file");
        let refused = MemoryFile::at(&folder);
        std::fs::remove_dir_all(&folder).expect("ours");
        assert_eq!((mode & 0o777, again.len().expect("a length")), (0o600, 5));
        assert!(refused.is_err());
    }
}
