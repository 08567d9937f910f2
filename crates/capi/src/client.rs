//! `sj_client`: one call, and many at once.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use scrubjay_client::near::Front;
use scrubjay_client::placement::ServerIndex;
use scrubjay_client::protocol::{Reply, Request};
use scrubjay_client::{Call, Config, Error, Route};

use crate::border::{self, SjResult, bytes, fill, guard, missing, object, panicked, status};
use crate::config::SjConfig;
use crate::request::{SjRequest, result};

/// `sj_client`
pub struct SjClient {
    front: Front,
    /// All servers, by their number.
    servers: Vec<ServerIndex>,
}

/// `sj_options`
#[repr(C)]
pub struct SjOptions {
    timeout_ms: u32,
    server: u32,
}

type Replies = Vec<Result<Reply, Error>>;

#[unsafe(no_mangle)]
/// # Safety
/// As the header says.
pub unsafe extern "C" fn sj_client_new(config: *const SjConfig, result: *mut SjResult) -> *mut SjClient {
    let mut made = std::ptr::null_mut();
    // SAFETY: the caller's promises.
    unsafe {
        fill(result, || {
            let config = object(config, "config")?;
            let front = Front::new(config.0.clone());
            let front = front.map_err(|error| SjResult::error(status::CONFIG, error))?;
            let servers = front.client().servers().collect();
            made = Box::into_raw(Box::new(SjClient { front, servers }));
            Ok(SjResult::new(status::OK))
        });
    }
    made
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_client_free(client: *mut SjClient) {
    // SAFETY: the caller's promise.
    unsafe { border::free(client) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_client_servers(client: *const SjClient) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { client.as_ref() }.map_or(0, |client| client.servers.len() as u32)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_client_place(client: *const SjClient, key: *const c_void, key_len: usize) -> u32 {
    // SAFETY: the caller's promises.
    guard(u32::MAX, || unsafe {
        let Some(client) = client.as_ref() else {
            return u32::MAX;
        };
        client.front.client().place(bytes(key, key_len)).get() as u32
    })
}

/// `sj_near_counts`
#[repr(C)]
pub struct SjNearCounts {
    hits: u64,
    misses: u64,
    passed: u64,
    invalidations: u64,
    flushes: u64,
    voids: u64,
    copies: u64,
    bytes: u64,
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_near_counts(client: *const SjClient, out: *mut SjNearCounts) -> c_int {
    // SAFETY: the caller's promises.
    let (Some(client), Some(out)) = (unsafe { (client.as_ref(), out.as_mut()) }) else {
        return status::ARGUMENT;
    };
    guard(status::PANIC, || {
        let Some(near) = client.front.near() else {
            return status::MISS;
        };
        let counts = near.counts();
        *out = SjNearCounts {
            hits: counts.hits,
            misses: counts.misses,
            passed: counts.passed,
            invalidations: counts.invalidations,
            flushes: counts.flushes,
            voids: counts.voids,
            copies: counts.copies,
            bytes: counts.bytes,
        };
        status::OK
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_call(
    client: *const SjClient,
    request: *const SjRequest,
    options: *const SjOptions,
    out: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them.
    unsafe {
        fill(out, || {
            let client = object(client, "client")?;
            let from = object(request, "request")?;
            let request = from.request()?;
            let mut call = client.call(options.as_ref())?;
            if let (Route::Key, Some(key)) = (call.route, from.route()) {
                call.route = Route::As(key);
            }
            Ok(result(client.front.call(request, call), from.has_lease()))
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_call_all(
    client: *const SjClient,
    requests: *const SjRequest,
    count: usize,
    options: *const SjOptions,
    out: *mut SjResult,
) -> c_int {
    if count == 0 {
        return status::OK;
    }
    if requests.is_null()
        || out.is_null()
        || !isize::try_from(count).is_ok_and(|count| count < isize::MAX >> 8)
    {
        return status::ARGUMENT;
    }
    // SAFETY: the caller's promises, all of them; neither is null.
    unsafe {
        let requests = std::slice::from_raw_parts(requests, count);
        let Some(asked) = guard(None, || Asked::read(client, requests, options).ok()) else {
            return status::ARGUMENT;
        };
        let replies = guard(None, || {
            let mut replies = asked.ask();
            Asked::ask_again(client, requests, options, &mut replies);
            Some(replies)
        });
        let mut replies = replies.into_iter().flatten();
        for (index, from) in requests.iter().enumerate() {
            let result = guard(None, || Some(result(replies.next()?, from.has_lease())));
            out.add(index).write(result.unwrap_or_else(panicked));
        }
    }
    status::OK
}

/// Many requests, and where each goes.
struct Asked<'a> {
    front: &'a Front,
    asks: Vec<(Request<'a>, Route<'a>)>,
    timeout: Option<Duration>,
}

impl<'a> Asked<'a> {
    /// # Safety
    /// As the header says of what C passed.
    unsafe fn read(
        client: *const SjClient,
        from: &[SjRequest],
        options: *const SjOptions,
    ) -> Result<Asked<'a>, SjResult> {
        // SAFETY: the caller's promises, all of them.
        unsafe {
            let client: &SjClient = object(client, "client")?;
            let call = client.call(options.as_ref())?;
            let ask = |from: &SjRequest| {
                let route = match (call.route, from.route()) {
                    (Route::Key, Some(key)) => Route::As(key),
                    (route, _) => route,
                };
                from.request().map(|request| (request, route))
            };
            Ok(Asked {
                front: &client.front,
                asks: from.iter().map(ask).collect::<Result<_, _>>()?,
                timeout: call.timeout,
            })
        }
    }

    fn ask(self) -> Replies {
        self.front.call_each(self.asks, self.timeout)
    }

    /// What was answered to plain look-ups and may be what a lease holds is looked up by others.
    ///
    /// # Safety
    /// As the header says of what C passed.
    unsafe fn ask_again(
        client: *const SjClient,
        from: &[SjRequest],
        options: *const SjOptions,
        replies: &mut Replies,
    ) {
        let is_doubtful = |(reply, from): (&Result<Reply, Error>, &SjRequest)| {
            from.is_plain() && matches!(reply, Ok(Reply::Value(value)) if value.may_be_placeholder())
        };
        let doubtful: Vec<usize> = (0..from.len().min(replies.len()))
            .filter(|at| is_doubtful((&replies[*at], &from[*at])))
            .collect();
        if doubtful.is_empty() {
            return;
        }
        let again: Vec<SjRequest> = doubtful.iter().map(|at| from[*at].with_lease()).collect();
        // SAFETY: the caller's promises; what is asked again points where the first did.
        let Ok(asked) = (unsafe { Asked::read(client, &again, options) }) else {
            return;
        };
        for (at, reply) in doubtful.into_iter().zip(asked.ask()) {
            replies[at] = reply;
        }
    }
}

impl SjClient {
    fn call<'a>(&self, options: Option<&SjOptions>) -> Result<Call<'a>, SjResult> {
        let Some(options) = options else {
            return Ok(Call::default());
        };
        let route = match options.server.checked_sub(1) {
            None => Route::Key,
            Some(number) => Route::Server(self.server(number)?),
        };
        let millis = u64::from(options.timeout_ms);
        Ok(Call {
            route,
            timeout: (millis > 0).then(|| Duration::from_millis(millis)),
        })
    }

    /// What it was made from.
    pub(crate) fn config(&self) -> &Config {
        self.front.client().config()
    }

    /// A server by its number.
    pub(crate) fn server(&self, number: u32) -> Result<ServerIndex, SjResult> {
        let server = self.servers.get(number as usize).copied();
        server.ok_or_else(|| {
            let words = format_args!("there is no server {number}; there are {}", self.servers.len());
            SjResult::error(status::ARGUMENT, words)
        })
    }
}

/// What a caller of functions with callbacks forgot.
pub(crate) fn no_callback() -> SjResult {
    missing("the function that is to be called")
}
