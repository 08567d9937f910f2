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
    /// What a get did not find is stored.
    pub(super) refill: bool,
    steps: Steps,
}

/// In which order keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// By the mix, drawn by popularity.
    Mixed,
    /// Each is stored, then each is got.
    SetThenGet,
    /// Each is got once, in vain, and then stored.
    Refill,
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
            refill: false,
            steps: Steps::Mixed,
        }
    }
}

/// A workload that has a name.
struct Named {
    name: &'static str,
    about: &'static str,
    keys: u64,
    /// 0: as many digits as the number has.
    key_len: u32,
    value_len: u32,
    connections: u64,
    steps: Steps,
    expect_hits: bool,
}

/// All of them; options, help and documents go by this table.
const NAMED: &[Named] = &[
    Named {
        name: "article-test1",
        about: "5,000,000 keys \"1\", \"2\" ..., 100 bytes each: all set, then all got; all must hit",
        keys: 5_000_000,
        key_len: 0,
        value_len: 100,
        connections: 16,
        steps: Steps::SetThenGet,
        expect_hits: true,
    },
    Named {
        name: "article-test2",
        about: "500,000 such keys, 20,000 bytes each, 10 GB in all: all set, then all got",
        keys: 500_000,
        key_len: 0,
        value_len: 20_000,
        connections: 16,
        steps: Steps::SetThenGet,
        expect_hits: false,
    },
    Named {
        name: "queue",
        about: "80,000 keys of 16 bytes, 100 bytes each, 8 connections: set, then got; all must hit",
        keys: 80_000,
        key_len: 16,
        value_len: 100,
        connections: 8,
        steps: Steps::SetThenGet,
        expect_hits: true,
    },
    Named {
        name: "delay",
        about: "1 connection asks for keys that are new and stores 10 KiB for each; for --rates",
        keys: 1_000_000_000,
        key_len: 16,
        value_len: 10 << 10,
        connections: 1,
        steps: Steps::Refill,
        expect_hits: false,
    },
];

impl Named {
    fn workload(&self) -> Workload {
        Workload {
            first_key: 1,
            keys: self.keys,
            prefix: "",
            key_len: Amount::Fixed(self.key_len),
            value_len: Amount::Fixed(self.value_len),
            connections: self.connections,
            steps: self.steps,
            expect_hits: self.expect_hits,
            refill: self.steps == Steps::Refill,
            ..Workload::default()
        }
    }
}

/// All named workloads, a line each.
pub(super) fn table() -> String {
    NAMED
        .iter()
        .map(|named| format!("  {:<14} {}\n", named.name, named.about))
        .collect()
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
    /// Whether each run takes keys of its own.
    renews_keys: bool,
}

impl Phase {
    /// The same as run for that many times before.
    pub(super) fn of_run(&self, number: usize) -> Phase {
        let mut phase = self.clone();
        if self.renews_keys {
            phase.plan.first_key += self.plan.keys * number as u64;
        }
        phase
    }
}

impl Workload {
    /// The workload of that name. An error says which there are.
    pub(super) fn named(name: &str) -> Result<Workload, String> {
        if let Some(named) = NAMED.iter().find(|named| named.name == name) {
            return Ok(named.workload());
        }
        if !name.starts_with("twitter") && !name.contains(['/', '.']) {
            let names: Vec<_> = NAMED.iter().map(|named| named.name).collect();
            return Err(format!(
                "--workload {name} is not known; there are {}, twitter:cluster1 to twitter:cluster54, and files of tables",
                names.join(", ")
            ));
        }
        let shape = Shape::open(name).map_err(|why| format!("--workload {why}"))?;
        Ok(Workload::of_shape(shape))
    }

    /// So many times the keys. What comes to none or more than can be counted is refused.
    pub(super) fn scale(&mut self, factor: f64) -> Result<(), String> {
        if !(1e-9..=1e3).contains(&factor) || self.keys as f64 * factor < 1.0 {
            return Err(format!(
                "--scale {factor}: give a factor up to 1000 that leaves one of {} keys",
                self.keys
            ));
        }
        self.keys = (self.keys as f64 * factor) as u64;
        Ok(())
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
        self.steps == Steps::SetThenGet
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
            renews_keys: false,
        }
    }

    /// What is measured, in order.
    pub(super) fn phases(&self) -> Vec<Phase> {
        if self.is_phased() {
            let get = Phase {
                title: "get",
                plan: self.each(Mix::GETS),
                expect_hits: self.expect_hits,
                is_counted: true,
                renews_keys: false,
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
        let title = if self.refill { "get, set if absent" } else { title };
        let order = match self.steps {
            Steps::Refill => Order::Each,
            Steps::Mixed | Steps::SetThenGet => Order::Drawn(self.popularity.clone()),
        };
        let plan = Plan {
            order,
            requests: self.requests.unwrap_or(u64::MAX),
            ..self.each(self.mix)
        };
        vec![Phase {
            title,
            plan,
            expect_hits: self.expect_hits,
            is_counted: false,
            renews_keys: self.steps == Steps::Refill,
        }]
    }
}
