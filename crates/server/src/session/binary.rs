//! A connection that speaks the binary protocol: requests executed on the cache, replies encoded.

mod carry;
mod store;

use scrubjay_cache::{Arith, ArithOutcome, Delete, DeleteOutcome, Get, Hit, PinnedSlice};
use scrubjay_net::{Handled, Next, Output};
use scrubjay_protocol::binary::{
    Command, EXPTIME_DO_NOT_CREATE, Echo, Head, ParseError, Reply, Request, Status, encode_error,
    encode_head, encode_stat, encode_value, parse,
};

use self::store::Pending;
use super::need;
use super::{Asked, Context, Listed, Listing, OUTPUT_PER_CALL, ahead, last, measured, push_value};
use crate::stats::detail;

/// What one connection is in the middle of.
#[derive(Debug, Default)]
pub(crate) struct BinaryState {
    step: Step,
}

#[derive(Debug, Default)]
enum Step {
    /// The input starts with a header.
    #[default]
    Request,
    /// The input starts with the next bytes of a value that is being received.
    Value(Box<Pending>),
    /// So many bytes of input belong to a value that nobody wants.
    Swallow(u32),
    /// The statistics of connections wait for the rows of all workers.
    List(Echo, Box<Listing>),
}

/// How a step ended.
enum Progress {
    /// So many bytes are done with.
    Consumed(usize),
    /// More input is needed; nothing was consumed.
    Wait,
    /// Nothing can be done before the workers are woken.
    Soon,
    /// The last reply is in the output.
    Close,
    /// As `Close`: this cannot be a request.
    Fail,
}

/// Handles as many requests as `input` holds, but at most a fair share, and appends their replies to `output`.
pub(crate) fn handle(
    state: &mut BinaryState,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Handled {
    let (mut consumed, mut fetched, mut asked) = (0, 0, Asked::default());
    for _ in 0..context.requests_per_call() {
        if consumed >= fetched && matches!(state.step, Step::Request) {
            fetched = consumed + ahead::fetch_packets(context.worker, &input[consumed..]);
        }
        let rest = &input[consumed..];
        if matches!(state.step, Step::Request) && !rest.is_empty() {
            asked.begin(consumed);
        }
        let progress = match &mut state.step {
            Step::Request if context.is_due() => {
                measured(handle_request, &mut state.step, context, rest, output)
            }
            Step::Request => handle_request(&mut state.step, context, rest, output),
            Step::Value(_) => measured(store::receive, &mut state.step, context, rest, output),
            Step::Swallow(left) => swallow(left, rest),
            Step::List(echo, listing) => {
                let (echo, out) = (*echo, output.bytes());
                match context
                    .list_connections(listing, &mut |name, value| encode_stat(echo, name, value, out))
                {
                    Listed::NotYet => Progress::Soon,
                    Listed::Part => Progress::Consumed(0),
                    Listed::All => {
                        encode_stat(echo, "", "", out);
                        state.step = Step::Request;
                        Progress::Consumed(0)
                    }
                }
            }
        };
        if let Step::Swallow(0) = state.step {
            state.step = Step::Request;
        }
        let next = match progress {
            Progress::Consumed(len) => {
                consumed += len;
                if output.len() < OUTPUT_PER_CALL {
                    continue;
                }
                Next::Again
            }
            // Whoever sent a part may wait for its acknowledgement before it sends the rest.
            Progress::Wait if consumed < input.len() || !matches!(state.step, Step::Request) => Next::Partial,
            Progress::Wait => Next::Wait,
            Progress::Soon => Next::Soon,
            Progress::Close => Next::Close,
            Progress::Fail => Next::Fail,
        };
        note_asked(context, &asked, consumed, input);
        return Handled { consumed, next };
    }
    note_asked(context, &asked, consumed, input);
    Handled {
        consumed,
        next: Next::Again,
    }
}

#[inline]
fn note_asked(context: &Context<'_>, asked: &Asked, consumed: usize, input: &[u8]) {
    let last = asked.last.map(|packet| last::of_packet(&input[packet..]));
    context.note_asked(asked.handled(consumed), last);
}

fn swallow(left: &mut u32, input: &[u8]) -> Progress {
    let len = input.len().min(*left as usize);
    *left -= len as u32;
    if len == 0 {
        return Progress::Wait;
    }
    Progress::Consumed(len)
}

fn handle_request(
    step: &mut Step,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let request = match parse(input) {
        Ok(request) => request,
        Err(ParseError::Incomplete(_)) => return Progress::Wait,
        Err(ParseError::BadMagic) => return Progress::Fail,
    };
    if context.is_restricted()
        && let Some(words) = context.refusal(need::of_packet(&request))
    {
        let text = words.trim_start_matches("CLIENT_ERROR ");
        encode_error(request.echo, Status::AuthFailure, text, output.bytes());
        *step = Step::Swallow(request.value_len);
        return Progress::Consumed(request.len);
    }
    match request.command {
        Command::Store { verb, flags, exptime } => {
            return store::begin(step, context, &request, (verb, flags, exptime), input, output);
        }
        Command::Get { touch, reply } => get(context, &request, touch, reply, output),
        Command::Delete => delete(context, &request, output.bytes()),
        Command::Arithmetic { .. } => arithmetic(context, &request, output.bytes()),
        Command::Flush { exptime } => flush(context, &request, exptime, output.bytes()),
        Command::Noop => encode_value(request.echo, 0, b"", output.bytes()),
        Command::Version => encode_value(request.echo, 0, super::VERSION.as_bytes(), output.bytes()),
        Command::Stat if request.key == b"conns" => {
            *step = Step::List(request.echo, Box::new(context.begin_list()))
        }
        Command::Stat => stat(context, &request, output.bytes()),
        Command::Quit => {
            succeed(&request, 0, b"", output.bytes());
            return Progress::Close;
        }
        // Where users log in, the guard has answered those of SASL, until one had.
        Command::Unknown | Command::SaslList | Command::SaslAuth | Command::SaslStep => {
            fail(request.echo, Status::UnknownCommand, output.bytes());
            *step = Step::Swallow(request.value_len);
        }
        Command::Contradictory => {
            fail(request.echo, Status::UnknownCommand, output.bytes());
            return Progress::Fail;
        }
        Command::Invalid => {
            fail(request.echo, Status::InvalidArguments, output.bytes());
            return Progress::Fail;
        }
    }
    Progress::Consumed(request.len)
}

/// The usual reply, which a quiet request does without.
fn succeed(request: &Request<'_>, cas: u64, value: &[u8], out: &mut Vec<u8>) {
    if !request.quiet {
        encode_value(request.echo, cas, value, out);
    }
}

fn fail(echo: Echo, status: Status, out: &mut Vec<u8>) {
    encode_error(echo, status, status.text(), out);
}

fn get(
    context: &mut Context<'_>,
    request: &Request<'_>,
    touch: Option<u32>,
    reply: Reply,
    output: &mut Output<PinnedSlice>,
) {
    let get = Get {
        touch: touch.map(i64::from),
        ..Get::key(request.key)
    };
    let hit = context.get(&get);
    if let Some(hit) = &hit {
        return send_hit(request, reply, hit, output);
    }
    context.note_miss(request.key);
    match () {
        () if request.quiet => {}
        () if reply == Reply::KeyAndValue => send_miss_with_key(request, output.bytes()),
        () => fail(request.echo, Status::NotFound, output.bytes()),
    }
}

fn send_hit(request: &Request<'_>, reply: Reply, hit: &Hit<'_>, output: &mut Output<PinnedSlice>) {
    let key = if reply == Reply::KeyAndValue {
        request.key
    } else {
        b""
    };
    let value_len = if reply == Reply::Flags { 0 } else { hit.value_len() };
    let head = Head {
        echo: request.echo,
        status: Status::Success,
        cas: hit.cas,
        extras_len: 4,
        key_len: key.len() as u16,
        value_len: value_len as u32,
    };
    let out = output.bytes();
    encode_head(&head, out);
    out.extend_from_slice(&hit.flags.to_be_bytes());
    out.extend_from_slice(key);
    if value_len > 0 {
        push_value(hit, output);
    }
}

/// A miss of the forms that return keys is answered with the key where others have a text.
fn send_miss_with_key(request: &Request<'_>, out: &mut Vec<u8>) {
    let head = Head {
        echo: request.echo,
        status: Status::NotFound,
        cas: 0,
        extras_len: 0,
        key_len: request.key.len() as u16,
        value_len: 0,
    };
    encode_head(&head, out);
    out.extend_from_slice(request.key);
}

fn given_cas(request: &Request<'_>) -> Option<u64> {
    (request.cas != 0).then_some(request.cas)
}

fn delete(context: &mut Context<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    let delete = Delete {
        compare_cas: given_cas(request),
        ..Delete::key(request.key)
    };
    match context.delete(&delete, false) {
        DeleteOutcome::Deleted => succeed(request, 0, b"", out),
        DeleteOutcome::NotFound => fail(request.echo, Status::NotFound, out),
        DeleteOutcome::Exists => fail(request.echo, Status::Exists, out),
        DeleteOutcome::NoMemory => fail(request.echo, Status::OutOfMemory, out),
    }
}

fn arithmetic(context: &mut Context<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    let Command::Arithmetic {
        decrement,
        delta,
        initial,
        exptime,
    } = request.command
    else {
        return;
    };
    let arith = Arith {
        compare_cas: given_cas(request),
        initial: (exptime != EXPTIME_DO_NOT_CREATE).then_some((initial, i64::from(exptime))),
        ..Arith::key(request.key, delta, decrement)
    };
    match context.arith(&arith) {
        ArithOutcome::Value { number, cas, .. } => succeed(request, cas, &number.to_be_bytes(), out),
        ArithOutcome::NotFound => fail(request.echo, Status::NotFound, out),
        ArithOutcome::NonNumeric => fail(request.echo, Status::NonNumeric, out),
        ArithOutcome::Exists => fail(request.echo, Status::Exists, out),
        ArithOutcome::NoMemory => {
            let text = "Out of memory incrementing value";
            encode_error(request.echo, Status::OutOfMemory, text, out);
        }
    }
}

fn flush(context: &mut Context<'_>, request: &Request<'_>, exptime: u32, out: &mut Vec<u8>) {
    if !context.flush_enabled() {
        return fail(request.echo, Status::AuthFailure, out);
    }
    context.flush_all(i64::from(exptime));
    succeed(request, 0, b"", out);
}

fn stat(context: &mut Context<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    let known = match request.key {
        b"reset" => {
            crate::stats::reset(context.shared);
            true
        }
        b"detail on" | b"detail off" => context.switch_detail(&request.key[b"detail ".len()..]),
        b"detail dump" => {
            let dump = detail::dump(context.shared) + "END\r\n";
            encode_stat(request.echo, "detailed", &dump, out);
            true
        }
        group => context.stats(group, &mut |name, value| {
            encode_stat(request.echo, name, value, out);
        }),
    };
    if known {
        encode_stat(request.echo, "", "", out);
    } else {
        fail(request.echo, Status::NotFound, out);
    }
}

#[cfg(test)]
mod tests;
