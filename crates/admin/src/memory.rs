//! Where the memory limit goes: parts that add up to it.

use crate::reading::Reading;

/// A part of the memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name in metrics and on the page.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
}

/// Names of the parts, in the order in which they are shown.
pub const NAMES: [&str; 9] = [
    "live",
    "expired",
    "dead",
    "unfilled",
    "index",
    "ledger",
    "eviction",
    "connections",
    "free",
];

/// The parts now.
pub(crate) fn parts(reading: &Reading) -> [Part; NAMES.len()] {
    parts_of(|name| reading.number(name))
}

/// The parts by the statistics that `number` tells. They are not all of one moment, so what is left over is `free`, and
/// nothing goes below 0.
pub fn parts_of(number: impl Fn(&'static str) -> u64) -> [Part; NAMES.len()] {
    let expired = number("expired_bytes");
    let live = number("bytes").saturating_sub(expired);
    // In sealed segments what has expired counts as dead, too.
    let dead = number("dead_bytes").saturating_sub(expired);
    let segments = number("segments_used") * number("segment_size");
    // What is not written yet in segments that are in use, uploads under way, what died in segments still open.
    let unfilled = segments.saturating_sub(live + expired + dead);
    let others = [
        "index_bytes",
        "ledger_bytes",
        "eviction_bytes",
        "connection_bytes",
    ]
    .map(&number);
    let used = live + expired + dead + unfilled + others.iter().sum::<u64>();
    let free = number("limit_maxbytes").saturating_sub(used);
    let [index, ledger, eviction, connections] = others;
    let sizes = [
        live,
        expired,
        dead,
        unfilled,
        index,
        ledger,
        eviction,
        connections,
        free,
    ];
    std::array::from_fn(|at| Part {
        name: NAMES[at],
        bytes: sizes[at],
    })
}

#[cfg(test)]
mod tests {
    use super::{NAMES, parts};
    use crate::reading::Reading;

    /// Every statistic that the parts are worked out from.
    const NUMBERS: [(&str, u64); 10] = [
        ("bytes", 500),
        ("expired_bytes", 100),
        ("dead_bytes", 150),
        ("segments_used", 2),
        ("segment_size", 400),
        ("index_bytes", 30),
        ("ledger_bytes", 20),
        ("eviction_bytes", 10),
        ("connection_bytes", 5),
        ("limit_maxbytes", 1000),
    ];

    fn reading(numbers: &[(&str, u64)]) -> Reading {
        Reading {
            general: numbers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.to_string()))
                .collect(),
            ..Reading::default()
        }
    }

    #[test]
    fn parts_add_up_to_the_limit() {
        let bytes = parts(&reading(&NUMBERS)).map(|part| part.bytes);
        assert_eq!(bytes, [400, 100, 50, 250, 30, 20, 10, 5, 135]);
        assert_eq!(bytes.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn numbers_of_different_moments_never_go_below_zero() {
        let numbers = [
            ("bytes", 5),
            ("expired_bytes", 9),
            ("dead_bytes", 1),
            ("limit_maxbytes", 3),
        ];
        let parts = parts(&reading(&numbers));
        assert_eq!(parts.map(|part| part.name), NAMES);
        assert_eq!(parts[0].bytes, 0);
        assert_eq!(parts[8].bytes, 0);
    }

    #[test]
    fn parts_are_made_of_statistics_that_exist() {
        let known = scrubjay_server::stats::markdown();
        for (name, _) in NUMBERS {
            assert!(
                known.contains(&format!("`{name}`")),
                "there is no statistic {name}"
            );
        }
    }
}
