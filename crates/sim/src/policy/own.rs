//! The cache's policy alone, without any overhead: its shadow with ageing that does not change, and choosing its ageing
//! on line, where all keys are the sample.

use scrubjay_cache::{AGEINGS, Ageing, Shadow, leads};

use super::play::Player;
use super::trace::{Request, Trace};

/// Ageing that does not change. Source: docs/internals/eviction.md.
const FIXED: Ageing = Ageing::slow(0.03);

/// Milliseconds of a tick of the shadow.
const TICK_MILLIS: u64 = 250;

/// A hash of an object's number, spread as the engine's are.
fn hash(object: u32) -> u64 {
    (u64::from(object) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn store(shadow: &mut Shadow, request: &Request, tick: u32) {
    let deadline = match request.deadline() {
        u64::MAX => u32::MAX,
        deadline => (deadline / TICK_MILLIS) as u32,
    };
    shadow.store(hash(request.object), request.size, deadline, tick);
}

/// With ageing that does not change.
pub(super) struct Fixed {
    shadow: Shadow,
    tick: u32,
}

impl Fixed {
    pub(super) fn new(trace: &Trace, capacity: u64) -> Fixed {
        Fixed {
            shadow: Shadow::new(capacity, FIXED, trace.objects),
            tick: 0,
        }
    }
}

impl Player for Fixed {
    fn advance(&mut self, millis: u64) {
        self.tick = (millis / TICK_MILLIS) as u32;
    }

    fn get(&mut self, request: &Request) -> bool {
        self.shadow.read(hash(request.object), self.tick)
    }

    fn set(&mut self, request: &Request) {
        store(&mut self.shadow, request, self.tick);
    }

    fn delete(&mut self, request: &Request) {
        self.shadow.remove(hash(request.object));
    }
}

/// Choosing as the cache does.
pub(super) struct Adaptive {
    own: Shadow,
    /// Each with its misses, halved now and then.
    rivals: Vec<(Shadow, f64)>,
    current: usize,
    capacity: u64,
    decayed_at: u64,
    tick: u32,
}

impl Adaptive {
    pub(super) fn new(trace: &Trace, capacity: u64) -> Adaptive {
        let shadow = |ageing| Shadow::new(capacity, ageing, trace.objects);
        Adaptive {
            own: shadow(AGEINGS[0]),
            rivals: AGEINGS.iter().map(|ageing| (shadow(*ageing), 0.0)).collect(),
            current: 0,
            capacity,
            decayed_at: 0,
            tick: 0,
        }
    }

    fn choose(&mut self) {
        let recent = |at: &usize| self.rivals[*at].1;
        let better = (0..self.rivals.len())
            .filter(|at| leads(&AGEINGS[*at], recent(at), self.rivals[self.current].1))
            .min_by(|one, other| recent(one).total_cmp(&recent(other)));
        if let Some(better) = better {
            self.current = better;
            self.own.set_ageing(AGEINGS[better]);
        }
        let inserted = self.rivals[0].0.traffic().0;
        if inserted - self.decayed_at > self.capacity {
            self.decayed_at = inserted;
            self.rivals.iter_mut().for_each(|rival| rival.1 /= 2.0);
        }
    }
}

impl Player for Adaptive {
    fn advance(&mut self, millis: u64) {
        self.tick = (millis / TICK_MILLIS) as u32;
    }

    fn get(&mut self, request: &Request) -> bool {
        let hash = hash(request.object);
        for (rival, recent_misses) in &mut self.rivals {
            if !rival.read(hash, self.tick) {
                *recent_misses += 1.0;
                store(rival, request, self.tick);
            }
        }
        self.choose();
        self.own.read(hash, self.tick)
    }

    fn set(&mut self, request: &Request) {
        if request.act == super::trace::Act::Set {
            let rivals = self.rivals.iter_mut();
            rivals.for_each(|(rival, _)| store(rival, request, self.tick));
        }
        store(&mut self.own, request, self.tick);
    }

    fn delete(&mut self, request: &Request) {
        let hash = hash(request.object);
        self.rivals.iter_mut().for_each(|(rival, _)| rival.remove(hash));
        self.own.remove(hash);
    }
}
