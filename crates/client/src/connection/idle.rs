//! Connections that nobody has used for a while: the server may have closed them, and from some time on we do.

use std::time::{Duration, Instant};

use super::stream::{Quiet, Wire};
use super::{Connection, State};

/// From this age on an idle connection is looked at before it is used.
const LOOK: Duration = Duration::from_millis(10);

impl<W: Wire> Connection<W> {
    /// A connection that nobody has used for a while may have been closed, and what has come on it was not asked for.
    pub(super) fn look_at_idle(&self, state: &mut State, now: Instant) {
        if state.conversation.outstanding() > 0 {
            return;
        }
        let idle = now.saturating_duration_since(state.heard) > LOOK;
        // What comes from here on is waited for.
        state.heard = now;
        if idle && state.roles.try_read() {
            if self.stream.is_quiet() == Quiet::No {
                state.conversation.end(&mut Vec::new());
                self.retire_if_wanted(state);
            }
            state.roles.stop_reading();
        }
    }

    /// Takes no more requests if nobody has needed it for so long; whether that is so. It is closed when the last one who knows it
    /// lets go of it.
    pub(crate) fn close_if_idle(&self, idle: Duration, now: Instant) -> bool {
        let mut state = self.lock();
        let is_used = state.has_output()
            || state.roles.is_writing()
            || state.conversation.outstanding() > 0
            || state.roles.waiting().next().is_some();
        if !is_used && now.saturating_duration_since(state.heard) >= idle && state.roles.try_read() {
            state.conversation.end(&mut Vec::new());
            self.retire_if_wanted(&state);
            state.roles.stop_reading();
        }
        self.is_retired() && !is_used
    }
}
