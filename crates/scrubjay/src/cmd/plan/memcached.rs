//! memcached's memory as a model: slab classes, the sizes of items, and pages of a mebibyte handed to classes.
//!
//! 1.4 as of 1.4.13: pages as long as the largest item, each item in one chunk, flags and length kept as text. 1.6 as of
//! 1.6.18: chunks up to half a page, larger items in several chunks, flags as a number.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Gamma};
use scrubjay_cache::item_size;
use scrubjay_cache::plan::ItemMeasure;

/// Bytes of an item's header without its CAS number, on 64-bit machines.
pub(super) const ITEM_HEADER: usize = 48;

/// Bytes in front of each further chunk of a large item.
const CHUNK_HEADER: usize = 48;

/// Chunks start at multiples of this.
pub(super) const CHUNK_ALIGN: usize = 8;

/// A page of 1.6.
const PAGE: usize = 1 << 20;

/// Longest chunk of 1.6, which is also what -I must be a multiple of.
const CHUNK_MAX: usize = PAGE / 2;

/// Longest text that 1.4 keeps of flags and length.
const SUFFIX_MAX: usize = 40;

/// Buckets of the hash table at first, each a pointer; it doubles at one and a half items a bucket.
const BUCKETS_MIN: u64 = 1 << 16;

/// Runs of chance; odd, so that there is one in the middle.
const RUNS: usize = 15;

const SEED: u64 = 1;

/// The last pages are handed out one by one.
const PAGES_BY_CHANCE: usize = 4096;

/// Which memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// 1.4.
    V1_4,
    /// 1.6.
    V1_6,
}

impl Version {
    /// As `--memcached-version` says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::V1_4 => "1.4",
            Version::V1_6 => "1.6",
        }
    }

    /// Slab classes that it makes at most.
    fn classes_max(self) -> usize {
        match self {
            Version::V1_4 => 200,
            Version::V1_6 => 63,
        }
    }
}

/// What its command line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) version: Version,
    /// `-f`
    pub(super) factor: f64,
    /// `-n`
    pub(super) chunk_size: usize,
    /// `-I`
    pub(super) item_size_max: usize,
}

impl Settings {
    /// Refuses what that memcached refuses.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.version == Version::V1_6 && !self.item_size_max.is_multiple_of(CHUNK_MAX) {
            return Err(format!(
                "-I {}: memcached 1.6 wants a multiple of its largest chunk, {CHUNK_MAX}; give one, or \
                 --memcached-version 1.4",
                self.item_size_max
            ));
        }
        Ok(())
    }
}

/// A slab class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) chunk_size: usize,
    pub(super) chunks_per_page: usize,
}

/// The slab classes, by their chunk size; the server numbers them from 1.
#[derive(Clone, Debug)]
pub(super) struct Slabs {
    settings: Settings,
    pub(super) classes: Vec<Class>,
}

/// What a population takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SlabUse {
    /// Items stored before the first of them is evicted.
    pub(super) items: u64,
    /// The memory limit, or what pages take if that is more.
    pub(super) memory: usize,
    /// Bytes of it by what they are for.
    pub(super) keys: f64,
    pub(super) values: f64,
    pub(super) headers: f64,
    /// What chunks are longer than their items.
    pub(super) padding: f64,
    /// Ends of pages.
    pub(super) tails: f64,
    /// Chunks without an item, and memory too short for a page.
    pub(super) unused: f64,
    /// The hash table; it does not count against -m.
    pub(super) hash_table: f64,
}

impl Slabs {
    pub(super) fn new(settings: Settings) -> Slabs {
        let (page, chunk_max) = match settings.version {
            Version::V1_4 => (settings.item_size_max, settings.item_size_max),
            Version::V1_6 => (PAGE, CHUNK_MAX),
        };
        let mut classes = Vec::new();
        let mut size = ITEM_HEADER + settings.chunk_size;
        let most = chunk_max as f64 / settings.factor;
        let goes_on = |size: usize| match settings.version {
            Version::V1_4 => size as f64 <= most,
            Version::V1_6 => (size as f64) < most,
        };
        while classes.len() < settings.version.classes_max() - 1 && goes_on(size) {
            size = size.next_multiple_of(CHUNK_ALIGN);
            classes.push(Class {
                chunk_size: size,
                chunks_per_page: page / size,
            });
            size = (size as f64 * settings.factor) as usize;
        }
        classes.push(Class {
            chunk_size: chunk_max,
            chunks_per_page: page / chunk_max,
        });
        Slabs { settings, classes }
    }

    /// Bytes of an item as memcached counts them.
    pub(super) fn item_size(&self, item: &ItemMeasure) -> usize {
        match self.settings.version {
            Version::V1_6 => item_size(true, item.key_len, item.flags, item.value_len),
            Version::V1_4 => {
                let suffix = format!(" {} {}\r\n", item.flags, item.value_len).len();
                item_size(true, item.key_len, 0, item.value_len) + suffix.min(SUFFIX_MAX)
            }
        }
    }

    /// The class, from 0, of the first chunks that are long enough; the last one takes what is longer.
    pub(super) fn class_of(&self, size: usize) -> usize {
        let class = self.classes.partition_point(|class| class.chunk_size < size);
        class.min(self.classes.len() - 1)
    }

    /// Calls `visit` with the class of each chunk that the item takes.
    fn chunks(&self, item: &ItemMeasure, mut visit: impl FnMut(usize)) {
        let size = self.item_size(item);
        if size <= self.classes[self.classes.len() - 1].chunk_size {
            return visit(self.class_of(size));
        }
        // A chunk for header and key, then the value with its line end in chunks of its own.
        visit(self.class_of(size - item.value_len - 2 + CHUNK_HEADER));
        let mut left = item.value_len + 2;
        while left > 0 {
            let chunk = (left + CHUNK_HEADER).min(CHUNK_MAX);
            visit(self.class_of(chunk));
            left -= chunk - CHUNK_HEADER;
        }
    }

    /// Bytes in front of the chunks of an item that takes several.
    fn chunk_headers(&self, item: &ItemMeasure) -> usize {
        let mut chunks = 0;
        self.chunks(item, |_| chunks += 1);
        if chunks > 1 { chunks * CHUNK_HEADER } else { 0 }
    }

    /// Chunks an item in the mean, by class.
    fn rates(&self, sample: &[ItemMeasure]) -> Vec<f64> {
        let mut counts = vec![0u64; self.classes.len()];
        for item in sample {
            self.chunks(item, |class| counts[class] += 1);
        }
        counts
            .iter()
            .map(|&count| count as f64 / sample.len() as f64)
            .collect()
    }

    /// Items of the sample by the class that holds them; large ones count for the class of their header.
    pub(super) fn items_by_class(&self, sample: &[ItemMeasure]) -> Vec<u64> {
        let mut counts = vec![0; self.classes.len()];
        for item in sample {
            counts[self.class_of(self.item_size(item))] += 1;
        }
        counts
    }

    fn page_len(&self, class: usize) -> usize {
        match self.settings.version {
            Version::V1_4 => self.classes[class].chunk_size * self.classes[class].chunks_per_page,
            Version::V1_6 => PAGE,
        }
    }

    /// How many items like those of `sample` are stored in `memory_max` bytes before one is evicted, the middle of
    /// several runs of chance.
    pub(super) fn fill(&self, memory_max: usize, sample: &[ItemMeasure]) -> SlabUse {
        let rates = self.rates(sample);
        let mut random = StdRng::seed_from_u64(SEED);
        let mut runs: Vec<_> = (0..RUNS)
            .map(|_| {
                self.run(memory_max, &rates, |mean, deviation| {
                    waiting(&mut random, mean, deviation)
                })
            })
            .collect();
        runs.sort_by_key(|(items, _)| *items);
        let (items, pages) = &runs[RUNS / 2];
        self.account(*items, &rates, pages, memory_max, sample)
    }

    /// As [`Slabs::fill`] if nothing came by chance: quick, and too many where some classes are rare. Gives the items and
    /// the bytes of their pages.
    pub(super) fn fill_in_the_mean(&self, memory_max: usize, sample: &[ItemMeasure]) -> (u64, usize) {
        let (items, pages) = self.run(memory_max, &self.rates(sample), |mean, _| mean);
        (items, self.taken(&pages))
    }

    /// Bytes of so many pages of each class.
    fn taken(&self, pages: &[usize]) -> usize {
        (0..pages.len())
            .map(|class| pages[class] * self.page_len(class))
            .sum()
    }

    /// Hands out pages to whichever class needs one next until there is none left; returns the items stored until then
    /// and the pages of each class. Each class gets its first page whatever the limit says. `wait` gives after how many
    /// items a page is full, from the mean and the standard deviation.
    fn run(
        &self,
        memory_max: usize,
        rates: &[f64],
        mut wait: impl FnMut(f64, f64) -> f64,
    ) -> (u64, Vec<usize>) {
        let mut full_after = |class: usize, chunks: usize| {
            let (rate, chunks) = (rates[class], chunks as f64);
            if rate == 0.0 {
                return f64::INFINITY;
            }
            wait(chunks / rate, (chunks * (1.0 - rate).max(0.0)).sqrt() / rate)
        };
        // Of very many pages the first ones are not handed out one by one: chance evens out.
        let page_bytes =
            |class: usize| self.page_len(class) as f64 / self.classes[class].chunks_per_page as f64;
        let bytes_per_item: f64 = (0..rates.len())
            .map(|class| rates[class] * page_bytes(class))
            .sum();
        let skipped = (memory_max.saturating_sub(PAGES_BY_CHANCE * PAGE) as f64 / bytes_per_item).floor();
        let mut pages: Vec<usize> = (0..rates.len())
            .map(|class| (skipped * rates[class]) as usize / self.classes[class].chunks_per_page)
            .collect();
        let mut taken = self.taken(&pages);
        // The item with which each class needs its next page.
        let mut next: Vec<f64> = (0..rates.len())
            .map(|class| {
                let chunks = pages[class] * self.classes[class].chunks_per_page;
                let before = if chunks > 0 {
                    chunks as f64 / rates[class]
                } else {
                    0.0
                };
                before + full_after(class, 1)
            })
            .collect();
        loop {
            let soonest = next.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let (class, &at) = soonest.expect("there is a last class");
            if taken + self.page_len(class) > memory_max && pages[class] > 0 {
                return (at.ceil() as u64 - 1, pages);
            }
            pages[class] += 1;
            taken += self.page_len(class);
            next[class] += full_after(class, self.classes[class].chunks_per_page);
        }
    }

    /// Bytes, up to `memory_max`, of which pages of the least size hold `items` items.
    pub(super) fn memory_for(&self, sample: &[ItemMeasure], items: u64) -> usize {
        let rates = self.rates(sample);
        let pages = |class: usize| {
            let chunks = (items as f64 * rates[class]).round();
            (chunks / self.classes[class].chunks_per_page as f64).ceil() as usize
        };
        let bytes: usize = (0..rates.len())
            .map(|class| pages(class) * self.page_len(class))
            .sum();
        bytes.next_multiple_of(PAGE).max(PAGE)
    }

    fn account(
        &self,
        items: u64,
        rates: &[f64],
        pages: &[usize],
        memory_max: usize,
        sample: &[ItemMeasure],
    ) -> SlabUse {
        let memory = self.taken(pages).max(memory_max);
        let scale = items as f64 / sample.len() as f64;
        let sum =
            |bytes: &dyn Fn(&ItemMeasure) -> usize| sample.iter().map(bytes).sum::<usize>() as f64 * scale;
        let keys = sum(&|item| item.key_len);
        let values = sum(&|item| item.value_len);
        let headers =
            sum(&|item| self.item_size(item) - item.key_len - item.value_len + self.chunk_headers(item));
        let in_chunks: f64 = rates
            .iter()
            .zip(&self.classes)
            .map(|(rate, class)| rate * items as f64 * class.chunk_size as f64)
            .sum();
        let tails: usize = pages
            .iter()
            .enumerate()
            .map(|(class, pages)| {
                let whole = self.classes[class].chunk_size * self.classes[class].chunks_per_page;
                pages * (self.page_len(class) - whole)
            })
            .sum();
        let mut buckets = BUCKETS_MIN;
        while items > buckets + buckets / 2 {
            buckets *= 2;
        }
        SlabUse {
            items,
            memory,
            keys,
            values,
            headers,
            padding: in_chunks - keys - values - headers,
            tails: tails as f64,
            unused: memory as f64 - in_chunks - tails as f64,
            hash_table: (buckets * 8) as f64,
        }
    }
}

/// After how many items a class's chunks are used up, if each item belongs there or not by chance.
fn waiting(random: &mut StdRng, mean: f64, deviation: f64) -> f64 {
    let variance = deviation * deviation;
    // With the mean and the deviation of the negative binomial distribution, which it is.
    Gamma::new(mean * mean / variance, variance / mean).map_or(mean, |waiting| waiting.sample(random))
}

impl SlabUse {
    /// Bytes of the memory limit that hold no item.
    pub(super) fn waste(&self) -> f64 {
        self.padding + self.tails + self.unused
    }

    /// Their share of it.
    pub(super) fn waste_share(&self) -> f64 {
        self.waste() / (self.waste() + self.keys + self.values + self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, Slabs, Version};
    use scrubjay_cache::plan::ItemMeasure;

    const TABLE_1_4: [usize; 42] = [
        96, 120, 152, 192, 240, 304, 384, 480, 600, 752, 944, 1184, 1480, 1856, 2320, 2904, 3632, 4544, 5680,
        7104, 8880, 11104, 13880, 17352, 21696, 27120, 33904, 42384, 52984, 66232, 82792, 103_496, 129_376,
        161_720, 202_152, 252_696, 315_872, 394_840, 493_552, 616_944, 771_184, 1_048_576,
    ];

    fn slabs(version: Version) -> Slabs {
        Slabs::new(Settings {
            version,
            factor: 1.25,
            chunk_size: 48,
            item_size_max: 1 << 20,
        })
    }

    fn item(key_len: usize, value_len: usize) -> ItemMeasure {
        ItemMeasure {
            key_len,
            value_len,
            flags: 0,
            ttl_secs: None,
        }
    }

    #[test]
    fn default_classes_are_memcacheds() {
        let sizes = |version| {
            let classes = slabs(version).classes;
            classes.iter().map(|class| class.chunk_size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(Version::V1_4), TABLE_1_4);
        assert_eq!(sizes(Version::V1_6)[..38], TABLE_1_4[..38]);
        assert_eq!(sizes(Version::V1_6)[38..], [524_288]);
    }

    #[test]
    fn fine_factors_end_at_the_most_classes() {
        for (version, most) in [(Version::V1_4, 200), (Version::V1_6, 63)] {
            let slabs = Slabs::new(Settings {
                version,
                factor: 1.001,
                chunk_size: 48,
                item_size_max: 1 << 20,
            });
            assert_eq!(slabs.classes.len(), most);
        }
    }

    #[test]
    fn items_have_the_sizes_that_memcached_counts() {
        let check = |version, key_len, value_len, size| {
            assert_eq!(
                slabs(version).item_size(&item(key_len, value_len)),
                size,
                "{key_len}/{value_len}"
            );
        };
        check(Version::V1_4, 8, 8, 81);
        check(Version::V1_4, 8, 128, 203);
        check(Version::V1_4, 16, 1024, 1108);
        check(Version::V1_4, 32, 262_144, 262_246);
        check(Version::V1_4, 32, 1024, 1124);
        check(Version::V1_4, 32, 256, 355);
        check(Version::V1_6, 8, 8, 75);
        check(Version::V1_6, 8, 128, 195);
        check(Version::V1_6, 16, 1024, 1099);
        check(Version::V1_6, 32, 262_144, 262_235);
    }

    #[test]
    fn pages_of_twenty_large_items_are_those_of_1_4() {
        // Seven pages of three chunks of 315,872.
        let slabs = slabs(Version::V1_4);
        let large = item(32, 262_144);
        assert_eq!(slabs.class_of(slabs.item_size(&large)) + 1, 37);
        assert_eq!(slabs.fill(7 << 20, &[large]).items, 21);
        assert_eq!(slabs.memory_for(&[large], 20), 7 << 20);
    }

    #[test]
    fn every_byte_of_the_limit_is_accounted_for() {
        for version in [Version::V1_4, Version::V1_6] {
            let sample = [item(8, 8), item(16, 1024), item(20, 400_000), item(30, 900_000)];
            let used = slabs(version).fill(64 << 20, &sample);
            let total = used.keys + used.values + used.headers + used.waste();
            assert!((total - (64 << 20) as f64).abs() < 1.0, "{used:?}");
            assert!(used.padding > 0.0 && used.unused >= 0.0, "{used:?}");
        }
    }
}
