//! All servers as they are known: the last words of each, and what was before.

use std::collections::VecDeque;

use scrubjay_base::time::Now;

use super::sums::{Count, Figures, Sample};

/// Readings that a curve goes back.
const HISTORY_LEN: usize = 300;

/// What came of asking a server.
#[derive(Debug)]
pub(super) struct Reading {
    /// Its place among the servers.
    pub(super) server: usize,
    /// When it had answered, or was given up.
    pub(super) at: Now,
    /// How long it took.
    pub(super) nanos: u64,
    /// A line for each statistic; or why there are none.
    pub(super) outcome: Result<String, String>,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not answered yet.
    Waiting,
    Up,
    /// It could not be asked, and why.
    Down(String),
}

/// What has a curve over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    Requests,
    HitRatio,
    Sets,
    Evictions,
    BytesRead,
    BytesWritten,
}

const SERIES: usize = 6;

/// The figures of the last minutes, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<[Option<f32>; SERIES]>);

impl History {
    fn push(&mut self, figures: Option<&Figures>) {
        if self.0.len() == HISTORY_LEN {
            self.0.pop_front();
        }
        let rate = |count| figures?.rate(count).map(|rate| rate as f32);
        self.0.push_back([
            rate(Count::Requests),
            figures.and_then(Figures::hit_ratio).map(|ratio| ratio as f32),
            rate(Count::Sets),
            rate(Count::Evictions),
            rate(Count::BytesRead),
            rate(Count::BytesWritten),
        ]);
    }

    /// The last `len` values of a series, oldest first; `None` where there was none, or none yet.
    pub(super) fn last(&self, series: Series, len: usize) -> Vec<Option<f32>> {
        let missing = len.saturating_sub(self.0.len());
        let known = self.0.iter().skip(self.0.len().saturating_sub(len));
        std::iter::repeat_n(None, missing)
            .chain(known.map(|values| values[series as usize]))
            .collect()
    }
}

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) state: State,
    /// When the state began.
    pub(super) since: Now,
    /// What it said last, if ever.
    pub(super) now: Option<Sample>,
    /// What it said before that.
    pub(super) before: Option<Sample>,
    /// How long its last answer took.
    pub(super) nanos: u64,
    /// Times that it was seen to have been started anew.
    pub(super) restarts: u32,
    pub(super) history: History,
    figures: Figures,
}

impl Server {
    /// Its numbers, while it answers.
    pub(super) fn figures(&self) -> Option<&Figures> {
        (self.state == State::Up).then_some(&self.figures)
    }

    /// Its version as it tells it; scrubjay's own where it is one.
    pub(super) fn version(&self) -> String {
        let Some(sample) = &self.now else {
            return String::new();
        };
        match sample.get("scrubjay_version") {
            Some(version) => format!("scrubjay {version}"),
            None => sample.get("version").unwrap_or_default().to_owned(),
        }
    }

    fn take(&mut self, reading: Reading) {
        let state = match reading.outcome {
            Ok(text) => {
                let sample = Sample::new(reading.at, text);
                self.restarts += u32::from(self.now.as_ref().is_some_and(|now| sample.is_restart_of(now)));
                self.before = self.now.replace(sample);
                self.nanos = reading.nanos;
                let now = self.now.as_ref().expect("just put there");
                self.figures = Figures::new(now, self.before.as_ref());
                State::Up
            }
            Err(why) => State::Down(why),
        };
        if std::mem::discriminant(&state) != std::mem::discriminant(&self.state) {
            self.since = reading.at;
        }
        self.state = state;
        self.history.push(self.figures().copied().as_ref());
    }
}

/// All servers.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) servers: Vec<Server>,
    /// Of all together.
    pub(super) history: History,
}

impl Fleet {
    /// Of servers that were not asked yet.
    pub(super) fn new(names: &[String]) -> Fleet {
        let server = |name: &String| Server {
            name: name.clone(),
            state: State::Waiting,
            since: Now::default(),
            now: None,
            before: None,
            nanos: 0,
            restarts: 0,
            history: History::default(),
            figures: Figures::default(),
        };
        Fleet {
            servers: names.iter().map(server).collect(),
            history: History::default(),
        }
    }

    /// Takes in what came of asking a server.
    pub(super) fn take(&mut self, reading: Reading) {
        self.servers[reading.server].take(reading);
    }

    /// Notes the figures of all together for their curves; once an interval.
    pub(super) fn note(&mut self) {
        let sum = self.sum();
        self.history.push(Some(&sum));
    }

    /// The figures of all that answer.
    pub(super) fn sum(&self) -> Figures {
        Figures::sum(self.servers.iter().filter_map(Server::figures))
    }

    /// How many answer, and how many do not.
    pub(super) fn up_and_down(&self) -> (usize, usize) {
        let count =
            |test: fn(&State) -> bool| self.servers.iter().filter(|server| test(&server.state)).count();
        (
            count(|state| *state == State::Up),
            count(|state| matches!(state, State::Down(_))),
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use scrubjay_base::time::Now;

    use super::{Fleet, HISTORY_LEN, Reading, Series, State};
    use crate::cmd::top::sums::{Count, Gauge};

    /// What a server that has served `secs` seconds at `rate` gets a second would say, nine in ten of them hits.
    pub(in crate::cmd::top) fn stats(secs: u64, rate: u64) -> String {
        let gets = secs * rate;
        let hits = gets / 10 * 9;
        format!(
            "pid 7\nuptime {secs}\nversion 1.6.45\nscrubjay_version 0.1.0\ncmd_get {gets}\ncmd_set {secs}\nget_hits {hits}\n\
             get_misses {}\nevictions 0\nremoved_expired 5\nremoved_evicted 0\nbytes 600\nexpired_bytes 100\ndead_bytes 150\n\
             segments_used 2\nsegments_total 4\nsegment_size 400\nindex_bytes 30\nlimit_maxbytes 1000\ncurr_items 12\n\
             curr_connections 3\nbytes_read {gets}\nbytes_written {}\n",
            gets - hits,
            gets * 10,
        )
    }

    pub(in crate::cmd::top) fn reading(server: usize, secs: u64, outcome: Result<String, &str>) -> Reading {
        Reading {
            server,
            at: Now::from_secs(secs),
            nanos: 1_500_000,
            outcome: outcome.map_err(str::to_owned),
        }
    }

    #[test]
    fn a_server_that_is_down_has_no_part_in_the_sums() {
        let mut fleet = Fleet::new(&["a:1".to_owned(), "b:1".to_owned()]);
        assert_eq!(fleet.sum().rate(Count::Gets), None);
        for secs in 1..3 {
            fleet.take(reading(0, secs, Ok(stats(secs, 100))));
            fleet.take(reading(1, secs, Ok(stats(secs, 50))));
            fleet.note();
        }
        assert_eq!(fleet.up_and_down(), (2, 0));
        assert_eq!(fleet.sum().rate(Count::Gets), Some(150.0));
        fleet.take(reading(1, 3, Err("gone")));
        fleet.take(reading(1, 4, Err("still gone")));
        fleet.note();
        assert_eq!(fleet.up_and_down(), (1, 1));
        assert_eq!(fleet.sum().rate(Count::Gets), Some(100.0));
        assert_eq!(fleet.sum().gauge(Gauge::Items), 12);
        assert_eq!(fleet.servers[1].state, State::Down("still gone".to_owned()));
        assert_eq!(fleet.servers[1].since, Now::from_secs(3));
        assert_eq!(
            fleet.history.last(Series::HitRatio, 4),
            [None, None, Some(0.9), Some(0.9)]
        );
        // What it counted meanwhile is spread over the time that it was away.
        fleet.take(reading(1, 6, Ok(stats(6, 50))));
        assert_eq!(fleet.sum().rate(Count::Gets), Some(150.0));
    }

    #[test]
    fn a_restart_is_counted_and_has_no_rate() {
        let mut fleet = Fleet::new(&["a:1".to_owned()]);
        fleet.take(reading(0, 1, Ok(stats(100, 10))));
        fleet.take(reading(0, 2, Ok(stats(1, 10))));
        assert_eq!(fleet.servers[0].restarts, 1);
        assert_eq!(fleet.sum().rate(Count::Gets), None);
        fleet.take(reading(0, 3, Ok(stats(2, 10))));
        assert_eq!(fleet.sum().rate(Count::Gets), Some(10.0));
    }

    #[test]
    fn history_has_an_end() {
        let mut fleet = Fleet::new(&["a:1".to_owned()]);
        for secs in 1..2 * HISTORY_LEN as u64 {
            fleet.take(reading(0, secs, Ok(stats(secs, secs))));
        }
        let history = &fleet.servers[0].history;
        let whole = history.last(Series::Requests, 10 * HISTORY_LEN);
        assert_eq!(whole.iter().flatten().count(), HISTORY_LEN);
    }
}
