//! What became of the items: how many went through, and how many did not and why.

use std::collections::BTreeMap;

use indicatif::{HumanBytes, HumanCount};

/// Reasons that are told one by one; a server may invent any number.
const REASONS_MAX: usize = 20;

/// Counts of items.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Went through.
    pub(crate) items: u64,
    /// Bytes of their keys and values.
    pub(crate) bytes: u64,
    /// Did not have to: no fault.
    skipped: BTreeMap<String, u64>,
    /// Should have.
    failed: BTreeMap<String, u64>,
}

fn count(reasons: &mut BTreeMap<String, u64>, why: &str, by: u64) {
    let is_known = reasons.contains_key(why);
    let why = if is_known || reasons.len() < REASONS_MAX {
        why
    } else {
        "other reasons"
    };
    *reasons.entry(why.to_owned()).or_default() += by;
}

impl Tally {
    /// One went through.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
    }

    /// One was left out for a good reason.
    pub(crate) fn skip(&mut self, why: &str) {
        count(&mut self.skipped, why, 1);
    }

    /// One could not go through.
    pub(crate) fn fail(&mut self, why: &str) {
        count(&mut self.failed, why, 1);
    }

    /// Adds another's counts.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.items += other.items;
        self.bytes += other.bytes;
        for (why, by) in &other.skipped {
            count(&mut self.skipped, why, *by);
        }
        for (why, by) in &other.failed {
            count(&mut self.failed, why, *by);
        }
    }

    /// How many should have gone through and did not.
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// How many there were in all.
    pub(crate) fn seen(&self) -> u64 {
        self.items + self.failures() + self.skipped.values().sum::<u64>()
    }

    /// The counts as the end of a sentence: `3 items (1 KiB) dumped, 1 skipped (1 expired), 0 failed`.
    pub(crate) fn tell(&self, done: &str) -> String {
        let reasons = |reasons: &BTreeMap<String, u64>| {
            let told: Vec<String> = reasons
                .iter()
                .map(|(why, count)| format!("{count} {why}"))
                .collect();
            match told.is_empty() {
                true => String::new(),
                false => format!(" ({})", told.join(", ")),
            }
        };
        format!(
            "{} items ({}) {done}, {} skipped{}, {} failed{}",
            HumanCount(self.items),
            HumanBytes(self.bytes),
            self.skipped.values().sum::<u64>(),
            reasons(&self.skipped),
            self.failures(),
            reasons(&self.failed),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn counts_of_several_are_told_together_with_their_reasons() {
        let mut tally = Tally::default();
        tally.pass(1024);
        tally.skip("expired");
        let mut other = Tally::default();
        other.pass(1024);
        other.skip("expired");
        other.fail("SERVER_ERROR x");
        tally.add(&other);
        assert_eq!(
            tally.tell("loaded"),
            "2 items (2.00 KiB) loaded, 2 skipped (2 expired), 1 failed (1 SERVER_ERROR x)"
        );
        assert_eq!((tally.seen(), tally.failures()), (5, 1));
        assert_eq!(
            Tally::default().tell("dumped"),
            "0 items (0 B) dumped, 0 skipped, 0 failed"
        );
    }
}
