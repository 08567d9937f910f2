//! memcached's `-f` and `-n` for given items: whether others than those in use would hold more of them.

use scrubjay_cache::plan::ItemMeasure;

use super::memcached::{CHUNK_ALIGN, ITEM_HEADER, Settings, SlabUse, Slabs};

const FACTORS: [f64; 14] = [
    1.01, 1.02, 1.03, 1.05, 1.07, 1.08, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 2.0,
];

/// The first class is tried at these percentiles of the item sizes.
const PERCENTILES: [usize; 7] = [0, 10, 25, 50, 75, 90, 100];

/// Items of the sample that the search looks at.
const SEARCH_SAMPLE: usize = 50_000;

/// Options that hold less than this many times the items are not worth changing any.
const WORTHWHILE: f64 = 1.02;

/// Other options, and what fits with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advice {
    pub(super) settings: Settings,
    pub(super) fill: SlabUse,
}

/// The options with which most items fit, unless those in `settings` are as good.
pub(super) fn advise(
    settings: Settings,
    now: &SlabUse,
    memory_max: usize,
    sample: &[ItemMeasure],
) -> Option<Advice> {
    let slabs = Slabs::new(settings);
    let mut sizes: Vec<usize> = sample.iter().map(|item| slabs.item_size(item)).collect();
    sizes.sort_unstable();
    // -n counts from the item's header on.
    let mut chunk_sizes: Vec<usize> = PERCENTILES
        .iter()
        .map(|percent| sizes[(sizes.len() - 1) * percent / 100])
        .map(|size| size.next_multiple_of(CHUNK_ALIGN) - ITEM_HEADER)
        .chain([settings.chunk_size])
        .collect();
    chunk_sizes.sort_unstable();
    chunk_sizes.dedup();
    let step = sample.len().div_ceil(SEARCH_SAMPLE);
    let few: Vec<ItemMeasure> = sample.iter().step_by(step).copied().collect();
    let (_, _, settings) = chunk_sizes
        .iter()
        .flat_map(|&chunk_size| FACTORS.map(|factor| (chunk_size, factor)))
        .filter_map(|(chunk_size, factor)| {
            let settings = Settings {
                factor,
                chunk_size,
                ..settings
            };
            let (items, taken) = Slabs::new(settings).fill_in_the_mean(memory_max, &few);
            // Many classes hold more by breaking the limit: each has a page of its own.
            (taken <= now.memory).then_some((items, factor, settings))
        })
        // Of equals the coarser: fewer classes.
        .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    let fill = Slabs::new(settings).fill(memory_max, sample);
    (fill.items as f64 > now.items as f64 * WORTHWHILE).then_some(Advice { settings, fill })
}

#[cfg(test)]
mod tests {
    use super::{Settings, Slabs, advise};
    use crate::cmd::plan::memcached::Version;
    use scrubjay_cache::plan::ItemMeasure;

    #[test]
    fn badly_fitting_items_get_advice_and_well_fitting_none() {
        let settings = Settings {
            version: Version::V1_6,
            factor: 1.25,
            chunk_size: 48,
            item_size_max: 1 << 20,
        };
        let check = |value_len: usize| {
            let item = ItemMeasure {
                key_len: 16,
                value_len,
                flags: 0,
                ttl_secs: None,
            };
            let now = Slabs::new(settings).fill(64 << 20, &[item]);
            advise(settings, &now, 64 << 20, &[item])
        };
        // 1,184 is a chunk's size, 75 + 1,109 fills it; the item of 1,192 goes into one of 1,480.
        assert!(check(1109).is_none());
        let advice = check(1117).expect("a fifth of the memory is lost");
        assert!(advice.fill.waste_share() < 0.01, "{advice:?}");
    }
}
