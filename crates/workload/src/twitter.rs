//! Workloads drawn to the figures that Twitter has published of its memory cache clusters.
//!
//! The figures stand in `twitter.tsv` beside this file, with their source. What is drawn from them:
//!
//! - **Keys**: ranks of a Zipf distribution over the key space. An alpha of 0 is taken as it stands: all keys are alike. Where
//!   none is published (cluster43, cluster46) it is 1.
//! - **Sizes**: each key has its own key and value length. Only their means are published; lengths are log-normal with that
//!   mean over the keys, with a standard deviation of a quarter of the mean for key lengths and of the whole mean for value
//!   lengths. These spreads are a choice of ours.
//! - **TTL**: each key has its own. Only the common ones are published; their shares are scaled up to a whole.
//! - **Operations**: by their shares, scaled up to a whole, whatever the key. They are published to the hundredth, so those
//!   that are rarer do not occur. `gets` is drawn as a get and `cas` as a set, as traces are read.
//! - **Time**: goes on evenly, at the published rate unless another is asked for.
//!
//! Left out: which keys are popular does not change with time, and nothing is done about one-hit wonders and keys that are new
//! to the cluster beyond what Zipf makes of the key space. Clusters whose keys hardly ever return (cluster12, cluster15,
//! cluster31) need a key space that is large beside the number of requests. Nothing but a miss ratio is published of
//! cluster5, so nothing is drawn.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::weighted::WeightedIndex;
use rand_distr::{Distribution, LogNormal, Zipf};

use super::trace::padded;
use super::{Draw, Request, Verb, chance_of};

/// What a cluster's name begins with where a path could stand.
pub const PREFIX: &str = "twitter:";

/// One row a cluster.
const TABLE: &str = include_str!("twitter.tsv");

/// Stands where nothing is published.
const UNPUBLISHED: &str = "-";

/// Zipf's alpha where none is published.
const ALPHA_DEFAULT: f64 = 1.0;

/// Requests a second where no rate is published.
const RATE_DEFAULT: f64 = 10_000.0;

/// Standard deviation of key lengths, in means.
const KEY_LEN_SPREAD: f64 = 0.25;

/// Standard deviation of value lengths, in means.
const VALUE_LEN_SPREAD: f64 = 1.0;

/// Longest value drawn: with its key it is below the largest item that memcached takes unless told otherwise, 1 MiB.
const VALUE_LEN_MAX: u32 = 1_000_000;

/// Names that are proposed in place of an unknown one.
const NEAR_NAMES: usize = 4;

/// What is published of a cluster, ready to be drawn from.
#[derive(Debug)]
pub struct Cluster {
    key_len: LogNormal<f64>,
    value_len: LogNormal<f64>,
    /// Requests a second.
    rate: f64,
    ttls: Vec<u32>,
    ttl_shares: WeightedIndex<f64>,
    verbs: Vec<Verb>,
    verb_shares: WeightedIndex<f64>,
    alpha: f64,
}

impl Cluster {
    /// The cluster of that name, such as `cluster12`. An error proposes names if there is none of it, or says that nothing is
    /// published of it.
    pub fn named(name: &str) -> Result<Cluster, String> {
        let Some((_, figures)) = rows().find(|(known, _)| *known == name) else {
            let near: Vec<String> = near(name).map(|near| format!("{PREFIX}{near}")).collect();
            return Err(format!(
                "there is no cluster {name:?}; near names are {}",
                near.join(", ")
            ));
        };
        if figures.starts_with(UNPUBLISHED) {
            return Err(format!(
                "no sizes and operations of {name} are published; take another cluster"
            ));
        }
        Ok(Cluster::parse(figures).expect("the table is ours, and a test draws from each of its rows"))
    }

    fn parse(figures: &str) -> Option<Cluster> {
        let fields: Vec<&str> = figures.split('\t').collect();
        let [key_len, value_len, rate, ttls, operations, alpha] = fields[..] else {
            return None;
        };
        let lengths = |mean: &str, spread| LogNormal::from_mean_cv(mean.parse().ok()?, spread).ok();
        let (ttls, ttl_shares) = shares(ttls, |ttl| ttl.parse().ok())?;
        let (verbs, verb_shares) = shares(operations, Verb::of)?;
        let or_default = |field: &str, default: f64| match field {
            UNPUBLISHED => Some(default),
            number => number.parse().ok(),
        };
        Some(Cluster {
            key_len: lengths(key_len, KEY_LEN_SPREAD)?,
            value_len: lengths(value_len, VALUE_LEN_SPREAD)?,
            rate: or_default(rate, RATE_DEFAULT / 1000.0)? * 1000.0,
            ttls,
            ttl_shares,
            verbs,
            verb_shares,
            alpha: or_default(alpha, ALPHA_DEFAULT)?,
        })
    }

    /// Draws requests without end, the same for the same [`Draw`]. Time is spent on drawing: about half a microsecond a
    /// request.
    pub fn draw(self, draw: &Draw) -> impl Iterator<Item = Request> + use<> {
        let Draw { keys, seed, rate } = *draw;
        let rate = if rate > 0.0 { rate } else { self.rate };
        let mut random = StdRng::seed_from_u64(seed);
        let popularity =
            Zipf::new(keys.max(1) as f64, self.alpha).expect("a key at least, and no alpha below 0");
        (0u64..).map(move |index| {
            let rank = (popularity.sample(&mut random) as u64).clamp(1, keys.max(1));
            let verb = self.verbs[self.verb_shares.sample(&mut random)];
            let time = (index as f64 / rate) as u32;
            self.request(rank, seed, verb, time)
        })
    }

    /// Zipf's alpha of the keys' popularity.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The operations with their weights.
    pub fn shares(&self) -> impl Iterator<Item = (Verb, f64)> {
        let weights = (0..).map_while(|at| self.verb_shares.weight(at));
        self.verbs.iter().copied().zip(weights)
    }

    /// What belongs to the key of that rank, as a request for it.
    pub fn item(&self, rank: u64, seed: u64) -> Request {
        self.request(rank, seed, Verb::Get, 0)
    }

    /// A request of the key of that rank; what belongs to the key is the same each time.
    fn request(&self, rank: u64, seed: u64, verb: Verb, time: u32) -> Request {
        let mut random = chance_of(rank, seed);
        let key_len = whole(self.key_len.sample(&mut random), &mut random);
        let value_len = whole(self.value_len.sample(&mut random), &mut random);
        Request {
            time,
            key: padded(rank.to_string().as_bytes(), key_len as usize),
            value_len: value_len.min(VALUE_LEN_MAX),
            verb,
            ttl: self.ttls[self.ttl_shares.sample(&mut random)],
        }
    }
}

/// Rounds up or down by chance, so that the mean stays: the mean of values may be as small as a byte.
fn whole(length: f64, random: &mut StdRng) -> u32 {
    (length + random.random::<f64>()) as u32
}

/// Name and figures of every cluster.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
}

/// Takes `what:share what:share` apart.
fn shares<What>(text: &str, read: fn(&str) -> Option<What>) -> Option<(Vec<What>, WeightedIndex<f64>)> {
    let mut whats = Vec::new();
    let mut weights = Vec::new();
    for pair in text.split(' ') {
        let (what, share) = pair.split_once(':')?;
        whats.push(read(what)?);
        weights.push(share.parse::<f64>().ok()?);
    }
    Some((whats, WeightedIndex::new(weights).ok()?))
}

/// The names whose numbers are nearest to the one in `name`, by the digits that would have to change.
fn near(name: &str) -> impl Iterator<Item = &'static str> {
    let digits = |name: &str| name.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
    let wanted = digits(name);
    let mut names: Vec<&str> = rows().map(|(known, _)| known).collect();
    names.sort_by_key(|known| distance(&wanted, &digits(known)));
    names.into_iter().take(NEAR_NAMES)
}

/// Bytes to put in, take out or change to make one of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut costs: Vec<usize> = (0..=other.len()).collect();
    for (row, byte) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut costs[0], row + 1);
        for column in 1..=other.len() {
            let change = diagonal + usize::from(*byte != other[column - 1]);
            diagonal = costs[column];
            costs[column] = change.min(diagonal + 1).min(costs[column - 1] + 1);
        }
    }
    costs[other.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::{Cluster, PREFIX, UNPUBLISHED, rows};
    use crate::{Draw, Format, Request, Verb, open};

    const DRAWN: usize = 20_000;

    const DRAW: Draw = Draw {
        keys: 1000,
        seed: 3,
        rate: 0.0,
    };

    fn draw(name: &str, draw: &Draw, requests: usize) -> Vec<Request> {
        open(Path::new(&format!("{PREFIX}{name}")), Format::Twitter, draw)
            .expect(name)
            .take(requests)
            .collect::<Result<_, _>>()
            .expect("drawn without end")
    }

    /// Name and fields of every cluster that figures are published of.
    fn published() -> Vec<(&'static str, Vec<&'static str>)> {
        let all: Vec<_> = rows()
            .map(|(name, figures)| (name, figures.split('\t').collect::<Vec<_>>()))
            .collect();
        assert_eq!(all.len(), 54);
        all.into_iter()
            .filter(|(_, fields)| fields[0] != UNPUBLISHED)
            .collect()
    }

    /// Complains if what was counted is further than two hundredths from the published shares, scaled up to a whole.
    fn check_shares(name: &str, text: &str, counted: &HashMap<String, usize>, same: fn(&str) -> &str) {
        let mut expected: HashMap<&str, f64> = HashMap::new();
        for pair in text.split(' ') {
            let (what, share) = pair.split_once(':').expect("a pair");
            *expected.entry(same(what)).or_default() += share.parse::<f64>().expect("a share");
        }
        let whole: f64 = expected.values().sum();
        let all: usize = counted.values().sum();
        for (what, share) in &expected {
            let found = counted.get(*what).copied().unwrap_or(0) as f64 / all as f64;
            let share = share / whole;
            assert!((found - share).abs() < 0.02, "{name}: {what} {found} for {share}");
        }
        for what in counted.keys() {
            assert!(
                expected.contains_key(what.as_str()),
                "{name}: {what} is not published"
            );
        }
    }

    #[test]
    fn every_cluster_is_drawn_by_its_operations_popularity_and_rate() {
        for (name, fields) in published() {
            let requests = draw(name, &DRAW, DRAWN);
            let mut verbs = HashMap::new();
            for request in &requests {
                let verb = match request.verb {
                    Verb::Get => "get",
                    Verb::Delete => "delete",
                    Verb::Store(verb) | Verb::Arith(verb) => verb,
                };
                *verbs.entry(verb.to_owned()).or_default() += 1;
            }
            check_shares(name, fields[4], &verbs, |operation| match operation {
                "gets" => "get",
                "cas" => "set",
                other => other,
            });
            let alpha: f64 = fields[5].parse().unwrap_or(1.0);
            let whole: f64 = (1..=DRAW.keys).map(|rank| (rank as f64).powf(-alpha)).sum();
            let first = requests
                .iter()
                .filter(|request| {
                    request
                        .key
                        .iter()
                        .filter(|digit| **digit != b'0')
                        .eq([b'1'].iter())
                })
                .filter(|request| request.key.ends_with(b"1"));
            let found = first.count() as f64 / DRAWN as f64;
            assert!(
                (found - 1.0 / whole).abs() < 0.02,
                "{name}: first key {found} for {}",
                1.0 / whole
            );
            let rate: f64 = fields[2].parse().expect("a rate");
            let last = requests.last().expect("requests").time;
            assert_eq!(last, ((DRAWN - 1) as f64 / (rate * 1000.0)) as u32, "{name}");
        }
    }

    #[test]
    fn every_cluster_has_its_mean_sizes_and_its_ttls() {
        for (name, fields) in published() {
            let cluster = Cluster::named(name).expect(name);
            let (mut key_bytes, mut value_bytes, mut ttls) = (0, 0, HashMap::new());
            for rank in 1..=DRAWN as u64 {
                let request = cluster.request(rank, DRAW.seed, Verb::Get, 0);
                key_bytes += request.key.len();
                value_bytes += request.value_len as usize;
                *ttls.entry(request.ttl.to_string()).or_default() += 1;
            }
            check_shares(name, fields[3], &ttls, |ttl| ttl);
            for (what, bytes, mean) in [("key", key_bytes, fields[0]), ("value", value_bytes, fields[1])] {
                let found = bytes as f64 / DRAWN as f64;
                let mean: f64 = mean.parse().expect("a mean");
                assert!(
                    (found / mean - 1.0).abs() < 0.04,
                    "{name}: mean {what} {found} for {mean}"
                );
            }
        }
    }

    #[test]
    fn the_seed_decides_and_a_key_keeps_what_is_its_own() {
        let first = draw("cluster4", &DRAW, DRAWN);
        assert_eq!(first, draw("cluster4", &DRAW, DRAWN));
        assert_ne!(first, draw("cluster4", &Draw { seed: 4, ..DRAW }, DRAWN));
        let mut own = HashMap::new();
        for request in &first {
            let belongs = (request.value_len, request.ttl);
            assert_eq!(*own.entry(&request.key).or_insert(belongs), belongs);
        }
    }

    #[test]
    fn time_goes_on_at_the_rate_asked_for() {
        let requests = draw("cluster12", &Draw { rate: 100.0, ..DRAW }, 1000);
        let times: Vec<u32> = [0, 99, 100, 999]
            .iter()
            .map(|at: &usize| requests[*at].time)
            .collect();
        assert_eq!(times, [0, 0, 1, 9]);
    }

    #[test]
    fn an_unknown_cluster_is_refused_with_names_near_it() {
        let check = |name: &str, near: &[&str]| {
            let error = Cluster::named(name).expect_err(name);
            assert!(near.iter().all(|near| error.contains(near)), "{error}");
        };
        check(
            "cluster99",
            &["cluster99", "twitter:cluster9,", "twitter:cluster19"],
        );
        check(
            "cluster123",
            &["twitter:cluster12,", "twitter:cluster13", "twitter:cluster23"],
        );
        check("12", &["twitter:cluster12,"]);
        check("", &["twitter:cluster1,"]);
        check("cluster5", &["no sizes and operations"]);
        let error = open(Path::new("twitter:custer3"), Format::Twitter, &DRAW).expect_err("misspelt");
        assert!(
            error.starts_with("twitter:custer3: ") && error.contains("twitter:cluster3,"),
            "{error}"
        );
    }
}
