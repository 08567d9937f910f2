//! A connection that speaks the classic text protocol or the meta protocol, mixed as it likes.

mod carry;
mod swallow;

use scrubjay_cache::{
    Arith, ArithOutcome, Body, Delete, DeleteOutcome, Get, PinnedSlice, Refusal, Store, StoreMode,
    StoreOutcome, Upload,
};
use scrubjay_net::{Handled, Next, Output};
use scrubjay_protocol::command::{self, Insides, Shape, StoreVerb};
use scrubjay_protocol::limits::{KEY_LEN_MAX, LINE_LEN_MAX};
use scrubjay_protocol::meta::{GET, Refused};
use scrubjay_protocol::reply::{self, Words};
use scrubjay_protocol::text::{Request, StoreLine, first_line, parse};
use scrubjay_protocol::tokens::{Tokens, next_token};

use self::swallow::{Unwanted, swallow};
use super::dump::{self, Dump, Told};
use super::replies::Replies;
use super::watch::Watcher;
use super::{
    Asked, Context, Listed, Listing, OUTPUT_PER_CALL, Run, VERSION, WAIT_VALUE_LEN_MAX, ahead, last,
    measured, meta, sets,
};
use super::{insides, need};
use crate::auth::Rights;
use crate::stats::detail;
use crate::watch::Stream;

/// Blanks before a long line that are put up with; as memcached.
const LEADING_BLANKS_MAX: usize = 100;

/// A line that begins with more blanks may have so many bytes with its end.
const BLANK_LINE_LEN_MAX: usize = 2048;

/// The end of a multi-get's reply.
const END: &[u8; 5] = b"END\r\n";

/// What the connection is in the middle of. Boxed within, as every idle connection has one.
#[derive(Debug, Default)]
pub(super) struct TextState {
    step: Step,
}

#[derive(Debug, Default)]
enum Step {
    /// The input starts with a command line.
    #[default]
    Line,
    /// The input starts in a multi-get's line, before or in a key.
    Keys(Box<Keys>),
    /// The input starts in a value that is received piece by piece.
    Value(Box<Incoming>),
    /// The input starts in a data block that nobody wants.
    Swallow(Box<Unwanted>),
    /// Everything up to the end of the line is not wanted.
    SwallowLine,
    /// `stats conns` waits for the rows of all workers.
    List(Box<Listing>),
    /// Keys are listed.
    Dump(Box<Dump>),
    /// It watches, and whatever it sends is no request.
    Watch(Box<Watcher>),
}

impl Step {
    /// What to do when all input is used.
    fn wants(&self) -> Next {
        match self {
            Step::Line => Next::Wait,
            _ => Next::Partial,
        }
    }

    /// Whether a command begins with this input.
    fn is_begun_by(&self, input: &[u8]) -> bool {
        matches!(self, Step::Line) && !input.is_empty()
    }
}

/// A multi-get whose keys are taken as they come.
#[derive(Clone, Copy, Debug)]
struct Keys {
    cas: bool,
    touch: Option<i64>,
}

/// A large value on its way in.
#[derive(Debug)]
struct Incoming {
    order: Order,
    key: Vec<u8>,
    /// The request but for the value, for another server.
    line: Box<[u8]>,
    upload: Upload,
}

/// Everything about a store but key and value, and how it is answered.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) mode: StoreMode,
    pub(super) key_is_binary: bool,
    pub(super) flags: u32,
    pub(super) exptime: i64,
    pub(super) compare_cas: Option<u64>,
    pub(super) invalidate: bool,
    pub(super) new_cas: Option<u64>,
    pub(super) vivify: Option<i64>,
    pub(super) answer: Answer,
}

/// How a store is answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// `STORED` and its like.
    Classic { noreply: bool },
    /// `HD` and its like with the flags that are asked for.
    Meta(meta::SetAnswer),
}

/// How a step ended.
enum Progress {
    /// So many bytes are done with.
    Consumed(usize),
    /// More input is needed; nothing more was consumed than this.
    Wait(usize),
    /// In the middle of a request; so many bytes are done with.
    Partial(usize),
    /// Others' turn; so many bytes are done with.
    Yield(usize),
    /// Others' turn, and a rest.
    Rest,
    /// Nothing can be done before the workers are woken.
    Soon,
    /// Output is made elsewhere; so many bytes are done with.
    Fed(usize),
    /// Close when the output is sent.
    Close,
    /// As `Close`: this cannot be a request.
    Fail,
}

impl Progress {
    /// The bytes that are done with, and how the call ends, unless it goes on.
    fn end(self) -> (usize, Option<Next>) {
        match self {
            Progress::Consumed(len) => (len, None),
            Progress::Wait(len) => (len, Some(Next::Wait)),
            Progress::Partial(len) => (len, Some(Next::Partial)),
            Progress::Yield(len) => (len, Some(Next::Again)),
            Progress::Rest => (0, Some(Next::Rest)),
            Progress::Soon => (0, Some(Next::Soon)),
            Progress::Fed(len) => (len, Some(Next::Fed)),
            Progress::Close => (0, Some(Next::Close)),
            Progress::Fail => (0, Some(Next::Fail)),
        }
    }
}

/// Handles as many requests as `input` holds, but at most a fair share.
pub(super) fn handle(
    state: &mut TextState,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Handled {
    let mut asked = Asked::default();
    let handled = handle_steps(state, context, input, output, &mut asked);
    let last = asked.last.map(|line| last::of_line(&input[line..]));
    context.note_asked(asked.handled(handled.consumed), last);
    handled
}

/// As [`handle`]; notes in `asked` what there was.
fn handle_steps(
    state: &mut TextState,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
    asked: &mut Asked,
) -> Handled {
    let (mut consumed, mut fetched, mut left) = (0_usize, 0_usize, context.requests_per_call());
    while left > 0 {
        left -= 1;
        let rest = &input[consumed..];
        if state.step.is_begun_by(rest) {
            asked.begin(consumed);
        }
        let progress = match &mut state.step {
            Step::Line => {
                let ahead = fetched.saturating_sub(consumed);
                let run = run(context, rest, output, ahead, left + 1);
                if run.is_none() && ahead == 0 {
                    fetched = consumed + ahead::fetch_lines(context.worker, rest);
                }
                match run {
                    Some(run) => {
                        left -= run.count - 1;
                        fetched = consumed + run.fetched;
                        asked.begin_more(run.count as u64 - 1, consumed + run.last);
                        Progress::Consumed(run.len)
                    }
                    None if context.is_due() => measured(handle_line, &mut state.step, context, rest, output),
                    None => handle_line(&mut state.step, context, rest, output),
                }
            }
            Step::Keys(keys) => match handle_keys(**keys, context, rest, output) {
                (progress, None) => progress,
                (progress, Some(next)) => {
                    state.step = next;
                    progress
                }
            },
            Step::Value(_) => measured(receive, &mut state.step, context, rest, output),
            Step::Swallow(..) | Step::SwallowLine => swallow(&mut state.step, rest, output),
            Step::List(_) => list_connections(&mut state.step, context, output.bytes()),
            Step::Dump(_) => list_keys(&mut state.step, context, output.bytes()),
            Step::Watch(watcher) => feed(watcher, rest, output.bytes()),
        };
        let (len, next) = progress.end();
        consumed += len;
        let next = match next {
            None if output.len() < OUTPUT_PER_CALL => continue,
            None => Next::Again,
            Some(Next::Wait) if consumed < input.len() => Next::Partial,
            Some(next) => next,
        };
        return Handled { consumed, next };
    }
    let is_more = consumed < input.len();
    let next = if is_more { Next::Again } else { state.step.wants() };
    Handled { consumed, next }
}

/// Answers requests of one kind that come one behind the other, if `input` starts with such. What its first `ahead` bytes look up
/// was fetched.
#[inline(always)]
fn run(
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
    ahead: usize,
    most: usize,
) -> Option<Run> {
    if input.starts_with(GET) {
        Some(meta::get_run(context, input, output, ahead, most)).filter(|run| run.count > 0)
    } else if ahead == 0 && input.starts_with(sets::SET) {
        sets::run(context, input, output, most)
    } else {
        None
    }
}

fn handle_line(
    step: &mut Step,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let Some(line) = first_line(input).filter(|line| line.len <= LINE_LEN_MAX) else {
        return handle_long_line(step, context, input, output);
    };
    if line.len > BLANK_LINE_LEN_MAX && is_blank(line.bytes) {
        return Progress::Fail;
    }
    if context.is_told(Stream::RawCommands.bit()) {
        context.tell_line(line.bytes);
    }
    let parsed = parse(line.bytes);
    if context.is_restricted()
        && let Ok(request) = parsed.request
        && let Some(words) = context.refusal(need::of_line(request, line.bytes))
    {
        if !parsed.noreply {
            reply::line(output.bytes(), words);
        }
        return Progress::Consumed(line.len);
    }
    match parsed.request {
        Ok(Request::Get { cas, touch, keys }) => {
            if line.bytes.len() > KEY_LEN_MAX && has_long_key(keys) {
                // Nothing is answered for the keys before it, as memcached takes its replies back.
                reply::line(output.bytes(), reply::BAD_FORMAT);
                return Progress::Consumed(line.len);
            }
            return begin_keys(
                step,
                context,
                Keys { cas, touch },
                input,
                line.len - 1,
                keys,
                output,
            );
        }
        Ok(Request::Store(store)) => {
            return begin_store(step, context, &store, parsed.noreply, line.len, input, output);
        }
        Ok(Request::Meta(shape)) => {
            return handle_meta(step, context, shape, line.bytes, line.len, input, output);
        }
        Ok(request @ (Request::Stats(_) | Request::Insides(..)))
            if begin_long(step, context, request, output.bytes()) =>
        {
            return Progress::Consumed(line.len);
        }
        Ok(Request::Quit) => return Progress::Close,
        Ok(Request::Http) => return Progress::Fail,
        Ok(Request::Shutdown { mode }) if context.shutdown_enabled() => {
            return shut_down(context, mode, line.len, output.bytes());
        }
        _ => {}
    }
    let words = match parsed.request {
        Ok(request) => execute(context, request, output.bytes(), parsed.noreply),
        Err(words) => Some(words),
    };
    if let Some(words) = words.filter(|_| !parsed.noreply) {
        reply::line(output.bytes(), words);
    }
    Progress::Consumed(line.len)
}

fn shut_down(context: &Context<'_>, mode: &[u8], line_len: usize, out: &mut Vec<u8>) -> Progress {
    match mode {
        b"" => context.shared.control.stop_now(),
        b"graceful" => context.shared.control.stop_gracefully(),
        _ => {
            reply::line(out, reply::SHUTDOWN_MODE);
            return Progress::Consumed(line_len);
        }
    }
    Progress::Close
}

fn has_long_key(keys: &[u8]) -> bool {
    let mut rest = keys;
    // A long key fills a window of this length. Where there is a blank in it, none begins before that; most bytes are not looked at.
    while let Some(window) = rest.get(..=KEY_LEN_MAX) {
        match window.iter().rposition(|&byte| byte == b' ') {
            Some(blank) => rest = &rest[blank + 1..],
            None => return true,
        }
    }
    false
}

/// Whether a line begins with more blanks than any client sends.
fn is_blank(line: &[u8]) -> bool {
    line.iter().take(LEADING_BLANKS_MAX + 1).all(|&byte| byte == b' ') && line.len() > LEADING_BLANKS_MAX
}

/// A line that is not complete, or longer than any but a multi-get's may be.
fn handle_long_line(
    step: &mut Step,
    context: &Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    if input.len() >= BLANK_LINE_LEN_MAX && is_blank(input) {
        return Progress::Fail;
    }
    if input.len() < LINE_LEN_MAX {
        return Progress::Wait(0);
    }
    let start = &input[..LINE_LEN_MAX];
    let verb = next_token(start).map(|(verb, _)| verb);
    let request = verb.and_then(|verb| {
        let command = command::find(verb)?;
        // A `gat` has its exptime at the start of the line, too.
        matches!(command.shape, Shape::Get { .. }).then(|| parse(&start[..start.len() - 1]))
    });
    let request = request.map(|parsed| match parsed.request {
        Ok(request) => context
            .refusal(need::of_line(request, start))
            .map_or(Ok(request), Err),
        Err(words) => Err(words),
    });
    match request {
        Some(Ok(Request::Get { cas, touch, keys })) => {
            if context.is_told(Stream::RawCommands.bit()) {
                context.tell_line(start);
            }
            let consumed = start.len() - 1 - keys.len();
            *step = Step::Keys(Box::new(Keys { cas, touch }));
            Progress::Consumed(consumed)
        }
        Some(Err(words)) => {
            reply::line(output.bytes(), words);
            *step = Step::SwallowLine;
            Progress::Consumed(0)
        }
        _ => Progress::Fail,
    }
}

/// A complete multi-get: its keys are handled here unless they make too much output at once.
fn begin_keys(
    step: &mut Step,
    context: &mut Context<'_>,
    order: Keys,
    input: &[u8],
    line_end: usize,
    keys: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let (mut rest, mut fetched) = (keys, 0);
    let mut replies = Replies::new(output);
    while let Some((key, after)) = next_token(rest) {
        if fetched == 0 && !after.is_empty() {
            fetched = ahead::fetch_keys(context.worker, rest);
            context.counters.observed.note_many();
            replies.expect_more();
        }
        fetched = fetched.saturating_sub(1);
        answer_key(context, order, key, &mut replies);
        rest = after;
        if replies.len() > OUTPUT_PER_CALL && !rest.is_empty() {
            *step = Step::Keys(Box::new(order));
            let ending = input[..line_end].ends_with(b"\r");
            return Progress::Yield(line_end - usize::from(ending) - rest.len());
        }
    }
    replies.write(END.len(), |line| line.push(*END));
    Progress::Consumed(line_end + 1)
}

/// Goes on with a multi-get's keys; the second value is the next step if this one is over.
fn handle_keys(
    order: Keys,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> (Progress, Option<Step>) {
    let mut consumed = 0;
    let mut replies = Replies::new(output);
    replies.expect_more();
    loop {
        let rest = &input[consumed..];
        let start = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
        let len = rest[start..]
            .iter()
            .position(|&byte| byte == b' ' || byte == b'\n');
        let token = &rest[start..start + len.unwrap_or(rest.len() - start)];
        let key = match token {
            [key @ .., b'\r'] if len.is_none_or(|len| rest[start + len] == b'\n') => key,
            token => token,
        };
        if key.len() > KEY_LEN_MAX {
            drop(replies);
            reply::line(output.bytes(), reply::BAD_FORMAT);
            return (Progress::Consumed(consumed), Some(Step::SwallowLine));
        }
        let Some(len) = len else {
            return (Progress::Wait(consumed + start), None);
        };
        if !key.is_empty() {
            answer_key(context, order, key, &mut replies);
        }
        consumed += start + len;
        if input[consumed] == b'\n' {
            replies.write(END.len(), |line| line.push(*END));
            return (Progress::Consumed(consumed + 1), Some(Step::Line));
        }
        if replies.len() > OUTPUT_PER_CALL {
            return (Progress::Yield(consumed), None);
        }
    }
}

#[inline]
fn answer_key(context: &mut Context<'_>, order: Keys, key: &[u8], replies: &mut Replies<'_>) {
    let hit = context.get(&Get {
        touch: order.touch,
        ..Get::key(key)
    });
    let Some(hit) = &hit else {
        return context.note_miss(key);
    };
    let copied = Replies::copied(hit);
    let room = reply::value_head_len_max(key.len()) + copied.map_or(0, |value| value.len() + 2);
    replies.write(room, |line| {
        let line = reply::value_head(
            line,
            key,
            hit.flags,
            hit.value_len(),
            order.cas.then_some(hit.cas),
        );
        match copied {
            Some(value) => line.bytes(value).push(*b"\r\n"),
            None => line,
        }
    });
    if copied.is_none() {
        replies.push_value(hit);
    }
}

/// Executes a request that is one line; returns the words to answer, unless it has answered itself.
fn execute(
    context: &mut Context<'_>,
    request: Request<'_>,
    out: &mut Vec<u8>,
    noreply: bool,
) -> Option<Words> {
    let words = match request {
        Request::Delete { key } => match context.delete(&Delete::key(key), false) {
            DeleteOutcome::Deleted => "DELETED",
            _ => "NOT_FOUND",
        },
        Request::Arith {
            key,
            delta,
            decrement,
        } => match context.arith(&Arith::key(key, delta, decrement)) {
            ArithOutcome::Value { number, .. } => {
                if !noreply {
                    reply::number(out, number);
                    out.extend_from_slice(b"\r\n");
                }
                return None;
            }
            ArithOutcome::NonNumeric => reply::NON_NUMERIC,
            ArithOutcome::NoMemory => reply::NO_MEMORY_ARITH,
            ArithOutcome::NotFound | ArithOutcome::Exists => "NOT_FOUND",
        },
        Request::Touch { key, exptime } => {
            if context.touch(key, exptime) {
                "TOUCHED"
            } else {
                "NOT_FOUND"
            }
        }
        Request::FlushAll { delay } if context.flush_enabled() => {
            context.flush_all(delay);
            "OK"
        }
        Request::FlushAll { .. } => reply::FLUSH_OFF,
        Request::Verbosity { level } => {
            let level = u8::try_from(level).unwrap_or(u8::MAX);
            context.shared.change(|options| {
                options.verbosity = level;
                options.note_command("verbose", "verbosity");
            });
            "OK"
        }
        Request::Version => {
            reply::line(out, &format!("VERSION {VERSION}"));
            return None;
        }
        Request::Stats(words) => {
            stats(context, words, out);
            return None;
        }
        Request::CacheMemlimit { megabytes } => set_memory_limit(context, megabytes),
        Request::Shutdown { .. } => reply::SHUTDOWN_OFF,
        Request::Insides(Insides::RefreshCerts, _) => return refresh_certificates(context, out),
        Request::Insides(insides, line) => insides::answer(insides, &Tokens::cut(line)),
        Request::Get { .. } | Request::Store(_) | Request::Meta(_) | Request::Quit | Request::Http => {
            reply::ERROR
        }
    };
    Some(words)
}

fn set_memory_limit(context: &mut Context<'_>, megabytes: u64) -> Words {
    const MEGABYTES_MIN: u64 = 8;
    const MEGABYTES_MAX: u64 = 1_000_000_000;
    if megabytes < MEGABYTES_MIN {
        return reply::MEMLIMIT_TOO_SMALL;
    }
    if megabytes > MEGABYTES_MAX {
        return reply::MEMLIMIT_IN_BYTES;
    }
    let wanted = (megabytes as usize) << 20;
    if !context.shared.memory_bounds().contains(&wanted) {
        return reply::MEMLIMIT_OUT_OF_BOUNDS;
    }
    context.shared.change(|options| {
        options.memory_max = wanted;
        options.note_command("memory-limit", "cache_memlimit");
    });
    if context.is_told(Stream::SystemEvents.bit()) {
        context.tell_order(&format!("type=cache_memlimit bytes={wanted}"));
    }
    "OK"
}

/// Reads the certificates again, on this worker: the files are small, and the one who asks wants to know how it went.
fn refresh_certificates(context: &Context<'_>, out: &mut Vec<u8>) -> Option<Words> {
    let Some(tls) = &context.shared.tls else {
        return Some(reply::NO_TLS);
    };
    match tls.reload(context.now) {
        Ok(()) => Some("OK"),
        Err(error) => {
            reply::line(out, &format!("SERVER_ERROR {error}"));
            None
        }
    }
}

fn stats(context: &mut Context<'_>, words: &[u8], out: &mut Vec<u8>) {
    let tokens = Tokens::cut(words);
    let words = match (tokens.get(0), tokens.get(1)) {
        (b"reset", _) => {
            crate::stats::reset(context.shared);
            "RESET"
        }
        (b"detail", b"dump") => {
            out.extend_from_slice(detail::dump(context.shared).as_bytes());
            "END"
        }
        (b"detail", word) => match context.switch_detail(word) {
            true => "OK",
            false => reply::STATS_DETAIL_USAGE,
        },
        (group, _) => {
            let known = context.stats(group, &mut |name, value| reply::stat(out, name, value));
            if known { "END" } else { reply::ERROR }
        }
    };
    reply::line(out, words);
}

fn handle_meta(
    step: &mut Step,
    context: &mut Context<'_>,
    shape: Shape,
    line: &[u8],
    line_len: usize,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    context.counters.add(crate::stats::Counter::CmdMeta);
    match shape {
        Shape::MetaGet => meta::get(context, line, output),
        Shape::MetaDelete => meta::delete(context, line, output.bytes()),
        Shape::MetaArith => meta::arith(context, line, output.bytes()),
        Shape::MetaDebug => meta::debug(context, line, output.bytes()),
        Shape::Why => meta::why(context, line, output.bytes()),
        Shape::MetaSet => match meta::parse_set(line) {
            Ok((meta, order)) => {
                let key = meta.key;
                return begin_value(
                    step,
                    context,
                    order,
                    key.bytes(),
                    meta.value_len,
                    line_len,
                    input,
                    output,
                );
            }
            Err(Refused {
                words,
                swallow: Some(value_len),
            }) => *step = Step::swallow(value_len + 2, Some(words)),
            Err(Refused { words, swallow: None }) => reply::line(output.bytes(), words),
        },
        _ => reply::line(output.bytes(), "MN"),
    }
    Progress::Consumed(line_len)
}

fn begin_store(
    step: &mut Step,
    context: &mut Context<'_>,
    line: &StoreLine<'_>,
    noreply: bool,
    line_len: usize,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    begin_value(
        step,
        context,
        Order::of(line, noreply),
        line.key,
        line.value_len,
        line_len,
        input,
        output,
    )
}

/// The line of a store is read; its data block of `value_len` bytes and a line end follows in the input at `line_len`.
#[expect(
    clippy::too_many_arguments,
    reason = "the one place where line, body and state meet"
)]
fn begin_value(
    step: &mut Step,
    context: &mut Context<'_>,
    order: Order,
    key: &[u8],
    value_len: usize,
    line_len: usize,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let block_len = value_len + 2;
    if let Some(words) = context.refusal(Rights::Write) {
        let is_silent = matches!(order.answer, Answer::Classic { noreply: true });
        *step = Step::swallow(block_len, (!is_silent).then_some(words));
        return Progress::Consumed(line_len);
    }
    if !context.worker.admits(key.len(), order.flags, value_len as u64) {
        context.count_refusal(Refusal::TooLarge);
        let words = order.refuse(context, key, Refusal::TooLarge);
        *step = Step::swallow(block_len, words);
        return Progress::Consumed(line_len);
    }
    let block = &input[line_len..];
    if block.len() >= block_len {
        if &block[value_len..block_len] == b"\r\n" {
            order.store(context, key, Body::Bytes(&block[..value_len]), output.bytes());
        } else {
            order.answer_bad_chunk(output.bytes());
        }
        return Progress::Consumed(line_len + block_len);
    }
    if value_len <= WAIT_VALUE_LEN_MAX {
        return Progress::Wait(0);
    }
    let upload = context.worker.begin_upload(value_len, order.exptime);
    *step = Step::Value(Box::new(Incoming {
        order,
        key: key.to_vec(),
        line: input[..line_len].into(),
        upload,
    }));
    Progress::Consumed(line_len)
}

/// Takes the next bytes of a large value.
fn receive(
    step: &mut Step,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> Progress {
    let Step::Value(incoming) = step else {
        return Progress::Wait(0);
    };
    let missing = incoming.upload.missing();
    if missing > 0 {
        if input.is_empty() {
            return Progress::Partial(0);
        }
        let len = missing.min(input.len());
        if let Err(why) = incoming.upload.write(context.worker, &input[..len]) {
            context.count_refusal(why);
            let words = incoming.order.refuse(context, &incoming.key, why);
            *step = Step::swallow(missing + 2, words);
            return Progress::Consumed(0);
        }
        return if len == input.len() {
            Progress::Partial(len)
        } else {
            Progress::Consumed(len)
        };
    }
    if input.len() < 2 {
        return Progress::Partial(0);
    }
    let Step::Value(incoming) = std::mem::take(step) else {
        return Progress::Wait(0);
    };
    let Incoming {
        order, key, upload, ..
    } = *incoming;
    if &input[..2] == b"\r\n" {
        order.store(context, &key, Body::Upload(upload), output.bytes());
    } else {
        order.answer_bad_chunk(output.bytes());
    }
    Progress::Consumed(2)
}

/// Answers `stats conns` once every worker has added its rows.
fn list_connections(step: &mut Step, context: &Context<'_>, out: &mut Vec<u8>) -> Progress {
    let Step::List(listing) = step else {
        return Progress::Wait(0);
    };
    match context.list_connections(listing, &mut |name, value| reply::stat(out, name, value)) {
        Listed::NotYet => Progress::Soon,
        Listed::Part => Progress::Yield(0),
        Listed::All => {
            reply::line(out, "END");
            *step = Step::Line;
            Progress::Consumed(0)
        }
    }
}

/// Gives a watcher what there is for it; of its input only numbers are looked at.
fn feed(watcher: &mut Watcher, input: &[u8], out: &mut Vec<u8>) -> Progress {
    watcher.hear(input);
    match watcher.feed(out) {
        true => Progress::Yield(input.len()),
        false => Progress::Fed(input.len()),
    }
}

/// Begins what is answered over several turns, or answers why not; `false` if the request is about something else.
fn begin_long(step: &mut Step, context: &mut Context<'_>, request: Request<'_>, out: &mut Vec<u8>) -> bool {
    match request {
        Request::Stats(words) if next_token(words).is_some_and(|(group, _)| group == b"conns") => {
            *step = Step::List(Box::new(context.begin_list()));
            true
        }
        Request::Insides(Insides::Watch, words) => {
            if let Some(watcher) = Watcher::begin(context, words, out) {
                *step = Step::Watch(watcher);
            }
            true
        }
        _ => begin_dump(step, context, request, out),
    }
}

/// Begins a list of keys or answers why not; `false` if the request is about something else.
fn begin_dump(step: &mut Step, context: &Context<'_>, request: Request<'_>, out: &mut Vec<u8>) -> bool {
    match dump::begin(context, request) {
        Some(Ok(dump)) => *step = Step::Dump(Box::new(dump)),
        Some(Err(words)) => reply::line(out, words),
        None => return false,
    }
    true
}

/// Goes on with a list of keys.
fn list_keys(step: &mut Step, context: &mut Context<'_>, out: &mut Vec<u8>) -> Progress {
    let Step::Dump(dump) = step else {
        return Progress::Wait(0);
    };
    match dump.step(context, out) {
        Told::Nothing => Progress::Soon,
        Told::Part => Progress::Yield(0),
        Told::Share => Progress::Rest,
        Told::All => {
            *step = Step::Line;
            Progress::Consumed(0)
        }
    }
}

impl Order {
    #[inline(always)]
    pub(super) fn of(line: &StoreLine<'_>, noreply: bool) -> Order {
        Order {
            mode: match line.verb {
                StoreVerb::Set | StoreVerb::Cas => StoreMode::Set,
                StoreVerb::Add => StoreMode::Add,
                StoreVerb::Replace => StoreMode::Replace,
                StoreVerb::Append => StoreMode::Append,
                StoreVerb::Prepend => StoreMode::Prepend,
            },
            key_is_binary: false,
            flags: line.flags,
            exptime: line.exptime,
            compare_cas: line.cas,
            invalidate: false,
            new_cas: None,
            vivify: None,
            answer: Answer::Classic { noreply },
        }
    }

    /// Stores the complete value and answers. Inlined: what it is given was written just now, and would be read back in other
    /// parts than it was written in, for which the processor has to wait.
    #[inline(always)]
    pub(super) fn store(&self, context: &mut Context<'_>, key: &[u8], value: Body<'_>, out: &mut Vec<u8>) {
        let outcome = context.store(Store {
            key,
            key_is_binary: self.key_is_binary,
            mode: self.mode,
            flags: self.flags,
            exptime: self.exptime,
            value,
            compare_cas: self.compare_cas,
            invalidate: self.invalidate,
            new_cas: self.new_cas,
            vivify: self.vivify,
        });
        if let StoreOutcome::Refused(why) = outcome {
            // memcached says of a joined value that became too large only that it was not stored.
            if !matches!(self.mode, StoreMode::Append | StoreMode::Prepend) || why == Refusal::NoMemory {
                if let Some(words) = self.refuse(context, key, why) {
                    reply::line(out, words);
                }
                return;
            }
        }
        match &self.answer {
            Answer::Meta(answer) => answer.encode(key, outcome, out),
            Answer::Classic { noreply: true } => {}
            Answer::Classic { noreply: false } => reply::line(
                out,
                match outcome {
                    StoreOutcome::Stored { .. } => "STORED",
                    StoreOutcome::Exists => "EXISTS",
                    StoreOutcome::NotFound => "NOT_FOUND",
                    StoreOutcome::NotStored | StoreOutcome::Refused(_) => "NOT_STORED",
                },
            ),
        }
    }

    /// The value will not be stored: removes what it was to replace where memcached does. Returns the words to answer.
    fn refuse(&self, context: &mut Context<'_>, key: &[u8], why: Refusal) -> Option<Words> {
        let replaces = match self.answer {
            Answer::Classic { .. } => self.mode == StoreMode::Set && self.compare_cas.is_none(),
            Answer::Meta(_) => true,
        };
        context.note_refused(key, self.mode, why);
        if replaces {
            context.refuse(key, why);
        }
        let words = match why {
            Refusal::TooLarge => reply::TOO_LARGE,
            Refusal::NoMemory => reply::NO_MEMORY,
        };
        (!matches!(self.answer, Answer::Classic { noreply: true })).then_some(words)
    }

    fn answer_bad_chunk(&self, out: &mut Vec<u8>) {
        if !matches!(self.answer, Answer::Classic { noreply: true }) {
            reply::line(out, reply::BAD_CHUNK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEY_LEN_MAX, has_long_key};

    #[test]
    fn a_key_that_is_too_long_is_seen_wherever_it_is() {
        for len in [
            1,
            7,
            KEY_LEN_MAX - 1,
            KEY_LEN_MAX,
            KEY_LEN_MAX + 1,
            3 * KEY_LEN_MAX,
        ] {
            for (before, behind) in [
                (0, 0),
                (1, 0),
                (0, 1),
                (249, 30),
                (250, 251),
                (251, 250),
                (700, 1),
            ] {
                let blanks = [before, behind].map(|count| " k ".repeat(count));
                let keys = format!("{} {} {}", blanks[0], "k".repeat(len), blanks[1]);
                assert_eq!(
                    has_long_key(keys.as_bytes()),
                    len > KEY_LEN_MAX,
                    "{before} {len} {behind}"
                );
            }
            assert_eq!(has_long_key("k".repeat(len).as_bytes()), len > KEY_LEN_MAX);
        }
    }
}
