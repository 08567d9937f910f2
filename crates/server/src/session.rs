//! To be written.

mod binary;
mod meta;
mod text;

use scrubjay_cache::Worker;

/// The version on the wire: the protocol level that clients go by.
pub(crate) const VERSION: &str = "1.6.45";

/// What a session needs of its worker to handle requests.
pub(crate) struct Context<'a> {
    /// The worker's door to the cache.
    pub worker: &'a mut Worker,
    /// The server's options.
    pub options: &'a crate::options::Options,
}

impl Context<'_> {
    /// Requests of one connection handled in one call.
    pub fn requests_per_call(&self) -> usize {
        self.options.requests_per_turn
    }

    /// Whether the cache keeps CAS numbers.
    pub fn has_cas(&self) -> bool {
        self.options.cas
    }

    /// Whether flush_all is allowed.
    pub fn flush_enabled(&self) -> bool {
        self.options.flush_enabled
    }

    /// Calls `each` with name and value of every statistic of the group that `key` names; `false` if there is no such group.
    pub fn stats(&mut self, key: &[u8], each: &mut dyn FnMut(&str, &str)) -> bool {
        if key == b"settings" {
            crate::options::settings(self.options)
                .iter()
                .for_each(|(name, value)| each(name, value));
        }
        key.is_empty() || key == b"settings"
    }
}
