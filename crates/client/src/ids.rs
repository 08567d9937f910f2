//! What the requests of one thread are called: numbers. Those of one call follow each other, so that where they all go the same way
//! two numbers say it for all.

use std::collections::VecDeque;
use std::ops::Range;

/// Some of them, in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    /// None is empty, and none goes on where the one before it ends.
    runs: VecDeque<Range<u64>>,
}

impl Ids {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.runs.front().map(|run| run.start)
    }

    /// The first and those that follow it in number, too.
    pub(crate) fn first_run(&self) -> Option<Range<u64>> {
        self.runs.front().cloned()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().cloned().flatten()
    }

    /// Whether they are these, in this order.
    pub(crate) fn is_run(&self, ids: &Range<u64>) -> bool {
        match self.runs.as_slices() {
            ([run], []) => run == ids,
            _ => self.is_empty() && ids.is_empty(),
        }
    }

    pub(crate) fn push(&mut self, id: u64) {
        self.push_run(id..id + 1);
    }

    pub(crate) fn push_run(&mut self, run: Range<u64>) {
        match self.runs.back_mut() {
            _ if run.is_empty() => {}
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.runs.push_back(run),
        }
    }

    /// Puts one before all others.
    pub(crate) fn push_front(&mut self, id: u64) {
        match self.runs.front_mut() {
            Some(first) if first.start == id + 1 => first.start = id,
            _ => self.runs.push_front(id..id + 1),
        }
    }

    /// Moves so many from the front to the end of others.
    pub(crate) fn move_to(&mut self, others: &mut Ids, mut count: u64) {
        while count > 0
            && let Some(first) = self.runs.front_mut()
        {
            let moved = first.start..first.end.min(first.start + count);
            count -= moved.end - moved.start;
            first.start = moved.end;
            if first.is_empty() {
                self.runs.pop_front();
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
        assert!(ids.iter().eq(all) && ids.runs.len() == 3);
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
