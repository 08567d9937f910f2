//! The cache's policy alone, choosing its ageing on line: all keys are the sample.

use scrubjay_cache::{AGEINGS, Shadow, leads};

use super::{Trace, hash};

pub(super) fn play(trace: &Trace, capacity: u64) -> f64 {
    let shadow = |ageing| Shadow::new(capacity, ageing, trace.objects);
    let mut own = shadow(AGEINGS[0]);
    let mut rivals: Vec<(Shadow, f64)> = AGEINGS.iter().map(|ageing| (shadow(*ageing), 0.0)).collect();
    let (mut misses, mut current, mut decayed_at) = (0, 0, 0);
    for &(object, size) in &trace.requests {
        let hash = hash(object);
        if !own.read(hash, 0) {
            misses += 1;
            own.store(hash, size, u32::MAX, 0);
        }
        for (rival, recent_misses) in &mut rivals {
            if !rival.read(hash, 0) {
                *recent_misses += 1.0;
                rival.store(hash, size, u32::MAX, 0);
            }
        }
        let recent = |at: &usize| rivals[*at].1;
        let better = (0..rivals.len())
            .filter(|at| leads(&AGEINGS[*at], recent(at), rivals[current].1))
            .min_by(|one, other| recent(one).total_cmp(&recent(other)));
        if let Some(better) = better {
            current = better;
            own.set_ageing(AGEINGS[better]);
        }
        let inserted = rivals[0].0.traffic().0;
        if inserted - decayed_at > capacity {
            decayed_at = inserted;
            rivals.iter_mut().for_each(|rival| rival.1 /= 2.0);
        }
    }
    trace.miss_ratio(misses)
}
