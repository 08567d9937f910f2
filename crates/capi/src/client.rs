//! `sj_client`: one call, and many at once.

use std::ffi::{c_int, c_void};
use std::sync::mpsc;
use std::time::Duration;

use scrubjay_client::placement::ServerIndex;
use scrubjay_client::protocol::{Reply, Request};
use scrubjay_client::{Call, Client, Error, Route};

use crate::border::{self, SjResult, bytes, fill, guard, missing, object, panicked, status};
use crate::config::SjConfig;
use crate::request::{SjRequest, result};

/// `sj_client`
pub struct SjClient {
    pub(crate) client: Client,
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
            let client = Client::new(config.0.clone());
            let client = client.map_err(|error| SjResult::error(status::CONFIG, error))?;
            let servers = client.servers().collect();
            made = Box::into_raw(Box::new(SjClient { client, servers }));
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
        client.client.place(bytes(key, key_len)).get() as u32
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
            Ok(result(client.client.call(request, call)))
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
        let replies = guard(None, || Some(asked.ask()));
        let mut replies = replies.into_iter().flatten();
        for index in 0..count {
            let result = guard(None, || replies.next().map(result));
            out.add(index).write(result.unwrap_or_else(panicked));
        }
    }
    status::OK
}

/// Many requests, and where they go.
struct Asked<'a> {
    client: &'a SjClient,
    call: Call<'a>,
    requests: Vec<Request<'a>>,
    /// Of each request, if any is placed as another key.
    servers: Option<Vec<ServerIndex>>,
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
            let requests: Result<Vec<_>, _> = from.iter().map(|from| from.request()).collect();
            let (requests, call) = (requests?, client.call(options.as_ref())?);
            let routed = call.route == Route::Key && from.iter().any(|from| from.route().is_some());
            let place = |(from, request): (&SjRequest, &Request<'_>)| {
                let key = from.route().or_else(|| request.key());
                client.client.place(key.unwrap_or_default())
            };
            Ok(Asked {
                client,
                call,
                servers: routed.then(|| from.iter().zip(&requests).map(place).collect()),
                requests,
            })
        }
    }

    fn ask(self) -> Replies {
        let client = &self.client.client;
        match self.servers {
            None => client.call_all(self.requests, self.call),
            Some(servers) => ask_apart(client, self.requests, &servers, self.call),
        }
    }
}

/// Asks each server for its part, all at the same time.
fn ask_apart(
    client: &Client,
    requests: Vec<Request<'_>>,
    servers: &[ServerIndex],
    call: Call<'_>,
) -> Replies {
    let count = requests.len();
    let mut parts: Vec<(ServerIndex, Vec<usize>, Vec<Request<'_>>)> = Vec::new();
    for (index, (request, server)) in requests.into_iter().zip(servers).enumerate() {
        match parts.iter_mut().find(|(of, ..)| of == server) {
            Some((_, indexes, part)) => {
                indexes.push(index);
                part.push(request);
            }
            None => parts.push((*server, vec![index], vec![request])),
        }
    }
    let (done, arrived) = mpsc::channel();
    let last = parts.pop();
    for (server, indexes, part) in parts {
        let done = done.clone();
        let call = Call {
            route: Route::Server(server),
            ..call
        };
        // Nobody waits any more only if this thread is gone.
        client.start_all(part, call, move |replies| drop(done.send((indexes, replies))));
    }
    drop(done);
    let here = last.map(|(server, indexes, part)| {
        let call = Call {
            route: Route::Server(server),
            ..call
        };
        (indexes, client.call_all(part, call))
    });
    let mut all: Vec<Option<Result<Reply, Error>>> = Vec::new();
    all.resize_with(count, || None);
    for (indexes, replies) in here.into_iter().chain(arrived) {
        for (index, reply) in indexes.into_iter().zip(replies) {
            all[index] = Some(reply);
        }
    }
    all.into_iter().flatten().collect()
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
