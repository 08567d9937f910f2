//! Meta commands: executed on the cache, answered with the flags that were asked for, in their order.

use scrubjay_cache::{
    Arith, ArithOutcome, Delete, DeleteOutcome, Get, Hit, PinnedSlice, StoreMode, StoreOutcome, Why, Win,
};
use scrubjay_net::Output;
use scrubjay_protocol::meta::{self, Gets, Meta, Refused, SetMode, Verb, encode_key};
use scrubjay_protocol::reply;

use super::text::{Answer, Order};
use super::{Context, OUTPUT_PER_CALL, ahead, push_value};
use crate::stats::Counter;
use crate::watch::Stream;

/// Look-ups that were answered one after the other.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// How many.
    pub(super) count: usize,
    /// Bytes that they have together.
    pub(super) len: usize,
    /// Where the last one begins.
    pub(super) last: usize,
    /// What so many bytes look up was fetched.
    pub(super) fetched: usize,
}

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
    let mut run = Run {
        fetched,
        ..Run::default()
    };
    if context.is_restricted() || context.is_told(Stream::RawCommands.bit()) {
        return run;
    }
    while run.count < most {
        let rest = &input[run.len..];
        if run.len >= run.fetched {
            run.fetched = run.len + ahead::fetch_gets(context.worker, rest);
        }
        let Some((meta, len)) = gets.read(rest) else {
            break;
        };
        answer_get(context, meta, output);
        run.count += 1;
        run.last = run.len;
        run.len += len;
        if output.len() >= OUTPUT_PER_CALL || context.is_due() {
            break;
        }
    }
    context.counters.add_many(Counter::CmdMeta, run.count as u64);
    run
}

/// `mg`
pub(super) fn get(context: &mut Context<'_>, line: &[u8], output: &mut Output<PinnedSlice>) {
    match meta::parse(Verb::Get, line) {
        Ok(meta) => answer_get(context, &meta, output),
        Err(refused) => reply::line(output.bytes(), refused.words),
    }
}

fn answer_get(context: &mut Context<'_>, meta: &Meta<'_>, output: &mut Output<PinnedSlice>) {
    let hit = context.get(&Get {
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
    });
    let Some(hit) = hit else {
        context.note_miss(meta.key.bytes());
        if !meta.quiet {
            answer_without_item("EN", meta, output.bytes());
        }
        return;
    };
    // `C`: who has this version already does not get it again.
    let with_value = meta.return_value && meta.compare_cas.is_none_or(|cas| cas != hit.cas);
    let out = output.bytes();
    if with_value {
        out.extend_from_slice(b"VA ");
        reply::number(out, hit.value_len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    encode_hit_flags(meta, &hit, out);
    out.extend_from_slice(b"\r\n");
    if with_value {
        push_value(&hit, output);
        output.bytes().extend_from_slice(b"\r\n");
    }
}

fn encode_hit_flags(meta: &Meta<'_>, hit: &Hit<'_>, out: &mut Vec<u8>) {
    let mut touched = false;
    for &letter in meta.wanted() {
        match letter {
            b's' => letter_number(out, b's', hit.value_len() as u64),
            b'f' => letter_number(out, b'f', hit.flags.into()),
            b'c' => letter_number(out, b'c', hit.cas),
            b'h' => letter_number(out, b'h', hit.fetched.into()),
            b'l' => letter_number(out, b'l', hit.idle_secs.into()),
            // What is asked for before the `T` is what was left before it.
            b't' => letter_ttl(
                out,
                if touched || hit.created {
                    hit.ttl
                } else {
                    hit.ttl_before
                },
            ),
            b'T' => touched = true,
            b'O' => echo(out, meta.opaque),
            // As it stands in a line it breaks none.
            b'k' if !hit.key_is_binary && !meta.key.is_binary() => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(meta.raw_key);
            }
            b'k' => encode_key(out, meta.key.bytes(), hit.key_is_binary),
            _ => {}
        }
    }
    if hit.stale && hit.win != Win::Taken {
        out.extend_from_slice(b" X");
    }
    match hit.win {
        Win::Won => out.extend_from_slice(b" W"),
        Win::Taken => out.extend_from_slice(b" Z"),
        Win::None => {}
    }
    if hit.stale && hit.win == Win::Taken {
        out.extend_from_slice(b" X");
    }
}

fn letter_number(out: &mut Vec<u8>, letter: u8, number: u64) {
    out.extend_from_slice(&[b' ', letter]);
    reply::number(out, number);
}

fn letter_ttl(out: &mut Vec<u8>, ttl: Option<u32>) {
    match ttl {
        Some(secs) => letter_number(out, b't', secs.into()),
        None => out.extend_from_slice(b" t-1"),
    }
}

fn echo(out: &mut Vec<u8>, flag: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(flag);
}

/// A status line with what can be said without an item: opaque and key.
fn answer_without_item(status: &str, meta: &Meta<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(status.as_bytes());
    for &letter in meta.wanted() {
        match letter {
            b'O' => echo(out, meta.opaque),
            b'k' => encode_key(out, meta.key.bytes(), meta.key.is_binary()),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
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
            b'O' => echo(&mut flags, meta.opaque),
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
            StoreOutcome::Stored { cas, value_len } => ("HD", cas, value_len),
            StoreOutcome::Exists => ("EX", 0, 0),
            StoreOutcome::NotFound => ("NF", 0, 0),
            StoreOutcome::NotStored | StoreOutcome::Refused(_) => ("NS", 0, 0),
        };
        out.extend_from_slice(status.as_bytes());
        for flag in self.flags.split(|&byte| byte == b' ').skip(1) {
            match flag[0] {
                b'O' => echo(out, flag),
                b'k' => encode_key(out, key, self.key_is_binary),
                b'c' => letter_number(out, b'c', cas),
                _ => letter_number(out, b's', value_len as u64),
            }
        }
        out.extend_from_slice(b"\r\n");
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
        DeleteOutcome::Deleted => "HD",
        DeleteOutcome::NotFound => "NF",
        DeleteOutcome::Exists => "EX",
        DeleteOutcome::NoMemory => return reply::line(out, reply::NO_MEMORY),
    };
    answer_without_item(status, &meta, out);
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
    let (number, cas, ttl, created) = match outcome {
        ArithOutcome::Value {
            number,
            cas,
            ttl,
            created,
        } => (number, cas, ttl, created),
        ArithOutcome::NotFound => return answer_without_item("NF", &meta, out),
        ArithOutcome::Exists => return answer_without_item("EX", &meta, out),
        ArithOutcome::NonNumeric => return reply::line(out, reply::NON_NUMERIC),
        ArithOutcome::NoMemory => return reply::line(out, reply::NO_MEMORY_ARITH),
    };
    if meta.quiet && !created {
        return;
    }
    let mut digits = Vec::new();
    reply::number(&mut digits, number);
    if meta.return_value {
        out.extend_from_slice(b"VA ");
        reply::number(out, digits.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for &letter in meta.wanted() {
        match letter {
            b'c' => letter_number(out, b'c', cas),
            b't' => letter_ttl(out, ttl),
            b'O' => echo(out, meta.opaque),
            b'k' => encode_key(out, meta.key.bytes(), meta.key.is_binary()),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
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
