//! The client's typed cache by futures: the same steps as by threads, waited for by tasks.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use scrubjay_client::protocol::Form;
use scrubjay_client::value::{Choice, Value};
use scrubjay_client::{Cache, Client, ComputeError, LeaseOptions, Put, Ttl};

use crate::cache::{FORMS, MINUTE, cache, everywhere};
use crate::kit::{PATIENCE, Server};
use crate::shared::block_on;

/// Patient, so that a slow machine computes nothing twice.
const OPTIONS: LeaseOptions = LeaseOptions {
    lease: Duration::from_secs(600),
    wait_max: PATIENCE,
    recache_below: None,
};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs all at once, on this thread.
async fn together(mut tasks: Vec<Task<'_>>) {
    poll_fn(|context| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if tasks.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn other(cache: &Cache) -> Cache {
    Cache::new(Client::new(cache.client().config().clone()).expect("servers"))
}

#[test]
fn single_steps_and_loops_do_the_same() {
    everywhere(|cache| {
        block_on(async {
            let raw = Put {
                choice: Choice::Raw,
                ..MINUTE.into()
            };
            assert_eq!(cache.set_async("k", "b", raw).await, Ok(true));
            assert_eq!(cache.append_async("k", "c").await, Ok(true));
            assert_eq!(cache.prepend_async("k", "a").await, Ok(true));
            assert_eq!(cache.append_async("none", "c").await, Ok(false));
            assert_eq!(
                cache.get_and_touch_async("k", MINUTE).await,
                Ok(Some("abc".into()))
            );
            let stored = cache.get_raw_async("k").await.expect("a reply").expect("an item");
            assert_eq!(stored.bytes, b"abc");
            assert_eq!(cache.set_as_async("k", &[1, 2], Ttl::Forever).await, Ok(true));
            assert_eq!(cache.get_as_async("k").await, Ok(Some(vec![1, 2])));
            assert_eq!(cache.incr_from_async("n", 5, 10, MINUTE).await, Ok(10));
            assert_eq!(cache.incr_from_async("n", 5, 10, MINUTE).await, Ok(15));
            assert_eq!(cache.decr_from_async("n", 20, 10, MINUTE).await, Ok(0));
            assert_eq!(cache.invalidate_async("n", MINUTE).await, Ok(true));
            assert_eq!(cache.get_async("n").await, Ok(None));
        });
    });
}

#[test]
fn batches_tell_what_failed_by_name() {
    everywhere(|cache| {
        block_on(async {
            let long_key = "k".repeat(300);
            let pairs = [("a", 1), ("b", 2), (long_key.as_str(), 3)];
            let failed = cache.set_many_async(pairs, MINUTE).await;
            assert_eq!(failed.len(), 1);
            assert_eq!(failed[0].0, long_key);
            // Nobody waits for these.
            drop(cache.get_many_async(["a", "b"]));
            let mut dropped = Box::pin(cache.get_many_async(["a", "b"]));
            poll_fn(|context| {
                let _ = dropped.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
            drop(dropped);
            let gone = cache.delete_many_async(["a", "none"]).await;
            assert_eq!(gone.complete(), Ok(HashMap::from([("a", ())])));
            let left = cache.get_many_async(["a", "b"]).await;
            assert_eq!(left.complete(), Ok(HashMap::from([("b", Value::Int(2))])));
        });
    });
}

#[test]
fn updates_of_many_tasks_lose_nothing() {
    everywhere(|cache| {
        let clients = [other(cache), other(cache)];
        let one = |client| -> Task<'_> {
            let client: &Cache = client;
            Box::pin(async move {
                let more = |old: Option<&Value>| match old {
                    Some(Value::Int(int)) => Some(Value::Int(int + 1)),
                    _ => Some(Value::Int(1)),
                };
                for _ in 0..10 {
                    // Too many at once is told, and tried again.
                    while client.update_async("k", MINUTE, more).await.is_err() {}
                }
            })
        };
        block_on(together((0..8).map(|n| one(&clients[n % 2])).collect()));
        assert_eq!(cache.get("k"), Ok(Some(Value::Int(80))));
    });
}

#[test]
fn one_of_many_tasks_and_threads_computes() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        // Without leases it is one in each process; a client stands for one.
        for (form, clients) in [(Form::Meta, 2), (Form::Classic, 1)] {
            let clients: Vec<Cache> = (0..clients).map(|_| cache(&[&server], form)).collect();
            let computed = AtomicU32::new(0);
            let key = format!("{form:?}");
            let one = |client| -> Task<'_> {
                let (client, key, computed): (&Cache, _, _) = (client, &key, &computed);
                Box::pin(async move {
                    let compute = async {
                        computed.fetch_add(1, Ordering::Relaxed);
                        // So long that the others have come.
                        for _ in 0..50 {
                            client.get_async("another").await.expect("a reply");
                        }
                        Ok::<_, Infallible>("acorn")
                    };
                    let value = client.get_or_compute_async(key, MINUTE, OPTIONS, compute).await;
                    assert_eq!(value, Ok(Value::from("acorn")));
                })
            };
            std::thread::scope(|scope| {
                for client in &clients {
                    scope.spawn(|| block_on(together((0..8).map(|_| one(client)).collect())));
                    scope.spawn(|| {
                        let value = client.get_or_compute(&key, MINUTE, OPTIONS, || {
                            computed.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, Infallible>("acorn")
                        });
                        assert_eq!(value, Ok(Value::from("acorn")));
                    });
                }
            });
            assert_eq!(computed.into_inner(), 1, "{form:?}");
        }
    }
}

#[test]
fn whoever_is_dropped_while_computing_makes_room() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        for form in FORMS {
            let cache = cache(&[&server], form);
            let key = format!("{form:?}");
            let computing = AtomicU32::new(0);
            let forever = async {
                computing.fetch_add(1, Ordering::Relaxed);
                pending::<Result<Value, Infallible>>().await
            };
            let mut first = Box::pin(cache.get_or_compute_async(&key, MINUTE, OPTIONS, forever));
            block_on(poll_fn(|context| {
                assert!(first.as_mut().poll(context).is_pending());
                match computing.load(Ordering::Relaxed) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(()),
                }
            }));
            let second = async { Ok::<_, Infallible>("second") };
            let mut second = Box::pin(cache.get_or_compute_async(&key, MINUTE, OPTIONS, second));
            let mut first = Some(first);
            let mut looks = 0;
            let value = block_on(poll_fn(|context| {
                let polled = second.as_mut().poll(context);
                looks += 1;
                if looks == 2 {
                    first = None;
                }
                context.waker().wake_by_ref();
                polled
            }));
            assert_eq!(value, Ok(Value::from("second")));
            assert_eq!(cache.get(&key), Ok(Some(Value::from("second"))));
        }
    }
}

#[test]
fn who_waits_too_long_computes_and_a_failure_is_told() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        let (first, second) = (cache(&[&server], Form::Meta), cache(&[&server], Form::Meta));
        let hasty = LeaseOptions {
            wait_max: Duration::from_millis(20),
            ..OPTIONS
        };
        block_on(async {
            let compute = async {
                // One in this process and one in another: the first waits for the flight, the second asks again.
                for cache in [&first, &second] {
                    let own = async { Ok::<_, Infallible>("own") };
                    let own = cache.get_or_compute_async("k", MINUTE, hasty, own).await;
                    assert_eq!(own, Ok(Value::from("own")));
                }
                Ok::<_, Infallible>("lasting")
            };
            let value = first.get_or_compute_async("k", MINUTE, OPTIONS, compute).await;
            assert_eq!(value, Ok(Value::from("lasting")));
            assert_eq!(second.get_async("k").await, Ok(Some(Value::from("lasting"))));
            let failing = async { Err::<Value, _>("no") };
            let failed = first.get_or_compute_async("f", MINUTE, OPTIONS, failing).await;
            assert_eq!(failed, Err(ComputeError::Compute("no")));
            let next = async { Ok::<_, Infallible>(1) };
            let next = second.get_or_compute_async("f", MINUTE, OPTIONS, next).await;
            assert_eq!(next, Ok(Value::Int(1)));
        });
    }
}
