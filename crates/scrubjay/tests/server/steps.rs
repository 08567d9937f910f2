//! Random steps of the client's cache, beside a model of what a cache is: the same answers by scrubjay and by memcached, by meta
//! and by classic commands.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::test_runner::TestRunner;
use scrubjay_client::cache::{Cas, Swap};
use scrubjay_client::value::{Choice, Value};
use scrubjay_client::{Cache, Put, Ttl};

use crate::cache::{FORMS, MINUTE, cache};
use crate::kit::Server;

#[derive(Clone, Debug)]
enum Step {
    Get(usize),
    /// Remembers the CAS number.
    Gets(usize),
    GetMany,
    Set(usize, Value, Put),
    SetMany(Value),
    Add(usize, Value),
    Replace(usize, Value),
    /// With the number that was remembered last, whatever happened since.
    Swap(usize, Value),
    Append(usize, String),
    Prepend(usize, String),
    Incr(usize, u64),
    Decr(usize, u64),
    CountFrom(usize, u64, u64),
    Delete(usize),
    DeleteMany,
    Touch(usize, Ttl),
    GetAndTouch(usize, Ttl),
    Update(usize, Value),
    Compute(usize, Value),
    Invalidate(usize),
}

const KEYS: [&str; 3] = ["acorn", "beech", "cedar"];

/// What an item is. Numbers are what counting works on.
#[derive(Default)]
struct Model {
    items: BTreeMap<usize, Item>,
    /// By key: the version of the item that was seen, and its CAS number.
    seen: BTreeMap<usize, (u64, Cas)>,
    versions: u64,
}

#[derive(Clone)]
struct Item {
    value: Value,
    version: u64,
}

impl Model {
    fn value(&self, key: usize) -> Option<Value> {
        self.items.get(&key).map(|item| item.value.clone())
    }

    fn put(&mut self, key: usize, value: Value, ttl: Ttl) {
        self.versions += 1;
        let version = self.versions;
        match ttl {
            Ttl::After(Duration::ZERO) => drop(self.items.remove(&key)),
            _ => drop(self.items.insert(key, Item { value, version })),
        }
    }

    fn touch(&mut self, key: usize, ttl: Ttl) {
        if ttl == Ttl::After(Duration::ZERO) {
            self.items.remove(&key);
        }
    }

    /// What appending makes of an item; `None` where it would only be an error to read it.
    fn extended(&self, key: usize, join: impl Fn(&str) -> String) -> Option<Value> {
        match self.items.get(&key).map(|item| &item.value) {
            Some(Value::Text(text)) => Some(Value::Text(join(text))),
            _ => None,
        }
    }

    /// Whether counting works on the item, or there is none.
    fn counts(&self, key: usize) -> bool {
        matches!(self.value(key), None | Some(Value::Int(0..)))
    }

    fn count(&mut self, key: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        let Some(Value::Int(old)) = self.value(key) else {
            return None;
        };
        let new = change(old as u64);
        self.put(key, Value::Int(new as i64), Ttl::Forever);
        Some(new)
    }
}

/// One step on both; their answers are the same.
fn take(cache: &Cache, model: &mut Model, step: Step) {
    let shown = format!("{step:?}");
    match step {
        Step::Get(..) | Step::Gets(..) | Step::GetMany | Step::Touch(..) | Step::GetAndTouch(..) => {
            look(cache, model, step);
        }
        Step::Swap(..) | Step::Append(..) | Step::Prepend(..) | Step::Update(..) | Step::Compute(..) => {
            change(cache, model, step);
        }
        Step::Incr(..) | Step::Decr(..) | Step::CountFrom(..) => count(cache, model, step),
        Step::Set(key, value, put) => {
            assert_eq!(cache.set(KEYS[key], value.clone(), put), Ok(true), "{shown}");
            model.put(key, value, put.ttl);
        }
        Step::SetMany(value) => {
            let pairs = KEYS.map(|key| (key, value.clone()));
            assert!(cache.set_many(pairs, MINUTE).is_empty(), "{shown}");
            (0..KEYS.len()).for_each(|key| model.put(key, value.clone(), Ttl::Forever));
        }
        Step::Add(key, value) => {
            let free = model.value(key).is_none();
            assert_eq!(cache.add(KEYS[key], value.clone(), MINUTE), Ok(free), "{shown}");
            if free {
                model.put(key, value, Ttl::Forever);
            }
        }
        Step::Replace(key, value) => {
            let there = model.value(key).is_some();
            let replaced = cache.replace(KEYS[key], value.clone(), MINUTE);
            assert_eq!(replaced, Ok(there), "{shown}");
            if there {
                model.put(key, value, Ttl::Forever);
            }
        }
        Step::Delete(key) => {
            let there = model.items.remove(&key).is_some();
            assert_eq!(cache.delete(KEYS[key]), Ok(there), "{shown}");
        }
        Step::DeleteMany => {
            let gone = cache.delete_many(KEYS).complete().expect("no failure");
            assert_eq!(gone.len(), model.items.len(), "{shown}");
            model.items.clear();
        }
        // Stale items are for leases: those have tests of their own.
        Step::Invalidate(key) => {
            let there = model.items.remove(&key).is_some();
            assert_eq!(cache.invalidate(KEYS[key], MINUTE), Ok(there), "{shown}");
            cache.delete(KEYS[key]).expect("a reply");
        }
    }
}

fn look(cache: &Cache, model: &mut Model, step: Step) {
    let shown = format!("{step:?}");
    match step {
        Step::Get(key) => assert_eq!(cache.get(KEYS[key]), Ok(model.value(key)), "{shown}"),
        Step::Gets(key) => {
            let found = cache.gets(KEYS[key]).expect("a reply");
            if let (Some((_, cas)), Some(item)) = (&found, model.items.get(&key)) {
                model.seen.insert(key, (item.version, *cas));
            }
            assert_eq!(found.map(|(value, _)| value), model.value(key), "{shown}");
        }
        Step::GetMany => {
            let found = cache.get_many(KEYS).complete().expect("no failure");
            for (key, name) in KEYS.iter().enumerate() {
                assert_eq!(found.get(name), model.value(key).as_ref(), "{shown}");
            }
        }
        Step::Touch(key, ttl) => {
            let there = model.value(key).is_some();
            assert_eq!(cache.touch(KEYS[key], ttl), Ok(there), "{shown}");
            model.touch(key, ttl);
        }
        Step::GetAndTouch(key, ttl) => {
            assert_eq!(
                cache.get_and_touch(KEYS[key], ttl),
                Ok(model.value(key)),
                "{shown}"
            );
            model.touch(key, ttl);
        }
        _ => unreachable!("not a look-up: {shown}"),
    }
}

fn change(cache: &Cache, model: &mut Model, step: Step) {
    let shown = format!("{step:?}");
    match step {
        Step::Swap(key, value) => {
            let Some((version, cas)) = model.seen.get(&key).copied() else {
                return;
            };
            let expected = match model.items.get(&key) {
                Some(item) if item.version == version => Swap::Stored,
                Some(_) => Swap::Changed,
                None => Swap::Missing,
            };
            let swapped = cache.cas(KEYS[key], value.clone(), cas, MINUTE);
            assert_eq!(swapped, Ok(expected), "{shown}");
            if expected == Swap::Stored {
                model.put(key, value, Ttl::Forever);
            }
        }
        Step::Append(key, text) => {
            if let Some(value) = model.extended(key, |old| format!("{old}{text}")) {
                assert_eq!(cache.append(KEYS[key], &text), Ok(true), "{shown}");
                model.put(key, value, Ttl::Forever);
            }
        }
        Step::Prepend(key, text) => {
            if let Some(value) = model.extended(key, |old| format!("{text}{old}")) {
                assert_eq!(cache.prepend(KEYS[key], &text), Ok(true), "{shown}");
                model.put(key, value, Ttl::Forever);
            }
        }
        Step::Update(key, value) => {
            let mut old = None;
            let updated = cache.update(KEYS[key], MINUTE, |there| {
                old = there.cloned();
                Some(value.clone())
            });
            assert_eq!(updated, Ok(Some(value.clone())), "{shown}");
            assert_eq!(old, model.value(key), "{shown}");
            model.put(key, value, Ttl::Forever);
        }
        Step::Compute(key, value) => {
            let expected = model.value(key).unwrap_or_else(|| value.clone());
            let got = cache.get_or_compute(KEYS[key], MINUTE, Default::default(), || Ok::<_, ()>(value));
            assert_eq!(got, Ok(expected.clone()), "{shown}");
            if model.value(key).is_none() {
                model.put(key, expected, Ttl::Forever);
            }
        }
        _ => unreachable!("not a change: {shown}"),
    }
}

fn count(cache: &Cache, model: &mut Model, step: Step) {
    let shown = format!("{step:?}");
    match step {
        Step::Incr(key, _) | Step::Decr(key, _) | Step::CountFrom(key, ..) if !model.counts(key) => {
            // Text may be digits to servers, and a bool is one.
            if !matches!(model.value(key), Some(Value::Text(_) | Value::Bool(_))) {
                assert!(cache.incr(KEYS[key], 1).is_err(), "{shown}");
            }
        }
        Step::Incr(key, delta) => {
            let sum = model.count(key, |old| old + delta);
            assert_eq!(cache.incr(KEYS[key], delta), Ok(sum), "{shown}");
        }
        Step::Decr(key, delta) => {
            let rest = model.count(key, |old| old.saturating_sub(delta));
            assert_eq!(cache.decr(KEYS[key], delta), Ok(rest), "{shown}");
        }
        Step::CountFrom(key, delta, initial) => {
            let number = model.count(key, |old| old + delta).unwrap_or_else(|| {
                model.put(key, Value::Int(initial as i64), Ttl::Forever);
                initial
            });
            let counted = cache.incr_from(KEYS[key], delta, initial, MINUTE);
            assert_eq!(counted, Ok(number), "{shown}");
        }
        _ => unreachable!("no counting: {shown}"),
    }
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..2_000_i64).prop_map(Value::Int),
        // Raw, so that it can be appended to.
        "[a-z]{0,9}".prop_map(Value::Text),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
        (-1e9..1e9_f64).prop_map(|float| Value::List(vec![Value::Float(float)])),
        (0..200_i64).prop_map(|len| Value::List((0..len * 20).map(Value::Int).collect())),
    ]
}

fn ttls() -> impl Strategy<Value = Ttl> {
    let days = |days| Ttl::After(Duration::from_secs(days * 24 * 60 * 60));
    prop_oneof![
        4 => Just(Ttl::Forever),
        2 => (1..4_000_u64).prop_map(days),
        1 => Just(Ttl::After(Duration::ZERO)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let put = (ttls(), 0..3_usize, any::<bool>()).prop_map(|(ttl, choice, quiet)| Put {
        ttl,
        choice: [Choice::ByThreshold, Choice::Compress, Choice::Raw][choice],
        quiet,
    });
    let key = || 0..KEYS.len();
    prop_oneof![
        3 => key().prop_map(Step::Get),
        2 => key().prop_map(Step::Gets),
        1 => Just(Step::GetMany),
        3 => (key(), values(), put).prop_map(|(key, value, put)| Step::Set(key, value, put)),
        1 => values().prop_map(Step::SetMany),
        1 => (key(), values()).prop_map(|(key, value)| Step::Add(key, value)),
        1 => (key(), values()).prop_map(|(key, value)| Step::Replace(key, value)),
        2 => (key(), values()).prop_map(|(key, value)| Step::Swap(key, value)),
        1 => (key(), "[a-z]{1,3}").prop_map(|(key, text)| Step::Append(key, text)),
        1 => (key(), "[a-z]{1,3}").prop_map(|(key, text)| Step::Prepend(key, text)),
        1 => (key(), 0..2_000_u64).prop_map(|(key, delta)| Step::Incr(key, delta)),
        1 => (key(), 0..2_000_u64).prop_map(|(key, delta)| Step::Decr(key, delta)),
        1 => (key(), 0..99_u64, 0..99_u64).prop_map(|(key, delta, initial)| Step::CountFrom(key, delta, initial)),
        1 => key().prop_map(Step::Delete),
        1 => Just(Step::DeleteMany),
        1 => (key(), ttls()).prop_map(|(key, ttl)| Step::Touch(key, ttl)),
        1 => (key(), ttls()).prop_map(|(key, ttl)| Step::GetAndTouch(key, ttl)),
        1 => (key(), values()).prop_map(|(key, value)| Step::Update(key, value)),
        1 => (key(), values()).prop_map(|(key, value)| Step::Compute(key, value)),
        1 => key().prop_map(Step::Invalidate),
    ]
}

#[test]
fn random_steps_do_what_a_cache_does() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        for form in FORMS {
            let cache = cache(&[&server], form);
            let mut runner = TestRunner::new(ProptestConfig {
                cases: 64,
                failure_persistence: None,
                ..ProptestConfig::default()
            });
            let many = proptest::collection::vec(steps(), 1..80);
            let ran = runner.run(&many, |steps| {
                assert!(cache.flush_all(0).is_empty());
                let mut model = Model::default();
                for step in steps {
                    take(&cache, &mut model, step);
                }
                Ok(())
            });
            if let Err(error) = ran {
                panic!("{form:?}: {error}");
            }
        }
    }
}
