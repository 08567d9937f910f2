//! Workloads by name, and the phases that they are done in.

use scrubjay_load::item::{Amount, Items};
use scrubjay_load::source::{Mix, Order, Plan, Popularity, Shape};

/// What is asked of which keys.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    first_key: u64,
    pub(super) keys: u64,
    prefix: &'static str,
    key_len: Amount,
    pub(super) value_len: Amount,
    pub(super) ttl: Amount,
    pub(super) popularity: Popularity,
    pub(super) mix: Mix,
    pub(super) multiget: usize,
    pub(super) connections: u64,
    pub(super) requests: Option<u64>,
    pub(super) seed: u64,
    pub(super) expect_hits: bool,
    /// Store every key, then get every key, in place of the mix.
    each_twice: bool,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            first_key: 0,
            keys: 10_000,
            prefix: "key",
            key_len: Amount::Fixed(11),
            value_len: Amount::Fixed(100),
            ttl: Amount::Fixed(0),
            popularity: Popularity::Uniform,
            mix: Mix::GETS,
            multiget: 1,
            connections: 32,
            requests: None,
            seed: 1,
            expect_hits: false,
            each_twice: false,
        }
    }
}

/// A part of a workload that is measured by itself.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) title: &'static str,
    pub(super) plan: Plan,
    /// Whether a get that finds nothing is a fault.
    pub(super) expect_hits: bool,
    /// Whether it ends when its requests are done, not by time.
    pub(super) is_counted: bool,
}

impl Workload {
    /// The workload of that name. An error says which there are.
    pub(super) fn named(name: &str) -> Result<Workload, String> {
        let (base, factor) = name.split_once(':').unwrap_or((name, "1"));
        let scaled = |keys: f64| {
            let factor = factor
                .parse::<f64>()
                .ok()
                .filter(|factor| (1e-6..=1e3).contains(factor));
            factor
                .map(|factor| ((keys * factor) as u64).max(1))
                .ok_or_else(|| format!("--workload {name}: give a factor from 0.000001 to 1000"))
        };
        // Their keys are decimal numbers from 1 on.
        let article = |keys, value_len, expect_hits| Workload {
            first_key: 1,
            keys,
            prefix: "",
            key_len: Amount::Fixed(0),
            value_len: Amount::Fixed(value_len),
            connections: 16,
            expect_hits,
            each_twice: true,
            ..Workload::default()
        };
        match base {
            "article-test1" => Ok(article(scaled(5e6)?, 100, true)),
            // It is made to be larger than memory.
            "article-test2" => Ok(article(scaled(5e5)?, 20_000, false)),
            "queue" => Ok(Workload {
                key_len: Amount::Fixed(16),
                mix: Mix::SETS,
                connections: 8,
                requests: Some(80_000),
                ..Workload::default()
            }),
            _ if base == "twitter" || name.contains('/') || name.contains('.') => {
                let shape = Shape::open(name).map_err(|why| format!("--workload {why}"))?;
                Ok(Workload::of_shape(shape))
            }
            _ => Err(format!(
                "--workload {name} is not known; there are article-test1, article-test2, queue, twitter:cluster1 to \
                 twitter:cluster54, and files of tables"
            )),
        }
    }

    fn of_shape(shape: Shape) -> Workload {
        let default = Workload::default();
        Workload {
            // A cluster's keys have no prefix of ours, and their own lengths.
            prefix: if shape.key_len.is_some() {
                ""
            } else {
                default.prefix
            },
            key_len: shape.key_len.unwrap_or(default.key_len),
            value_len: shape.value_len,
            ttl: shape.ttl,
            popularity: shape.popularity,
            mix: shape.mix.unwrap_or(default.mix),
            keys: 600_000,
            ..Workload::default()
        }
    }

    /// Sets the length of all keys; too short for the numbers of all of them is refused.
    pub(super) fn set_key_len(&mut self, len: u32) -> Result<(), String> {
        let digits = (self.first_key + self.keys - 1).to_string().len();
        let least = if len as usize >= digits + self.prefix.len() {
            len as usize
        } else {
            // Without a prefix there is more room.
            self.prefix = "";
            digits
        };
        if (len as usize) < least {
            return Err(format!(
                "--key-size {len}: {} keys need {least} bytes at least",
                self.keys
            ));
        }
        self.key_len = Amount::Fixed(len);
        Ok(())
    }

    /// Whether it has phases of its own in place of a mix.
    pub(super) fn is_phased(&self) -> bool {
        self.each_twice
    }

    /// What belongs to its keys.
    pub(super) fn items(&self) -> Items {
        Items::new(
            self.prefix,
            self.key_len.clone(),
            self.value_len.clone(),
            self.ttl.clone(),
        )
    }

    /// Every key once.
    fn each(&self, mix: Mix) -> Plan {
        Plan {
            first_key: self.first_key,
            keys: self.keys,
            order: Order::Each,
            mix,
            multiget: self.multiget,
            requests: self.keys,
            seed: self.seed,
        }
    }

    /// Every key is stored.
    pub(super) fn fill(&self) -> Phase {
        Phase {
            title: "fill",
            plan: self.each(Mix::SETS),
            expect_hits: false,
            is_counted: true,
        }
    }

    /// What is measured, in order.
    pub(super) fn phases(&self) -> Vec<Phase> {
        if self.each_twice {
            let get = Phase {
                title: "get",
                plan: self.each(Mix::GETS),
                expect_hits: self.expect_hits,
                is_counted: true,
            };
            let set = Phase {
                title: "set",
                ..self.fill()
            };
            return vec![set, get];
        }
        let title = match self.mix {
            Mix { set, delete, .. } if set + delete == 0.0 => "get",
            Mix { get, delete, .. } if get + delete == 0.0 => "set",
            _ => "mix",
        };
        let plan = Plan {
            order: Order::Drawn(self.popularity.clone()),
            requests: self.requests.unwrap_or(u64::MAX),
            ..self.each(self.mix)
        };
        vec![Phase {
            title,
            plan,
            expect_hits: self.expect_hits,
            is_counted: false,
        }]
    }
}
