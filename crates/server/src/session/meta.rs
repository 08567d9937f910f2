//! Meta commands: executed on the cache, answered with the flags that were asked for, in their order.

use scrubjay_cache::{
    Arith, ArithOutcome, Delete, DeleteOutcome, Get, Hit, PinnedSlice, StoreMode, StoreOutcome, Why, Win,
};
use scrubjay_net::Output;
use scrubjay_protocol::limits::OPAQUE_LEN_MAX;
use scrubjay_protocol::meta::{self, Gets, Meta, Refused, SetMode, Verb, WANTED_MAX};
use scrubjay_protocol::reply::{self, Line, NUMBER_LEN_MAX, key_len_max};

use super::replies::Replies;
use super::text::{Answer, Order};
use super::{Context, OUTPUT_PER_CALL, Run, ahead};
use crate::stats::Counter;
use crate::watch::Stream;

/// Answers the `mg` lines that `input` starts with, at most `most`, up to one that needs more than an answer. What the first
/// `fetched` bytes look up was fetched.
#[inline(never)]
pub(super) fn get_run(
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
    fetched: usize,
    most: usize,
) -> Run {
    let mut gets = Gets::default();
    let (mut count, mut len, mut last, mut fetched) = (0, 0, 0, fetched);
    let is_open = !context.is_restricted() && !context.is_told(Stream::RawCommands.bit());
    let mut replies = Replies::new(output);
    while is_open && count < most {
        let rest = &input[len..];
        if len >= fetched {
            fetched = len + ahead::fetch_gets(context.worker, rest);
        }
        // Whoever goes on with a line that is not read here takes it up anew.
        let is_measured = context.is_due();
        if is_measured {
            context.counters.observed.take_up(context.shared);
        }
        let Some((meta, line_len)) = gets.read(rest) else {
            break;
        };
        answer_get(context, meta, &mut replies);
        if is_measured {
            context.counters.observed.answered(context.shared, context.now);
        }
        replies.expect_more();
        (count, last, len) = (count + 1, len, len + line_len);
        if replies.len() >= OUTPUT_PER_CALL {
            break;
        }
    }
    context.counters.add_many(Counter::CmdMeta, count as u64);
    Run {
        count,
        len,
        last,
        fetched,
    }
}

/// `mg`
pub(super) fn get(context: &mut Context<'_>, line: &[u8], output: &mut Output<PinnedSlice>) {
    match meta::parse(Verb::Get, line) {
        Ok(meta) => answer_get(context, &meta, &mut Replies::new(output)),
        Err(refused) => reply::line(output.bytes(), refused.words),
    }
}

fn answer_get(context: &mut Context<'_>, meta: &Meta<'_>, replies: &mut Replies<'_>) {
    let hit = &match is_plain(meta) {
        true => context.get(&Get {
            leases: true,
            ..Get::key(meta.key.bytes())
        }),
        false => look_up(context, meta),
    };
    let Some(hit) = hit else {
        context.note_miss(meta.key.bytes());
        if !meta.quiet {
            replies.write(room_of(meta), |line| answer_without_item(*b"EN", meta, line));
        }
        return;
    };
    // `C`: who has this version already does not get it again.
    let with_value = meta.return_value && meta.compare_cas.is_none_or(|cas| cas != hit.cas);
    let copied = Replies::copied(hit).filter(|_| with_value);
    let room = room_of(meta) + copied.map_or(0, |value| value.len() + 2);
    replies.write(room, |line| {
        let line = match with_value {
            true => line.push(*b"VA ").number(hit.value_len() as u64),
            false => line.push(*b"HD"),
        };
        let flags = meta.wanted().iter();
        let line = flags.fold(line, |line, letter| encode_hit_flag(meta, hit, *letter, line));
        let line = encode_lease(hit, line).push(*b"\r\n");
        match copied {
            Some(value) => line.bytes(value).push(*b"\r\n"),
            None => line,
        }
    });
    if with_value && copied.is_none() {
        replies.push_value(hit);
    }
}

/// Whether it asks for no more than what there is. Nearly all do.
#[inline]
fn is_plain(meta: &Meta<'_>) -> bool {
    meta.exptime.is_none() && meta.vivify.is_none() && meta.recache_below.is_none() && !meta.no_bump
}

/// Looks up with all that a line may ask for.
#[inline(never)]
fn look_up<'c>(context: &'c mut Context<'_>, meta: &Meta<'_>) -> Option<Hit<'c>> {
    context.get(&Get {
        // As memcached: what a look-up creates is not marked as binary.
        key_is_binary: false,
        touch: meta.exptime,
        // Of `N` and `T` the later one decides how long an item made here lives.
        vivify: meta.vivify.map(|vivify| match meta.exptime {
            Some(exptime) if !meta.vivify_last => exptime,
            _ => vivify,
        }),
        recache_below: meta.recache_below,
        no_bump: meta.no_bump,
        new_cas: meta.new_cas,
        leases: true,
        ..Get::key(meta.key.bytes())
    })
}

/// What a line takes at most but for its flags: `VA ` and a number, what is said of leases, the end.
const PLAIN_LEN_MAX: usize = 32;

/// What a flag takes at most but for a key or an opaque: a blank, its letter and a number.
const FLAG_LEN_MAX: usize = 2 + NUMBER_LEN_MAX;

/// Room for any reply's line.
#[inline]
fn room_of(meta: &Meta<'_>) -> usize {
    PLAIN_LEN_MAX + WANTED_MAX * FLAG_LEN_MAX + OPAQUE_LEN_MAX + key_len_max(meta.key.bytes().len())
}

/// One of the flags that are asked for. A function of its own: in a loop the compiler would get ready for all of them in advance.
#[inline(never)]
fn encode_hit_flag<'o>(meta: &Meta<'_>, hit: &Hit<'_>, letter: u8, line: Line<'o>) -> Line<'o> {
    match letter {
        b's' => letter_number(line, b's', hit.value_len() as u64),
        b'f' => letter_number(line, b'f', hit.flags.into()),
        b'c' => letter_number(line, b'c', hit.cas),
        b'h' => letter_number(line, b'h', hit.fetched.into()),
        b'l' => letter_number(line, b'l', hit.idle_secs.into()),
        // What is asked for before the `T` is what was left before it.
        b't' if hit.created || meta.wanted().iter().find(|one| b"tT".contains(one)) == Some(&b'T') => {
            letter_ttl(line, hit.ttl)
        }
        b't' => letter_ttl(line, hit.ttl_before),
        b'O' => echo(line, meta.opaque),
        // As it stands in a line it breaks none.
        b'k' if !hit.key_is_binary && !meta.key.is_binary() => line.push(*b" k").bytes(meta.raw_key),
        b'k' => letter_key(line, meta.key.bytes(), hit.key_is_binary),
        _ => line,
    }
}

/// Whether it is stale, and who refills it.
#[inline]
fn encode_lease<'o>(hit: &Hit<'_>, line: Line<'o>) -> Line<'o> {
    match (hit.stale, hit.win) {
        (false, Win::None) => line,
        (true, Win::None) => line.push(*b" X"),
        (false, Win::Won) => line.push(*b" W"),
        (true, Win::Won) => line.push(*b" X W"),
        (false, Win::Taken) => line.push(*b" Z"),
        (true, Win::Taken) => line.push(*b" Z X"),
    }
}

#[inline]
fn letter_number(line: Line<'_>, letter: u8, number: u64) -> Line<'_> {
    line.push([b' ', letter]).number(number)
}

fn letter_ttl(line: Line<'_>, ttl: Option<u32>) -> Line<'_> {
    match ttl {
        Some(secs) => letter_number(line, b't', secs.into()),
        None => line.push(*b" t-1"),
    }
}

fn letter_key<'o>(line: Line<'o>, key: &[u8], is_binary: bool) -> Line<'o> {
    line.push(*b" k").key(key, is_binary)
}

#[inline]
fn echo<'o>(line: Line<'o>, flag: &[u8]) -> Line<'o> {
    line.push(*b" ").bytes(flag)
}

/// A status line with what can be said without an item: opaque and key. There is [`room_of`] it.
fn answer_without_item<'o>(status: [u8; 2], meta: &Meta<'_>, line: Line<'o>) -> Line<'o> {
    let flags = meta.wanted().iter();
    let line = flags.fold(line.push(status), |line, letter| match letter {
        b'O' => echo(line, meta.opaque),
        b'k' => letter_key(line, meta.key.bytes(), meta.key.is_binary()),
        _ => line,
    });
    line.push(*b"\r\n")
}

/// How a `ms` is answered when its data block has come.
#[derive(Clone, Debug)]
pub(super) struct SetAnswer {
    quiet: bool,
    key_is_binary: bool,
    /// The flags that come back: their letters, and what is behind an opaque's.
    flags: Vec<u8>,
}

/// Reads an `ms` line.
pub(super) fn parse_set(line: &[u8]) -> Result<(Meta<'_>, Order), Refused> {
    let meta = meta::parse(Verb::Set, line)?;
    let mode = match meta.mode {
        SetMode::Set => StoreMode::Set,
        SetMode::Add => StoreMode::Add,
        SetMode::Append => StoreMode::Append,
        SetMode::Prepend => StoreMode::Prepend,
        // A replace that compares is a set that compares: both need an item.
        SetMode::Replace if meta.compare_cas.is_some() => StoreMode::Set,
        SetMode::Replace => StoreMode::Replace,
    };
    let mut flags = Vec::new();
    for letter in meta.wanted() {
        match letter {
            b'O' => {
                flags.push(b' ');
                flags.extend_from_slice(meta.opaque);
            }
            b'k' | b'c' | b's' => flags.extend_from_slice(&[b' ', *letter]),
            _ => {}
        }
    }
    let order = Order {
        mode,
        key_is_binary: meta.key.is_binary(),
        flags: meta.client_flags,
        exptime: meta.exptime.unwrap_or(0),
        // 0 compares with nothing when appending or prepending.
        compare_cas: meta.compare_cas.filter(|&cas| cas != 0 || mode == StoreMode::Set),
        // 0 is no older number.
        invalidate: meta.invalidate && meta.compare_cas != Some(0),
        new_cas: meta.new_cas,
        vivify: meta.vivify,
        answer: Answer::Meta(SetAnswer {
            quiet: meta.quiet,
            key_is_binary: meta.key.is_binary(),
            flags,
        }),
    };
    Ok((meta, order))
}

impl SetAnswer {
    /// Appends the reply.
    pub(super) fn encode(&self, key: &[u8], outcome: StoreOutcome, out: &mut Vec<u8>) {
        let (status, cas, value_len) = match outcome {
            StoreOutcome::Stored { .. } if self.quiet => return,
            StoreOutcome::Stored { cas, value_len } => (b"HD", cas, value_len),
            StoreOutcome::Exists => (b"EX", 0, 0),
            StoreOutcome::NotFound => (b"NF", 0, 0),
            StoreOutcome::NotStored | StoreOutcome::Refused(_) => (b"NS", 0, 0),
        };
        let flags = || self.flags.split(|&byte| byte == b' ').skip(1);
        let room = flags().map(|flag| flag.len() + FLAG_LEN_MAX).sum::<usize>();
        Line::append(out, PLAIN_LEN_MAX + room + key_len_max(key.len()), |line| {
            let line = flags().fold(line.push(*status), |line, flag| match flag[0] {
                b'O' => echo(line, flag),
                b'k' => letter_key(line, key, self.key_is_binary),
                b'c' => letter_number(line, b'c', cas),
                _ => letter_number(line, b's', value_len as u64),
            });
            line.push(*b"\r\n")
        });
    }
}

/// `md`
pub(super) fn delete(context: &mut Context<'_>, line: &[u8], out: &mut Vec<u8>) {
    let meta = match meta::parse(Verb::Delete, line) {
        Ok(meta) => meta,
        Err(refused) => return reply::line(out, refused.words),
    };
    let delete = Delete {
        key: meta.key.bytes(),
        compare_cas: meta.compare_cas,
        invalidate: meta.invalidate,
        touch: meta.exptime,
        drop_value: meta.drop_value,
        new_cas: meta.new_cas,
    };
    let outcome = context.delete(&delete, true);
    let status = match outcome {
        DeleteOutcome::Deleted if meta.quiet => return,
        DeleteOutcome::Deleted => b"HD",
        DeleteOutcome::NotFound => b"NF",
        DeleteOutcome::Exists => b"EX",
        DeleteOutcome::NoMemory => return reply::line(out, reply::NO_MEMORY),
    };
    Line::append(out, room_of(&meta), |line| {
        answer_without_item(*status, &meta, line)
    });
}

/// `ma`
pub(super) fn arith(context: &mut Context<'_>, line: &[u8], out: &mut Vec<u8>) {
    let meta = match meta::parse(Verb::Arith, line) {
        Ok(meta) => meta,
        Err(refused) => return reply::line(out, refused.words),
    };
    let exptime_of_new = |vivify| {
        if meta.vivify_last {
            vivify
        } else {
            meta.exptime.unwrap_or(vivify)
        }
    };
    let outcome = context.arith(&Arith {
        key: meta.key.bytes(),
        key_is_binary: meta.key.is_binary(),
        delta: meta.delta,
        decrement: meta.decrement,
        // As memcached: 0 compares with nothing here.
        compare_cas: meta.compare_cas.filter(|&cas| cas != 0),
        initial: meta.vivify.map(|vivify| (meta.initial, exptime_of_new(vivify))),
        touch: meta.exptime,
        new_cas: meta.new_cas,
    });
    let mut without_item = |status| {
        Line::append(out, room_of(&meta), |line| {
            answer_without_item(status, &meta, line)
        })
    };
    let (number, cas, ttl, created) = match outcome {
        ArithOutcome::Value {
            number,
            cas,
            ttl,
            created,
        } => (number, cas, ttl, created),
        ArithOutcome::NotFound => return without_item(*b"NF"),
        ArithOutcome::Exists => return without_item(*b"EX"),
        ArithOutcome::NonNumeric => return reply::line(out, reply::NON_NUMERIC),
        ArithOutcome::NoMemory => return reply::line(out, reply::NO_MEMORY_ARITH),
    };
    if meta.quiet && !created {
        return;
    }
    let mut digits = Vec::new();
    reply::number(&mut digits, number);
    Line::append(out, room_of(&meta), |line| {
        let line = match meta.return_value {
            true => line.push(*b"VA ").number(digits.len() as u64),
            false => line.push(*b"HD"),
        };
        let line = meta.wanted().iter().fold(line, |line, letter| match letter {
            b'c' => letter_number(line, b'c', cas),
            b't' => letter_ttl(line, ttl),
            b'O' => echo(line, meta.opaque),
            b'k' => letter_key(line, meta.key.bytes(), meta.key.is_binary()),
            _ => line,
        });
        line.push(*b"\r\n")
    });
    if meta.return_value {
        out.extend_from_slice(&digits);
        out.extend_from_slice(b"\r\n");
    }
}

/// `me`: what is known of an item, read without leaving a trace.
pub(super) fn debug(context: &mut Context<'_>, line: &[u8], out: &mut Vec<u8>) {
    let (key, raw_key) = match meta::parse_debug(line) {
        Ok(key) => key,
        Err(words) => return reply::line(out, words),
    };
    context.note_look(key.bytes());
    let has_cas = context.has_cas();
    let Some(hit) = context.worker.get(&Get {
        no_bump: true,
        ..Get::key(key.bytes())
    }) else {
        return reply::line(out, "EN");
    };
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(raw_key);
    let ttl = hit.ttl.map_or(-1, i64::from);
    let fetched = if hit.fetched { "yes" } else { "no" };
    let size = scrubjay_cache::item_size(has_cas, key.bytes().len(), hit.flags, hit.value_len());
    let facts = format!(
        " exp={ttl} la={} cas={} fetch={fetched} cls=1 size={size}",
        hit.idle_secs, hit.cas
    );
    reply::line(out, &facts);
}

/// `why`: where an item is, or how it left; read without leaving a trace.
pub(super) fn why(context: &mut Context<'_>, line: &[u8], out: &mut Vec<u8>) {
    let (key, raw_key) = match meta::parse_debug(line) {
        Ok(key) => key,
        Err(words) => return reply::line(out, words),
    };
    let seconds = |ttl: Option<u32>| ttl.map_or(-1, i64::from);
    let facts = match context.worker.why(key.bytes()) {
        Why::Present(item) => format!(
            " present bytes={} value={} ttl={} la={} placed={} fetch={} reads={} segment={}",
            item.bytes,
            item.value_len,
            seconds(item.ttl),
            item.idle_secs,
            item.placed_secs,
            if item.fetched { "yes" } else { "no" },
            item.reads,
            item.segment,
        ),
        Why::Gone(gone) => format!(
            " gone cause={} ago={} bytes={} ttl={} reads={}",
            gone.cause.word(),
            gone.secs,
            gone.bytes,
            seconds(gone.ttl),
            gone.reads,
        ),
        Why::Unknown { not_for_secs } => format!(" unknown not_for={not_for_secs}"),
    };
    out.extend_from_slice(b"WHY ");
    out.extend_from_slice(raw_key);
    reply::line(out, &facts);
}
