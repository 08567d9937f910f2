//! Storage requests: the value at once, piece by piece, or refused and passed over.

use scrubjay_cache::{Body, PinnedSlice, Refusal, Store, StoreMode, StoreOutcome, Upload};
use scrubjay_net::Output;
use scrubjay_protocol::binary::{Echo, Request, Status, Verb, encode_error, encode_value};

use super::{Context, Progress, Step, fail, given_cas};
use crate::session::WAIT_VALUE_LEN_MAX;

/// A storage request without its value.
#[derive(Clone, Copy, Debug)]
struct Order {
    echo: Echo,
    quiet: bool,
    verb: Verb,
    flags: u32,
    exptime: u32,
    compare_cas: Option<u64>,
}

/// A storage request whose value is being received.
#[derive(Debug)]
pub(super) struct Pending {
    order: Order,
    key: Box<[u8]>,
    /// The request but for the value, for another server.
    head: Box<[u8]>,
    upload: Upload,
}

impl Pending {
    /// The request as far as it has come; `None` if its value was cut off.
    pub(super) fn into_input(self) -> Option<Vec<u8>> {
        let value = self.upload.received()?;
        Some([&self.head[..], &value].concat())
    }
}

impl Order {
    /// With a CAS number, add and replace are no more than a comparison of it. A server without CAS numbers compares none.
    fn new(request: &Request<'_>, (verb, flags, exptime): (Verb, u32, u32), has_cas: bool) -> Order {
        Order {
            echo: request.echo,
            quiet: request.quiet,
            verb,
            flags,
            exptime,
            compare_cas: given_cas(request).filter(|_| has_cas),
        }
    }

    fn mode(&self) -> StoreMode {
        match self.verb {
            Verb::Add | Verb::Replace if self.compare_cas.is_some() => StoreMode::Set,
            Verb::Set => StoreMode::Set,
            Verb::Add => StoreMode::Add,
            Verb::Replace => StoreMode::Replace,
            Verb::Append => StoreMode::Append,
            Verb::Prepend => StoreMode::Prepend,
        }
    }

    fn store(&self, context: &mut Context<'_>, key: &[u8], value: Body<'_>, out: &mut Vec<u8>) {
        let outcome = context.store(Store {
            mode: self.mode(),
            flags: self.flags,
            exptime: i64::from(self.exptime),
            compare_cas: self.compare_cas,
            ..Store::set(key, value)
        });
        let status = match outcome {
            StoreOutcome::Stored { cas, .. } => {
                if !self.quiet {
                    encode_value(self.echo, cas, b"", out);
                }
                return;
            }
            StoreOutcome::Exists => Status::Exists,
            StoreOutcome::NotFound => Status::NotFound,
            StoreOutcome::NotStored => self.not_stored(),
            // What was joined to the old value is within the limit, the result is not.
            StoreOutcome::Refused(Refusal::TooLarge) => self.not_stored(),
            StoreOutcome::Refused(Refusal::NoMemory) => {
                return self.refuse(context, key, Refusal::NoMemory, out);
            }
        };
        fail(self.echo, status, out);
    }

    fn not_stored(&self) -> Status {
        match self.verb {
            Verb::Add => Status::Exists,
            Verb::Replace => Status::NotFound,
            Verb::Set | Verb::Append | Verb::Prepend => Status::NotStored,
        }
    }

    /// Answers that there is no room. A refused set removes the old item: nobody should read what was to be overwritten.
    fn refuse(&self, context: &mut Context<'_>, key: &[u8], why: Refusal, out: &mut Vec<u8>) {
        context.note_refused(key, self.mode(), why);
        if self.verb == Verb::Set {
            context.refuse(key, why);
        }
        match why {
            Refusal::TooLarge => fail(self.echo, Status::TooLarge, out),
            Refusal::NoMemory => {
                let text = "Out of memory allocating item";
                encode_error(self.echo, Status::OutOfMemory, text, out);
            }
        }
    }
}

/// Starts a storage request whose value follows in `input` behind the first `request.len` bytes.
pub(super) fn begin(
    step: &mut Step,
    context: &mut Context<'_>,
    request: &Request<'_>,
    what: (Verb, u32, u32),
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let order = Order::new(request, what, context.has_cas());
    let (key, value_len) = (request.key, request.value_len);
    if !context
        .worker
        .admits(key.len(), order.flags, u64::from(value_len))
    {
        order.refuse(context, key, Refusal::TooLarge, output.bytes());
        *step = Step::Swallow(value_len);
        return Progress::Consumed(request.len);
    }
    let end = request.len + value_len as usize;
    if let Some(value) = input.get(request.len..end) {
        order.store(context, key, Body::Bytes(value), output.bytes());
        return Progress::Consumed(end);
    }
    if value_len as usize <= WAIT_VALUE_LEN_MAX {
        return Progress::Wait;
    }
    *step = Step::Value(Box::new(Pending {
        order,
        key: key.into(),
        head: input[..request.len].into(),
        upload: context
            .worker
            .begin_upload(value_len as usize, i64::from(order.exptime)),
    }));
    Progress::Consumed(request.len)
}

/// Adds what is in `input` to the value that is being received, and stores it when it is whole.
pub(super) fn receive(
    step: &mut Step,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let Step::Value(pending) = step else {
        return Progress::Consumed(0);
    };
    let len = input.len().min(pending.upload.missing());
    if len == 0 {
        return Progress::Wait;
    }
    let missing = pending.upload.missing() - len;
    let written = pending.upload.write(context.worker, &input[..len]);
    if written.is_ok() && missing > 0 {
        return Progress::Consumed(len);
    }
    let Step::Value(pending) = std::mem::replace(step, Step::Swallow(missing as u32)) else {
        return Progress::Consumed(len);
    };
    let Pending {
        order, key, upload, ..
    } = *pending;
    match written {
        Ok(()) => order.store(context, &key, Body::Upload(upload), output.bytes()),
        Err(why) => {
            drop(upload);
            order.refuse(context, &key, why, output.bytes());
        }
    }
    Progress::Consumed(len)
}
