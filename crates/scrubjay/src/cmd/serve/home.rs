//! Where the items live, who holds them besides this process, and how the cache is opened there.
//!
//! One process at a time may have the cache open: whoever opens it claims its file first, and lets go of it before another
//! one may have it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use scrubjay_cache::{Cache, CacheError, Cold, Kept, Recovered, look};
use scrubjay_io::clock::{self, Clock};
use scrubjay_io::memory::{Claim, MemoryFile};
use scrubjay_io::{entropy, supervisor};
use scrubjay_server::options::{EXIT_USAGE, Holder, OptionError, Options};

use super::arrival::Arrival;
use super::{refused, say};

/// What a supervisor calls the memory that it holds.
const NAME: &str = "memory";

/// The file that the items live in.
pub struct Home {
    file: MemoryFile,
    claim: Option<Claim>,
    boot_id: [u8; 16],
    /// Who else holds it.
    pub holder: Holder,
    /// It comes from the server before, whose items must not be lost.
    is_offered: bool,
}

/// An open cache.
pub struct Opened {
    pub cache: Arc<Cache>,
    /// The clock that it goes by.
    pub clock: Clock,
    /// What was found, for people; `None` if nothing could have been.
    pub words: Option<String>,
}

impl Home {
    /// Finds the file; `offered` is that of the server before.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn find(
        options: &Options,
        arrival: &mut Arrival,
        offered: Option<OwnedFd>,
    ) -> Result<Home, OptionError> {
        let is_offered = offered.is_some();
        let stored = arrival.given.iter().position(|given| given.name == NAME);
        let stored = stored.map(|index| arrival.given.remove(index).fd);
        let kept = arrival.keeper.as_ref().and_then(|keeper| keeper.memory.as_ref());
        let is_kept = kept.is_some();
        let kept = kept.map(OwnedFd::try_clone).transpose();
        let kept = kept.map_err(|error| refused("cannot use what the keeper holds", error))?;
        let path = options.memory_file.as_deref();
        let file = match (offered.or(kept), path) {
            (Some(fd), _) => MemoryFile::from_fd(fd),
            (None, Some(path)) => named(path)?,
            (None, None) => match stored {
                Some(fd) => MemoryFile::from_fd(fd),
                None => MemoryFile::anonymous().map_err(|error| refused("cannot have memory", error))?,
            },
        };
        let holder = match path {
            Some(_) => Holder::File,
            None if is_kept => Holder::Keeper,
            None if supervisor::is_there() => Holder::Supervisor,
            None => Holder::Nobody,
        };
        Ok(Home {
            file,
            claim: None,
            // Where the kernel tells no number, everything is of the same boot.
            boot_id: clock::boot_id().unwrap_or_default(),
            holder,
            is_offered,
        })
    }

    /// What cache there is, without touching it: another process may have it.
    ///
    /// # Errors
    /// There is none that could be taken over, in words.
    pub fn look(&self) -> Result<Kept, String> {
        match look(&self.file, &self.boot_id) {
            Ok(Ok(kept)) => Ok(kept),
            Ok(Err(cold)) => Err(cold.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A clock by which the cache goes, or near it: before the cache is open nobody knows for certain.
    pub fn clock(&self) -> Clock {
        match self.look() {
            Ok(kept) => Clock::resume(kept.unix_millis_at_start, kept.latest),
            Err(_) => Clock::start(),
        }
    }

    /// Claims the file and opens the cache in it, with what is there or, unless that would lose another server's items, empty.
    ///
    /// # Errors
    /// Another process has it; it cannot be had with these options.
    pub fn open(&mut self, options: &Options) -> Result<Opened, OptionError> {
        self.claim()?;
        let cannot = |error: std::io::Error| refused("cannot read the memory file", error);
        let cold = match look(&self.file, &self.boot_id).map_err(cannot)? {
            Ok(kept) => {
                let clock = Clock::resume(kept.unix_millis_at_start, kept.latest);
                match self.reopen(options, &kept, clock) {
                    Ok((cache, recovered)) => {
                        let words = Some(recovered_words(&recovered));
                        return Ok(Opened { cache, clock, words });
                    }
                    Err(CacheError::Cold(cold)) => cold,
                    Err(error) => return Err(refused_memory(options, error)),
                }
            }
            Err(cold) => cold,
        };
        if self.is_offered {
            return Err(refused("the items cannot be taken over", cold));
        }
        let clock = Clock::start();
        let config = options.cache_config(clock.unix_millis_at_start(), entropy::seed());
        let file = self.file.try_clone().map_err(cannot)?;
        let cache = Cache::create(config, file).map_err(|error| refused_memory(options, error))?;
        let is_news = cold != Cold::Empty;
        let words = is_news.then(|| format!("warning: {cold}"));
        Ok(Opened { cache, clock, words })
    }

    /// Opens the cache again that this process closed, or another one left.
    ///
    /// # Errors
    /// It cannot be had any more.
    pub fn open_again(&mut self, options: &Options, clock: Clock) -> Result<Arc<Cache>, OptionError> {
        self.claim()?;
        let kept = self.look().map_err(|why| refused("the items are lost", why))?;
        let reopened = self.reopen(options, &kept, clock);
        reopened
            .map(|(cache, _)| cache)
            .map_err(|error| refused_memory(options, error))
    }

    fn reopen(
        &self,
        options: &Options,
        kept: &Kept,
        clock: Clock,
    ) -> Result<(Arc<Cache>, Recovered), CacheError> {
        let config = options.cache_config(clock.unix_millis_at_start(), entropy::seed());
        let file = self.file.try_clone().map_err(CacheError::Memory)?;
        Cache::reopen(config, file, kept, clock.now())
    }

    /// Closes the cache, so that whoever opens it next finds it whole, and lets go of it.
    pub fn close(&mut self, cache: &Cache, clock: Clock) {
        if !cache.close(clock.now()) {
            say("warning: the cache was still in use at the end; the next start looks through all of it");
        }
        self.claim = None;
    }

    /// Has a supervisor hold the file too, if there is one and nobody else does.
    pub fn store(&self) {
        if self.holder != Holder::Supervisor || self.is_offered {
            return;
        }
        if let Err(error) = supervisor::store(NAME, &self.file) {
            say(&format!(
                "warning: the supervisor does not take the memory: {error}"
            ));
        }
    }

    /// The file, for a successor.
    pub fn file(&self) -> &MemoryFile {
        &self.file
    }

    fn claim(&mut self) -> Result<(), OptionError> {
        let claim = self.file.claim().map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                let who = self
                    .file
                    .owner()
                    .map_or("another process".to_owned(), |pid| format!("process {pid}"));
                let what = "the cache in this memory file is in use";
                refused(
                    what,
                    format!("{who} has it; stop that one first, or give another -e"),
                )
            }
            _ => refused("cannot claim the memory file", error),
        })?;
        self.claim = Some(claim);
        Ok(())
    }
}

/// Opens the file of `-e`, and warns if that is no good place.
fn named(path: &str) -> Result<MemoryFile, OptionError> {
    let file = MemoryFile::at(Path::new(path)).map_err(|error| OptionError {
        message: format!(
            "-e {path}: cannot use this file: {error}; give one on tmpfs, such as /dev/shm/scrubjay"
        ),
        exit: EXIT_USAGE,
    })?;
    if !file.is_in_memory().unwrap_or(true) {
        say(&format!(
            "warning: -e {path} is on a disk: the kernel writes the cache there again and again, and requests wait for it; \
             give a file on tmpfs, such as /dev/shm/scrubjay"
        ));
    }
    Ok(file)
}

fn refused_memory(options: &Options, error: CacheError) -> OptionError {
    let memory = super::bytes_text(options.memory_max as u64);
    refused(&format!("cannot start with {memory}"), error)
}

fn recovered_words(recovered: &Recovered) -> String {
    let how = if recovered.clean { "a clean end" } else { "a crash" };
    format!(
        "{} items are back after {how}, in {} ms",
        recovered.items, recovered.millis
    )
}
