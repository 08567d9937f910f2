//! What the requests of one thread are called: numbers. Those of one call follow each other, so that where they all go the same way
//! two numbers say it for all.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

/// Some of them, in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    /// The first of them that follow each other; empty if there is none at all.
    first: Range<u64>,
    /// The others, likewise. None is empty, and none goes on where the one before it ends.
    more: VecDeque<Range<u64>>,
}

impl Ids {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.first.clone().next()
    }

    /// The first and those that follow it in number, too.
    pub(crate) fn first_run(&self) -> Option<Range<u64>> {
        (!self.is_empty()).then(|| self.first.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.first.clone().chain(self.more.iter().cloned().flatten())
    }

    /// Whether they are these, in this order.
    pub(crate) fn is_run(&self, ids: &Range<u64>) -> bool {
        self.more.is_empty() && (self.first == *ids || (self.is_empty() && ids.is_empty()))
    }

    pub(crate) fn push(&mut self, id: u64) {
        self.push_run(id..id + 1);
    }

    pub(crate) fn push_run(&mut self, run: Range<u64>) {
        let last = match self.more.back_mut() {
            Some(last) => last,
            None => &mut self.first,
        };
        if last.is_empty() {
            *last = run;
        } else if last.end == run.start {
            last.end = run.end;
        } else if !run.is_empty() {
            self.more.push_back(run);
        }
    }

    /// Puts one before all others.
    pub(crate) fn push_front(&mut self, id: u64) {
        if !self.is_empty() && self.first.start == id + 1 {
            self.first.start = id;
            return;
        }
        let second = mem::replace(&mut self.first, id..id + 1);
        if !second.is_empty() {
            self.more.push_front(second);
        }
    }

    /// Moves so many from the front to the end of others.
    pub(crate) fn move_to(&mut self, others: &mut Ids, mut count: u64) {
        while count > 0 && !self.is_empty() {
            let moved = self.first.start..self.first.end.min(self.first.start + count);
            count -= moved.end - moved.start;
            self.first.start = moved.end;
            if self.is_empty() {
                self.first = self.more.pop_front().unwrap_or_default();
            }
            others.push_run(moved);
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<u64> {
        let mut one = Ids::default();
        self.move_to(&mut one, 1);
        one.first()
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        let mut kept = Ids::default();
        self.iter().filter(|id| is_kept(*id)).for_each(|id| kept.push(id));
        *self = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    fn of(ids: &[u64]) -> Ids {
        let mut made = Ids::default();
        ids.iter().for_each(|id| made.push(*id));
        made
    }

    #[test]
    fn they_keep_their_order_however_they_came() {
        let all = [5, 6, 7, 9, 2, 3];
        let mut ids = of(&all);
        assert!(ids.iter().eq(all) && ids.more.len() == 2);
        assert_eq!(ids.first_run(), Some(5..8));
        ids.push_front(4);
        ids.push_front(1);
        assert_eq!(ids, of(&[1, 4, 5, 6, 7, 9, 2, 3]));
        assert_eq!(ids.pop_front(), Some(1));
        ids.retain(|id| id != 6);
        assert!(ids.iter().eq([4, 5, 7, 9, 2, 3]));
        let mut moved = of(&[3]);
        ids.move_to(&mut moved, 0);
        assert_eq!(moved, of(&[3]));
        ids.move_to(&mut moved, 4);
        assert_eq!((&moved, &ids), (&of(&[3, 4, 5, 7, 9]), &of(&[2, 3])));
        ids.move_to(&mut moved, 9);
        assert!(ids.is_empty() && ids.pop_front().is_none() && ids.first().is_none());
    }

    #[test]
    fn a_run_is_told_from_others() {
        assert!(of(&[3, 4, 5]).is_run(&(3..6)) && of(&[]).is_run(&(3..3)));
        for other in [3..5, 3..7, 2..6, 0..0] {
            assert!(!of(&[3, 4, 5]).is_run(&other), "{other:?}");
        }
        assert!(!of(&[3, 5]).is_run(&(3..6)) && !of(&[]).is_run(&(3..4)));
    }
}
