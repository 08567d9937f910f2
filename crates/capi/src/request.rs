//! C's structures to the client's requests, replies to C's results.

use std::borrow::Cow;
use std::ffi::{c_int, c_void};

use scrubjay_client::Error;
use scrubjay_client::protocol::reply::ErrorKind;
use scrubjay_client::protocol::{
    Arith, Delete, Get, Lease, Refused, Reply, Request, Store, StoreMode, Touch, Value,
};

use crate::border::{SjResult, bytes, status};

/// `sj_request`
#[repr(C)]
pub struct SjRequest {
    op: u32,
    flags: u32,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    route: *const c_void,
    route_len: usize,
    exptime: i64,
    cas: u64,
    delta: u64,
    initial: u64,
    lease_ttl: u32,
    recache_below: u32,
    with_cas: u8,
    touch: u8,
    with_initial: u8,
    quiet: u8,
    plain: u8,
    invalidate: u8,
    unused: [u8; 2],
}

/// Operations, as in the header.
mod op {
    pub(super) const GET: u32 = 1;
    pub(super) const TOUCH: u32 = 2;
    pub(super) const SET: u32 = 3;
    pub(super) const PREPEND: u32 = 7;
    pub(super) const DELETE: u32 = 8;
    pub(super) const INCR: u32 = 9;
    pub(super) const DECR: u32 = 10;
    pub(super) const NOOP: u32 = 11;
    pub(super) const VERSION: u32 = 12;
    pub(super) const FLUSH: u32 = 13;
}

/// The modes of [`op::SET`] and those after it.
const MODES: [StoreMode; 5] = [
    StoreMode::Set,
    StoreMode::Add,
    StoreMode::Replace,
    StoreMode::Append,
    StoreMode::Prepend,
];

impl SjRequest {
    /// What is asked.
    ///
    /// # Safety
    /// Pointers and lengths are those of bytes that are not written for `'a`.
    pub(crate) unsafe fn request<'a>(&self) -> Result<Request<'a>, SjResult> {
        // SAFETY: the caller's promise.
        let (key, value): (&'a [u8], &'a [u8]) =
            unsafe { (bytes(self.key, self.key_len), bytes(self.value, self.value_len)) };
        let quiet = self.quiet != 0;
        let cas = (self.cas != 0).then_some(self.cas);
        Ok(match self.op {
            op::GET => Request::Get(Get {
                key,
                with_cas: self.with_cas != 0,
                with_ttl: false,
                touch: (self.touch != 0).then_some(self.exptime),
                vivify: (self.lease_ttl != 0).then_some(self.lease_ttl.into()),
                recache_below: (self.recache_below != 0).then_some(self.recache_below),
                plain: self.plain != 0,
            }),
            op::TOUCH => Request::Touch(Touch {
                key,
                exptime: self.exptime,
                quiet,
            }),
            op::SET..=op::PREPEND => Request::Store(Store {
                key,
                value: Cow::Borrowed(value),
                mode: MODES[(self.op - op::SET) as usize],
                flags: self.flags,
                exptime: self.exptime,
                cas,
                invalidate: false,
                quiet,
            }),
            op::DELETE => Request::Delete(Delete {
                key,
                cas,
                invalidate: (self.invalidate != 0).then_some(self.exptime),
                quiet,
            }),
            op::INCR | op::DECR => Request::Arith(Arith {
                key,
                delta: self.delta,
                decrement: self.op == op::DECR,
                initial: (self.with_initial != 0).then_some((self.initial, self.exptime)),
                quiet,
            }),
            op::NOOP => Request::Noop,
            op::VERSION => Request::Version,
            op::FLUSH => Request::Flush {
                delay_secs: u32::try_from(self.exptime).unwrap_or(0),
            },
            other => {
                let words = format_args!("there is no operation {other}");
                return Err(SjResult::error(status::ARGUMENT, words));
            }
        })
    }

    /// Whether leases are of no interest to it.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain != 0
    }

    /// The same, told of leases.
    pub(crate) fn with_lease(&self) -> SjRequest {
        SjRequest { plain: 0, ..*self }
    }

    /// Whether it is told what a lease holds.
    pub(crate) fn has_lease(&self) -> bool {
        self.lease_ttl != 0 || self.recache_below != 0
    }

    /// The key by which it is placed, if not its own.
    ///
    /// # Safety
    /// As of [`SjRequest::request`].
    pub(crate) unsafe fn route<'a>(&self) -> Option<&'a [u8]> {
        // SAFETY: the caller's promise.
        (!self.route.is_null()).then(|| unsafe { bytes(self.route, self.route_len) })
    }
}

/// A reply as C sees it. What a lease holds is a miss to those who did not ask with one.
pub(crate) fn result(reply: Result<Reply, Error>, has_lease: bool) -> SjResult {
    match reply {
        Ok(Reply::Value(value)) if value.is_withheld() && !has_lease => SjResult::new(status::MISS),
        Ok(Reply::Value(value)) => found(value),
        Ok(Reply::Miss) => SjResult::new(status::MISS),
        Ok(Reply::NotStored) => SjResult::new(status::NOT_STORED),
        Ok(Reply::Exists) => SjResult::new(status::EXISTS),
        Ok(Reply::NotFound) => SjResult::new(status::NOT_FOUND),
        Ok(Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Flushed | Reply::Alive) => {
            SjResult::new(status::OK)
        }
        Ok(Reply::Number(number)) => {
            let mut result = SjResult::new(status::OK);
            result.number = number;
            result
        }
        Ok(Reply::Version(version)) => SjResult::new(status::OK).with_data(version),
        Ok(Reply::Error(error)) => SjResult::error(server_status(error.kind), error),
        Err(error) => SjResult::error(error_status(&error), &error),
    }
}

fn found(value: Value) -> SjResult {
    let mut result = SjResult::new(status::OK);
    result.flags = value.flags;
    result.cas = value.cas.unwrap_or(0);
    let Lease { won, taken, stale } = value.lease;
    result.lease = u32::from(won) | u32::from(taken) << 1 | u32::from(stale) << 2;
    result.with_data(value.bytes)
}

fn error_status(error: &Error) -> c_int {
    match error {
        Error::Refused(refused) => match refused {
            Refused::KeyLen { .. } | Refused::BinaryKey | Refused::EchoedKey => status::KEY,
            Refused::ValueLen { .. } => status::TOO_LARGE,
            _ => status::REFUSED,
        },
        Error::Connect { .. } => status::CONNECT,
        Error::Down { .. } => status::DOWN,
        Error::TimedOut { .. } => status::TIMED_OUT,
        Error::Server { error, .. } => server_status(error.kind),
        _ => status::BROKEN,
    }
}

fn server_status(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::Unknown => status::UNKNOWN,
        ErrorKind::Client => status::CLIENT,
        ErrorKind::Server => status::SERVER,
    }
}
