//! What a restart costs: a cache full of small items is closed and taken up, and then left as by a process that died.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Get, Store, Worker, look};
use scrubjay_io::clock::{boot_id, thread_cpu_nanos};
use scrubjay_io::memory::MemoryFile;

/// The longest value.
pub const VALUE_LEN_MAX: usize = 1000;

/// What an item takes beside its value.
const BESIDE: usize = 25;

/// Stores that are looked up afterwards: one in so many.
const SAMPLE: u64 = 1009;

fn store(worker: &mut Worker, number: u64, value_len: usize) {
    let key = format!("key-{number:012}");
    worker.store(Store::set(
        key.as_bytes(),
        Body::Bytes(&[number as u8; VALUE_LEN_MAX][..value_len]),
    ));
}

/// Fills `mebibytes` of memory with items of `value_len` bytes, and some 25, and tells what it takes to take them up again.
///
/// # Errors
/// There is no such memory, or a restart failed.
pub fn run(mebibytes: usize, value_len: usize) -> Result<String, String> {
    let config = || Config::new(mebibytes << 20);
    let cache = Cache::new(config()).map_err(|error| error.to_string())?;
    let mut worker = cache.worker();
    // Four fifths: index and checksums take some as well.
    let items = ((mebibytes as u64) << 20) / (value_len + BESIDE) as u64 * 4 / 5;
    for number in 0..items {
        worker.begin_turn(Now::from_millis(number / 1000));
        store(&mut worker, number, value_len);
    }
    drop(worker);
    let (cpu, mut millis) = (thread_cpu_nanos(), items / 1000);
    for _ in 0..20 {
        millis += 250;
        cache.maintain(Now::from_millis(millis));
    }
    let cpu = (thread_cpu_nanos() - cpu) / 1_000_000;
    let used = cache.usage().item_bytes;
    let mut report = format!(
        "{} items in {} MiB of segments; background work then took {cpu} ms\n",
        cache.usage().items,
        used >> 20
    );
    let mut cache = Some(cache);
    for closes in [true, false, false] {
        let Some(last) = cache.take() else { break };
        let file = last
            .memory_file()
            .try_clone()
            .map_err(|error| error.to_string())?;
        if closes {
            last.close(Now::from_millis(millis));
        }
        drop(last);
        let (taken_up, line) = take_up(file, config(), Now::from_millis(millis), items)?;
        writeln!(report, "{line}").map_err(|error| error.to_string())?;
        cache = Some(taken_up);
    }
    Ok(report)
}

fn take_up(file: MemoryFile, config: Config, now: Now, items: u64) -> Result<(Arc<Cache>, String), String> {
    let boot = boot_id().map_err(|error| error.to_string())?;
    let kept = look(&file, &boot).map_err(|error| error.to_string())?;
    let kept = kept.map_err(|cold| cold.to_string())?;
    let began = Instant::now();
    let (cache, recovered) = Cache::reopen(config, file, &kept, now).map_err(|error| error.to_string())?;
    let took = began.elapsed().as_millis();
    let mut worker = cache.worker();
    worker.begin_turn(now);
    let began = Instant::now();
    let sample = (0..items).step_by(SAMPLE as usize);
    let found = sample.filter(|number| {
        let key = format!("key-{number:012}");
        worker.get(&Get::key(key.as_bytes())).is_some()
    });
    let found = found.count() as u64 * SAMPLE;
    let micros = began.elapsed().as_micros() as u64 * SAMPLE / items.max(1);
    drop(worker);
    let how = if recovered.clean { "closed" } else { "died" };
    let line = format!(
        "{how}: taken up in {took} ms, {} items, lost {} and {}; about {found} found, {micros} us each at first",
        recovered.items, recovered.lost_to_checksums, recovered.lost_unreadable
    );
    Ok((cache, line))
}
