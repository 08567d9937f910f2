//! How full a full cache is: more items are stored than fit, then every byte of the limit is told by what it is for.

use std::fmt::Write as _;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Get, SEGMENT_HEADER_LEN, Store, StoreOutcome, Worker};

/// Bytes of a key.
const KEY_LEN: usize = 32;

/// Limits' worth of items that are stored, the last of them being looked at this many times: how much is in use goes up and
/// down with every segment.
const LIMITS: u64 = 4;
const LOOKS: u64 = 40;

/// Stores in a turn, and turns between two rounds of background work. The clock goes on by a millisecond a turn.
const TURN: u64 = 16;
const TURNS_PER_ROUND: u64 = 64;

/// The populations of `scrubjay lab expire` at -m 16; the first lives for this many seconds, and the second comes later.
const STAGES: [(u64, usize); 4] = [(9_950, 1_024), (31_506, 256), (9_950, 1_024), (9_950, 1_024)];
const STAGES_MEBIBYTES: u64 = 16;
const FIRST_LIVES_SECS: i64 = 10;
const WAIT_MILLIS: u64 = 12_000;

/// Bytes of the limit by what they are for.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    readable: u64,
    item_headers: u64,
    dead: u64,
    ends: u64,
    open: u64,
    free: u64,
    segment_headers: u64,
    index: u64,
    eviction: u64,
    ledger: u64,
    limit: u64,
}

impl Books {
    fn of(cache: &Arc<Cache>, worker: &mut Worker) -> Books {
        let usage = cache.usage();
        let mut books = Books {
            segment_headers: usage.segments_total * SEGMENT_HEADER_LEN as u64,
            index: usage.index_bytes,
            eviction: usage.eviction_bytes,
            ledger: usage.ledger_bytes,
            limit: usage.memory_max,
            free: usage.segments_total.saturating_sub(usage.segments_used) * usage.segment_size,
            ..Books::default()
        };
        for segment in cache.segments().iter().filter(|segment| segment.is_used) {
            books.dead += segment.dead + segment.expired;
            books.item_headers += segment.live;
            let left = usage.segment_size - segment.dead - segment.expired - segment.live;
            *(if segment.is_open {
                &mut books.open
            } else {
                &mut books.ends
            }) += left;
        }
        let mut cursor = Some(cache.scan_start());
        while let Some(at) = cursor {
            let add = &mut |item: &scrubjay_cache::Scanned<'_>| {
                books.readable += (item.key.len() + item.value_len) as u64;
            };
            cursor = worker.scan(at, 64, add);
        }
        books.item_headers -= books.readable;
        books
    }

    /// In the order of the table's columns; the last is what is too little for a segment.
    fn parts(&self) -> [u64; 11] {
        let named = [
            self.readable,
            self.item_headers,
            self.dead,
            self.ends,
            self.open,
            self.free,
            self.segment_headers,
            self.index,
            self.eviction,
            self.ledger,
        ];
        let mut parts = [0; 11];
        parts[..10].copy_from_slice(&named);
        parts[10] = self.limit.saturating_sub(named.iter().sum());
        parts
    }
}

/// A cache that is being filled, in virtual time.
struct Filling {
    cache: Arc<Cache>,
    worker: Worker,
    stores: u64,
    millis: u64,
    bytes: Vec<u8>,
}

impl Filling {
    fn new(memory_max: usize) -> Result<Filling, String> {
        let config = Config::new(memory_max);
        let cache = Cache::new(config).map_err(|error| error.to_string())?;
        let worker = cache.worker();
        Ok(Filling {
            cache,
            worker,
            stores: 0,
            millis: 1_000,
            bytes: vec![b'v'; memory_max / 8],
        })
    }

    fn now(&self) -> Now {
        Now::from_millis(self.millis)
    }

    fn store(&mut self, number: u64, value_len: usize, exptime: i64) {
        if self.stores.is_multiple_of(TURN * TURNS_PER_ROUND) {
            self.maintain();
        }
        if self.stores.is_multiple_of(TURN) {
            self.millis += 1;
            self.worker.begin_turn(self.now());
        }
        self.stores += 1;
        let outcome = self.worker.store(Store {
            exptime,
            ..Store::set(&key(number), Body::Bytes(&self.bytes[..value_len]))
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }

    fn read(&mut self, number: u64) -> bool {
        self.worker.get(&Get::key(&key(number))).is_some()
    }

    fn maintain(&mut self) {
        self.worker.go_idle();
        while self.cache.maintain(self.now()) {}
        self.worker.begin_turn(self.now());
    }

    fn books(&mut self) -> Books {
        Books::of(&self.cache, &mut self.worker)
    }
}

fn key(number: u64) -> [u8; KEY_LEN] {
    let mut key = [b'k'; KEY_LEN];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Fills caches of so many MiB with items of several kinds, and returns a table of what their bytes are for.
///
/// # Errors
/// The memory for it cannot be had.
pub fn run(mebibytes: usize) -> Result<String, String> {
    let memory_max = mebibytes << 20;
    let mut table = format!(
        "% of {mebibytes} MiB; of looks at several moments the mean, and the least of the first column\n\
         | items | readable | at least | item headers | dead | segments' ends | open | free | segment headers | index | \
         eviction | ledger | rest |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for (stage, books) in stages(mebibytes)?.into_iter().enumerate() {
        row(&mut table, &format!("lab expire, stage {}", stage + 2), &[books]);
    }
    for value_len in [32, 100, 300, 1_000, 2_000, 5_000, 20_000, 200_000] {
        if value_len * 64 <= memory_max {
            let books = overfill(memory_max, |_| value_len, false)?;
            row(&mut table, &format!("{value_len} B"), &books);
        }
    }
    let mixed = |rng: &mut SmallRng| (32.0 * 250f64.powf(rng.random::<f64>())) as usize;
    row(&mut table, "32 B to 8 KB", &overfill(memory_max, mixed, false)?);
    row(
        &mut table,
        "the same, some read",
        &overfill(memory_max, mixed, true)?,
    );
    Ok(table)
}

fn row(table: &mut String, name: &str, looks: &[Books]) {
    let share = |books: &Books, part: usize| 100.0 * books.parts()[part] as f64 / books.limit as f64;
    let mean = |part| looks.iter().map(|books| share(books, part)).sum::<f64>() / looks.len() as f64;
    let least = looks
        .iter()
        .map(|books| share(books, 0))
        .fold(f64::INFINITY, f64::min);
    let _ = write!(table, "| {name} | {:.2} | {least:.2} |", mean(0));
    for part in 1..11 {
        let _ = write!(table, " {:.2} |", mean(part));
    }
    table.push('\n');
}

/// The books after the second, third and fourth population; what should be readable is read in between.
fn stages(mebibytes: usize) -> Result<Vec<Books>, String> {
    let mut filling = Filling::new(mebibytes << 20)?;
    let mut books = Vec::new();
    for (stage, (items, value_len)) in STAGES.into_iter().enumerate() {
        let items = items * mebibytes as u64 / STAGES_MEBIBYTES;
        let number = |stage: usize, item: u64| (stage as u64) << 40 | item;
        let exptime = if stage == 0 { FIRST_LIVES_SECS } else { 0 };
        for item in 0..items {
            filling.store(number(stage, item), value_len, exptime);
        }
        if stage == 0 {
            filling.millis += WAIT_MILLIS;
            filling.maintain();
            continue;
        }
        books.push(filling.books());
        for (before, (count, _)) in STAGES.into_iter().enumerate().take(stage + 1).skip(1) {
            for item in 0..count * mebibytes as u64 / STAGES_MEBIBYTES {
                filling.read(number(before, item));
            }
        }
    }
    filling.worker.go_idle();
    filling.cache.audit();
    Ok(books)
}

/// Stores items of drawn lengths, no key twice; `reads`: for each one of those stored lately is read.
fn overfill(
    memory_max: usize,
    mut value_len: impl FnMut(&mut SmallRng) -> usize,
    reads: bool,
) -> Result<Vec<Books>, String> {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut filling = Filling::new(memory_max)?;
    let (mut stored, mut number, mut books) = (0, 0, Vec::new());
    let limit = memory_max as u64;
    while stored < LIMITS * limit {
        let len = value_len(&mut rng);
        filling.store(number, len, 0);
        number += 1;
        stored += (KEY_LEN + len) as u64;
        if reads {
            // The later it was stored, the more likely.
            let back = number as f64 * rng.random::<f64>().powi(4);
            filling.read(number - 1 - back as u64);
        }
        if stored > (LIMITS - 1) * limit + books.len() as u64 * limit / LOOKS {
            books.push(filling.books());
        }
    }
    filling.worker.go_idle();
    filling.cache.audit();
    Ok(books)
}

#[cfg(test)]
mod tests {
    use super::stages;

    /// Requirements D06 and D07, in virtual time; `bench/lab.sh 16 expire` asks servers the same.
    #[test]
    fn a_small_cache_holds_its_limits_worth_of_items_after_others_expired() {
        let stages = stages(16).expect("memory");
        assert_eq!(stages[0].dead, 0, "nothing was replaced: {:?}", stages[0]);
        for stage in &stages[1..] {
            assert!(stage.readable * 100 >= stage.limit * 92, "{stage:?}");
        }
    }
}
