//! Exact policies at item granularity, to compare with.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::Trace;

/// Evicts what was used longest ago.
pub(super) fn lru(trace: &Trace, capacity: u64) -> f64 {
    by_order(trace, capacity, true)
}

/// Evicts what was stored longest ago.
pub(super) fn fifo(trace: &Trace, capacity: u64) -> f64 {
    by_order(trace, capacity, false)
}

fn by_order(trace: &Trace, capacity: u64, reads_count: bool) -> f64 {
    let mut items: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut order: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut used, mut misses, mut clock) = (0, 0, 0);
    for &(object, size) in &trace.requests {
        let size = u64::from(size);
        clock += 1;
        if let Some((at, _)) = items.get_mut(&object) {
            if reads_count {
                order.remove(at);
                *at = clock;
                order.insert(clock, object);
            }
            continue;
        }
        misses += 1;
        if size > capacity {
            continue;
        }
        while used + size > capacity {
            let (_, victim) = order.pop_first().expect("what is used is in order");
            used -= items.remove(&victim).expect("in order, so here").1;
        }
        items.insert(object, (clock, size));
        order.insert(clock, object);
        used += size;
    }
    trace.miss_ratio(misses)
}

/// GreedyDual-Size-Frequency. Source: Cherkasova, HPL-98-69R1 (1998).
pub(super) fn gdsf(trace: &Trace, capacity: u64) -> f64 {
    let mut items: HashMap<u32, (f64, u32, u64)> = HashMap::new();
    let mut order: BTreeSet<(u64, u32)> = BTreeSet::new();
    let (mut used, mut misses, mut inflation) = (0, 0, 0.0);
    for &(object, size) in &trace.requests {
        let size = u64::from(size);
        if let Some((priority, reads, size)) = items.get_mut(&object) {
            order.remove(&(priority.to_bits(), object));
            *reads += 1;
            *priority = inflation + f64::from(*reads) / *size as f64;
            order.insert((priority.to_bits(), object));
            continue;
        }
        misses += 1;
        if size > capacity {
            continue;
        }
        while used + size > capacity {
            let (priority, victim) = order.pop_first().expect("what is used is in order");
            inflation = f64::from_bits(priority);
            used -= items.remove(&victim).expect("in order, so here").2;
        }
        let priority = inflation + 1.0 / size as f64;
        items.insert(object, (priority, 1, size));
        order.insert((priority.to_bits(), object));
        used += size;
    }
    trace.miss_ratio(misses)
}

/// S3-FIFO with a small queue of a tenth. Source: Yang et al., SOSP 2023.
pub(super) fn s3_fifo(trace: &Trace, capacity: u64) -> f64 {
    let mut cache = S3Fifo::default();
    let mut misses = 0;
    for &(object, size) in &trace.requests {
        if let Some((_, reads)) = cache.items.get_mut(&object) {
            *reads = (*reads + 1).min(3);
            continue;
        }
        misses += 1;
        if u64::from(size) <= capacity {
            cache.insert(object, u64::from(size), capacity);
        }
    }
    trace.miss_ratio(misses)
}

#[derive(Default)]
struct S3Fifo {
    /// Size and reads, three at most.
    items: HashMap<u32, (u64, u8)>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    small_bytes: u64,
    main_bytes: u64,
    ghost: VecDeque<u32>,
    ghosts: HashMap<u32, u32>,
}

impl S3Fifo {
    fn insert(&mut self, object: u32, size: u64, capacity: u64) {
        while self.small_bytes + self.main_bytes + size > capacity {
            if self.small_bytes * 10 >= capacity || self.main.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
        self.items.insert(object, (size, 0));
        if self.ghosts.remove(&object).is_some() {
            self.main.push_back(object);
            self.main_bytes += size;
        } else {
            self.small.push_back(object);
            self.small_bytes += size;
        }
    }

    fn evict_small(&mut self) {
        let Some(object) = self.small.pop_front() else {
            return self.evict_main();
        };
        let (size, reads) = self.items[&object];
        self.small_bytes -= size;
        if reads > 1 {
            self.items.insert(object, (size, 0));
            self.main.push_back(object);
            self.main_bytes += size;
            return;
        }
        self.items.remove(&object);
        *self.ghosts.entry(object).or_default() += 1;
        self.ghost.push_back(object);
        while self.ghost.len() > self.main.len().max(1) {
            let forgotten = self.ghost.pop_front().expect("it is longer than something");
            self.ghosts.remove(&forgotten);
        }
    }

    fn evict_main(&mut self) {
        while let Some(object) = self.main.pop_front() {
            let (size, reads) = self.items[&object];
            if reads == 0 {
                self.items.remove(&object);
                self.main_bytes -= size;
                return;
            }
            self.items.insert(object, (size, reads - 1));
            self.main.push_back(object);
        }
    }
}
