//! Requests as lines. The letters of the wire are known here and in `line` only.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Form;
use super::bundle::Bundle;
use super::output::{Output, PIECE_LEN_MIN};
use super::request::{Arith, Delete, Get, Request, Store, StoreMode, Touch, needs_base64};

/// The question that only servers with meta commands understand; they answer it after everything before it.
pub(super) const NOOP: &[u8] = b"mn\r\n";

/// Appends a request as a meta command. With `silent` the server is told to leave out nominal replies.
pub(super) fn meta(output: &mut Output, request: Request<'_>, opaque: u64, silent: bool) {
    match request {
        Request::Get(get) => meta_get(output.buffer(), &get, opaque),
        Request::Touch(Touch { key, exptime, .. }) => {
            let out = meta_start(output.buffer(), b"mg ", key, None);
            token(out, b" T", exptime);
            meta_end(out, opaque, silent);
        }
        Request::Store(store) => {
            meta_store(output.buffer(), &store, opaque, silent);
            data(output, store.value);
        }
        Request::Delete(Delete {
            key, cas, invalidate, ..
        }) => {
            let out = meta_start(output.buffer(), b"md ", key, None);
            if let Some(cas) = cas {
                unsigned_token(out, b" C", cas);
            }
            if let Some(exptime) = invalidate {
                token(out, b" I T", exptime);
            }
            meta_end(out, opaque, silent);
        }
        Request::Arith(arith) => meta_arith(output.buffer(), &arith, opaque, silent),
        Request::Noop => output.buffer().extend_from_slice(NOOP),
        request @ (Request::Version | Request::Flush { .. }) => classic(output, request),
    }
}

fn meta_get(out: &mut Vec<u8>, get: &Get<'_>, opaque: u64) {
    let out = meta_start(out, b"mg ", get.key, None);
    out.extend_from_slice(b" v f k");
    if get.with_cas {
        out.extend_from_slice(b" c");
    }
    if get.with_ttl {
        out.extend_from_slice(b" t");
    }
    // Of `T` and `N` the later one decides how long a new item lives.
    for (letter, exptime) in [
        (b" T", get.touch),
        (b" N", get.vivify),
        (b" R", get.recache_below.map(i64::from)),
    ] {
        if let Some(exptime) = exptime {
            token(out, letter, exptime);
        }
    }
    meta_end(out, opaque, false);
}

fn meta_store(out: &mut Vec<u8>, store: &Store<'_>, opaque: u64, silent: bool) {
    let out = meta_start(out, b"ms ", store.key, Some(store.value.len()));
    unsigned_token(out, b" F", store.flags.into());
    token(out, b" T", store.exptime);
    out.extend_from_slice(match store.mode {
        StoreMode::Set => b"".as_slice(),
        StoreMode::Add => b" ME",
        StoreMode::Replace => b" MR",
        StoreMode::Append => b" MA",
        StoreMode::Prepend => b" MP",
    });
    if let Some(cas) = store.cas {
        unsigned_token(out, b" C", cas);
    }
    if store.invalidate {
        out.extend_from_slice(b" I");
    }
    meta_end(out, opaque, silent);
}

fn meta_arith(out: &mut Vec<u8>, arith: &Arith<'_>, opaque: u64, silent: bool) {
    let out = meta_start(out, b"ma ", arith.key, None);
    unsigned_token(out, b" D", arith.delta);
    if arith.decrement {
        out.extend_from_slice(b" MD");
    }
    if let Some((initial, exptime)) = arith.initial {
        unsigned_token(out, b" J", initial);
        token(out, b" N", exptime);
    }
    if !arith.quiet {
        out.extend_from_slice(b" v k");
    }
    meta_end(out, opaque, silent);
}

fn meta_start<'a>(
    out: &'a mut Vec<u8>,
    verb: &[u8],
    key: &[u8],
    value_len: Option<usize>,
) -> &'a mut Vec<u8> {
    out.extend_from_slice(verb);
    let binary = needs_base64(key);
    if binary {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
    } else {
        out.extend_from_slice(key);
    }
    if let Some(len) = value_len {
        unsigned_token(out, b" ", len as u64);
    }
    if binary {
        out.extend_from_slice(b" b");
    }
    out
}

fn meta_end(out: &mut Vec<u8>, opaque: u64, silent: bool) {
    if silent {
        out.extend_from_slice(b" q");
    }
    unsigned_token(out, b" O", opaque);
    out.extend_from_slice(b"\r\n");
}

/// Most bytes between two keys of look-ups that are asked as one.
const BETWEEN_LEN_MAX: usize = 48;

/// Appends look-ups as one.
pub(super) fn bundle(out: &mut Vec<u8>, bundle: &Bundle, form: Form, opaque: u64) {
    let in_line = bundle.in_line(form);
    let mut keys = bundle.keys.iter();
    if in_line > 0 {
        out.extend_from_slice(if bundle.with_cas { b"gets" } else { b"get" });
        keys.by_ref().take(in_line).for_each(|key| word(out, key));
        out.extend_from_slice(b"\r\n");
    }
    // What is between two keys.
    let mut between = Vec::with_capacity(BETWEEN_LEN_MAX);
    between.extend_from_slice(if bundle.with_cas { b" v f k c" } else { b" v f k" });
    meta_end(&mut between, opaque, false);
    const VERB: &[u8] = b"mg ";
    between.extend_from_slice(VERB);
    if keys.len() == 0 {
        return;
    }
    // As many bytes as there may be: no function is called for them, and what is too much is gone again at once.
    let mut piece = [0; BETWEEN_LEN_MAX];
    piece[..between.len()].copy_from_slice(&between);
    let len = bundle.keys.bytes_len() + keys.len() * between.len();
    out.reserve(VERB.len() + len + BETWEEN_LEN_MAX);
    out.extend_from_slice(VERB);
    for at in in_line..bundle.len() {
        let (key, wide) = bundle.keys.wide(at);
        let end = out.len() + key.len();
        match wide {
            Some(wide) => out.extend_from_slice(wide),
            None => out.extend_from_slice(key),
        }
        out.truncate(end);
        out.extend_from_slice(&piece);
        out.truncate(end + between.len());
    }
    // Behind the last one there is no other.
    out.truncate(out.len() - VERB.len());
}

/// Appends a request as a classic command.
pub(super) fn classic(output: &mut Output, request: Request<'_>) {
    let out = output.buffer();
    match request {
        Request::Get(get) => {
            match (get.touch, get.with_cas) {
                (None, false) => out.extend_from_slice(b"get"),
                (None, true) => out.extend_from_slice(b"gets"),
                (Some(exptime), false) => token(out, b"gat ", exptime),
                (Some(exptime), true) => token(out, b"gats ", exptime),
            }
            word(out, get.key);
        }
        Request::Touch(Touch { key, exptime, .. }) => {
            out.extend_from_slice(b"touch");
            word(out, key);
            token(out, b" ", exptime);
        }
        Request::Store(store) => {
            classic_store(out, &store);
            return data(output, store.value);
        }
        Request::Delete(Delete { key, .. }) => {
            out.extend_from_slice(b"delete");
            word(out, key);
        }
        Request::Arith(arith) => {
            out.extend_from_slice(if arith.decrement { b"decr" } else { b"incr" });
            word(out, arith.key);
            unsigned_token(out, b" ", arith.delta);
        }
        Request::Noop | Request::Version => out.extend_from_slice(b"version"),
        Request::Flush { delay_secs } => unsigned_token(out, b"flush_all ", delay_secs.into()),
    }
    out.extend_from_slice(b"\r\n");
}

fn classic_store(out: &mut Vec<u8>, store: &Store<'_>) {
    out.extend_from_slice(match (store.cas, store.mode) {
        (Some(_), _) => b"cas".as_slice(),
        (None, StoreMode::Set) => b"set",
        (None, StoreMode::Add) => b"add",
        (None, StoreMode::Replace) => b"replace",
        (None, StoreMode::Append) => b"append",
        (None, StoreMode::Prepend) => b"prepend",
    });
    word(out, store.key);
    unsigned_token(out, b" ", store.flags.into());
    token(out, b" ", store.exptime);
    unsigned_token(out, b" ", store.value.len() as u64);
    if let Some(cas) = store.cas {
        unsigned_token(out, b" ", cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Puts one more key into the line of gets with which the buffer ends.
pub(super) fn extend_gets(out: &mut Vec<u8>, key: &[u8]) {
    debug_assert!(out.ends_with(b"\r\n"));
    out.truncate(out.len() - 2);
    word(out, key);
    out.extend_from_slice(b"\r\n");
}

/// A data block: what is owned and large goes as it is, the rest is copied behind its line.
fn data(output: &mut Output, value: Cow<'_, [u8]>) {
    match value {
        Cow::Owned(value) if value.len() >= PIECE_LEN_MIN => output.push_piece(value),
        value => output.buffer().extend_from_slice(&value),
    }
    output.buffer().extend_from_slice(b"\r\n");
    output.end_value();
}

fn word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn token(out: &mut Vec<u8>, letter: &[u8], number: i64) {
    if number >= 0 {
        return unsigned_token(out, letter, number.unsigned_abs());
    }
    out.extend_from_slice(letter);
    unsigned_token(out, b"-", number.unsigned_abs());
}

fn unsigned_token(out: &mut Vec<u8>, letter: &[u8], number: u64) {
    out.extend_from_slice(letter);
    scrubjay_base::number::append(out, number);
}
