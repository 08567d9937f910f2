//! Lists of all keys: `lru_crawler metadump` and `mgdump`, `stats cachedump`. Any number of them at once.
//!
//! A list is a cursor in the session and nothing elsewhere: a call lists a few lines of the index, then others have their
//! turn, and the next call comes when the peer has taken what was sent. So a peer that does not read holds up nobody, and one
//! that goes away leaves nothing behind. After some 500 items it rests for a moment: listing as fast as it goes, a worker and the
//! peer would take all of two cores, and the gets of others waited until the kernel took one away.

mod carry;
#[cfg(test)]
mod tests;

use scrubjay_base::number::parse_i64;
use scrubjay_cache::{ScanCursor, Scanned};
use scrubjay_protocol::command::Insides;
use scrubjay_protocol::dump::{Classes, Facts, Filter, Form, Order, encode_end, encode_get, encode_item};
use scrubjay_protocol::reply::{self, Words};
use scrubjay_protocol::text::Request;
use scrubjay_protocol::tokens::Tokens;

use super::Context;

/// Lines of the index that are listed before others have their turn: some 130 items, 20 microseconds.
const LINES_PER_CALL: u64 = 16;

/// Lines and live items that are looked at between two rests of a millisecond: half a million items a second where lines are full,
/// and an empty cache is soon listed.
const LOOKS_PER_SHARE: u64 = 576;

/// Items of a line, about.
const ITEMS_PER_LINE: u64 = 8;

/// Bytes of a `stats cachedump`, as memcached's.
const CACHEDUMP_LEN_MAX: usize = 2 << 20;

/// Longest line of a `stats cachedump`.
const ITEM_LINE_LEN_MAX: usize = 1024;

/// A list that is being told.
#[derive(Debug)]
pub(super) struct Dump {
    order: Order,
    cursor: ScanCursor,
    /// The cursor's number.
    next: u64,
    /// Lines and items looked at since the last rest; none before it begins.
    looks: Option<u64>,
    /// Items that may still be told.
    left: u64,
    /// Bytes that may still be told.
    bytes_left: usize,
}

/// How far a list was told.
pub(super) enum Told {
    /// Not begun.
    Nothing,
    /// There is more, for when others had their turn.
    Part,
    /// There is more, and this was enough for a moment.
    Share,
    /// To its end.
    All,
}

/// The list that `request` orders, or why it is refused; `None` if it orders none.
pub(super) fn begin(context: &Context<'_>, request: Request<'_>) -> Option<Result<Dump, Words>> {
    let enabled = context.shared.options_now().dump_enabled;
    let order = match request {
        Request::Insides(Insides::LruCrawler, line) => {
            let tokens = Tokens::cut(line);
            let is_dump = tokens.count() >= 3 && matches!(tokens.get(1), b"metadump" | b"mgdump");
            match (is_dump, enabled) {
                (false, _) => return None,
                (true, false) => Err(reply::NO_DUMP),
                (true, true) => Order::parse(&tokens),
            }
        }
        Request::Stats(words) => {
            let tokens = Tokens::cut(words);
            match (tokens.get(0), enabled) {
                (b"cachedump", true) => cachedump(&tokens),
                (b"cachedump", false) => Err(reply::NO_CACHEDUMP),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(order.and_then(|order| Dump::new(context, order)))
}

/// The order of `stats cachedump CLASS LIMIT`.
fn cachedump(words: &Tokens<'_>) -> Result<Order, Words> {
    if words.count() < 3 {
        return Err(reply::BAD_LINE);
    }
    let (Some(class @ 0..), Some(limit)) = (parse_i64(words.get(1)), parse_i64(words.get(2))) else {
        return Err(reply::BAD_FORMAT);
    };
    if class as u64 > Classes::MAX {
        return Err(reply::BAD_SLAB);
    }
    Ok(Order {
        form: Form::Items,
        classes: Classes::Some(1 << class),
        filter: Filter::default(),
        from: 0,
        limit: if limit > 0 { limit as u64 } else { u64::MAX },
    })
}

impl Dump {
    fn new(context: &Context<'_>, order: Order) -> Result<Dump, Words> {
        let cursor = context.shared.cache.cursor_of(order.from);
        Ok(Dump {
            cursor: cursor.ok_or(reply::FOREIGN_CURSOR)?,
            next: order.from,
            looks: None,
            left: order.limit,
            bytes_left: match order.form {
                Form::Items => CACHEDUMP_LEN_MAX,
                Form::Facts | Form::Gets => usize::MAX,
            },
            order,
        })
    }

    /// Appends the next part of the list.
    pub(super) fn step(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Told {
        let Some(mut looks) = self.looks else {
            self.looks = Some(0);
            // Whoever cannot wait for more than one turn, as a datagram, is refused by this before anything is told.
            context.shared.control.wake_all();
            return Told::Nothing;
        };
        while looks < LOOKS_PER_SHARE {
            let before = out.len();
            let next = self.scan(context, out, &mut looks);
            self.bytes_left = self.bytes_left.saturating_sub(out.len() - before);
            let is_full = self.left == 0 || self.bytes_left < ITEM_LINE_LEN_MAX;
            match next {
                Some(next) if !is_full => {
                    self.cursor = next;
                    self.next = context.shared.cache.number_of(next);
                }
                next => {
                    let next = next.filter(|_| self.order.form != Form::Items);
                    let next = next.map(|next| context.shared.cache.number_of(next));
                    encode_end(out, self.order.form, next);
                    return Told::All;
                }
            }
            // Where little is wanted, a share passes without a word.
            if out.len() > before && looks < LOOKS_PER_SHARE {
                self.looks = Some(looks);
                return Told::Part;
            }
        }
        self.looks = Some(0);
        Told::Share
    }

    /// Appends what is wanted of the next lines and returns the cursor behind them. Adds what it looked at to `looks`.
    fn scan(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>, looks: &mut u64) -> Option<ScanCursor> {
        let unix_millis_at_start = context.shared.cache.config().unix_millis_at_start;
        let unix_secs = unix_millis_at_start / 1000 + context.now.secs();
        // A list that can be gone on with ends with a line, and is not to be much longer than was wanted.
        let lines = match self.order.form {
            Form::Items => LINES_PER_CALL,
            Form::Facts | Form::Gets => (self.left / ITEMS_PER_LINE).clamp(1, LINES_PER_CALL),
        };
        *looks += lines;
        let before = out.len();
        let cursor = self.cursor;
        context.worker.scan(cursor, lines as usize, &mut |item| {
            *looks += 1;
            let full = out.len() - before + ITEM_LINE_LEN_MAX > self.bytes_left;
            let over = self.order.form == Form::Items && (self.left == 0 || full);
            if !over && self.wants(item) {
                self.encode(item, unix_secs, out);
                self.left = self.left.saturating_sub(1);
            }
        })
    }

    fn wants(&self, item: &Scanned<'_>) -> bool {
        let (age, ttl) = (item.idle_secs.into(), item.ttl.map(u64::from));
        self.order.classes.contain(item.class + 1) && self.order.filter.admits(item.key, item.bytes, age, ttl)
    }

    fn encode(&self, item: &Scanned<'_>, unix_secs: u64, out: &mut Vec<u8>) {
        match self.order.form {
            Form::Facts => Facts {
                key: item.key,
                expires_at: item.expires_at,
                accessed_at: unix_secs - u64::from(item.idle_secs),
                cas: item.cas,
                fetched: item.fetched,
                class: item.class as u64 + 1,
                size: item.bytes,
                flags: Some(item.flags),
            }
            .encode(out),
            Form::Gets => encode_get(out, item.key, item.key_is_binary),
            Form::Items => encode_item(out, item.key, item.value_len, item.expires_at),
        }
    }
}
