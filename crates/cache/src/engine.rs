//! A first engine: one map under one mutex. It settles what every operation means.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use scrubjay_base::time::Now;

use crate::api::{
    Arith, ArithOutcome, Body, Config, Counters, Delete, DeleteOutcome, Get, Hit, PinnedSlice, Refusal,
    Store, StoreMode, StoreOutcome, Usage, Win, admits, item_size,
};

/// Why a cache could not be built.
#[derive(Debug)]
pub enum CacheError {
    /// `item_size_max` is over half of `memory_max`.
    ItemSizeOverHalf {
        /// The item size limit asked for.
        item_size_max: usize,
        /// The memory limit asked for.
        memory_max: usize,
    },
    /// The operating system refused the memory.
    Memory(std::io::Error),
}

/// The cache, shared by all workers.
#[derive(Debug)]
pub struct Cache {
    config: Config,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    items: HashMap<Vec<u8>, Item>,
    cas: u64,
    pending_flush: Option<u64>,
    counters: Counters,
    memory_max: u64,
}

#[derive(Debug, Clone)]
struct Item {
    value: Arc<[u8]>,
    flags: u32,
    cas: u64,
    deadline: Option<u64>,
    last_access: u64,
    fetched: bool,
    stale: bool,
    win: bool,
    key_is_binary: bool,
}

#[derive(Debug)]
pub(crate) struct Value<'w> {
    bytes: Arc<[u8]>,
    worker: std::marker::PhantomData<&'w Worker>,
}

#[derive(Debug)]
pub(crate) struct Pinned(Arc<[u8]>);

impl Pinned {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Hit<'_> {
    /// Length of the value in bytes.
    pub fn value_len(&self) -> usize {
        self.value.bytes.len()
    }

    /// The value's pieces in order; one for all but large values.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.value.bytes[..])
    }

    /// Copies the value to the end of `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        self.slices().for_each(|slice| out.extend_from_slice(slice));
    }

    /// The value's pieces, each kept readable until dropped, for sending without a copy.
    pub fn pins(&self) -> impl Iterator<Item = PinnedSlice> {
        std::iter::once(PinnedSlice(Pinned(Arc::clone(&self.value.bytes))))
    }
}

/// A value on its way in, longer than what is at hand at once. Dropped unfinished, it leaves no trace.
#[derive(Debug)]
pub struct Upload {
    bytes: Vec<u8>,
    value_len: usize,
}

impl Upload {
    /// Adds the next bytes of the value.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when unfinished uploads hold more than they may; drop the upload then.
    pub fn write(&mut self, worker: &mut Worker, bytes: &[u8]) -> Result<(), Refusal> {
        let _ = worker;
        self.bytes.extend_from_slice(bytes);
        assert!(self.bytes.len() <= self.value_len, "more bytes than declared");
        Ok(())
    }

    /// Bytes still to come.
    pub fn missing(&self) -> usize {
        self.value_len - self.bytes.len()
    }
}

impl Cache {
    /// Builds an empty cache.
    ///
    /// # Errors
    /// [`CacheError`] says which limit is impossible or what the operating system refused.
    pub fn new(config: Config) -> Result<Arc<Cache>, CacheError> {
        let memory_max = config.memory_max;
        if config.item_size_max > memory_max / 2 {
            return Err(CacheError::ItemSizeOverHalf {
                item_size_max: config.item_size_max,
                memory_max,
            });
        }
        let state = State {
            memory_max: memory_max as u64,
            ..State::default()
        };
        Ok(Arc::new(Cache {
            config,
            state: Mutex::new(state),
        }))
    }

    /// Registers the calling thread's worker; at most `workers_max` live at a time.
    ///
    /// # Panics
    /// If more than `workers_max` workers are registered.
    pub fn worker(self: &Arc<Cache>) -> Worker {
        Worker {
            cache: Arc::clone(self),
            now: Now::default(),
        }
    }

    /// How it was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counts since start.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// What it holds now.
    pub fn usage(&self) -> Usage {
        let state = self.lock();
        let item_bytes = state
            .items
            .iter()
            .map(|(key, item)| key.len() + item.value.len() + 16)
            .sum::<usize>();
        Usage {
            items: state.items.len() as u64,
            item_bytes: item_bytes as u64,
            memory_max: state.memory_max,
            ..Usage::default()
        }
    }

    /// Changes the memory limit; returns the limit now in force, which is the nearest one possible.
    pub fn set_memory_max(&self, bytes: usize) -> usize {
        self.lock().memory_max = bytes as u64;
        bytes
    }

    /// One step of background work (expiry, compaction, growth of the index); call it about every 250 ms with the
    /// current time. Returns whether more work is waiting.
    pub fn maintain(&self, now: Now) -> bool {
        let mut state = self.lock();
        state.run_pending_flush(now);
        let now_ms = now.millis();
        let before = state.items.len();
        state
            .items
            .retain(|_, item| item.deadline.is_none_or(|deadline| deadline > now_ms));
        state.counters.removed.expired += (before - state.items.len()) as u64;
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no operation panics while it holds the state")
    }

    /// Deadline in milliseconds since the clock's start; `None` never.
    fn deadline(&self, exptime: i64, now: Now) -> Option<u64> {
        const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;
        match exptime {
            0 => None,
            ..0 => Some(now.millis()),
            1..=RELATIVE_MAX => Some(now.millis() + exptime as u64 * 1000),
            _ => Some(
                (exptime as u64)
                    .saturating_mul(1000)
                    .saturating_sub(self.config.unix_millis_at_start)
                    .max(1),
            ),
        }
    }
}

impl State {
    fn run_pending_flush(&mut self, now: Now) {
        if self.pending_flush.is_some_and(|at| at <= now.millis()) {
            self.pending_flush = None;
            self.counters.removed.flushed += self.items.len() as u64;
            self.items.clear();
        }
    }

    fn next_cas(&mut self, config: &Config, wanted: Option<u64>) -> u64 {
        if !config.cas {
            return 0;
        }
        wanted.unwrap_or_else(|| {
            self.cas += 1;
            self.cas
        })
    }

    /// The live item under `key`; an expired one is removed.
    fn live(&mut self, key: &[u8], now: Now) -> Option<&mut Item> {
        self.run_pending_flush(now);
        if self
            .items
            .get(key)?
            .deadline
            .is_some_and(|deadline| deadline <= now.millis())
        {
            self.items.remove(key);
            self.counters.removed.expired += 1;
        }
        self.items.get_mut(key)
    }

    fn publish(&mut self, key: &[u8], item: Item) {
        self.counters.created += 1;
        if self.items.insert(key.to_vec(), item).is_some() {
            self.counters.removed.replaced += 1;
        }
    }
}

fn ttl_secs(deadline: Option<u64>, now: Now) -> Option<u32> {
    deadline.map(|deadline| deadline.saturating_sub(now.millis()).div_ceil(1000) as u32)
}

/// One thread's way into the cache. Operations act at the time given to the last [`Worker::begin_turn`].
#[derive(Debug)]
pub struct Worker {
    cache: Arc<Cache>,
    now: Now,
}

impl Worker {
    /// The cache it belongs to.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Starts a turn at `now`; nothing that earlier turns returned by reference is in use any more.
    pub fn begin_turn(&mut self, now: Now) {
        self.now = now;
    }

    /// Says that this worker holds nothing and will not call until the next [`Worker::begin_turn`].
    pub fn go_idle(&mut self) {}

    /// Looks `key` up, with the side effects that `get` asks for. `None` is a miss (with `vivify`: a miss that could not
    /// be filled for want of memory).
    pub fn get(&mut self, get: &Get<'_>) -> Option<Hit<'_>> {
        let cache = &*self.cache;
        let now = self.now;
        let mut state = cache.lock();
        if state.live(get.key, now).is_none() {
            let exptime = get.vivify?;
            let item = Item {
                value: Arc::from(&b""[..]),
                flags: 0,
                cas: state.next_cas(&cache.config, get.new_cas),
                deadline: cache.deadline(exptime, now),
                last_access: now.secs(),
                fetched: false,
                stale: false,
                win: true,
                key_is_binary: get.key_is_binary,
            };
            state.publish(get.key, item.clone());
            return Some(Hit {
                flags: 0,
                cas: item.cas,
                ttl: ttl_secs(item.deadline, now),
                idle_secs: 0,
                fetched: false,
                stale: false,
                win: Win::Won,
                key_is_binary: item.key_is_binary,
                created: true,
                value: Value {
                    bytes: item.value,
                    worker: std::marker::PhantomData,
                },
            });
        }
        let item = state.live(get.key, now)?;
        if let Some(exptime) = get.touch {
            item.deadline = cache.deadline(exptime, now);
        }
        let ttl = ttl_secs(item.deadline, now);
        let mut win = if item.win { Win::Taken } else { Win::None };
        if get.leases && !item.win {
            let runs_out = get
                .recache_below
                .zip(ttl)
                .is_some_and(|(below, ttl)| i64::from(ttl) < below);
            if item.stale || runs_out {
                item.win = true;
                win = Win::Won;
            }
        }
        let hit = Hit {
            flags: item.flags,
            cas: item.cas,
            ttl,
            idle_secs: (now.secs() - item.last_access) as u32,
            fetched: item.fetched,
            stale: item.stale,
            win,
            key_is_binary: item.key_is_binary,
            created: false,
            value: Value {
                bytes: Arc::clone(&item.value),
                worker: std::marker::PhantomData,
            },
        };
        if !get.no_bump {
            item.fetched = true;
            item.last_access = now.secs();
        }
        Some(hit)
    }

    /// Gives a live item a new exptime; `false` if there is none. The CAS number stays.
    pub fn touch(&mut self, key: &[u8], exptime: i64) -> bool {
        self.get(&Get {
            touch: Some(exptime),
            ..Get::key(key)
        })
        .is_some()
    }

    /// Starts to receive a value of `value_len` bytes that will be stored with `exptime`; memory is taken as bytes arrive.
    pub fn begin_upload(&mut self, value_len: usize, exptime: i64) -> Upload {
        let _ = exptime;
        Upload {
            bytes: Vec::new(),
            value_len,
        }
    }

    /// Stores, per `store`'s mode and conditions.
    pub fn store(&mut self, store: Store<'_>) -> StoreOutcome {
        let cache = &*self.cache;
        let now = self.now;
        let upload;
        let bytes: &[u8] = match store.value {
            Body::Bytes(bytes) => bytes,
            Body::Upload(done) => {
                upload = done;
                assert_eq!(upload.missing(), 0, "an upload is stored when it is complete");
                &upload.bytes
            }
        };
        let mut state = cache.lock();
        let old = state.live(store.key, now).cloned();
        let joins = matches!(store.mode, StoreMode::Append | StoreMode::Prepend);
        let mut item = Item {
            value: Arc::from(bytes),
            flags: store.flags,
            cas: 0,
            deadline: cache.deadline(store.exptime, now),
            last_access: now.secs(),
            fetched: false,
            stale: false,
            win: false,
            key_is_binary: store.key_is_binary,
        };
        match &old {
            Some(old) => {
                let mismatch = store.compare_cas.is_some_and(|cas| cas != old.cas);
                let older = store.compare_cas.is_some_and(|cas| cas < old.cas);
                match store.mode {
                    StoreMode::Add => return StoreOutcome::NotStored,
                    StoreMode::Set if mismatch && store.invalidate && older => {
                        (item.deadline, item.win, item.stale) = (old.deadline, old.win, true);
                    }
                    StoreMode::Set | StoreMode::Append | StoreMode::Prepend if mismatch => {
                        return StoreOutcome::Exists;
                    }
                    StoreMode::Set | StoreMode::Replace => {}
                    StoreMode::Append => {
                        item.value = Arc::from([&old.value[..], bytes].concat());
                    }
                    StoreMode::Prepend => {
                        item.value = Arc::from([bytes, &old.value[..]].concat());
                    }
                }
                if joins {
                    (item.flags, item.deadline) = (old.flags, old.deadline);
                }
            }
            None => match store.mode {
                StoreMode::Set if store.compare_cas.is_some() => return StoreOutcome::NotFound,
                StoreMode::Set | StoreMode::Add => {}
                StoreMode::Append | StoreMode::Prepend if store.vivify.is_some() => {
                    item.deadline = cache.deadline(store.vivify.unwrap_or_default(), now);
                }
                StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => {
                    return StoreOutcome::NotStored;
                }
            },
        }
        if item_size(cache.config.cas, store.key.len(), item.flags, item.value.len())
            > cache.config.item_size_max
        {
            return StoreOutcome::Refused(Refusal::TooLarge);
        }
        item.cas = state.next_cas(&cache.config, store.new_cas);
        let outcome = StoreOutcome::Stored {
            cas: item.cas,
            value_len: item.value.len(),
        };
        state.publish(store.key, item);
        outcome
    }

    /// A value for `key` was refused before it could be stored: as memcached does for `set` and `ms`, the old item goes,
    /// so that nobody reads what should have been overwritten.
    pub fn refuse(&mut self, key: &[u8], why: Refusal) {
        let mut state = self.cache.lock();
        if state.live(key, self.now).is_some() {
            state.items.remove(key);
            match why {
                Refusal::TooLarge => state.counters.removed.too_large += 1,
                Refusal::NoMemory => state.counters.removed.no_memory += 1,
            }
        }
    }

    /// Deletes or invalidates.
    pub fn delete(&mut self, delete: &Delete<'_>) -> DeleteOutcome {
        let cache = &*self.cache;
        let now = self.now;
        let mut state = cache.lock();
        let Some(old_cas) = state.live(delete.key, now).map(|item| item.cas) else {
            return DeleteOutcome::NotFound;
        };
        if delete.compare_cas.is_some_and(|cas| cas != old_cas) {
            return DeleteOutcome::Exists;
        }
        if !delete.invalidate && !delete.drop_value {
            state.items.remove(delete.key);
            state.counters.removed.deleted += 1;
            return DeleteOutcome::Deleted;
        }
        let new_cas = (delete.invalidate || delete.new_cas.is_some())
            .then(|| state.next_cas(&cache.config, delete.new_cas));
        let mut item = state
            .live(delete.key, now)
            .cloned()
            .expect("seen above, under the same lock");
        if let Some(exptime) = delete.touch {
            item.deadline = cache.deadline(exptime, now);
        }
        if let Some(cas) = new_cas {
            item.cas = cas;
        }
        if delete.invalidate {
            (item.stale, item.win) = (true, false);
        }
        if delete.drop_value {
            (item.value, item.flags) = (Arc::from(&b""[..]), 0);
            state.publish(delete.key, item);
        } else {
            state.items.insert(delete.key.to_vec(), item);
        }
        DeleteOutcome::Deleted
    }

    /// Adds to or subtracts from a decimal value.
    pub fn arith(&mut self, arith: &Arith<'_>) -> ArithOutcome {
        let cache = &*self.cache;
        let now = self.now;
        let mut state = cache.lock();
        let Some(old) = state.live(arith.key, now).cloned() else {
            let Some((number, exptime)) = arith.initial else {
                return ArithOutcome::NotFound;
            };
            let item = Item {
                value: Arc::from(number.to_string().as_bytes()),
                flags: 0,
                cas: state.next_cas(&cache.config, arith.new_cas),
                deadline: cache.deadline(exptime, now),
                last_access: now.secs(),
                fetched: false,
                stale: false,
                win: false,
                key_is_binary: arith.key_is_binary,
            };
            let (cas, ttl) = (item.cas, ttl_secs(item.deadline, now));
            state.publish(arith.key, item);
            return ArithOutcome::Value {
                number,
                cas,
                ttl,
                created: true,
            };
        };
        if arith.compare_cas.is_some_and(|cas| cas != old.cas) {
            return ArithOutcome::Exists;
        }
        let Some(number) = crate::number::parse_stored(&old.value) else {
            return ArithOutcome::NonNumeric;
        };
        let number = if arith.decrement {
            number.saturating_sub(arith.delta)
        } else {
            number.wrapping_add(arith.delta)
        };
        let mut value = number.to_string().into_bytes();
        let grew = value.len() > old.value.len();
        value.resize(value.len().max(old.value.len()), b' ');
        let cas = state.next_cas(&cache.config, arith.new_cas);
        let deadline = arith
            .touch
            .map_or(old.deadline, |exptime| cache.deadline(exptime, now));
        let item = Item {
            value: Arc::from(value),
            cas,
            deadline,
            stale: old.stale && !grew,
            win: old.win && !grew,
            ..old
        };
        state.publish(arith.key, item);
        ArithOutcome::Value {
            number,
            cas,
            ttl: ttl_secs(deadline, now),
            created: false,
        }
    }

    /// Makes everything stored until now (`delay` 0 or negative), or until the moment that `delay` names as an exptime,
    /// unreadable at that moment. A later call replaces a pending one.
    pub fn flush_all(&mut self, delay: i64) {
        let at = if delay <= 0 {
            self.now.millis()
        } else {
            self.cache.deadline(delay, self.now).unwrap_or_default()
        };
        let mut state = self.cache.lock();
        state.pending_flush = Some(at);
        state.run_pending_flush(self.now);
    }

    /// Whether an item of this shape is within the item size limit.
    pub fn admits(&self, key_len: usize, flags: u32, value_len: u64) -> bool {
        admits(&self.cache.config, key_len, flags, value_len)
    }
}
