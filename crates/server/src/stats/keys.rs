//! `stats hotkeys`, `stats prefixes` and `stats ttls`: which keys are asked for most, how many a prefix has, and how long
//! stores let items live.

use scrubjay_base::time::Now;

use crate::observe::{hot_keys, prefixes, sets_by_ttl};
use crate::service::Shared;

/// Keys that `stats hotkeys` tells.
const HOT_KEYS_MAX: usize = 32;

/// Names of the lines of a hot key, each behind its place and a colon.
pub(super) const HOT_KEY_NAMES: [&str; 3] = ["key", "rate", "error"];

/// Names of the lines of a prefix, each behind its place and a colon.
pub(super) const PREFIX_NAMES: [&str; 2] = ["prefix", "keys"];

/// Blanks and line ends of a binary key must not break the line.
fn printable(key: &[u8]) -> String {
    let breaks = |letter: char| letter.is_whitespace() || letter.is_control();
    String::from_utf8_lossy(key).replace(breaks, "?")
}

pub(super) fn report_hot_keys(shared: &Shared, now: Now, each: &mut dyn FnMut(&str, &str)) {
    let [key, rate, error] = HOT_KEY_NAMES;
    for (number, hot) in hot_keys(shared, now, HOT_KEYS_MAX).iter().enumerate() {
        let mut say = |name: &str, value: &str| each(&format!("{}:{name}", number + 1), value);
        say(key, &printable(&hot.key));
        say(rate, &format!("{:.1}", hot.rate));
        say(error, &format!("{:.1}", hot.error));
    }
}

pub(super) fn report_prefixes(shared: &Shared, each: &mut dyn FnMut(&str, &str)) {
    let [prefix, keys] = PREFIX_NAMES;
    for (number, found) in prefixes(shared).iter().enumerate() {
        let mut say = |name: &str, value: &str| each(&format!("{}:{name}", number + 1), value);
        // An asterisk stands for keys without a prefix and for all prefixes that are not told apart.
        say(
            prefix,
            &found.prefix.as_deref().map_or_else(|| "*".to_owned(), printable),
        );
        say(keys, &found.keys.to_string());
    }
}

pub(super) fn report_ttls(shared: &Shared, each: &mut dyn FnMut(&str, &str)) {
    for (name, count) in sets_by_ttl(shared) {
        each(name, &count.to_string());
    }
}
