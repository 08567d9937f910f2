//! Computations under way in this process: who needs what is being computed already waits for it.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::value::Value;

/// What is computed: a key, and the CAS number of the item that stands for the lease, or 0 without one. Nobody who was
/// told of a later lease gets what was computed for an earlier one.
type Name = (Vec<u8>, u64);

/// All computations under way.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Name, Arc<Flight>>>);

/// One of them.
pub(super) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

enum State {
    /// With the tasks that wait; the threads wait at the condition variable.
    Under(Vec<Waker>),
    /// With its value.
    Landed(Value),
    /// Without one.
    Lost,
}

/// How a flight ended for one who waited for it.
pub(super) enum Outcome {
    Landed(Value),
    Lost,
    /// It did not in time.
    Late,
}

/// Whoever computes. Dropped before it lands, the flight is lost, and those who wait see to it themselves.
pub(super) struct Pilot<'a> {
    flights: &'a Flights,
    name: Name,
    flight: Arc<Flight>,
}

/// What one who needs a value is to do.
pub(super) enum Role<'a> {
    /// Compute.
    Lead(Pilot<'a>),
    /// Wait.
    Follow(Arc<Flight>),
}

// No code of others runs under these locks, so that what a panic leaves behind them is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    /// The flight of this name, if there is one.
    pub(super) fn find(&self, key: &[u8], cas: u64) -> Option<Arc<Flight>> {
        lock(&self.0).get(&(key.to_vec(), cas)).cloned()
    }

    /// The flight of this name if there is one, else a new one.
    pub(super) fn enter(&self, key: &[u8], cas: u64) -> Role<'_> {
        let name = (key.to_vec(), cas);
        let mut flights = lock(&self.0);
        if let Some(flight) = flights.get(&name) {
            return Role::Follow(flight.clone());
        }
        let flight = Arc::new(Flight {
            state: Mutex::new(State::Under(Vec::new())),
            ended: Condvar::new(),
        });
        flights.insert(name.clone(), flight.clone());
        Role::Lead(Pilot {
            flights: self,
            name,
            flight,
        })
    }

    /// Nobody joins the flight without a lease for this key any more; those who did get its value.
    pub(super) fn forget(&self, key: &[u8]) {
        lock(&self.0).remove(&(key.to_vec(), 0));
    }
}

impl Flight {
    /// Waits until it has ended, at most so long.
    pub(super) fn wait(&self, within: Duration) -> Outcome {
        let under = |state: &mut State| matches!(state, State::Under(_));
        let state = lock(&self.state);
        let waited = self.ended.wait_timeout_while(state, within, under);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.outcome().unwrap_or(Outcome::Late)
    }

    /// How it has ended; the task is woken when it does.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.state);
        if let State::Under(wakers) = &mut *state
            && !wakers.iter().any(|waker| waker.will_wake(context.waker()))
        {
            wakers.push(context.waker().clone());
        }
        state.outcome().map_or(Poll::Pending, Poll::Ready)
    }

    /// Ends it, unless it has ended.
    fn end(&self, how: State) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Under(_)) {
            return;
        }
        let before = mem::replace(&mut *state, how);
        drop(state);
        self.ended.notify_all();
        if let State::Under(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl State {
    fn outcome(&self) -> Option<Outcome> {
        match self {
            State::Under(_) => None,
            State::Landed(value) => Some(Outcome::Landed(value.clone())),
            State::Lost => Some(Outcome::Lost),
        }
    }
}

impl Pilot<'_> {
    /// Everybody who waits gets the value.
    pub(super) fn land(self, value: &Value) {
        self.flight.end(State::Landed(value.clone()));
    }
}

impl Drop for Pilot<'_> {
    fn drop(&mut self) {
        let mut flights = lock(&self.flights.0);
        // It may have been forgotten, and another one begun.
        if flights
            .get(&self.name)
            .is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
        {
            flights.remove(&self.name);
        }
        drop(flights);
        self.flight.end(State::Lost);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Flights, Outcome, Role};
    use crate::value::Value;

    fn lead<'a>(flights: &'a Flights, key: &[u8], cas: u64) -> super::Pilot<'a> {
        match flights.enter(key, cas) {
            Role::Lead(pilot) => pilot,
            Role::Follow(_) => panic!("nobody else leads {key:?} {cas}"),
        }
    }

    #[test]
    fn one_leads_and_the_others_get_its_value() {
        let flights = Flights::default();
        let pilot = lead(&flights, b"a", 1);
        let Role::Follow(flight) = flights.enter(b"a", 1) else {
            panic!("somebody leads already");
        };
        assert!(matches!(flight.wait(Duration::ZERO), Outcome::Late));
        drop(lead(&flights, b"a", 2));
        drop(lead(&flights, b"b", 1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| flight.wait(Duration::from_secs(20)));
            pilot.land(&Value::Int(7));
            let outcome = waiting.join().expect("no panic");
            assert!(matches!(outcome, Outcome::Landed(Value::Int(7))));
        });
        assert!(flights.find(b"a", 1).is_none());
    }

    #[test]
    fn a_lost_flight_and_a_forgotten_one_make_room_for_another() {
        let flights = Flights::default();
        let first = lead(&flights, b"a", 0);
        let Role::Follow(flight) = flights.enter(b"a", 0) else {
            panic!("somebody leads already");
        };
        drop(first);
        assert!(matches!(flight.wait(Duration::ZERO), Outcome::Lost));
        let old = lead(&flights, b"a", 0);
        flights.forget(b"a");
        let new = lead(&flights, b"a", 0);
        drop(old);
        assert!(flights.find(b"a", 0).is_some(), "the new one is under way");
        drop(new);
    }
}
