//! A file of memory that somebody else has written into, taken up as after a crash: no panic, no endless loop, no read outside,
//! and never a wrong value.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Get, Store, Worker, look};
use scrubjay_io::clock::boot_id;
use scrubjay_io::memory::{Memory, MemoryFile};

const PAGE: usize = 4096;
const MEMORY: usize = 1 << 20;
const KEYS: u64 = 3_000;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// The bytes of a file that are not zero, by page.
struct Image {
    len: usize,
    pages: Vec<(usize, Vec<u8>)>,
}

/// The file's bytes, all of them.
fn with_bytes<R>(file: &MemoryFile, len: usize, use_them: impl FnOnce(&mut [u8]) -> R) -> R {
    let memory = Memory::map(file.try_clone().unwrap(), len).unwrap();
    // SAFETY: a mapping of so many bytes, and nobody else uses the file.
    use_them(unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), len) })
}

impl Image {
    fn of(file: &MemoryFile) -> Image {
        let len = file.len().unwrap() as usize;
        let pages = with_bytes(file, len, |bytes| {
            let pages = bytes.chunks(PAGE).enumerate();
            let used = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
            used.map(|(number, page)| (number, page.to_vec())).collect()
        });
        Image { len, pages }
    }

    /// A file of these bytes, which were written into so many times.
    fn spoilt(&self, random: &mut Random, times: usize) -> MemoryFile {
        let file = MemoryFile::anonymous().unwrap();
        with_bytes(&file, self.len, |bytes| {
            for (number, page) in &self.pages {
                bytes[number * PAGE..][..PAGE].copy_from_slice(page);
            }
            for _ in 0..times {
                // As likely in the few pages of headers as in the many of items.
                let page = match random.below(4) {
                    0 => 0,
                    1 => self.pages[random.below(8)].0,
                    _ => self.pages[random.below(self.pages.len())].0,
                };
                let page = &mut bytes[page * PAGE..][..PAGE];
                // The head of the superblock has a test of its own.
                let at = 64 + random.below(PAGE - 64);
                match random.below(6) {
                    0 => page[at] = random.next() as u8,
                    1 | 2 => page[at] ^= 1 << random.below(8),
                    3 => {
                        let at = at & !7;
                        let word = random.next() >> random.below(64);
                        page[at..at + 8].copy_from_slice(&word.to_le_bytes());
                    }
                    4 => page[at..].fill(if random.below(2) == 0 { 0 } else { 0xff }),
                    _ => {
                        let (from, len) = (64 + random.below(PAGE - 64), random.below(256));
                        let len = len.min(PAGE - from.max(at));
                        page.copy_within(from..from + len, at);
                    }
                }
            }
        });
        file
    }
}

fn key_bytes(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

fn value(key: u64) -> Vec<u8> {
    let mut random = Random(key);
    let len = if key.is_multiple_of(97) {
        5_000
    } else {
        20 + key as usize % 80
    };
    (0..len).map(|_| random.next() as u8).collect()
}

fn put(worker: &mut Worker, key: u64) {
    let (key_bytes, value) = (key_bytes(key), value(key));
    worker.store(Store {
        exptime: [0, 0, 0, 90, 1000][key as usize % 5],
        ..Store::set(&key_bytes, Body::Bytes(&value))
    });
}

/// Whether a key is there; then its value is right.
fn has(worker: &mut Worker, key: u64) -> bool {
    let bytes = key_bytes(key);
    let found = worker.get(&Get::key(&bytes)).map(|hit| {
        let mut text = Vec::new();
        hit.append_to(&mut text);
        text
    });
    found.is_some_and(|found| {
        assert!(found == value(key), "key {key} has a wrong value");
        true
    })
}

fn rounds(cache: &Arc<Cache>, from: u64, count: u64) {
    for round in 0..count {
        cache.maintain(Now::from_millis(from + 250 * round));
    }
}

/// A cache of which every item is covered by a checksum, and which is in the middle of a resize if `resizes`.
fn image(resizes: bool) -> Image {
    let cache = Cache::new(Config::new(MEMORY)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    let mut key = 0;
    while key < KEYS || resizes && !cache.usage().index_is_resizing {
        put(&mut worker, key % (3 * KEYS));
        worker.begin_turn(Now::from_millis(1000 + key));
        key += 1;
    }
    worker.go_idle();
    if !resizes {
        rounds(&cache, 4_000, 10);
    }
    drop(worker);
    Image::of(cache.memory_file())
}

fn check(image: &Image, seed: u64, values_are_right: bool) {
    let mut random = Random(seed);
    // Where a checksum and what it covers are both changed, a value may be anything.
    let times = if values_are_right { 1 } else { 1 + random.below(4) };
    let file = image.spoilt(&mut random, times);
    let Ok(kept) = look(&file, &boot_id().unwrap()).unwrap() else {
        return;
    };
    let Ok((cache, recovered)) = Cache::reopen(Config::new(MEMORY), file, &kept, Now::from_secs(8)) else {
        return;
    };
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(8));
    let is_right = |worker: &mut Worker, key| {
        let key = key_bytes(key);
        worker.get(&Get::key(&key)).is_some()
    };
    let mut there = 0;
    for key in 0..KEYS {
        there += u64::from(if values_are_right {
            has(&mut worker, key)
        } else {
            is_right(&mut worker, key)
        });
    }
    assert!(there <= recovered.items, "{there} {recovered:?}");
    for key in 0..2 * KEYS {
        put(&mut worker, key);
    }
    worker.go_idle();
    rounds(&cache, 9_000, 10);
    worker.begin_turn(Now::from_secs(12));
    worker.flush_all(0);
    worker.go_idle();
    rounds(&cache, 13_000, 10);
}

#[test]
fn whatever_is_written_into_it_it_never_answers_wrongly() {
    let image = image(false);
    for seed in 0..250 {
        check_named(&image, seed, true);
    }
}

#[test]
fn in_the_middle_of_a_resize_neither_panics_nor_hangs() {
    let image = image(true);
    for seed in 1_000..1_250 {
        check_named(&image, seed, false);
    }
}

/// Says which seed fails.
fn check_named(image: &Image, seed: u64, values_are_right: bool) {
    struct Named(u64);
    impl Drop for Named {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {}", self.0);
            }
        }
    }
    let _named = Named(seed);
    check(image, seed, values_are_right);
}
