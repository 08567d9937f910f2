//! What the event loop calls: pages over connections.

use std::sync::Arc;
use std::time::Duration;

use scrubjay_base::time::Now;
use scrubjay_cache::Worker;
use scrubjay_net::{Handled, Next, Output, Peer, Service};
use scrubjay_server::service::Shared;

use crate::details::Listing;
use crate::http::{self, Parsed, Request, Status};
use crate::pages::{self, Body, Page};

/// Longest time from a request's first byte to its last, in nanoseconds; silence is up to the event loop.
const REQUEST_NANOS_MAX: u64 = 10_000_000_000;

/// The same for every reply: nothing is loaded from elsewhere, shown inside another page, sniffed or kept.
const SECURITY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
     X-Content-Type-Options: nosniff\r\n\
     X-Frame-Options: DENY\r\n\
     Referrer-Policy: no-referrer\r\n\
     Cross-Origin-Opener-Policy: same-origin\r\n\
     Cross-Origin-Resource-Policy: same-origin\r\n\
     Cache-Control: no-store\r\n";

/// The admin port's service.
#[derive(Debug)]
pub struct Admin {
    shared: Arc<Shared>,
    worker: Worker,
    is_loopback: bool,
    listing: Listing,
    now: Now,
}

/// One connection.
#[derive(Debug, Default)]
pub struct Session {
    /// When the request began that is not here as a whole.
    begun: Option<Now>,
}

impl Admin {
    /// For a server; `is_loopback`: only this machine can connect, so only its own names are answered to.
    ///
    /// # Panics
    /// If the cache has no worker left.
    pub fn new(shared: &Arc<Shared>, is_loopback: bool) -> Admin {
        Admin {
            shared: Arc::clone(shared),
            worker: shared.cache.worker(),
            is_loopback,
            listing: Listing::default(),
            now: Now::default(),
        }
    }

    fn answer(&mut self, request: &Request<'_>) -> Page {
        if self.is_loopback && !http::names_loopback(request.host) {
            let advice = "only this machine is served here; call it localhost, 127.0.0.1 or [::1]";
            return Page::refusal(Status::Misdirected, advice);
        }
        pages::answer(&self.shared, &self.worker, &mut self.listing, self.now, request)
    }

    /// A reply in the words of HTTP.
    fn send(&self, page: Page, is_head: bool, keeps_alive: bool, output: &mut Output<&'static [u8]>) {
        let unix_millis = self.shared.cache.config().unix_millis_at_start + self.now.millis();
        let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + Duration::from_millis(unix_millis));
        let allow = match page.status {
            Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let head = format!(
            "HTTP/1.1 {}\r\nDate: {date}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}{SECURITY}{}\r\n",
            page.status.line(),
            page.content_type,
            page.body.len(),
            if keeps_alive { "" } else { "Connection: close\r\n" },
        );
        output.bytes().extend_from_slice(head.as_bytes());
        match page.body {
            _ if is_head => {}
            Body::Own(bytes) => output.bytes().extend_from_slice(&bytes),
            Body::File(text) => output.push_shared(text.as_bytes()),
        }
    }

    fn refuse(&self, status: Status, output: &mut Output<&'static [u8]>) {
        let advice = match status {
            Status::MethodNotAllowed => "only GET and HEAD; nothing can be changed from here",
            Status::ContentTooLarge => "no request has a body here",
            Status::HeadTooLarge => "at most 8 KiB and 64 fields",
            Status::Timeout => "send the request at once",
            _ => "this is no request of HTTP/1.1 that is answered here; the cache is on another port",
        };
        self.send(Page::refusal(status, advice), false, false, output);
    }
}

impl Service for Admin {
    type Session = Session;
    type Shared = &'static [u8];

    fn open(&mut self, _peer: Peer) -> Session {
        Session::default()
    }

    fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.worker.begin_turn(now);
    }

    fn go_idle(&mut self) {
        self.worker.go_idle();
    }

    fn handle(&mut self, session: &mut Session, input: &[u8], output: &mut Output<&'static [u8]>) -> Handled {
        let done = |consumed, next| Handled { consumed, next };
        match http::parse(input) {
            Parsed::Partial if input.is_empty() => done(0, Next::Wait),
            Parsed::Partial => {
                let begun = *session.begun.get_or_insert(self.now);
                if self.now.nanos_since(begun) > REQUEST_NANOS_MAX {
                    self.refuse(Status::Timeout, output);
                    return done(input.len(), Next::Close);
                }
                done(0, Next::Wait)
            }
            Parsed::Refused(status) => {
                self.refuse(status, output);
                done(input.len(), Next::Close)
            }
            Parsed::Request(request, consumed) => {
                session.begun = None;
                let page = self.answer(&request);
                self.send(page, request.is_head, request.keeps_alive, output);
                let next = match (request.keeps_alive, consumed < input.len()) {
                    (false, _) => Next::Close,
                    (true, true) => Next::Again,
                    (true, false) => Next::Wait,
                };
                done(consumed, next)
            }
        }
    }
}
#[cfg(test)]
mod tests;
