//! Connections whose output is made elsewhere, by threads beside the workers: they have a turn when there is something for them.
//!
//! There are few of them. While there are none a turn does not ask, and while nothing has come they are not looked at.

use scrubjay_io::driver::Driver;

use super::Worker;
use super::group::Turn;
use crate::service::Service;

impl<D: Driver, S: Service> Worker<'_, D, S> {
    /// The connection at `index` has a turn when the service has something for it.
    pub(super) fn feed_later(&mut self, index: usize) {
        if let Some(connection) = self.connections.get(index)
            && !self.fed.contains(&connection.token)
        {
            self.fed.push(connection.token);
        }
    }

    /// Adds turns for those that are fed, but for those that have one, if something has come.
    pub(super) fn add_fed(&mut self, turns: &mut Vec<Turn>) {
        if self.fed.is_empty() || !self.service.has_news() {
            return;
        }
        for token in std::mem::take(&mut self.fed) {
            let index = token as u32 as usize;
            if self.is_current(token) && !turns.iter().any(|turn| turn.is_of(index)) {
                turns.push(Turn::of(index, false));
            }
        }
    }
}
