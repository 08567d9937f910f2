//! How a cache begins and ends: empty in a new file, or with what another process left in one.
//!
//! A cache that was closed is taken up by its headers alone. One whose process died is walked slot by slot first: see
//! `recovery.rs`. What is kept, and what is not, is told in docs/internals/restart.md.

use std::sync::Arc;

use scrubjay_base::sync::OwnLine;
use scrubjay_base::sync::whole::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use scrubjay_base::time::Now;
use scrubjay_io::clock::{self, Clock};
use scrubjay_io::memory::MemoryFile;

use crate::api::Config;
use crate::cache::{Cache, GROWTH_MAX, check_limits, memory_min, segment_shift, segments_max};
use crate::checksum::Checksums;
use crate::departure::Departures;
use crate::epoch::Epochs;
use crate::error::CacheError;
use crate::eviction::Eviction;
use crate::expiry::tick;
use crate::extent::Extent;
use crate::flush::NO_FLUSH;
use crate::huge::HugePages;
use crate::index::{Index, first_pages};
use crate::ledger::{self, Ledger};
use crate::pool::Pool;
use crate::reclaim::Reclaimer;
use crate::recovery::{self, Found};
use crate::segment::{Heap, PAGE_SIZE};
use crate::sizes;
use crate::superblock::{Cold, Head, Kept, Saved};
use crate::tally::Tally;
use crate::upload::Uploads;

/// What a cache came back with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// It had been closed; otherwise its process had died.
    pub clean: bool,
    /// Items that are there, the expired that nobody has noticed among them.
    pub items: u64,
    /// Items that are gone because the segment they lay in was changed by somebody else: its checksum failed.
    pub lost_to_checksums: u64,
    /// Items that are gone because nothing sensible lay where the index said.
    pub lost_unreadable: u64,
    /// Milliseconds that it took.
    pub millis: u64,
}

/// The sizes of a cache's file.
fn extent(config: &Config) -> Extent {
    let memory_max = config.memory_max;
    let segment_shift = segment_shift(memory_max);
    Extent {
        segment_shift,
        segments_max: segments_max(memory_max, segment_shift),
        // More index than heap is never needed: an item takes more than its slot.
        pages_max: (memory_max * GROWTH_MAX) / PAGE_SIZE,
        ledger_bytes: ledger::bytes_of(memory_max, config.ledger_bytes),
    }
}

/// What a cache begins with, beside its file.
struct Beginning {
    index: Index,
    pool: Pool,
    found: Saved,
    opened: Now,
}

impl Cache {
    /// Builds an empty cache in a file of its own.
    ///
    /// # Errors
    /// [`CacheError`] says which limit is impossible or what the operating system refused.
    pub fn new(config: Config) -> Result<Arc<Cache>, CacheError> {
        check_limits(&config)?;
        let file = MemoryFile::anonymous().map_err(CacheError::Memory)?;
        Cache::create(config, file)
    }

    /// Builds an empty cache in `file`; what another left there is gone.
    ///
    /// # Errors
    /// [`CacheError`] says which limit is impossible, what the operating system refused, or that the file is no cache's.
    pub fn create(config: Config, file: MemoryFile) -> Result<Arc<Cache>, CacheError> {
        check_limits(&config)?;
        if !crate::superblock::is_ours(&file).map_err(CacheError::Memory)? {
            return Err(CacheError::Foreign);
        }
        let extent = extent(&config);
        file.set_len(0).map_err(CacheError::Memory)?;
        let heap = map(&config, file, &extent)?;
        let superblock = heap.superblock();
        let index = Index::create(&heap, config.hash_seed, first_pages(config.memory_max));
        superblock.flush_at.store(NO_FLUSH, Ordering::Relaxed);
        superblock
            .ledger_bytes
            .store(extent.ledger_bytes as u64, Ordering::Relaxed);
        superblock.create(&Head {
            // Where the kernel tells no number, nobody who looks has another one.
            boot_id: clock::boot_id().unwrap_or_default(),
            hash_seed: config.hash_seed,
            memory_max: config.memory_max as u64,
            unix_millis_at_start: config.unix_millis_at_start,
        });
        let beginning = Beginning {
            index,
            pool: Pool::new(&heap, &config),
            found: Saved::default(),
            opened: Now::default(),
        };
        let cache = Cache::assemble(config, heap, beginning);
        cache.balance_budget();
        Ok(Arc::new(cache))
    }

    /// Takes up the cache that `file` keeps, of which [`look`](crate::look) told `kept`. `now` is by the clock that was
    /// resumed from it. Hash seed and start of the clock are those of before, whatever `config` says; its memory limit is
    /// adopted from an eighth to eight times that of the file's creation. Call it with the file claimed.
    ///
    /// # Errors
    /// [`CacheError::Cold`] if it cannot be taken up, [`CacheError`] as in [`Cache::create`].
    pub fn reopen(
        config: Config,
        file: MemoryFile,
        kept: &Kept,
        now: Now,
    ) -> Result<(Arc<Cache>, Recovered), CacheError> {
        let clock = Clock::start();
        let wanted = config.memory_max;
        check_limits(&config)?;
        let config = as_created(config, kept)?;
        let extent = extent(&config);
        let len = file.len().map_err(CacheError::Memory)?;
        if len < extent.len_without_ledger() as u64 {
            return Err(damaged("it was cut off"));
        }
        let heap = map(&config, file, &extent)?;
        let superblock = heap.superblock();
        if superblock.ledger_bytes.load(Ordering::Relaxed) != extent.ledger_bytes as u64 {
            heap.punch_ledger();
            superblock
                .ledger_bytes
                .store(extent.ledger_bytes as u64, Ordering::Relaxed);
        }
        if !superblock.is_sane() {
            return Err(damaged("its numbers cannot be"));
        }
        let opened = now.max(superblock.latest());
        let index = Index::resume(&heap, config.hash_seed, first_pages(config.memory_max))
            .ok_or_else(|| damaged("its index cannot be"))?;
        let saved = superblock.saved().filter(|_| superblock.is_closed());
        let clean = saved.is_some();
        let found = match saved {
            Some(items) => Found {
                items,
                ..Found::default()
            },
            None => recovery::recover(&heap, &index, tick(opened))
                .ok_or_else(|| damaged("its index and its segments contradict each other"))?,
        };
        let pool = Pool::resume(&heap, &config).ok_or_else(|| damaged("its segments cannot be"))?;
        let recovered = Recovered {
            clean,
            items: found.items.items,
            lost_to_checksums: found.spoilt,
            lost_unreadable: found.unreadable,
            millis: 0,
        };
        let beginning = Beginning {
            index,
            pool,
            found: found.items,
            opened,
        };
        let cache = Cache::assemble(config, heap, beginning);
        cache.take_up(wanted);
        let millis = clock.now().millis();
        Ok((Arc::new(cache), Recovered { millis, ..recovered }))
    }

    fn assemble(config: Config, heap: Heap, beginning: Beginning) -> Cache {
        let Beginning {
            index,
            pool,
            found,
            opened,
        } = beginning;
        // One more for background work.
        let members = config.workers_max + 1;
        let tallies: Box<[_]> = (0..members).map(|_| OwnLine(Tally::default())).collect();
        tallies[members - 1].0.begin_with(&found);
        // SAFETY: the mapping has so many bytes there, zeros or what another ledger left; the heap lives as long.
        let ledger = unsafe {
            let bytes = ledger::bytes_of(config.memory_max, config.ledger_bytes);
            Ledger::new(heap.ledger(), bytes)
        };
        Cache {
            index,
            pool,
            epochs: Epochs::new(members),
            reclaimer: Mutex::new(Reclaimer::default()),
            uploads: Uploads::default(),
            eviction: Eviction::new(config.memory_max),
            ledger,
            departures: Departures::default(),
            huge_pages: HugePages::default(),
            checksums: Checksums::default(),
            flush_below: OwnLine::default(),
            tick: OwnLine(AtomicU32::new(0)),
            flush_at: OwnLine(AtomicU64::new(NO_FLUSH)),
            memory_max: AtomicU64::new(config.memory_max as u64),
            held_beside: AtomicU64::new(0),
            lowering: AtomicBool::new(false),
            tallies,
            vacant: Mutex::new((0..config.workers_max).rev().collect()),
            #[cfg(shuttle)]
            evicted: std::sync::Mutex::default(),
            opened,
            heap,
            config,
        }
    }

    /// Takes over what the superblock says, and goes on with the limit that is wanted now.
    fn take_up(&self, wanted: usize) {
        let superblock = self.heap.superblock();
        let now = self.opened;
        self.tick.0.store(tick(now), Ordering::Relaxed);
        let words = [
            (&self.flush_below, &superblock.flush_below),
            (&self.flush_at, &superblock.flush_at),
        ];
        for (here, there) in words {
            here.0.store(there.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.eviction.resume(&superblock.eviction);
        self.balance_budget();
        if wanted != self.config().memory_max {
            self.set_memory_max(wanted);
        }
        self.flush_if_due(now);
        superblock.note_time(now);
        superblock.open();
    }

    /// When this process got it, by the cache's clock: zero if it was empty then.
    pub fn opened(&self) -> Now {
        self.opened
    }

    /// The file that it lives in.
    pub fn memory_file(&self) -> &MemoryFile {
        self.heap.file()
    }

    /// Ends it so that [`Cache::reopen`] has nothing to look for: no worker is registered any more, and nobody calls
    /// [`Cache::maintain`] from now on. Returns whether that was so; if not, it is left as after a crash.
    pub fn close(&self, now: Now) -> bool {
        let vacant = self.vacant.lock().expect("nothing panics under this lock");
        if vacant.len() < self.config().workers_max {
            return false;
        }
        self.note_state(now);
        let classes = self.size_classes();
        self.heap.superblock().close(&Saved {
            items: self.items(),
            bytes: self.items_bytes(),
            unread_bytes: self.unread_bytes(),
            sizes: sizes::per_class(&classes),
        });
        true
    }

    /// Writes down what a restart should know and what changes all the time.
    pub(crate) fn note_state(&self, now: Now) {
        let superblock = self.heap.superblock();
        superblock.note_time(now);
        self.eviction.save(&superblock.eviction);
    }
}

fn damaged(why: &str) -> CacheError {
    CacheError::Cold(Cold::Damaged(why.to_owned()))
}

fn map(config: &Config, file: MemoryFile, extent: &Extent) -> Result<Heap, CacheError> {
    let heap = Heap::map(file, extent).map_err(CacheError::Memory)?;
    if config.huge_pages {
        heap.advise_huge().map_err(CacheError::Memory)?;
    }
    Ok(heap)
}

/// The configuration by which the file was made, as far as the file depends on it.
fn as_created(config: Config, kept: &Kept) -> Result<Config, CacheError> {
    let (wanted, created_with) = (config.memory_max, kept.memory_max);
    let config = Config {
        memory_max: created_with,
        hash_seed: kept.hash_seed,
        unix_millis_at_start: kept.unix_millis_at_start,
        ..config
    };
    let range = memory_min(&config).max(created_with / GROWTH_MAX)..=created_with.saturating_mul(GROWTH_MAX);
    if !range.contains(&wanted) || check_limits(&config).is_err() {
        return Err(CacheError::Cold(Cold::OtherMemory { created_with, wanted }));
    }
    Ok(config)
}
