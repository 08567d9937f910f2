//! The memory that a thread's last bundle of look-ups was kept in, for its next one. It is too large for what allocators are quick
//! with.

use std::cell::Cell;

use crate::protocol::bundle::Came;

thread_local! {
    static SPARE: Cell<Option<Came>> = const { Cell::new(None) };
}

/// Keeps it, unless it is more than a thread should keep.
pub(crate) fn keep(came: Came) {
    if came.is_worth_keeping() {
        // A thread that is ending has no place for it any more.
        let _ = SPARE.try_with(|spare| spare.set(Some(came)));
    }
}

/// What was kept, if it has not been taken since.
pub(crate) fn take() -> Came {
    let spare = SPARE.try_with(Cell::take);
    spare.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{keep, take};
    use crate::protocol::bundle::Came;

    #[test]
    fn what_was_kept_is_taken_once_and_what_is_too_much_or_nothing_is_not_kept() {
        let of = |len: usize| Came::with_room(1, len);
        keep(of(1000));
        keep(Came::default());
        keep(of(1 << 20));
        assert!(take().room() >= 1000);
        assert_eq!(take().room(), 0);
    }
}
