//! What servers count, how fast they count it, and what that is of all of them together. Numbers only: no sockets, no screen.
//!
//! Rates are added up and ratios are made of the sums, so that a server with many requests weighs more than one with few.

use scrubjay_base::time::Now;

/// What is counted upwards from a server's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Requests,
    Gets,
    Hits,
    Misses,
    Sets,
    Evictions,
    BytesRead,
    BytesWritten,
}

/// Name of each count, in the order of [`Count`], and the statistics that it adds up.
pub(super) const COUNTS: [(&str, &[&str]); 8] = [
    (
        "requests",
        &[
            "cmd_get",
            "cmd_set",
            "cmd_flush",
            "delete_hits",
            "delete_misses",
            "incr_hits",
            "incr_misses",
            "decr_hits",
            "decr_misses",
            "touch_hits",
            "touch_misses",
        ],
    ),
    ("gets", &["cmd_get"]),
    ("get_hits", &["get_hits"]),
    ("get_misses", &["get_misses"]),
    ("sets", &["cmd_set"]),
    ("evictions", &["evictions"]),
    ("bytes_read", &["bytes_read"]),
    ("bytes_written", &["bytes_written"]),
];

/// What is so many at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gauge {
    Bytes,
    BytesMax,
    Items,
    Connections,
}

/// The statistic of each gauge, in the order of [`Gauge`].
pub(super) const GAUGES: [&str; 4] = ["bytes", "limit_maxbytes", "curr_items", "curr_connections"];

/// What a server said at a moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Now,
    counts: [u64; COUNTS.len()],
    gauges: [u64; GAUGES.len()],
    uptime_secs: u64,
    pid: u64,
    /// Name, blank, value and line end of each statistic.
    text: String,
}

impl Sample {
    /// Of `text`, a line for each statistic: its name, a blank, its value. What is no number, or missing, counts 0.
    pub(super) fn new(at: Now, text: String) -> Sample {
        let mut sample = Sample {
            at,
            counts: [0; COUNTS.len()],
            gauges: [0; GAUGES.len()],
            uptime_secs: 0,
            pid: 0,
            text: String::new(),
        };
        for (name, value) in rows(&text) {
            let value = value.parse().unwrap_or(0);
            for (sum, (_, names)) in sample.counts.iter_mut().zip(COUNTS) {
                if names.contains(&name) {
                    *sum = sum.saturating_add(value);
                }
            }
            for (gauge, _) in sample.gauges.iter_mut().zip(GAUGES).filter(|pair| pair.1 == name) {
                *gauge = value;
            }
            match name {
                "uptime" => sample.uptime_secs = value,
                "pid" => sample.pid = value,
                _ => (),
            }
        }
        sample.text = text;
        sample
    }

    /// Names and values, in the server's order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &str)> {
        rows(&self.text)
    }

    /// A statistic by its name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.rows()
            .find_map(|(known, value)| (known == name).then_some(value))
    }

    /// A statistic that is a whole number; 0 if it is none, or not told.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub(super) fn uptime_secs(&self) -> u64 {
        self.uptime_secs
    }

    /// Whether it goes on counting where `before` was: neither another process, nor one that counts from 0 again.
    pub(super) fn continues(&self, before: &Sample) -> bool {
        let grows = |(now, then): (&u64, &u64)| now >= then;
        !self.is_restart_of(before) && self.counts.iter().zip(&before.counts).all(grows)
    }

    /// Whether the server was started anew in between.
    pub(super) fn is_restart_of(&self, before: &Sample) -> bool {
        self.uptime_secs < before.uptime_secs || self.pid != before.pid
    }

    /// Seconds since `before`, at least a millisecond.
    pub(super) fn secs_since(&self, before: &Sample) -> f64 {
        (self.at.nanos_since(before.at) as f64 / 1e9).max(1e-3)
    }
}

fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(' '))
}

/// The numbers of a server, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    counts: [u64; COUNTS.len()],
    gauges: [u64; GAUGES.len()],
    /// A second; `None` without a sample before that is gone on from.
    rates: Option<[f64; COUNTS.len()]>,
}

impl Figures {
    /// Those of a server that said `now`, and `before` that.
    pub(super) fn new(now: &Sample, before: Option<&Sample>) -> Figures {
        let rates = before.filter(|before| now.continues(before)).map(|before| {
            let secs = now.secs_since(before);
            std::array::from_fn(|at| (now.counts[at] - before.counts[at]) as f64 / secs)
        });
        Figures {
            counts: now.counts,
            gauges: now.gauges,
            rates,
        }
    }

    /// Those of all together. A server without rates, as one that has just come, has no part in the rates.
    pub(super) fn sum<'a>(all: impl IntoIterator<Item = &'a Figures>) -> Figures {
        let mut sum = Figures::default();
        for figures in all {
            add(&mut sum.counts, &figures.counts, u64::saturating_add);
            add(&mut sum.gauges, &figures.gauges, u64::saturating_add);
            if let Some(rates) = &figures.rates {
                add(
                    sum.rates.get_or_insert([0.0; COUNTS.len()]),
                    rates,
                    |left, right| left + right,
                );
            }
        }
        sum
    }

    /// What was counted, in the order of [`COUNTS`].
    pub(super) fn counts(&self) -> [u64; COUNTS.len()] {
        self.counts
    }

    pub(super) fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge as usize]
    }

    /// So many a second.
    pub(super) fn rate(&self, count: Count) -> Option<f64> {
        self.rates.map(|rates| rates[count as usize])
    }

    /// Hits in all look-ups of late; `None` if there were none.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        let hits = self.rate(Count::Hits)?;
        ratio(hits, hits + self.rate(Count::Misses)?)
    }

    /// Memory that items take in what they may take.
    pub(super) fn memory_ratio(&self) -> Option<f64> {
        ratio(
            self.gauge(Gauge::Bytes) as f64,
            self.gauge(Gauge::BytesMax) as f64,
        )
    }
}

fn add<T: Copy, const N: usize>(sum: &mut [T; N], more: &[T; N], plus: impl Fn(T, T) -> T) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = plus(*sum, *more);
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use scrubjay_base::time::Now;

    use super::{COUNTS, Count, Figures, GAUGES, Gauge, Sample};

    fn sample(secs: u64, stats: &[(&str, u64)]) -> Sample {
        let line = |(name, value): &(&str, u64)| format!("{name} {value}\n");
        Sample::new(Now::from_secs(secs), stats.iter().map(line).collect())
    }

    #[test]
    fn counts_are_made_of_statistics_that_exist() {
        let known = scrubjay_server::stats::markdown();
        let of_counts = COUNTS.iter().flat_map(|(_, names)| names.iter());
        for name in of_counts.chain(&GAUGES) {
            assert!(known.contains(&format!("`{name}`")), "{name}");
        }
        assert_eq!(COUNTS[Count::BytesWritten as usize].0, "bytes_written");
        assert_eq!(GAUGES[Gauge::Connections as usize], "curr_connections");
    }

    #[test]
    fn requests_are_those_of_all_commands() {
        let sample = sample(
            0,
            &[("cmd_get", 7), ("cmd_set", 2), ("delete_misses", 1), ("bytes", 9)],
        );
        let figures = Figures::new(&sample, None);
        assert_eq!(figures.counts()[0], 10);
        assert_eq!(figures.counts()[Count::Gets as usize], 7);
        assert_eq!(figures.gauge(Gauge::Bytes), 9);
        assert_eq!(figures.rate(Count::Requests), None);
        assert_eq!(figures.hit_ratio(), None);
        assert_eq!(figures.memory_ratio(), None);
    }

    #[test]
    fn rates_are_of_the_time_between_the_samples() {
        let before = sample(
            10,
            &[
                ("cmd_get", 100),
                ("get_hits", 90),
                ("get_misses", 10),
                ("uptime", 5),
            ],
        );
        let now = sample(
            12,
            &[
                ("cmd_get", 200),
                ("get_hits", 110),
                ("get_misses", 90),
                ("uptime", 7),
            ],
        );
        let figures = Figures::new(&now, Some(&before));
        assert_eq!(figures.rate(Count::Gets), Some(50.0));
        assert_eq!(figures.hit_ratio(), Some(0.2));
    }

    #[test]
    fn counts_that_went_back_have_no_rate() {
        let before = sample(0, &[("cmd_get", 100), ("uptime", 50), ("pid", 1)]);
        for (now, is_restart) in [
            // Started anew, and already busier than the one before.
            (sample(1, &[("cmd_get", 500), ("uptime", 0), ("pid", 1)]), true),
            (sample(1, &[("cmd_get", 500), ("uptime", 60), ("pid", 2)]), true),
            // `stats reset`.
            (sample(1, &[("cmd_get", 3), ("uptime", 51), ("pid", 1)]), false),
        ] {
            assert_eq!(now.is_restart_of(&before), is_restart);
            let figures = Figures::new(&now, Some(&before));
            assert_eq!(figures.rate(Count::Gets), None);
            assert_eq!(figures.counts()[Count::Gets as usize], now.number("cmd_get"));
        }
    }

    #[test]
    fn ratios_of_several_are_weighted_by_their_requests() {
        let start = sample(0, &[]);
        let busy = sample(
            1,
            &[
                ("get_hits", 900),
                ("get_misses", 100),
                ("bytes", 10),
                ("limit_maxbytes", 100),
            ],
        );
        let idle = sample(
            2,
            &[
                ("get_hits", 0),
                ("get_misses", 4),
                ("bytes", 30),
                ("limit_maxbytes", 60),
            ],
        );
        let new = sample(2, &[("get_hits", 7), ("bytes", 8), ("limit_maxbytes", 40)]);
        let sum = Figures::sum(&[
            Figures::new(&busy, Some(&start)),
            Figures::new(&idle, Some(&start)),
            Figures::new(&new, None),
        ]);
        assert_eq!(sum.hit_ratio(), Some(900.0 / 1002.0));
        assert_eq!(sum.counts()[Count::Hits as usize], 907);
        assert_eq!(sum.memory_ratio(), Some(48.0 / 200.0));
        assert_eq!(Figures::sum(&[]), Figures::default());
    }

    #[test]
    fn numbers_beyond_all_bounds_do_not_overflow() {
        let vast = sample(
            1,
            &[("cmd_get", u64::MAX), ("cmd_set", u64::MAX), ("bytes", u64::MAX)],
        );
        let figures = Figures::new(&vast, None);
        let sum = Figures::sum(&[figures, figures]);
        assert_eq!(sum.counts()[0], u64::MAX);
        assert_eq!(sum.gauge(Gauge::Bytes), u64::MAX);
        let odd = Sample::new(Now::default(), "pid\ncmd_get -7\ncmd_set x y\n\n".to_owned());
        assert_eq!(Figures::new(&odd, None).counts()[0], 0);
    }
}
