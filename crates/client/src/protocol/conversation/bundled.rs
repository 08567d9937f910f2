//! Bundles in a conversation: asked at once, answered in the order of their keys, handed over whole. Only where servers keep the
//! order: there the oldest exchange is the one that is being answered, so a bundle's turn is certain.

use super::super::bundle::{Arriving, Bundle, Came};
use super::super::encode;
use super::super::line::{Flags, Line, Status};
use super::super::reply::{Broken, Reply, Value};
use super::super::request::{Get, Refused};
use super::{Conversation, Exchange, Head, Kind, Listener, Order, REQUEST_LEN_EXTRA, Ticket};

/// What came of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// Whose it is.
    pub ticket: Ticket,
    /// What came.
    pub came: Came,
    /// Why nothing came there; nothing if it was given up before.
    pub broken: Option<Broken>,
}

impl Conversation {
    /// An empty bundle for look-ups that are wanted as this one is; none if such a one has to be asked by itself.
    pub fn bundle(&self, get: &Get<'_>) -> Option<Bundle> {
        let kept = self.settings.order == Order::Kept;
        kept.then(|| Bundle::new(get, self.settings.form))?
    }

    /// Adds a look-up; false if it does not fit in there, or if there is no room for one more.
    #[inline]
    pub fn add(&self, bundle: &mut Bundle, get: &Get<'_>) -> bool {
        let (requests, bytes) = self.room(bundle);
        requests > 0 && get.key.len() + REQUEST_LEN_EXTRA <= bytes && bundle.add(get, self.settings.form)
    }

    /// Adds look-ups that are wanted as the one that was added last, up to the first that does not fit in there or for which there is
    /// no room. Gives how many.
    #[inline]
    pub(crate) fn add_alike(&self, bundle: &mut Bundle, keys: &[&[u8]]) -> usize {
        let (requests, bytes) = self.room(bundle);
        bundle.add_alike(&keys[..keys.len().min(requests)], bytes)
    }

    /// How many look-ups there may be more if a bundle is asked, and how many bytes.
    #[inline]
    fn room(&self, bundle: &Bundle) -> (usize, usize) {
        let requests = self.requests + bundle.len();
        let bytes = self.outstanding_bytes + bundle_len(bundle);
        let room = |max: usize, taken| max.saturating_sub(taken);
        (
            room(self.settings.outstanding_max, requests),
            room(self.settings.outstanding_bytes_max, bytes),
        )
    }

    /// Queues a bundle that was filled for this conversation, as [`Conversation::ask`].
    ///
    /// # Errors
    /// [`Refused::Closing`].
    ///
    /// # Panics
    /// It is empty, or the order is not kept.
    pub fn ask_bundle(&mut self, bundle: Bundle) -> Result<Ticket, Refused> {
        assert!(!bundle.is_empty() && self.settings.order == Order::Kept);
        if self.wants_closing() {
            return Err(Refused::Closing);
        }
        if self.silent_run > 0 {
            self.push_barrier();
        }
        self.open_gets = None;
        let form = self.settings.form;
        let ticket = Ticket(self.first.wrapping_add(self.exchanges.len() as u64));
        encode::bundle(self.output.buffer(), &bundle, form, ticket.0);
        let (count, len) = (bundle.len(), bundle_len(&bundle));
        self.exchanges.push_back(Exchange {
            kind: Kind::Bundle,
            key: [].into(),
            listener: Listener::Caller,
            silent: false,
            answered: false,
            ends_line: true,
            bundle: Some(Box::new(Arriving::new(bundle, form))),
            count,
            len,
        });
        self.requests += count;
        self.unanswered += count;
        self.outstanding_bytes += len;
        self.silent_run = 0;
        Ok(ticket)
    }

    /// What came of bundles, to be taken.
    pub fn bundled(&self) -> &[Bundled] {
        &self.bundled
    }

    /// What came of bundles since it was taken last.
    pub fn take_bundled(&mut self) -> Vec<Bundled> {
        std::mem::take(&mut self.bundled)
    }

    /// Whether the next reply is one of a bundle.
    pub(super) fn is_bundle_next(&self) -> bool {
        let first = self.exchanges.front();
        self.taken > 0 && first.is_some_and(|exchange| exchange.kind == Kind::Bundle)
    }

    /// Takes from the front the values of a bundle that are whole, as long as nothing else is there. All of it is what the other way
    /// would do, too, at a third of the cost.
    pub(super) fn take_values(&mut self, bytes: &mut &[u8]) {
        let wanted = self.exchanges[0].listener == Listener::Caller;
        let (own_end, max) = (Arriving::own_end(self.first), self.settings.value_len_max);
        let arriving = self.arriving();
        if wanted {
            arriving.take_run(bytes, &own_end, max);
            while arriving.take_value(bytes, &own_end, max).is_some() {
                arriving.take_run(bytes, &own_end, max);
            }
        }
        self.finish_bundle();
    }

    pub(super) fn handle_bundle(&mut self, parsed: Line<'_>, text: &[u8]) -> Result<(), Broken> {
        let number = self.first;
        let arriving = self.arriving();
        match parsed {
            Line::Value { key, flags, len, cas } => {
                let part = arriving
                    .place_in_line(key)
                    .ok_or_else(|| Broken::OtherKey(Broken::shown(text)))?;
                let value = Value {
                    flags,
                    cas,
                    ..Value::default()
                };
                self.expect_part(part, len, value)
            }
            Line::End if arriving.is_in_line() => {
                arriving.end_line(&Reply::Miss);
                self.finish_bundle();
                Ok(())
            }
            Line::Error(error) => {
                let reply = Reply::Error(error);
                match arriving.place_in_turn() {
                    Some(part) => self.put_into_bundle(part, reply),
                    None => {
                        arriving.end_line(&reply);
                        self.finish_bundle();
                    }
                }
                Ok(())
            }
            Line::Meta(status, flags) if flags.opaque == Some(number) => {
                self.handle_part(status, &flags, text)
            }
            Line::Meta(..) => Err(Broken::Unasked(Broken::shown(text))),
            _ => Err(Broken::Unfit(Broken::shown(text))),
        }
    }

    /// The reply to a meta command of a bundle.
    fn handle_part(&mut self, status: Status, flags: &Flags<'_>, text: &[u8]) -> Result<(), Broken> {
        let arriving = self.arriving();
        let part = arriving
            .place_in_turn()
            .ok_or_else(|| Broken::OutOfOrder(Broken::shown(text)))?;
        let is_key = |key: &[u8]| *arriving.key(part) == *key;
        let is_other = match &flags.key {
            Some(key) => !is_key(key),
            None => matches!(status, Status::Value(_)),
        };
        if is_other {
            return Err(Broken::OtherKey(Broken::shown(text)));
        }
        match status {
            Status::Value(len) => {
                let value = Value {
                    bytes: Vec::new(),
                    flags: flags.client_flags,
                    cas: flags.cas,
                    ttl_secs: None,
                    lease: flags.lease,
                };
                self.expect_part(part, len, value)
            }
            Status::Miss => {
                self.put_into_bundle(part, Reply::Miss);
                Ok(())
            }
            _ => Err(Broken::Unfit(Broken::shown(text))),
        }
    }

    fn expect_part(&mut self, part: usize, len: usize, value: Value) -> Result<(), Broken> {
        let max = self.settings.value_len_max;
        if len > max {
            return Err(Broken::ValueTooLong { len, max });
        }
        let wanted = self.exchanges[0].listener == Listener::Caller;
        self.incoming.expect_block(len, wanted);
        self.head = Some(Head {
            index: 0,
            part,
            value,
        });
        Ok(())
    }

    pub(super) fn put_into_bundle(&mut self, part: usize, reply: Reply) {
        self.arriving().put(part, reply);
        self.finish_bundle();
    }

    /// Hands over what came of the oldest exchange, a bundle, if it is whole.
    fn finish_bundle(&mut self) {
        let ticket = Ticket(self.first);
        let exchange = &mut self.exchanges[0];
        let bundle = exchange.bundle.as_mut().expect("it is a bundle");
        if !bundle.is_whole() {
            return;
        }
        exchange.answered = true;
        self.unanswered -= exchange.count;
        self.outstanding_bytes -= exchange.len;
        match exchange.listener {
            Listener::Caller => self.bundled.push(Bundled {
                ticket,
                came: bundle.take(),
                broken: None,
            }),
            Listener::Gone | Listener::Nobody => self.cancelled -= exchange.count,
        }
        self.retire();
    }

    /// Nobody waits for it any more: what has come is handed over.
    pub(super) fn give_up_bundle(&mut self, index: usize) {
        let ticket = Ticket(self.first.wrapping_add(index as u64));
        let bundle = self.exchanges[index].bundle.as_mut();
        if let Some(came) = bundle.and_then(|bundle| bundle.give_up()) {
            self.bundled.push(Bundled {
                ticket,
                came,
                broken: None,
            });
        }
    }

    /// The oldest exchange, which is a bundle.
    fn arriving(&mut self) -> &mut Arriving {
        let bundle = self.exchanges[0].bundle.as_mut();
        bundle.expect("it is a bundle")
    }
}

/// Bytes that it counts for.
#[inline]
fn bundle_len(bundle: &Bundle) -> usize {
    bundle.keys.bytes_len() + bundle.len() * REQUEST_LEN_EXTRA
}
