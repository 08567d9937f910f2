//! What is asked for, request by request: operations by their shares, keys by their popularity or one after the other.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use scrubjay_workload::tables::Tables;
use scrubjay_workload::twitter::{Cluster, PREFIX};
use scrubjay_workload::{Verb as WorkloadVerb, trace};

use crate::exchange::Verb;
use crate::item::{Amount, VERSIONS};

/// Requests that a thread takes off the common number at a time.
const BLOCK: u64 = 64;

/// Rows of a table that is drawn from a distribution.
const TABLE_LEN: u64 = 16 << 10;

/// Seed of what belongs to a key where the workload draws it.
const ITEM_SEED: u64 = 1;

/// Shares of the operations, of any sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Share of gets.
    pub get: f64,
    /// Share of sets.
    pub set: f64,
    /// Share of deletes.
    pub delete: f64,
}

impl Mix {
    /// Gets and nothing else.
    pub const GETS: Mix = Mix {
        get: 1.0,
        set: 0.0,
        delete: 0.0,
    };

    /// Sets and nothing else.
    pub const SETS: Mix = Mix {
        get: 0.0,
        set: 1.0,
        delete: 0.0,
    };
}

/// How often a key is asked for beside the others.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// By Zipf's law with this alpha.
    Zipf(f64),
    /// By a table of weights.
    Table(Arc<Tables>),
}

/// Which keys are asked for.
#[derive(Clone, Debug)]
pub enum Order {
    /// Every key once, from the first to the last.
    Each,
    /// By chance.
    Drawn(Popularity),
}

/// What is asked of which keys.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of the first key.
    pub first_key: u64,
    /// How many keys there are, 1 at least.
    pub keys: u64,
    /// Which of them.
    pub order: Order,
    /// What of them.
    pub mix: Mix,
    /// Keys that are got together.
    pub multiget: usize,
    /// Requests in all; keys count singly.
    pub requests: u64,
    /// The same seed draws the same requests, thread by thread.
    pub seed: u64,
}

/// Requests of one thread.
#[derive(Debug)]
pub struct Source {
    plan: Plan,
    random: SmallRng,
    zipf: Option<Zipf<f64>>,
    taken: Arc<AtomicU64>,
    block: Range<u64>,
}

impl Source {
    /// The requests of the thread of that number; `taken` is common to all threads of a run.
    pub fn new(plan: &Plan, thread: u64, taken: Arc<AtomicU64>) -> Source {
        let zipf = match plan.order {
            Order::Drawn(Popularity::Zipf(alpha)) => Zipf::new(plan.keys as f64, alpha).ok(),
            _ => None,
        };
        Source {
            random: SmallRng::seed_from_u64(plan.seed ^ (thread << 32)),
            zipf,
            taken,
            block: 0..0,
            plan: plan.clone(),
        }
    }

    /// Draws a request: what is asked, and of which keys; `None` when all are drawn.
    pub fn draw(&mut self, keys: &mut Vec<u64>) -> Option<Verb> {
        keys.clear();
        let verb = self.draw_verb();
        let wanted = if verb == Verb::Get { self.plan.multiget } else { 1 };
        self.draw_keys(wanted, keys)?;
        Some(verb)
    }

    /// Draws `wanted` keys, or as many as there are left; `None` if none is.
    pub fn draw_keys(&mut self, wanted: usize, keys: &mut Vec<u64>) -> Option<()> {
        keys.clear();
        while keys.len() < wanted {
            let Some(number) = self.next_number() else {
                break;
            };
            keys.push(self.plan.first_key + self.key(number));
        }
        (!keys.is_empty()).then_some(())
    }

    /// Whether nothing is asked for but sets.
    pub fn is_sets_only(&self) -> bool {
        self.plan.mix.get == 0.0 && self.plan.mix.delete == 0.0
    }

    /// A version for a value that is stored.
    pub fn draw_version(&mut self) -> u32 {
        self.random.random_range(0..VERSIONS)
    }

    fn draw_verb(&mut self) -> Verb {
        let Mix { get, set, delete } = self.plan.mix;
        if set + delete == 0.0 {
            return Verb::Get;
        }
        let at = self.random.random::<f64>() * (get + set + delete);
        if at < get {
            Verb::Get
        } else if at < get + set || delete == 0.0 {
            Verb::Set
        } else {
            Verb::Delete
        }
    }

    fn next_number(&mut self) -> Option<u64> {
        if self.block.is_empty() {
            // Nothing but the number itself is passed between threads.
            let start = self.taken.fetch_add(BLOCK, Ordering::Relaxed);
            self.block = start.min(self.plan.requests)..(start + BLOCK).min(self.plan.requests);
        }
        self.block.next()
    }

    fn key(&mut self, number: u64) -> u64 {
        let keys = self.plan.keys;
        match &self.plan.order {
            Order::Each => number % keys,
            Order::Drawn(Popularity::Uniform) => self.random.random_range(0..keys),
            Order::Drawn(Popularity::Table(tables)) => tables.draw_key(keys, &mut self.random),
            Order::Drawn(Popularity::Zipf(_)) => {
                let rank = self
                    .zipf
                    .as_ref()
                    .map_or(1.0, |zipf| zipf.sample(&mut self.random));
                (rank as u64).clamp(1, keys) - 1
            }
        }
    }
}

/// What is published or recorded of a workload, ready for [`Plan`] and [`Items`](crate::item::Items).
#[derive(Clone, Debug)]
pub struct Shape {
    /// How often which key is asked for.
    pub popularity: Popularity,
    /// Bytes of a key, where they are known.
    pub key_len: Option<Amount>,
    /// Bytes of a value.
    pub value_len: Amount,
    /// Seconds of life.
    pub ttl: Amount,
    /// What is asked, where it is known. Whatever stores is a set here; counting is a get.
    pub mix: Option<Mix>,
}

impl Shape {
    /// Reads `twitter:clusterN`, or the path of workload tables. An error names it and says why it is of no use.
    pub fn open(name: &str) -> Result<Shape, String> {
        let explain = |why: String| format!("{name}: {why}");
        if let Some(cluster) = name.strip_prefix(PREFIX) {
            return Cluster::named(cluster)
                .map(|cluster| Shape::of_cluster(&cluster))
                .map_err(explain);
        }
        let tables = Tables::read(trace::open(Path::new(name))?).map_err(explain)?;
        let value_len = (0..TABLE_LEN)
            .map(|key| tables.value_len(key, ITEM_SEED))
            .collect();
        Ok(Shape {
            popularity: Popularity::Table(Arc::new(tables)),
            key_len: None,
            value_len: Amount::Table(value_len),
            ttl: Amount::Fixed(0),
            mix: None,
        })
    }

    fn of_cluster(cluster: &Cluster) -> Shape {
        let items: Vec<_> = (1..=TABLE_LEN)
            .map(|rank| cluster.item(rank, ITEM_SEED))
            .collect();
        let mut mix = Mix {
            get: 0.0,
            set: 0.0,
            delete: 0.0,
        };
        for (verb, share) in cluster.shares() {
            match verb {
                WorkloadVerb::Get | WorkloadVerb::Arith(_) => mix.get += share,
                WorkloadVerb::Store(_) => mix.set += share,
                WorkloadVerb::Delete => mix.delete += share,
            }
        }
        Shape {
            popularity: Popularity::Zipf(cluster.alpha()),
            key_len: Some(Amount::Table(
                items.iter().map(|item| item.key.len() as u32).collect(),
            )),
            value_len: Amount::Table(items.iter().map(|item| item.value_len).collect()),
            ttl: Amount::Table(items.iter().map(|item| item.ttl).collect()),
            mix: Some(mix),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::{Mix, Order, Plan, Popularity, Shape, Source};
    use crate::exchange::Verb;

    fn plan(order: Order) -> Plan {
        Plan {
            first_key: 1,
            keys: 1000,
            order,
            mix: Mix::GETS,
            multiget: 1,
            requests: 10_000,
            seed: 7,
        }
    }

    /// All keys that `threads` sources draw in turn.
    fn draw_all(plan: &Plan, threads: u64) -> Vec<u64> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut sources: Vec<_> = (0..threads)
            .map(|thread| Source::new(plan, thread, Arc::clone(&taken)))
            .collect();
        let (mut all, mut keys) = (Vec::new(), Vec::new());
        loop {
            let before = all.len();
            for source in &mut sources {
                if source.draw(&mut keys).is_some() {
                    all.extend_from_slice(&keys);
                }
            }
            if all.len() == before {
                return all;
            }
        }
    }

    #[test]
    fn every_key_is_drawn_once_whatever_the_threads() {
        for (threads, multiget) in [(1, 1), (3, 1), (2, 7)] {
            let mut plan = plan(Order::Each);
            (plan.requests, plan.multiget) = (plan.keys, multiget);
            let mut all = draw_all(&plan, threads);
            all.sort_unstable();
            assert_eq!(all, (1..=1000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn as_many_are_drawn_as_are_asked_for_by_their_popularity() {
        let of_first = |popularity| {
            let all = draw_all(&plan(Order::Drawn(popularity)), 2);
            assert_eq!(all.len(), 10_000);
            assert!(all.iter().all(|key| (1..=1000).contains(key)));
            all.iter().filter(|key| **key == 1).count()
        };
        assert!(of_first(Popularity::Uniform) < 40);
        // The first of a thousand has 1 / ln(1000) of all, or so.
        assert!((1_000..1_700).contains(&of_first(Popularity::Zipf(1.0))));
    }

    #[test]
    fn operations_come_by_their_shares() {
        let mut plan = plan(Order::Drawn(Popularity::Uniform));
        plan.mix = Mix {
            get: 80.0,
            set: 15.0,
            delete: 5.0,
        };
        let mut source = Source::new(&plan, 0, Arc::default());
        let (mut counts, mut keys) = ([0; 3], Vec::new());
        while let Some(verb) = source.draw(&mut keys) {
            counts[match verb {
                Verb::Get => 0,
                Verb::Set => 1,
                Verb::Delete => 2,
            }] += 1;
        }
        assert!((7_800..8_200).contains(&counts[0]), "{counts:?}");
        assert!((1_350..1_650).contains(&counts[1]), "{counts:?}");
        assert_eq!(counts.iter().sum::<i32>(), 10_000);
    }

    #[test]
    fn a_cluster_has_its_figures_and_an_unknown_one_is_refused() {
        let shape = Shape::open("twitter:cluster12").expect("published");
        assert!(
            (shape.value_len.mean() / 1030.0 - 1.0).abs() < 0.1,
            "{}",
            shape.value_len.mean()
        );
        assert!(shape.mix.is_some_and(|mix| mix.get > 0.0 && mix.set > 0.0));
        let why = Shape::open("twitter:cluster99").expect_err("none");
        assert!(why.contains("cluster99"), "{why}");
        let why = Shape::open("/none/such.tables").expect_err("none");
        assert!(why.contains("/none/such.tables"), "{why}");
    }
}
