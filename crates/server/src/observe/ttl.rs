//! Sets by the life they give their item: who forgets to give one shows at once.

use scrubjay_cache::StoreMode;

/// Classes.
pub(crate) const CLASSES: usize = 7;

/// Names of the classes. What appends or prepends keeps the item's deadline.
pub(crate) const NAMES: [&str; CLASSES] = [
    "never",
    "under_1_minute",
    "under_1_hour",
    "under_1_day",
    "under_30_days",
    "longer",
    "kept",
];

const NEVER: usize = 0;
const LONGER: usize = 5;
const KEPT: usize = 6;

/// Ends of the classes from the second on, in seconds.
const ENDS: [i64; 4] = [60, 3_600, 86_400, 2_592_000];

/// The class of a store with this exptime. An exptime of more than 30 days is a Unix time, and compared with the present one.
#[inline]
pub(super) fn class(mode: StoreMode, exptime: i64, unix_secs: impl Fn() -> u64) -> usize {
    if matches!(mode, StoreMode::Append | StoreMode::Prepend) {
        return KEPT;
    }
    if exptime == 0 {
        return NEVER;
    }
    let secs = match exptime {
        ..=2_592_000 => exptime,
        _ => exptime.saturating_sub(unix_secs() as i64),
    };
    let is_over = |end: &i64| secs < *end;
    ENDS.iter().position(is_over).map_or(LONGER, |class| class + 1)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, class};
    use scrubjay_cache::StoreMode;

    #[test]
    fn each_exptime_is_in_the_class_of_its_life() {
        let unix_secs = || 1_800_000_000;
        let check = |exptime, name| {
            let class = class(StoreMode::Set, exptime, unix_secs);
            assert_eq!(NAMES[class], name, "{exptime}");
        };
        check(0, "never");
        check(-1, "under_1_minute");
        check(59, "under_1_minute");
        check(60, "under_1_hour");
        check(3_600, "under_1_day");
        check(86_400, "under_30_days");
        check(2_592_000, "longer");
        // A Unix time: of long ago, in an hour, in a year.
        check(2_592_001, "under_1_minute");
        check(1_800_003_599, "under_1_hour");
        check(1_831_536_000, "longer");
        check(i64::MAX, "longer");
        assert_eq!(NAMES[class(StoreMode::Append, 0, unix_secs)], "kept");
    }
}
