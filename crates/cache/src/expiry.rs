//! Deadlines and the TTL buckets that put items of like remaining life into the same segments.
//!
//! An item lives by its own deadline; the bucket only decides beside whom it lies, so that segments die whole.

use scrubjay_base::time::Now;

use crate::item::NEVER;

/// Ticks in a second: deadlines are kept in quarter seconds, 34 years of them.
pub(crate) const TICKS_PER_SEC: u32 = 4;

const TICK_NANOS: u64 = 1_000_000_000 / TICKS_PER_SEC as u64;
const TICK_MILLIS: u64 = 1000 / TICKS_PER_SEC as u64;

/// Exptimes up to this many seconds are relative. Source: memcached doc/protocol.txt, "Expiration times".
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// Buckets: four per octave of the TTL in ticks.
pub(crate) const BUCKETS: usize = 124;

/// Ticks since the clock's start.
pub(crate) fn tick(now: Now) -> u32 {
    (now.nanos() / TICK_NANOS).min(u64::from(NEVER - 1)) as u32
}

/// Converts a wire exptime once: 0 is [`NEVER`], a negative or past one is the present tick (already expired), anything
/// beyond the 34 years is [`NEVER`].
pub(crate) fn deadline(exptime: i64, now: Now, unix_millis_at_start: u64) -> u32 {
    let present = u64::from(tick(now));
    let ticks = match exptime {
        0 => return NEVER,
        ..0 => present,
        1..=RELATIVE_MAX => present + exptime as u64 * u64::from(TICKS_PER_SEC),
        _ => ((exptime as u64)
            .saturating_mul(1000)
            .saturating_sub(unix_millis_at_start)
            / TICK_MILLIS)
            .max(present),
    };
    u32::try_from(ticks).unwrap_or(NEVER)
}

/// Whether an item with this deadline is dead at `tick`.
pub(crate) fn is_expired(deadline: u32, tick: u32) -> bool {
    deadline <= tick
}

/// Seconds of life left, rounded up; `None` never expires.
pub(crate) fn ttl_secs(deadline: u32, tick: u32) -> Option<u32> {
    (deadline != NEVER).then(|| deadline.saturating_sub(tick).div_ceil(TICKS_PER_SEC))
}

/// The bucket for an item with this deadline, which is not [`NEVER`], at `tick`.
pub(crate) fn bucket(deadline: u32, tick: u32) -> usize {
    debug_assert_ne!(deadline, NEVER);
    let ttl = deadline.saturating_sub(tick);
    if ttl < 4 {
        return ttl as usize;
    }
    let octave = ttl.ilog2();
    (octave as usize - 1) * 4 + ((ttl >> (octave - 2)) & 3) as usize
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, bucket, deadline, is_expired, tick, ttl_secs};
    use crate::item::NEVER;
    use scrubjay_base::time::Now;

    #[test]
    fn exptimes_follow_the_protocol() {
        let now = Now::from_millis(10_100);
        let check =
            |exptime, expected| assert_eq!(deadline(exptime, now, 1_000_000_000), expected, "{exptime}");
        check(0, NEVER);
        check(-1, 40);
        check(1, 44);
        check(2_592_000, 40 + 4 * 2_592_000);
        check(2_592_001, (2_592_001_000 - 1_000_000_000) / 250);
        check(i64::MAX, NEVER);
        assert_eq!(
            deadline(2_592_001, now, 2_592_009_000),
            40,
            "a past moment is now"
        );
    }

    #[test]
    fn item_lives_its_ttl_less_at_most_a_tick() {
        let stored = Now::from_millis(1_249);
        let deadline = deadline(1, stored, 0);
        assert_eq!(ttl_secs(deadline, tick(stored)), Some(1));
        assert!(!is_expired(deadline, tick(Now::from_millis(1_999))));
        assert!(is_expired(deadline, tick(Now::from_millis(2_249))));
    }

    #[test]
    fn buckets_grow_with_the_ttl_and_are_at_most_a_quarter_octave_wide() {
        let mut last = 0;
        for ttl in 0..100_000 {
            let here = bucket(ttl, 0);
            assert!(
                here == last || here == last + 1,
                "ttl {ttl}: bucket {last} then {here}"
            );
            last = here;
        }
        assert!(bucket(NEVER - 1, 0) < BUCKETS);
        assert_eq!(bucket(5, 99), 0);
    }
}
