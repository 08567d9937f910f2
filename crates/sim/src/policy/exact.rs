//! Exact policies at item granularity, to compare with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};

use super::play::Player;
use super::trace::{Request, Trace};

/// A policy that knows nothing of time.
pub(super) trait Policy {
    /// Whether the object is here.
    fn get(&mut self, object: u32) -> bool;
    /// Stores the object, which may be here.
    fn set(&mut self, object: u32, size: u64);
    /// Drops the object.
    fn delete(&mut self, object: u32);
}

/// A policy from which items go at the very moment at which they die.
pub(super) struct Expiring<P> {
    pub(super) policy: P,
    /// For each object when its last version dies.
    deadlines: Vec<u64>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<P: Policy> Expiring<P> {
    pub(super) fn new(policy: P, trace: &Trace) -> Expiring<P> {
        Expiring {
            policy,
            deadlines: vec![0; trace.objects],
            queue: BinaryHeap::new(),
        }
    }
}

impl<P: Policy> Player for Expiring<P> {
    fn advance(&mut self, millis: u64) {
        while let Some(&Reverse((deadline, object))) = self.queue.peek()
            && deadline <= millis
        {
            self.queue.pop();
            // It may have been stored anew with another deadline.
            if self.deadlines[object as usize] == deadline {
                self.policy.delete(object);
            }
        }
    }

    fn get(&mut self, request: &Request) -> bool {
        self.policy.get(request.object)
    }

    fn set(&mut self, request: &Request) {
        let deadline = request.deadline();
        self.deadlines[request.object as usize] = deadline;
        if deadline < u64::MAX {
            self.queue.push(Reverse((deadline, request.object)));
        }
        self.policy.set(request.object, u64::from(request.size));
    }

    fn delete(&mut self, request: &Request) {
        self.policy.delete(request.object);
    }
}

/// Evicts nothing, and knows how much it held at most.
#[derive(Default)]
pub(super) struct Unbounded {
    items: HashMap<u32, u64>,
    used: u64,
    pub(super) most: u64,
}

impl Policy for Unbounded {
    fn get(&mut self, object: u32) -> bool {
        self.items.contains_key(&object)
    }

    fn set(&mut self, object: u32, size: u64) {
        self.delete(object);
        self.items.insert(object, size);
        self.used += size;
        self.most = self.most.max(self.used);
    }

    fn delete(&mut self, object: u32) {
        self.used -= self.items.remove(&object).unwrap_or(0);
    }
}

/// Evicts what was used longest ago, or what was stored longest ago if reads do not count.
pub(super) struct ByOrder {
    capacity: u64,
    reads_count: bool,
    /// Place in the order, and size.
    items: HashMap<u32, (u64, u64)>,
    order: BTreeMap<u64, u32>,
    used: u64,
    clock: u64,
}

impl ByOrder {
    pub(super) fn new(capacity: u64, reads_count: bool) -> ByOrder {
        ByOrder {
            capacity,
            reads_count,
            items: HashMap::new(),
            order: BTreeMap::new(),
            used: 0,
            clock: 0,
        }
    }
}

impl Policy for ByOrder {
    fn get(&mut self, object: u32) -> bool {
        let Some((at, _)) = self.items.get_mut(&object) else {
            return false;
        };
        if self.reads_count {
            self.clock += 1;
            self.order.remove(at);
            *at = self.clock;
            self.order.insert(self.clock, object);
        }
        true
    }

    fn set(&mut self, object: u32, size: u64) {
        self.delete(object);
        if size > self.capacity {
            return;
        }
        while self.used + size > self.capacity {
            let (_, victim) = self.order.pop_first().expect("what is used is in order");
            self.used -= self.items.remove(&victim).expect("in order, so here").1;
        }
        self.clock += 1;
        self.items.insert(object, (self.clock, size));
        self.order.insert(self.clock, object);
        self.used += size;
    }

    fn delete(&mut self, object: u32) {
        if let Some((at, size)) = self.items.remove(&object) {
            self.order.remove(&at);
            self.used -= size;
        }
    }
}

/// GreedyDual-Size-Frequency. Source: Cherkasova, HPL-98-69R1 (1998).
pub(super) struct Gdsf {
    capacity: u64,
    /// Priority, requests, size.
    items: HashMap<u32, (f64, u32, u64)>,
    order: BTreeSet<(u64, u32)>,
    used: u64,
    inflation: f64,
}

impl Gdsf {
    pub(super) fn new(capacity: u64) -> Gdsf {
        Gdsf {
            capacity,
            items: HashMap::new(),
            order: BTreeSet::new(),
            used: 0,
            inflation: 0.0,
        }
    }

    fn take(&mut self, object: u32) -> Option<u32> {
        let (priority, reads, size) = self.items.remove(&object)?;
        self.order.remove(&(priority.to_bits(), object));
        self.used -= size;
        Some(reads)
    }
}

impl Policy for Gdsf {
    fn get(&mut self, object: u32) -> bool {
        let Some((priority, reads, size)) = self.items.get_mut(&object) else {
            return false;
        };
        self.order.remove(&(priority.to_bits(), object));
        *reads += 1;
        *priority = self.inflation + f64::from(*reads) / *size as f64;
        self.order.insert((priority.to_bits(), object));
        true
    }

    fn set(&mut self, object: u32, size: u64) {
        let reads = self.take(object).unwrap_or(1);
        if size > self.capacity {
            return;
        }
        while self.used + size > self.capacity {
            let (priority, victim) = self.order.pop_first().expect("what is used is in order");
            self.inflation = f64::from_bits(priority);
            self.used -= self.items.remove(&victim).expect("in order, so here").2;
        }
        let priority = self.inflation + f64::from(reads) / size as f64;
        self.items.insert(object, (priority, reads, size));
        self.order.insert((priority.to_bits(), object));
        self.used += size;
    }

    fn delete(&mut self, object: u32) {
        self.take(object);
    }
}

/// S3-FIFO with a small queue of a tenth. Source: Yang et al., SOSP 2023.
#[derive(Default)]
pub(super) struct S3Fifo {
    capacity: u64,
    items: HashMap<u32, Queued>,
    /// Objects with the ticket that they had when they were put there; with another one by now they are not there any more.
    small: VecDeque<(u32, u64)>,
    main: VecDeque<(u32, u64)>,
    small_bytes: u64,
    main_bytes: u64,
    main_items: usize,
    ghost: VecDeque<u32>,
    ghosts: HashMap<u32, u32>,
    ticket: u64,
}

#[derive(Clone, Copy)]
struct Queued {
    size: u64,
    /// Three at most.
    reads: u8,
    in_main: bool,
    ticket: u64,
}

impl S3Fifo {
    pub(super) fn new(capacity: u64) -> S3Fifo {
        S3Fifo {
            capacity,
            ..S3Fifo::default()
        }
    }

    fn push(&mut self, object: u32, size: u64, reads: u8, in_main: bool) {
        self.ticket += 1;
        let ticket = self.ticket;
        self.items.insert(
            object,
            Queued {
                size,
                reads,
                in_main,
                ticket,
            },
        );
        if in_main {
            self.main.push_back((object, ticket));
            self.main_bytes += size;
            self.main_items += 1;
        } else {
            self.small.push_back((object, ticket));
            self.small_bytes += size;
        }
    }

    fn take(&mut self, object: u32) -> Option<Queued> {
        let item = self.items.remove(&object)?;
        if item.in_main {
            self.main_bytes -= item.size;
            self.main_items -= 1;
        } else {
            self.small_bytes -= item.size;
        }
        Some(item)
    }

    /// The oldest item of a queue, taken out of it.
    fn pop(&mut self, from_main: bool) -> Option<(u32, Queued)> {
        let queue = if from_main {
            &mut self.main
        } else {
            &mut self.small
        };
        while let Some((object, ticket)) = queue.pop_front() {
            if self.items.get(&object).is_some_and(|item| item.ticket == ticket) {
                return Some((object, self.take(object)?));
            }
        }
        None
    }

    fn make_room(&mut self, size: u64) {
        while self.small_bytes + self.main_bytes + size > self.capacity {
            let from_small = self.small_bytes * 10 >= self.capacity || self.main_items == 0;
            if !from_small || !self.evict_small() {
                self.evict_main();
            }
        }
    }

    fn evict_small(&mut self) -> bool {
        let Some((object, item)) = self.pop(false) else {
            return false;
        };
        if item.reads > 1 {
            self.push(object, item.size, 0, true);
            return true;
        }
        *self.ghosts.entry(object).or_default() += 1;
        self.ghost.push_back(object);
        while self.ghost.len() > self.main_items.max(1) {
            let forgotten = self.ghost.pop_front().expect("it is longer than something");
            if let Some(times) = self.ghosts.get_mut(&forgotten) {
                *times -= 1;
                if *times == 0 {
                    self.ghosts.remove(&forgotten);
                }
            }
        }
        true
    }

    fn evict_main(&mut self) {
        while let Some((object, item)) = self.pop(true) {
            if item.reads == 0 {
                return;
            }
            self.push(object, item.size, item.reads - 1, true);
        }
    }
}

impl Policy for S3Fifo {
    fn get(&mut self, object: u32) -> bool {
        let Some(item) = self.items.get_mut(&object) else {
            return false;
        };
        item.reads = (item.reads + 1).min(3);
        true
    }

    fn set(&mut self, object: u32, size: u64) {
        let old = self.take(object);
        if size > self.capacity {
            return;
        }
        self.make_room(size);
        match old {
            Some(old) => self.push(object, size, old.reads, old.in_main),
            None => {
                let was_evicted = self.ghosts.remove(&object).is_some();
                self.push(object, size, 0, was_evicted);
            }
        }
    }

    fn delete(&mut self, object: u32) {
        self.take(object);
    }
}
