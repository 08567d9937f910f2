//! How many keys may be asked for at a time, over all servers together.
//!
//! TCP bounds what one server has on its way; when many servers answer one client at the same moment, their replies meet
//! before the client and are dropped there (*incast*), though each connection by itself is modest. So the bound lies here, and
//! it is learnt as TCP learns its own: doubled each round trip up to the first loss, from there on one key more each round
//! trip, halved at each loss. It is as TCP's in a second respect: the receiver's buffer is known, and what does not fit into
//! it is never asked for, so that only the network needs to be learnt by losses.
//! Source: Nishtala et al., Scaling Memcache at Facebook, NSDI 2013, section 3.1; RFC 5681.

use super::frame::DATAGRAM_COST;

/// Keys at the start: what TCP starts with in segments. Source: RFC 6928.
const START: usize = 10;

/// What a key's reply is taken to cost before the first has come: a full datagram, and half of one for doubt.
const COST_START: usize = DATAGRAM_COST * 3 / 2;

/// A request asks for this part of the window at most, so that several servers work at a time and a loss is a small one.
const REQUESTS: usize = 4;

/// The window. What is lost is not asked again by it: the round trip of the loss is the caller's to wait for.
#[derive(Clone, Debug)]
pub(super) struct Window {
    min: usize,
    max: usize,
    /// Keys that may be outstanding, as far as the network is known.
    size: usize,
    /// Below it the window doubles each round trip.
    threshold: usize,
    /// Keys answered that have not made it wider yet.
    credit: usize,
    outstanding: usize,
    /// Bytes of the receive buffer that replies may take.
    buffer: usize,
    /// What a key's reply takes of it: the mean, and how far it is off.
    cost: usize,
    cost_deviation: usize,
    /// Number of the next request.
    next: u64,
    /// Losses of requests before this one have been heeded.
    heeded: u64,
    /// Requests before this one were outstanding when the window was full.
    filled: u64,
}

impl Window {
    /// One that stays between `min` and `max` keys, at least 1, for a buffer of so many bytes as the kernel counts.
    pub(super) fn new(min: usize, max: usize, buffer: usize) -> Window {
        Window {
            min,
            max,
            size: START.clamp(min, max),
            threshold: max,
            credit: 0,
            outstanding: 0,
            buffer,
            cost: 0,
            cost_deviation: 0,
            next: 0,
            heeded: 0,
            filled: 0,
        }
    }

    /// Keys that may be outstanding.
    pub(super) fn size(&self) -> usize {
        let cost = match self.cost {
            0 => COST_START,
            mean => mean + 4 * self.cost_deviation,
        };
        self.size.min((self.buffer / cost).max(1))
    }

    /// Keys that the next request may ask for, if a server has `wanted` more; 0: a reply is to be waited for.
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        let size = self.size();
        let share = (size / REQUESTS).max(1).min(wanted);
        // Not a request for each key that comes free.
        if self.outstanding + share <= size {
            return share;
        }
        self.filled = self.next;
        0
    }

    /// A request for so many keys was sent; gives its number.
    pub(super) fn sent(&mut self, keys: usize) -> u64 {
        self.outstanding += keys;
        let number = self.next;
        self.next += 1;
        number
    }

    /// Its reply has come, and took so many bytes of the receive buffer.
    pub(super) fn answered(&mut self, keys: usize, number: u64, bytes: usize) {
        self.outstanding -= keys;
        self.learn_cost(bytes.div_ceil(keys.max(1)));
        // A window that is not filled proves nothing.
        if number >= self.filled {
            return;
        }
        if self.size < self.threshold {
            self.size += keys;
        } else {
            self.credit += keys;
            if self.credit >= self.size {
                self.credit -= self.size;
                self.size += 1;
            }
        }
        self.size = self.size.min(self.max);
    }

    /// No reply came in time. The losses of one round trip are one loss; gives whether this one was heeded.
    pub(super) fn lost(&mut self, keys: usize, number: u64) -> bool {
        self.outstanding -= keys;
        if number < self.heeded {
            return false;
        }
        self.heeded = self.next;
        self.size = (self.size() / 2).clamp(self.min, self.max);
        self.threshold = self.size;
        self.credit = 0;
        true
    }

    /// What becomes of a request is of no interest any more.
    pub(super) fn dropped(&mut self, keys: usize) {
        self.outstanding -= keys;
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    fn learn_cost(&mut self, sample: usize) {
        if self.cost == 0 {
            (self.cost, self.cost_deviation) = (sample, sample / 4);
            return;
        }
        // As round trips are smoothed by RFC 6298.
        let off = self.cost.abs_diff(sample);
        self.cost_deviation = (3 * self.cost_deviation + off) / 4;
        self.cost = (7 * self.cost + sample).div_ceil(8).max(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::{START, Window};

    const ENOUGH: usize = usize::MAX;
    const COST: usize = 1000;

    /// Fills the window; gives the requests, as keys and number.
    fn fill(window: &mut Window) -> Vec<(usize, u64)> {
        let mut requests = Vec::new();
        loop {
            let keys = window.room(1000);
            if keys == 0 {
                return requests;
            }
            requests.push((keys, window.sent(keys)));
        }
    }

    fn round_trip(window: &mut Window) {
        for (keys, number) in fill(window) {
            window.answered(keys, number, keys * COST);
        }
    }

    #[test]
    fn it_doubles_up_to_a_loss_and_then_grows_by_a_key_a_round_trip() {
        let mut window = Window::new(1, 1000, ENOUGH);
        assert_eq!(window.size(), START);
        round_trip(&mut window);
        assert!((START + 6..=2 * START).contains(&window.size()), "{window:?}");
        while window.size() < 100 {
            round_trip(&mut window);
        }
        let before = window.size();
        for (keys, number) in fill(&mut window) {
            window.lost(keys, number);
        }
        assert_eq!(window.size(), before / 2, "one loss, as all were sent together");
        let halved = window.size();
        for trips in 1..10 {
            round_trip(&mut window);
            assert!((halved..=halved + trips).contains(&window.size()), "{window:?}");
        }
        assert!(window.size() > halved + 5, "{window:?}");
        for _ in 0..20 {
            let requests = fill(&mut window);
            for (keys, number) in requests {
                window.lost(keys, number);
            }
        }
        assert_eq!(window.size(), 1, "not below its least");
    }

    #[test]
    fn what_does_not_fit_the_receive_buffer_is_not_asked_for() {
        let mut window = Window::new(1, 1000, 20 * COST);
        for _ in 0..100 {
            round_trip(&mut window);
        }
        assert!((18..=20).contains(&window.size()), "{window:?}");
        let keys = window.room(1000);
        let number = window.sent(keys);
        window.answered(keys, number, keys * 100 * COST);
        assert_eq!(window.size(), 1, "large replies: one at a time");
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let mut window = Window::new(1, 1000, ENOUGH);
        for _ in 0..100 {
            let keys = window.room(2);
            let number = window.sent(keys);
            window.answered(keys, number, COST);
        }
        assert_eq!(window.size(), START);
    }

    /// What happens to the oldest request, or that another is sent.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Send(usize),
        Answered(usize),
        Lost,
        Dropped,
    }

    fn event() -> impl Strategy<Value = Event> {
        (0..6, 1usize..100, 1usize..100_000).prop_map(|(kind, wanted, cost)| match kind {
            0..3 => Event::Send(wanted),
            3 => Event::Answered(cost),
            4 => Event::Lost,
            _ => Event::Dropped,
        })
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_whatever_happens(
            bounds in (1usize..50, 0usize..500),
            buffer in 1usize..1_000_000,
            events in prop::collection::vec(event(), 0..300),
            whole in any::<bool>(),
        ) {
            let (min, max) = (bounds.0, bounds.0 + bounds.1);
            let mut window = Window::new(min, max, if whole { ENOUGH } else { buffer });
            let mut requests = VecDeque::new();
            for event in events {
                let size = window.size;
                match event {
                    Event::Send(wanted) => {
                        let keys = window.room(wanted);
                        prop_assert!(keys <= wanted);
                        prop_assert!(keys > 0 || !window.is_idle(), "it never stops for good");
                        if keys > 0 {
                            requests.push_back((keys, window.sent(keys)));
                            prop_assert!(window.outstanding <= window.size());
                        }
                    }
                    Event::Answered(cost) => if let Some((keys, number)) = requests.pop_front() {
                        window.answered(keys, number, cost);
                        prop_assert!(window.size >= size, "grows on success");
                    }
                    Event::Lost => if let Some((keys, number)) = requests.pop_front() {
                        window.lost(keys, number);
                        prop_assert!(window.size < size || size == min || number < window.heeded, "shrinks on loss");
                        prop_assert!(window.size <= size.max(min), "shrinks on loss");
                    }
                    Event::Dropped => if let Some((keys, _)) = requests.pop_front() {
                        window.dropped(keys);
                    }
                }
                prop_assert!((min..=max).contains(&window.size));
                let outstanding: usize = requests.iter().map(|(keys, _)| keys).sum();
                prop_assert_eq!(window.outstanding, outstanding);
            }
        }
    }
}
