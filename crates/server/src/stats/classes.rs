//! `stats items`, `slabs` and `sizes`: items by size, in classes that exist for the eye only.
//!
//! A segment takes any size, so nothing is bound to a class. A class's numbers add up to those of `stats`; what memcached
//! tells of the chunks of a class is computed from the items: a chunk is as large as they are on the average, and a page is
//! a segment's worth of them.

use scrubjay_cache::SizeClass;

use super::{Reading, Source};

/// A class that is not empty, or was not since the counts were reset.
pub(super) struct Class<'a> {
    pub(super) reading: &'a Reading<'a>,
    pub(super) counts: SizeClass,
}

/// A row of the tables: what comes of the server as a whole is a [`Source`].
pub(super) enum ClassSource {
    /// Of the class.
    Own(fn(&Class<'_>) -> u64),
    /// The same for every class.
    Whole(Source),
}

use ClassSource::{Own, Whole};
use Source::{Always, Number};

impl Class<'_> {
    /// Bytes of the mean item, rounded up.
    fn chunk_size(&self) -> u64 {
        match self.counts.items {
            0 => self.counts.bytes_max,
            items => self.counts.bytes.div_ceil(items),
        }
    }

    fn chunks_per_page(&self) -> u64 {
        (self.reading.usage.segment_size / self.chunk_size()).max(1)
    }

    /// Segments that its items would fill.
    fn pages(&self) -> u64 {
        self.counts.items.div_ceil(self.chunks_per_page())
    }

    fn chunks(&self) -> u64 {
        self.pages() * self.chunks_per_page()
    }
}

/// `stats items`, for each class.
pub(super) const ITEMS: &[(&str, ClassSource)] = &[
    ("number", Own(|class| class.counts.items)),
    ("number_hot", Whole(Always("0"))),
    ("number_warm", Whole(Always("0"))),
    ("number_cold", Own(|class| class.counts.items)),
    ("age_hot", Whole(Always("0"))),
    ("age_warm", Whole(Always("0"))),
    ("age", Whole(Always("0"))),
    ("mem_requested", Own(|class| class.counts.bytes)),
    ("evicted", Own(|class| class.counts.evicted)),
    ("evicted_nonzero", Own(|class| class.counts.evicted_expiring)),
    (
        "evicted_time",
        Whole(Number(|reading| reading.usage.evicted_idle_secs.into())),
    ),
    ("outofmemory", Whole(Always("0"))),
    ("tailrepairs", Whole(Always("0"))),
    ("reclaimed", Own(|class| class.counts.expired)),
    ("expired_unfetched", Own(|class| class.counts.expired_unfetched)),
    ("evicted_unfetched", Own(|class| class.counts.evicted_unfetched)),
    ("evicted_active", Whole(Always("0"))),
    ("crawler_reclaimed", Whole(Always("0"))),
    ("crawler_items_checked", Whole(Always("0"))),
    ("lrutail_reflocked", Whole(Always("0"))),
    ("moves_to_cold", Whole(Always("0"))),
    ("moves_to_warm", Whole(Always("0"))),
    ("moves_within_lru", Whole(Always("0"))),
    ("direct_reclaims", Whole(Always("0"))),
    ("hits_to_hot", Whole(Always("0"))),
    ("hits_to_warm", Whole(Always("0"))),
    ("hits_to_cold", Whole(Always("0"))),
    ("hits_to_temp", Whole(Always("0"))),
];

/// `stats slabs`, for each class.
pub(super) const SLABS: &[(&str, ClassSource)] = &[
    ("chunk_size", Own(|class| class.chunk_size())),
    ("chunks_per_page", Own(|class| class.chunks_per_page())),
    ("total_pages", Own(|class| class.pages())),
    ("total_chunks", Own(|class| class.chunks())),
    ("used_chunks", Own(|class| class.counts.items)),
    ("free_chunks", Own(|class| class.chunks() - class.counts.items)),
    ("free_chunks_end", Whole(Always("0"))),
    ("mem_requested", Own(|class| class.counts.bytes)),
    ("get_hits", Whole(Always("0"))),
    ("cmd_set", Own(|class| class.counts.created)),
    ("delete_hits", Whole(Always("0"))),
    ("incr_hits", Whole(Always("0"))),
    ("decr_hits", Whole(Always("0"))),
    ("cas_hits", Whole(Always("0"))),
    ("cas_badval", Whole(Always("0"))),
    ("touch_hits", Whole(Always("0"))),
];

/// `stats items`.
pub(super) fn items(reading: &Reading<'_>, each: &mut dyn FnMut(&str, &str)) {
    for (number, counts) in reading.classes() {
        let is_told = counts.items + counts.evicted + counts.expired > 0;
        let class = Class { reading, counts };
        if is_told {
            class.report(ITEMS, &format!("items:{number}:"), each);
        }
    }
}

/// `stats slabs`.
pub(super) fn slabs(reading: &Reading<'_>, each: &mut dyn FnMut(&str, &str)) {
    let mut told = 0;
    for (number, counts) in reading.classes() {
        if counts.items > 0 {
            Class { reading, counts }.report(SLABS, &format!("{number}:"), each);
            told += 1;
        }
    }
    each("active_slabs", &told.to_string());
    each("total_malloced", &reading.usage.segment_bytes.to_string());
}

/// `stats sizes`: bytes of the largest item of a class, and how many items it has.
pub(super) fn sizes(reading: &Reading<'_>, each: &mut dyn FnMut(&str, &str)) {
    for (_, counts) in reading.classes() {
        if counts.items > 0 {
            each(&counts.bytes_max.to_string(), &counts.items.to_string());
        }
    }
}

impl Class<'_> {
    fn report(&self, table: &[(&str, ClassSource)], prefix: &str, each: &mut dyn FnMut(&str, &str)) {
        for (name, source) in table {
            let value = match source {
                Own(number) => number(self).to_string(),
                Whole(source) => source.value(self.reading),
            };
            each(&format!("{prefix}{name}"), &value);
        }
    }
}

/// Numbers of the classes, from 1 as memcached's are, and what they hold; `before` is what was counted at the last reset.
pub(super) fn since(now: Vec<SizeClass>, before: &[SizeClass]) -> impl Iterator<Item = (usize, SizeClass)> {
    let nothing = std::iter::repeat(SizeClass::default());
    let before: Vec<SizeClass> = before.iter().copied().chain(nothing).take(now.len()).collect();
    let pairs = now.into_iter().zip(before).enumerate();
    pairs.map(|(index, (now, before))| (index + 1, now.since(&before)))
}
