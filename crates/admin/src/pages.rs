//! What there is to ask for, and what is answered.

use scrubjay_base::time::Now;
use scrubjay_cache::{Why, Worker};
use scrubjay_net::Stop;
use scrubjay_server::service::Shared;
use serde_json::{Value, json};

use crate::dashboard;
use crate::details::{self, Listing};
use crate::http::{Request, Status, query_value};
use crate::metrics;
use crate::reading::Reading;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Longest key of the protocols, in bytes.
const KEY_LEN_MAX: usize = 250;

/// What is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// Made for this request.
    Own(Vec<u8>),
    /// A file of the page.
    File(&'static str),
}

impl Body {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Body::Own(bytes) => bytes.len(),
            Body::File(text) => text.len(),
        }
    }
}

/// An answer, not yet in the words of HTTP.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// How it went.
    pub status: Status,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
}

impl Page {
    fn new(status: Status, content_type: &'static str, text: impl Into<Vec<u8>>) -> Page {
        Page {
            status,
            content_type,
            body: Body::Own(text.into()),
        }
    }

    /// A refusal: its status, and what to do about it.
    pub fn refusal(status: Status, advice: &str) -> Page {
        Page::new(status, TEXT, format!("{}: {advice}\n", status.line()))
    }

    fn json(value: &Value) -> Page {
        Page::new(Status::Ok, JSON, format!("{value}\n"))
    }
}

/// The answer to `request`.
pub fn answer(
    shared: &Shared,
    worker: &Worker,
    listing: &mut Listing,
    now: Now,
    request: &Request<'_>,
) -> Page {
    if let Some(file) = dashboard::FILES.iter().find(|file| file.path == request.path) {
        return Page {
            status: Status::Ok,
            content_type: file.content_type,
            body: Body::File(file.text),
        };
    }
    match request.path {
        "/healthz" => Page::new(Status::Ok, TEXT, "alive\n"),
        "/readyz" if shared.control.stop() == Stop::No => Page::new(Status::Ok, TEXT, "ready\n"),
        "/readyz" => Page::new(Status::Unavailable, TEXT, "stopping\n"),
        "/metrics" => {
            let text = metrics::text(&Reading::take(shared, now));
            Page::new(Status::Ok, metrics::CONTENT_TYPE, text)
        }
        "/stats.json" => Page::json(&Reading::take(shared, now).json(shared, now)),
        "/latency.json" => Page::json(&details::latency(shared)),
        "/segments.json" => Page::json(&details::segments(shared)),
        "/connections.json" if shared.auth.is_some() => {
            let advice = "this server has users (-Y), who may ask by stats conns after their login";
            Page::refusal(Status::Forbidden, advice)
        }
        "/connections.json" => Page::json(&listing.json(shared, now)),
        "/why" => why(shared, worker, request.query),
        _ => Page::refusal(
            Status::NotFound,
            "there are /, /metrics, /stats.json, /latency.json, /segments.json, /connections.json, /healthz, /readyz and /why?key=KEY",
        ),
    }
}

/// `/why`: where a key is, or how it left. Where there are users, only they may ask: by the command, after their login.
fn why(shared: &Shared, worker: &Worker, query: &str) -> Page {
    if shared.auth.is_some() {
        let advice = "this server has users (-Y), who may ask by the command why after their login";
        return Page::refusal(Status::Forbidden, advice);
    }
    let key = match query_value(query, "key") {
        Ok(Some(key)) if (1..=KEY_LEN_MAX).contains(&key.len()) => key,
        Ok(Some(key)) => {
            let advice = format!("a key has 1 to {KEY_LEN_MAX} bytes, this one has {}", key.len());
            return Page::refusal(Status::BadRequest, &advice);
        }
        Ok(None) => return Page::refusal(Status::BadRequest, "say which key: /why?key=KEY"),
        Err(status) => return Page::refusal(status, "a percent sign is followed by two hexadecimal digits"),
    };
    Page::json(&facts(&String::from_utf8_lossy(&key), &worker.why(&key)))
}

/// Names and values as `scrubjay why --json` has them.
fn facts(key: &str, why: &Why) -> Value {
    let seconds = |ttl: Option<u32>| ttl.map_or(-1, i64::from);
    match why {
        Why::Present(item) => json!({
            "key": key,
            "state": "present",
            "bytes": item.bytes,
            "value": item.value_len,
            "ttl": seconds(item.ttl),
            "la": item.idle_secs,
            "placed": item.placed_secs,
            "fetch": if item.fetched { "yes" } else { "no" },
            "reads": item.reads,
            "segment": item.segment,
        }),
        Why::Gone(gone) => json!({
            "key": key,
            "state": "gone",
            "cause": gone.cause.word(),
            "ago": gone.secs,
            "bytes": gone.bytes,
            "ttl": seconds(gone.ttl),
            "reads": gone.reads,
        }),
        Why::Unknown { not_for_secs } => json!({ "key": key, "state": "unknown", "not_for": not_for_secs }),
    }
}
