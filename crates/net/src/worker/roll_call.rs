//! A worker's answer to a roll call.

use scrubjay_base::time::Now;
use scrubjay_io::driver::Driver;

use super::Worker;
use crate::roll::{Roll, Row, State};
use crate::service::Service;

/// Connections that are listed in one turn.
const ROWS_PER_TURN: usize = 64;

impl<D: Driver, S: Service> Worker<'_, D, S> {
    /// Says which sockets are its own, some of them a turn, if somebody wants to know.
    pub(super) fn answer_roll_call(&mut self) {
        let shared = self.shared;
        let roll_call = &shared.counters.roll_call;
        if !roll_call.hear(self.roll_answered) {
            return;
        }
        let (number, roll) = roll_call.current();
        let Some(roll) = roll else {
            self.roll_answered = number;
            return;
        };
        if self.roll_at.0 != number {
            self.roll_at = (number, 0);
            self.add_constant_rows(&roll);
        }
        let first = self.roll_at.1;
        let last = (first + ROWS_PER_TURN).min(self.connections.len());
        let connections = (first..last).filter_map(|index| self.connections.get(index));
        roll.add(connections.map(|connection| Row {
            name: self.driver.name(&connection.socket),
            state: connection.state(),
            last_active: connection.last_active,
            last_asked: connection.last_asked,
        }));
        self.roll_at.1 = last;
        if last == self.connections.len() {
            self.roll_answered = number;
            roll.finish(&shared.control);
        }
    }

    fn add_constant_rows(&self, roll: &Roll) {
        let row = |name, state| Row {
            name,
            state,
            last_active: Now::default(),
            last_asked: 0,
        };
        let listeners = self.listeners.iter();
        roll.add(listeners.map(|listener| row(self.driver.listener_name(listener), State::Listening)));
        let places = self.datagrams.iter().flat_map(|datagrams| &datagrams.places);
        roll.add(places.map(|place| row(self.driver.datagrams_name(&place.socket), State::Datagrams)));
    }
}
