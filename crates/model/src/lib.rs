//! The reference model of the cache: one map, no memory limit, nothing clever. What an operation means is what it says
//! here; the engine must answer the same as long as it evicts nothing.

use std::collections::HashMap;

use scrubjay_base::time::Now;
use scrubjay_cache::{
    Arith, ArithOutcome, Body, Config, Delete, DeleteOutcome, Get, Refusal, Store, StoreMode, StoreOutcome,
    Win, item_size,
};

/// An exptime of up to this many seconds is relative. Source: memcached doc/protocol.txt, "Expiration times".
const RELATIVE_EXPTIME_MAX: i64 = 60 * 60 * 24 * 30;

/// The cache as it would be with endless memory.
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    now: Now,
    items: HashMap<Vec<u8>, Item>,
    cas: u64,
    pending_flush: Option<u64>,
}

/// What a look-up answers; the fields are those of [`scrubjay_cache::Hit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// Client flags.
    pub flags: u32,
    /// CAS number, 0 when CAS is off.
    pub cas: u64,
    /// Seconds of life left, rounded up; `None` never expires.
    pub ttl: Option<u32>,
    /// Seconds since the access before this one.
    pub idle_secs: u32,
    /// Read before this access.
    pub fetched: bool,
    /// Marked stale by an invalidation.
    pub stale: bool,
    /// Who refills.
    pub win: Win,
    /// The key was stored in binary form.
    pub key_is_binary: bool,
    /// The item was made by this look-up.
    pub created: bool,
}

#[derive(Clone, Debug)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    /// Milliseconds since the clock's start.
    deadline: Option<u64>,
    /// Seconds since the clock's start.
    last_access: u64,
    fetched: bool,
    stale: bool,
    win: bool,
    key_is_binary: bool,
}

impl Model {
    /// An empty cache. Of `config` the item size limit, `cas` and `unix_millis_at_start` matter.
    pub fn new(config: Config) -> Model {
        Model {
            config,
            now: Now::default(),
            items: HashMap::new(),
            cas: 0,
            pending_flush: None,
        }
    }

    /// The following operations happen at `now`.
    pub fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.run_pending_flush();
    }

    /// Live items.
    pub fn items(&self) -> usize {
        let now = self.now.millis();
        self.items.values().filter(|item| item.lives_at(now)).count()
    }

    /// Looks a key up, with the side effects that `get` asks for.
    pub fn get(&mut self, get: &Get<'_>) -> Option<Found> {
        let now = self.now;
        if self.live(get.key).is_none() {
            return self.vivify(get);
        }
        let touched = get.touch.map(|exptime| self.deadline(exptime));
        let item = self.items.get_mut(get.key).expect("it is live");
        if let Some(deadline) = touched {
            item.deadline = deadline;
        }
        let ttl = ttl_secs(item.deadline, now);
        let runs_out = get
            .recache_below
            .zip(ttl)
            .is_some_and(|(below, ttl)| i64::from(ttl) < below);
        let win = if item.win {
            Win::Taken
        } else if get.leases && (item.stale || runs_out) {
            Win::Won
        } else {
            Win::None
        };
        item.win |= win == Win::Won;
        let found = item.found(ttl, now, win, false);
        if !get.no_bump {
            item.fetched = true;
            item.last_access = now.secs();
        }
        Some(found)
    }

    /// Gives a live item a new exptime; `false` if there is none.
    pub fn touch(&mut self, key: &[u8], exptime: i64) -> bool {
        self.get(&Get {
            touch: Some(exptime),
            ..Get::key(key)
        })
        .is_some()
    }

    /// Stores, per mode and conditions.
    ///
    /// # Panics
    /// If the body is an upload: the model takes whole values only.
    pub fn store(&mut self, store: &Store<'_>) -> StoreOutcome {
        let Body::Bytes(bytes) = &store.value else {
            panic!("the model takes whole values");
        };
        let old = self.live(store.key).cloned();
        let mut item = Item {
            value: bytes.to_vec(),
            flags: store.flags,
            deadline: self.deadline(store.exptime),
            key_is_binary: store.key_is_binary,
            ..self.fresh_item()
        };
        let outcome = match &old {
            Some(old) => item.put_over(old, store),
            None => self.put_new(&mut item, store),
        };
        if let Err(outcome) = outcome {
            return outcome;
        }
        let size = item_size(self.config.cas, store.key.len(), item.flags, item.value.len());
        if size > self.config.item_size_max {
            return StoreOutcome::Refused(Refusal::TooLarge);
        }
        item.cas = self.next_cas(store.new_cas);
        let outcome = StoreOutcome::Stored {
            cas: item.cas,
            value_len: item.value.len(),
        };
        self.items.insert(store.key.to_vec(), item);
        outcome
    }

    /// A value for `key` was refused before it could be stored: the old item goes.
    pub fn refuse(&mut self, key: &[u8]) {
        self.items.remove(key);
    }

    /// Deletes or invalidates.
    pub fn delete(&mut self, delete: &Delete<'_>) -> DeleteOutcome {
        let Some(mut item) = self.live(delete.key).cloned() else {
            return DeleteOutcome::NotFound;
        };
        if delete.compare_cas.is_some_and(|cas| cas != item.cas) {
            return DeleteOutcome::Exists;
        }
        if !delete.invalidate && !delete.drop_value {
            self.items.remove(delete.key);
            return DeleteOutcome::Deleted;
        }
        if delete.invalidate || delete.new_cas.is_some() {
            item.cas = self.next_cas(delete.new_cas);
        }
        if delete.drop_value {
            (item.value, item.flags) = (Vec::new(), 0);
            (item.stale, item.win, item.fetched) = (false, false, false);
            item.last_access = self.now.secs();
            item.deadline = self.deadline(0);
        }
        if let Some(exptime) = delete.touch {
            item.deadline = self.deadline(exptime);
        }
        if delete.invalidate {
            (item.stale, item.win) = (true, false);
        }
        self.items.insert(delete.key.to_vec(), item);
        DeleteOutcome::Deleted
    }

    /// Adds to or subtracts from a decimal value.
    pub fn arith(&mut self, arith: &Arith<'_>) -> ArithOutcome {
        let Some(mut item) = self.live(arith.key).cloned() else {
            return self.arith_on_miss(arith);
        };
        if item.value.is_empty() {
            return ArithOutcome::NonNumeric;
        }
        if arith.compare_cas.is_some_and(|cas| cas != item.cas) {
            return ArithOutcome::Exists;
        }
        let Some(number) = stored_number(&item.value) else {
            return ArithOutcome::NonNumeric;
        };
        let number = if arith.decrement {
            number.saturating_sub(arith.delta)
        } else {
            number.wrapping_add(arith.delta)
        };
        let old_len = item.value.len();
        item.value = number.to_string().into_bytes();
        if item.value.len() > old_len {
            (item.stale, item.win, item.fetched) = (false, false, false);
        } else {
            item.value.resize(old_len, b' ');
        }
        item.cas = self.next_cas(arith.new_cas);
        item.last_access = self.now.secs();
        if let Some(exptime) = arith.touch {
            item.deadline = self.deadline(exptime);
        }
        let outcome = ArithOutcome::Value {
            number,
            cas: item.cas,
            ttl: ttl_secs(item.deadline, self.now),
            created: false,
        };
        self.items.insert(arith.key.to_vec(), item);
        outcome
    }

    /// Flushes now or at the moment that `delay` names as an exptime; replaces a pending flush.
    pub fn flush_all(&mut self, delay: i64) {
        let at = if delay <= 0 {
            self.now.millis()
        } else {
            self.deadline(delay).unwrap_or_default()
        };
        self.pending_flush = Some(at);
        self.run_pending_flush();
    }

    fn vivify(&mut self, get: &Get<'_>) -> Option<Found> {
        let deadline = self.deadline(get.vivify?);
        if deadline.is_some_and(|deadline| deadline <= self.now.millis()) {
            return None;
        }
        let item = Item {
            cas: self.next_cas(get.new_cas),
            deadline,
            win: true,
            key_is_binary: get.key_is_binary,
            ..self.fresh_item()
        };
        let ttl = ttl_secs(item.deadline, self.now);
        let found = item.found(ttl, self.now, Win::Won, true);
        // Making it counts as reading it.
        let item = Item {
            fetched: !get.no_bump,
            ..item
        };
        self.items.insert(get.key.to_vec(), item);
        Some(found)
    }

    fn arith_on_miss(&mut self, arith: &Arith<'_>) -> ArithOutcome {
        let Some((number, exptime)) = arith.initial else {
            return ArithOutcome::NotFound;
        };
        let item = Item {
            value: number.to_string().into_bytes(),
            cas: self.next_cas(arith.new_cas),
            deadline: self.deadline(exptime),
            key_is_binary: arith.key_is_binary,
            ..self.fresh_item()
        };
        let outcome = ArithOutcome::Value {
            number,
            cas: item.cas,
            ttl: ttl_secs(item.deadline, self.now),
            created: true,
        };
        self.items.insert(arith.key.to_vec(), item);
        outcome
    }

    /// What a storage request does where there is no item.
    fn put_new(&self, item: &mut Item, store: &Store<'_>) -> Result<(), StoreOutcome> {
        match store.mode {
            StoreMode::Set if store.compare_cas.is_some() => Err(StoreOutcome::NotFound),
            StoreMode::Set | StoreMode::Add => Ok(()),
            StoreMode::Replace => Err(StoreOutcome::NotStored),
            StoreMode::Append | StoreMode::Prepend => {
                let exptime = store.vivify.ok_or(StoreOutcome::NotStored)?;
                item.deadline = self.deadline(exptime);
                Ok(())
            }
        }
    }

    fn fresh_item(&self) -> Item {
        Item {
            value: Vec::new(),
            flags: 0,
            cas: 0,
            deadline: None,
            last_access: self.now.secs(),
            fetched: false,
            stale: false,
            win: false,
            key_is_binary: false,
        }
    }

    /// The live item under `key`; an expired one is removed.
    fn live(&mut self, key: &[u8]) -> Option<&mut Item> {
        if !self.items.get(key)?.lives_at(self.now.millis()) {
            self.items.remove(key);
        }
        self.items.get_mut(key)
    }

    fn run_pending_flush(&mut self) {
        if self.pending_flush.is_some_and(|at| at <= self.now.millis()) {
            self.pending_flush = None;
            self.items.clear();
        }
    }

    fn next_cas(&mut self, wanted: Option<u64>) -> u64 {
        if !self.config.cas {
            return 0;
        }
        wanted.unwrap_or_else(|| {
            self.cas += 1;
            self.cas
        })
    }

    /// Deadline in milliseconds since the clock's start; `None` never.
    fn deadline(&self, exptime: i64) -> Option<u64> {
        let now = self.now.millis();
        match exptime {
            0 => None,
            ..0 => Some(now),
            1..=RELATIVE_EXPTIME_MAX => Some(now + exptime as u64 * 1000),
            _ => Some(
                (exptime as u64)
                    .saturating_mul(1000)
                    .saturating_sub(self.config.unix_millis_at_start)
                    .max(1),
            ),
        }
    }
}

impl Item {
    fn lives_at(&self, now_ms: u64) -> bool {
        self.deadline.is_none_or(|deadline| deadline > now_ms)
    }

    fn found(&self, ttl: Option<u32>, now: Now, win: Win, created: bool) -> Found {
        Found {
            value: self.value.clone(),
            flags: self.flags,
            cas: self.cas,
            ttl,
            idle_secs: (now.secs() - self.last_access) as u32,
            fetched: self.fetched,
            stale: self.stale,
            win,
            key_is_binary: self.key_is_binary,
            created,
        }
    }

    /// What a storage request does where `old` is.
    fn put_over(&mut self, old: &Item, store: &Store<'_>) -> Result<(), StoreOutcome> {
        // Without CAS numbers nothing matches, not even 0.
        let mismatch = store
            .compare_cas
            .is_some_and(|cas| cas != old.cas || old.cas == 0);
        let older = store.compare_cas.is_some_and(|cas| cas < old.cas);
        match store.mode {
            StoreMode::Add => return Err(StoreOutcome::NotStored),
            StoreMode::Set if older && store.invalidate => {
                (self.deadline, self.win, self.stale) = (old.deadline, old.win, true);
            }
            StoreMode::Set | StoreMode::Append | StoreMode::Prepend if mismatch => {
                return Err(StoreOutcome::Exists);
            }
            StoreMode::Set | StoreMode::Replace => {}
            StoreMode::Append => self.value = [&old.value[..], &self.value].concat(),
            StoreMode::Prepend => self.value = [&self.value[..], &old.value].concat(),
        }
        if matches!(store.mode, StoreMode::Append | StoreMode::Prepend) {
            (self.flags, self.deadline, self.key_is_binary) = (old.flags, old.deadline, old.key_is_binary);
        }
        Ok(())
    }
}

fn ttl_secs(deadline: Option<u64>, now: Now) -> Option<u32> {
    deadline.map(|deadline| deadline.saturating_sub(now.millis()).div_ceil(1000) as u32)
}

/// The number at the start of a value: white space, one sign, digits, then the end, white space or a 0 byte. A minus sign wraps
/// around 2^64 and is refused where the wrapped number is at least 2^63.
fn stored_number(value: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| b" \t\n\x0b\x0c\r".contains(byte);
    let start = value.iter().position(|byte| !is_space(byte))?;
    let end = value[start..]
        .iter()
        .position(|byte| is_space(byte) || *byte == 0)
        .map_or(value.len(), |len| start + len);
    let word = std::str::from_utf8(&value[start..end]).ok()?;
    match word.strip_prefix('-') {
        None => word.parse().ok(),
        Some(rest) if rest.starts_with('+') => None,
        Some(rest) => {
            let wrapped = rest.parse::<u64>().ok()?.wrapping_neg();
            (wrapped < 1 << 63).then_some(wrapped)
        }
    }
}
