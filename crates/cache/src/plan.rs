//! Capacity: how many items of given measures fit in a limit, and what limit a number of items needs.
//!
//! A sample of the items is packed into segments as the engine would, by the engine's own sizes and limits; what a sample
//! takes is scaled to all. It is a forecast of a cache that is filled with different keys until the first of them must
//! go: what is overwritten, deleted or expired, and the values that are on their way in, come on top. Background work is
//! taken to keep up. No cache is built, no clock is asked.

mod growth;

use crate::api::Config;
use crate::cache::{budget_of_segment, check_limits, segment_shift, segments_max};
use crate::error::CacheError;
use crate::eviction::{self, LOGS, MEAN_SIZE_AT_START};
use crate::expiry::{BUCKETS, TICKS_PER_SEC, bucket};
use crate::index::{PUNCH_BATCH, first_pages, grown};
use crate::item::{Header, NEVER, PIECE_HEADER, ValueShape};
use crate::ledger;
use crate::plan::growth::Growth;
use crate::pool::{OPEN_MIN, OPEN_SHARE, kept_free};
use crate::segment::{PAGE_SIZE, SEGMENT_START, SegmentHeader, unit_shift, with_listing};
use crate::upload::{PIECE_MIN, inline_value_max, is_cut, piece_len_max};

/// Limits are looked for in steps of this many bytes.
const MEMORY_STEP: usize = 1 << 20;

/// Limits are looked for up to this many steps: a pebibyte.
const MEMORY_STEPS_MAX: usize = 1 << 30;

/// What decides how many bytes an item takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemMeasure {
    /// Bytes of the key.
    pub key_len: usize,
    /// Bytes of the value.
    pub value_len: usize,
    /// Client flags.
    pub flags: u32,
    /// Seconds that it has to live when it is stored; `None` for ever.
    pub ttl_secs: Option<u32>,
}

/// Bytes by what they are for. In a [`Forecast`] they sum up to the memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Keys.
    pub keys: f64,
    /// Values.
    pub values: f64,
    /// What items have in front of key and value, those of a large value's pieces too.
    pub item_headers: f64,
    /// Between items, so that they start aligned.
    pub padding: f64,
    /// Ends of segments that were too short for the next item.
    pub tails: f64,
    /// The index.
    pub index: f64,
    /// What eviction remembers and learns from, and the ledger of what left.
    pub eviction: f64,
    /// Headers of all segments.
    pub segment_headers: f64,
    /// Segments that are kept free or are not full yet, and what the index would need for its next growth.
    pub kept_back: f64,
}

/// What fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Items stored before the first of them is evicted.
    pub items: u64,
    /// Where the memory is then.
    pub memory: MemoryUse,
}

/// Bytes that an item takes in segments if it starts in an empty one; tails and index left out.
///
/// # Errors
/// As [`Cache::new`](crate::Cache::new) for the same configuration.
pub fn item_bytes(config: &Config, item: &ItemMeasure) -> Result<usize, CacheError> {
    let mut packing = Packing::new(config)?;
    packing.add(item);
    Ok(packing.item_bytes() as usize)
}

/// How many items like those of `sample` fit in `config.memory_max`. The larger the sample, the better; 100,000 are good.
///
/// # Errors
/// As [`Cache::new`](crate::Cache::new) for the same configuration.
///
/// # Panics
/// If the sample is empty.
pub fn forecast(config: &Config, sample: &[ItemMeasure]) -> Result<Forecast, CacheError> {
    assert!(!sample.is_empty(), "a forecast is made from a sample of items");
    let mut packing = Packing::new(config)?;
    sample.iter().for_each(|item| packing.add(item));
    Ok(packing.forecast(&Growth::new()))
}

/// The least memory limit, in whole MiB, in which `items` items like those of `sample` fit; in `config` the other limits
/// are given. `None` if a pebibyte is too little.
///
/// # Panics
/// If the sample is empty.
pub fn memory_for(config: &Config, sample: &[ItemMeasure], items: u64) -> Option<usize> {
    let growth = Growth::new();
    let fits = |steps: usize| {
        let config = Config {
            memory_max: steps * MEMORY_STEP,
            ..config.clone()
        };
        let Ok(mut packing) = Packing::new(&config) else {
            return false;
        };
        sample.iter().for_each(|item| packing.add(item));
        packing.forecast(&growth).items >= items
    };
    let mut enough = 1;
    while !fits(enough) {
        enough *= 2;
        if enough > MEMORY_STEPS_MAX {
            return None;
        }
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = (too_few + enough) / 2;
        if fits(middle) {
            enough = middle
        } else {
            too_few = middle
        }
    }
    Some(enough * MEMORY_STEP)
}

/// Items laid into segments, as appending to each log's open segment lays them.
struct Packing {
    memory_max: usize,
    ledger_bytes: usize,
    segment_size: usize,
    kept_free: u32,
    unit: usize,
    cas: Option<u64>,
    /// Bytes in use of each log's open segment; 0: it has none.
    open: [usize; LOGS],
    sealed: u64,
    items: u64,
    keys: u64,
    values: u64,
    item_headers: u64,
    padding: u64,
    /// Of sealed segments, their first bytes too.
    tails: u64,
}

impl Packing {
    fn new(config: &Config) -> Result<Packing, CacheError> {
        check_limits(config)?;
        let shift = segment_shift(config.memory_max);
        Ok(Packing {
            memory_max: config.memory_max,
            ledger_bytes: ledger::bytes_of(config.memory_max, config.ledger_bytes),
            segment_size: 1 << shift,
            kept_free: kept_free(config),
            unit: 1 << unit_shift(shift, segments_max(config.memory_max, shift)),
            // Numbers of more than four bytes come after four thousand million modifications.
            cas: config.cas.then_some(0),
            open: [0; LOGS],
            sealed: 0,
            items: 0,
            keys: 0,
            values: 0,
            item_headers: 0,
            padding: 0,
            tails: 0,
        })
    }

    /// Bytes of items, tails left out.
    fn item_bytes(&self) -> u64 {
        self.keys + self.values + self.item_headers + self.padding
    }

    fn add(&mut self, item: &ItemMeasure) {
        let deadline = item
            .ttl_secs
            .map_or(NEVER, |ttl| ttl.saturating_mul(TICKS_PER_SEC));
        let header = Header {
            deadline,
            deadline_word: false,
            cas: self.cas,
            flags: item.flags,
            key_is_binary: false,
            stale: false,
            win: false,
            fetched: false,
            last_access: 0,
        };
        let log = self.log_of(item, deadline);
        let inline_len = header.item_len(item.key_len, ValueShape::Inline(item.value_len));
        let left = match self.open[log] {
            0 => 0,
            used => self.segment_size - used,
        };
        let whole = item.value_len <= inline_value_max(self.segment_size)
            && !is_cut(with_listing(inline_len.next_multiple_of(self.unit)), left);
        let shape = if whole {
            ValueShape::Inline(item.value_len)
        } else {
            let pieces = self.add_pieces(log, item.value_len);
            self.item_headers += (pieces * PIECE_HEADER) as u64;
            ValueShape::Chained {
                len: item.value_len,
                pieces,
            }
        };
        let len = header.item_len(item.key_len, shape);
        let aligned = len.next_multiple_of(self.unit);
        let listing = if whole { with_listing(aligned) - aligned } else { 0 };
        self.make_room(log, aligned + listing);
        self.append(log, len);
        self.open[log] += listing;
        self.item_headers += listing as u64;
        let value_behind_key = match shape {
            ValueShape::Inline(len) => len,
            ValueShape::Chained { .. } => 0,
        };
        self.items += 1;
        self.keys += item.key_len as u64;
        self.values += item.value_len as u64;
        self.item_headers += (len - item.key_len - value_behind_key) as u64;
    }

    /// Where the engine puts an item that was never read, while nothing has to go.
    fn log_of(&self, item: &ItemMeasure, deadline: u32) -> usize {
        if deadline != NEVER {
            return bucket(deadline, 0);
        }
        let mean_size = match self.items {
            0 => MEAN_SIZE_AT_START,
            items => (self.item_bytes() / items) as u32,
        };
        let density = 1.0 / (item.key_len + item.value_len).max(1) as f32;
        BUCKETS + eviction::class_of(density, mean_size)
    }

    /// Lays a value down in pieces, the first into what is left of the log's segment; returns how many.
    fn add_pieces(&mut self, log: usize, value_len: usize) -> usize {
        let (mut left, mut pieces) = (value_len, 0);
        while left > 0 {
            let wanted = left.min(piece_len_max(self.segment_size));
            let least = PIECE_HEADER + wanted.min(PIECE_MIN);
            self.make_room(log, least.next_multiple_of(self.unit));
            let len = (PIECE_HEADER + wanted).min(self.segment_size - self.open[log]);
            self.append(log, len);
            left -= len - PIECE_HEADER;
            pieces += 1;
        }
        pieces
    }

    /// Sees to it that the log's open segment has room for `len` bytes.
    fn make_room(&mut self, log: usize, len: usize) {
        let used = &mut self.open[log];
        if *used > 0 && *used + len > self.segment_size {
            self.tails += (self.segment_size - *used + SEGMENT_START as usize) as u64;
            self.sealed += 1;
            *used = 0;
        }
        if *used == 0 {
            *used = SEGMENT_START as usize;
        }
    }

    fn append(&mut self, log: usize, len: usize) {
        let aligned = len.next_multiple_of(self.unit);
        self.open[log] += aligned;
        self.padding += (aligned - len) as u64;
    }

    /// How many items fit in all, growing the index as they become more.
    fn forecast(&self, growth: &Growth) -> Forecast {
        let first_pages = first_pages(self.memory_max);
        let mut pages = first_pages;
        let mut items = 0;
        loop {
            let grows_at = growth.items_before(pages);
            let fit = self.items_beside(pages).max(items);
            if fit < grows_at {
                items = fit;
                break;
            }
            items = grows_at;
            let grown = grown(pages, first_pages);
            // Of the old table, up to two batches are not given back yet when the new one is complete.
            if self.items_beside(grown + pages.min(2 * PUNCH_BATCH)) < items {
                break;
            }
            pages = grown;
        }
        Forecast {
            items,
            memory: self.memory_use(items, pages),
        }
    }

    /// Bytes of items in a full segment.
    fn segment_payload(&self) -> f64 {
        let tail = if self.sealed > 0 {
            self.tails as f64 / self.sealed as f64
        } else {
            f64::from(SEGMENT_START)
        };
        self.segment_size as f64 - tail
    }

    fn bytes_per_item(&self) -> f64 {
        self.item_bytes() as f64 / self.items as f64
    }

    /// How many items fit beside an index of so many pages.
    fn items_beside(&self, pages: usize) -> u64 {
        let beside = pages * PAGE_SIZE + eviction::bytes_of(self.memory_max) + self.ledger_bytes;
        let left = self.memory_max.saturating_sub(beside);
        let allowed = (left / budget_of_segment(self.segment_size)) as u32;
        let full = allowed.saturating_sub(self.kept_free);
        let logs = self.open.iter().filter(|&&used| used > 0).count() as u32;
        let open_max = (allowed / OPEN_SHARE).max(OPEN_MIN);
        // Any other log's open segment is half full in the mean.
        let half_full = f64::from(logs.min(open_max) - 1) / 2.0;
        let full = (f64::from(full) - half_full).max(0.0);
        (full * self.segment_payload() / self.bytes_per_item()) as u64
    }

    fn memory_use(&self, items: u64, pages: usize) -> MemoryUse {
        let scaled = |bytes: u64| bytes as f64 / self.items as f64 * items as f64;
        let full = scaled(self.item_bytes()) / self.segment_payload();
        let budget = budget_of_segment(self.segment_size) as f64;
        let index = (pages * PAGE_SIZE) as f64;
        let eviction = (eviction::bytes_of(self.memory_max) + self.ledger_bytes) as f64;
        let segments = ((self.memory_max as f64 - index - eviction) / budget)
            .max(0.0)
            .floor();
        let mut memory = MemoryUse {
            keys: scaled(self.keys),
            values: scaled(self.values),
            item_headers: scaled(self.item_headers),
            padding: scaled(self.padding),
            tails: full * (self.segment_size as f64 - self.segment_payload()),
            index,
            eviction,
            segment_headers: segments * size_of::<SegmentHeader>() as f64,
            kept_back: 0.0,
        };
        memory.kept_back = self.memory_max as f64 - memory.total();
        memory
    }
}

impl MemoryUse {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.keys
            + self.values
            + self.item_headers
            + self.padding
            + self.tails
            + self.index
            + self.eviction
            + self.segment_headers
            + self.kept_back
    }
}

#[cfg(test)]
mod tests {
    use super::{ItemMeasure, forecast, item_bytes, memory_for};
    use crate::api::Config;

    fn item(key_len: usize, value_len: usize) -> ItemMeasure {
        ItemMeasure {
            key_len,
            value_len,
            flags: 0,
            ttl_secs: None,
        }
    }

    #[test]
    fn item_takes_what_its_layout_says() {
        let config = Config::new(64 << 20);
        let check = |item: ItemMeasure, bytes: usize| {
            assert_eq!(item_bytes(&config, &item).expect("valid"), bytes, "{item:?}");
        };
        check(item(8, 8), 28);
        check(item(16, 1024), 1052);
        check(
            ItemMeasure {
                ttl_secs: Some(60),
                ..item(8, 8)
            },
            32,
        );
        check(
            ItemMeasure {
                flags: 0x1_0000,
                ..item(8, 8)
            },
            32,
        );
        // Three pieces in segments of 128 KiB, each with a header and a word in the item's table.
        check(item(32, 262_144), 262_144 + 3 * 16 + 80);
    }

    #[test]
    fn forecast_accounts_for_every_byte_of_the_limit() {
        for (key_len, value_len) in [(8, 8), (16, 1024), (32, 262_144)] {
            let config = Config::new(64 << 20);
            let forecast = forecast(&config, &[item(key_len, value_len); 1000]).expect("valid");
            let memory = forecast.memory;
            assert!((memory.total() - (64 << 20) as f64).abs() < 1.0, "{memory:?}");
            assert!(memory.kept_back > 0.0 && memory.index > 0.0, "{memory:?}");
        }
    }

    #[test]
    fn needed_memory_is_enough_and_a_step_less_is_not() {
        let sample = [item(16, 500); 1000];
        let config = Config::new(2 << 20);
        for items in [1, 100_000, 3_000_000] {
            let bytes = memory_for(&config, &sample, items).expect("below a pebibyte");
            let fits = |memory_max| {
                let config = Config {
                    memory_max,
                    ..config.clone()
                };
                forecast(&config, &sample).is_ok_and(|forecast| forecast.items >= items)
            };
            assert!(fits(bytes), "{items} in {bytes}");
            assert!(!fits(bytes - (1 << 20)), "{items} in less than {bytes}");
        }
        assert_eq!(memory_for(&config, &sample, u64::MAX), None);
    }

    #[test]
    fn impossible_limits_are_refused() {
        assert!(forecast(&Config::new(1000), &[item(8, 8)]).is_err());
    }
}
