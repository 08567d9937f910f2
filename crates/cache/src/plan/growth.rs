//! When the index grows: at its load limit, or earlier if by chance a page is full before.
//!
//! Keys fall on home lines at random. A page is full when what its home lines cannot hold exceeds its overflow lines;
//! of many pages one is full long before the mean one.

use crate::index::{GROW_ABOVE, HOME_LINES};
use crate::line::SLOTS;
use crate::segment::PAGE_LINES;

/// Loads, in items a page, at which the chance is computed: this far apart.
const LOAD_STEP: usize = 6;

/// How many of them, from the load limit down.
const LOADS: usize = 24;

/// A page is taken to be full from this expectation on: then it has happened in half of all caches.
const EXPECTED_FULL: f64 = std::f64::consts::LN_2;

/// Loads and the chance that a page is full by then, rising.
pub(super) struct Growth(Vec<(usize, f64)>);

impl Growth {
    pub(super) fn new() -> Growth {
        let loads = (0..LOADS).rev().map(|step| GROW_ABOVE - step * LOAD_STEP);
        Growth(loads.map(|load| (load, chance_of_full(load))).collect())
    }

    /// Items that a table of so many pages holds when it starts to grow.
    pub(super) fn items_before(&self, pages: usize) -> u64 {
        let full = self
            .0
            .iter()
            .find(|(_, chance)| chance * pages as f64 >= EXPECTED_FULL);
        let load = full.map_or(GROW_ABOVE, |(load, _)| *load);
        (pages * load) as u64
    }
}

/// The chance that a page with `load` items in the mean has no room for some line's next one.
fn chance_of_full(load: usize) -> f64 {
    let overflow_slots = (PAGE_LINES - HOME_LINES) * SLOTS;
    let mean = load as f64 / HOME_LINES as f64;
    // How many items of a line overflow: a Poisson draw less the line's slots. Beyond this it does not matter.
    let mut excess = vec![0.0; overflow_slots + 1];
    let mut chance = (-mean).exp();
    for items in 0..=SLOTS + overflow_slots {
        excess[items.saturating_sub(SLOTS)] += chance;
        chance *= mean / (items + 1) as f64;
    }
    let mut together = vec![0.0; overflow_slots + 1];
    together[0] = 1.0;
    for _ in 0..HOME_LINES {
        let mut next = vec![0.0; overflow_slots + 1];
        for (before, chance) in together.iter().enumerate() {
            for (more, chance_of_more) in excess[..=overflow_slots - before].iter().enumerate() {
                next[before + more] += chance * chance_of_more;
            }
        }
        together = next;
    }
    1.0 - together.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::Growth;
    use crate::index::GROW_ABOVE;

    #[test]
    fn small_tables_grow_at_the_load_limit_and_large_ones_a_little_earlier() {
        let growth = Growth::new();
        assert_eq!(growth.items_before(4), 4 * GROW_ABOVE as u64);
        let load = growth.items_before(1 << 20) as f64 / (1 << 20) as f64;
        assert!((400.0..480.0).contains(&load), "{load} items a page");
    }
}
