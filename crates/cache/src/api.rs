//! The words in which callers and engine talk: requests, outcomes, configuration. What it tells of itself in numbers stands in
//! `counters.rs`.
//!
//! Exptimes are the wire's: 0 never, negative already expired, up to 30 days relative seconds, beyond that a Unix time.

/// memcached's sum for the size of an item counts this much when the client flags are not 0.
pub const FLAGS_ITEM_OVERHEAD: usize = 4;

/// How to build a [`Cache`](crate::Cache).
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes that items, index and everything else of the cache may take (`-m`).
    pub memory_max: usize,
    /// Largest item by memcached's sum (`-I`); at most half of `memory_max`.
    pub item_size_max: usize,
    /// Keep CAS numbers (`-C` turns them off: every item then answers 0).
    pub cas: bool,
    /// Evict live items when memory is short; `false` (`-M`) answers [`Refusal::NoMemory`] instead.
    pub evict: bool,
    /// Unix time in milliseconds at the clock's start, to convert absolute exptimes once.
    pub unix_millis_at_start: u64,
    /// Seed of the key hash; from the operating system's entropy in a server, fixed in tests.
    pub hash_seed: u64,
    /// Most workers that may be registered at a time.
    pub workers_max: usize,
    /// Map the memory with huge pages (`-L`).
    pub huge_pages: bool,
    /// Put huge pages under memory in full use, as time goes by, where the operating system lets us.
    pub collapse: bool,
    /// Lock memory that is in use into RAM (`-k`).
    pub lock_memory: bool,
    /// Bytes of the ledger of items that left lately, 16 an entry; `None`: a hundredth of `memory_max`.
    pub ledger_bytes: Option<usize>,
}

impl Config {
    /// memcached's defaults for `memory_max` bytes: items up to 1 MiB (half the memory if that is less), CAS on, eviction on.
    pub fn new(memory_max: usize) -> Config {
        Config {
            memory_max,
            item_size_max: (1 << 20).min(memory_max / 2),
            cas: true,
            evict: true,
            unix_millis_at_start: 1_800_000_000_000,
            hash_seed: 0x5eed,
            workers_max: 64,
            huge_pages: false,
            collapse: false,
            lock_memory: false,
            ledger_bytes: None,
        }
    }
}

/// memcached's sum for an item: 48 + 8 with CAS + key + 1 + 4 if flags + value + 2.
pub const fn item_size(cas: bool, key_len: usize, flags: u32, value_len: usize) -> usize {
    48 + (if cas { 8 } else { 0 })
        + key_len
        + 1
        + (if flags != 0 { FLAGS_ITEM_OVERHEAD } else { 0 })
        + value_len
        + 2
}

/// Whether an item of this shape is within `config.item_size_max`. `value_len` may be any number a peer declares.
pub fn admits(config: &Config, key_len: usize, flags: u32, value_len: u64) -> bool {
    value_len <= config.item_size_max as u64
        && item_size(config.cas, key_len, flags, value_len as usize) <= config.item_size_max
}

/// A look-up (`get`, `gat`, `mg`). Set the fields that differ from [`Get::key`].
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The key, 1 to 250 bytes.
    pub key: &'a [u8],
    /// The key arrived in binary (base64) form; kept with a vivified item.
    pub key_is_binary: bool,
    /// New exptime on a hit (`gat`, `mg T`).
    pub touch: Option<i64>,
    /// On a miss create an empty item with this exptime, won by this caller (`mg N`).
    pub vivify: Option<i64>,
    /// Win the refill if fewer than this many seconds of life are left (`mg R`).
    pub recache_below: Option<i64>,
    /// Leave last access, fetched and frequency alone (`mg u`).
    pub no_bump: bool,
    /// Last access, fetched and frequency may be noted together with those of the look-ups that follow: at the latest before
    /// this worker does anything else, looks up without this, or begins a turn. Look-ups of several keys then wait for memory together.
    pub note_later: bool,
    /// CAS number of a vivified item (`mg E`).
    pub new_cas: Option<u64>,
    /// The caller understands leases: on a stale item one caller wins the refill. Classic and binary gets set `false`.
    pub leases: bool,
}

impl<'a> Get<'a> {
    /// A plain look-up of `key`.
    pub const fn key(key: &'a [u8]) -> Get<'a> {
        Get {
            key,
            key_is_binary: false,
            touch: None,
            vivify: None,
            recache_below: None,
            no_bump: false,
            note_later: false,
            new_cas: None,
            leases: false,
        }
    }
}

/// Who refills an item. Source: memcached doc/protocol.txt, meta get flags W, X, Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Win {
    /// Nobody is refilling and nobody needs to.
    None,
    /// This caller should refill the item (`W`).
    Won,
    /// Somebody else was told to refill it (`Z`).
    Taken,
}

/// What a look-up found. Fields are one consistent snapshot; value bytes are read through the methods of
/// [`Hit`] and stay valid as long as it lives.
#[derive(Debug)]
pub struct Hit<'w> {
    /// Client flags.
    pub flags: u32,
    /// CAS number, 0 when CAS is off.
    pub cas: u64,
    /// Seconds of life left, rounded up; `None` never expires. After `touch`: of the new life.
    pub ttl: Option<u32>,
    /// Seconds of life that were left before `touch`, as [`Hit::ttl`].
    pub ttl_before: Option<u32>,
    /// Seconds since the access before this one.
    pub idle_secs: u32,
    /// Read before this access.
    pub fetched: bool,
    /// Marked stale by an invalidation (`X`).
    pub stale: bool,
    /// Who refills.
    pub win: Win,
    /// The key was stored in binary form.
    pub key_is_binary: bool,
    /// The item did not exist and was made by `vivify`; the value is empty.
    pub created: bool,
    pub(crate) value: crate::value::Value<'w>,
}

/// Where an item's new bytes come from.
#[derive(Debug)]
pub enum Body<'a> {
    /// The whole value, already in memory.
    Bytes(&'a [u8]),
    /// A value received piece by piece; see [`Upload`](crate::Upload).
    Upload(crate::Upload),
}

impl Body<'_> {
    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        match self {
            Body::Bytes(bytes) => bytes.len(),
            Body::Upload(upload) => upload.value_len(),
        }
    }
}

/// What a storage command does with an existing item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Store whatever is there.
    Set,
    /// Store only if there is none.
    Add,
    /// Store only if there is one.
    Replace,
    /// Put the bytes behind the existing value; flags and exptime stay.
    Append,
    /// Put the bytes before the existing value; flags and exptime stay.
    Prepend,
}

/// A storage request (`set` family, `cas`, `ms`, binary set family). Set the fields that differ from [`Store::set`].
#[derive(Debug)]
pub struct Store<'a> {
    /// The key, 1 to 250 bytes.
    pub key: &'a [u8],
    /// The key arrived in binary (base64) form.
    pub key_is_binary: bool,
    /// What to do with an existing item.
    pub mode: StoreMode,
    /// Client flags.
    pub flags: u32,
    /// Wire exptime.
    pub exptime: i64,
    /// The value, or what to append or prepend.
    pub value: Body<'a>,
    /// Store only if the item's CAS number is this one; a miss answers [`StoreOutcome::NotFound`].
    pub compare_cas: Option<u64>,
    /// `ms I`: if `compare_cas` is older than the item's number, store all the same, marked stale, keeping exptime and win.
    pub invalidate: bool,
    /// CAS number to give the new item instead of the next one (`ms E`).
    pub new_cas: Option<u64>,
    /// In append and prepend mode: on a miss create the item with this exptime (`ms N`).
    pub vivify: Option<i64>,
}

impl<'a> Store<'a> {
    /// A plain set of `key` to `value`: whatever is there, no client flags, for ever.
    pub const fn set(key: &'a [u8], value: Body<'a>) -> Store<'a> {
        Store {
            key,
            key_is_binary: false,
            mode: StoreMode::Set,
            flags: 0,
            exptime: 0,
            value,
            compare_cas: None,
            invalidate: false,
            new_cas: None,
            vivify: None,
        }
    }
}

/// How a storage request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Stored; the new item's CAS number and value length.
    Stored {
        /// The new CAS number, 0 when CAS is off.
        cas: u64,
        /// Length of the whole value now stored.
        value_len: usize,
    },
    /// The condition of add, replace, append or prepend did not hold.
    NotStored,
    /// `compare_cas` did not match.
    Exists,
    /// `compare_cas` was given and there is no item.
    NotFound,
    /// Not stored for want of room.
    Refused(Refusal),
}

/// Why something could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Over the item size limit.
    TooLarge,
    /// No memory could be had (`-M`, or everything is pinned).
    NoMemory,
}

/// A deletion (`delete`, `md`, binary delete).
#[derive(Clone, Copy, Debug)]
pub struct Delete<'a> {
    /// The key, 1 to 250 bytes.
    pub key: &'a [u8],
    /// Delete only if the CAS number is this one.
    pub compare_cas: Option<u64>,
    /// `md I`: mark stale instead of deleting; gives a new CAS number.
    pub invalidate: bool,
    /// `md T`: new exptime, with `invalidate` or `drop_value`.
    pub touch: Option<i64>,
    /// `md x`: drop value, client flags, life and lease, but keep the item.
    pub drop_value: bool,
    /// CAS number for the changed item (`md E`).
    pub new_cas: Option<u64>,
}

impl<'a> Delete<'a> {
    /// A plain deletion of `key`.
    pub const fn key(key: &'a [u8]) -> Delete<'a> {
        Delete {
            key,
            compare_cas: None,
            invalidate: false,
            touch: None,
            drop_value: false,
            new_cas: None,
        }
    }
}

/// How a deletion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// Deleted, or changed as asked.
    Deleted,
    /// No such item.
    NotFound,
    /// `compare_cas` did not match.
    Exists,
    /// `drop_value` needed a new item and there was no room.
    NoMemory,
}

/// Arithmetic on a decimal value (`incr`, `decr`, `ma`, binary increment and decrement).
#[derive(Clone, Copy, Debug)]
pub struct Arith<'a> {
    /// The key, 1 to 250 bytes.
    pub key: &'a [u8],
    /// The key arrived in binary (base64) form; kept with a vivified item.
    pub key_is_binary: bool,
    /// How much; wraps at 2^64 upwards, stops at 0 downwards.
    pub delta: u64,
    /// Subtract instead of add.
    pub decrement: bool,
    /// Act only if the CAS number is this one.
    pub compare_cas: Option<u64>,
    /// On a miss create the item with this number and exptime; the answer is the initial number.
    pub initial: Option<(u64, i64)>,
    /// New exptime on a hit (`ma T`).
    pub touch: Option<i64>,
    /// CAS number of the changed item (`ma E`).
    pub new_cas: Option<u64>,
}

impl<'a> Arith<'a> {
    /// Plain incr or decr of `key`.
    pub const fn key(key: &'a [u8], delta: u64, decrement: bool) -> Arith<'a> {
        Arith {
            key,
            key_is_binary: false,
            delta,
            decrement,
            compare_cas: None,
            initial: None,
            touch: None,
            new_cas: None,
        }
    }
}

/// How arithmetic ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithOutcome {
    /// Done.
    Value {
        /// The number now stored.
        number: u64,
        /// The item's CAS number.
        cas: u64,
        /// Seconds of life left, rounded up; `None` never expires.
        ttl: Option<u32>,
        /// The item was created from `initial`.
        created: bool,
    },
    /// No such item.
    NotFound,
    /// The value is not a decimal number.
    NonNumeric,
    /// `compare_cas` did not match.
    Exists,
    /// No room for the new item.
    NoMemory,
}

/// Why an item left the cache. Each item that left is counted under exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// Died of age.
    Expired,
    /// Removed live for want of room.
    Evicted,
    /// A new version took its place.
    Replaced,
    /// Deleted on request.
    Deleted,
    /// Fell to flush_all.
    Flushed,
    /// Its value was dropped on request while its key stays (`md x`).
    Invalidated,
    /// The value that should have replaced it was over the size limit.
    TooLarge,
    /// There was no memory for the value that should have replaced it.
    NoMemory,
    /// The memory limit was lowered.
    LimitLowered,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 9] = [
        Cause::Expired,
        Cause::Evicted,
        Cause::Replaced,
        Cause::Deleted,
        Cause::Flushed,
        Cause::Invalidated,
        Cause::TooLarge,
        Cause::NoMemory,
        Cause::LimitLowered,
    ];

    /// The word for it on the wire and in statistics.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Expired => "expired",
            Cause::Evicted => "evicted",
            Cause::Replaced => "replaced",
            Cause::Deleted => "deleted",
            Cause::Flushed => "flushed",
            Cause::Invalidated => "invalidated",
            Cause::TooLarge => "too_large",
            Cause::NoMemory => "no_memory",
            Cause::LimitLowered => "limit_lowered",
        }
    }
}

/// What is known of a key: where it is, or why it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is there.
    Present(Present),
    /// It left, and this was the last time.
    Gone(Gone),
    /// It was never there, or left more than `not_for_secs` seconds ago.
    Unknown {
        /// Seconds for which the ledger would remember it.
        not_for_secs: u32,
    },
}

/// An item that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Bytes it takes, all told.
    pub bytes: u64,
    /// Bytes of its value.
    pub value_len: usize,
    /// Seconds that it has to live; `None`: for ever.
    pub ttl: Option<u32>,
    /// Seconds since it was stored or read last, modulo 12 days.
    pub idle_secs: u32,
    /// Seconds since the segment was opened in which it lies.
    pub placed_secs: u32,
    /// Read since it was stored.
    pub fetched: bool,
    /// Reads noted, as a power of two: 0, 1, 2, 4 .. 32, which stands for more, too.
    pub reads: u16,
    /// Number of its segment.
    pub segment: u32,
}

/// An item that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Why.
    pub cause: Cause,
    /// Seconds since.
    pub secs: u32,
    /// Bytes it took, to a part in a thousand.
    pub bytes: u64,
    /// Seconds that it still had to live, to a part in a thousand; `None`: for ever.
    pub ttl: Option<u32>,
    /// As [`Present::reads`].
    pub reads: u16,
}

/// A piece of a value that stays readable, wherever it goes, until dropped; its memory is not recycled meanwhile.
#[derive(Debug)]
pub struct PinnedSlice(pub(crate) crate::value::Pinned);

impl AsRef<[u8]> for PinnedSlice {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}
