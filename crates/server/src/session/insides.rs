//! memcached's answers about parts of it that are not here: clients and scripts that steer them go on working.

use scrubjay_base::number::parse_i64;
use scrubjay_protocol::command::Insides;
use scrubjay_protocol::reply::{self, Words};
use scrubjay_protocol::tokens::Tokens;

/// Classes of memcached's allocator, whose numbers are still let pass.
const SLAB_CLASSES: i64 = 63;

/// memcached's answers about parts that are not here.
pub(super) fn answer(insides: Insides, tokens: &Tokens<'_>) -> Words {
    match insides {
        Insides::Slabs => answer_slabs(tokens),
        Insides::Lru => answer_lru(tokens),
        Insides::LruCrawler => answer_crawler(tokens),
        // Those who watch are answered elsewhere.
        Insides::Watch | Insides::Extstore => reply::ERROR,
        Insides::RefreshCerts => reply::NO_TLS,
    }
}

fn answer_slabs(tokens: &Tokens<'_>) -> Words {
    let number = |index: usize| parse_i64(tokens.get(index));
    match tokens.get(1) {
        b"reassign" if tokens.count() == 4 => match (number(2), number(3)) {
            (Some(from), Some(to)) if from == to => reply::SAME_CLASS,
            (Some(from), Some(to)) if from.max(to) > SLAB_CLASSES => reply::BAD_CLASSES,
            (Some(_), Some(_)) => reply::NO_SPARE,
            _ => reply::BAD_FORMAT,
        },
        b"automove" => match (tokens.get(2), number(2)) {
            (b"ratio", _) if tokens.count() > 3 => "OK",
            (_, Some(0..=2)) => "OK",
            (_, Some(3..)) => reply::ERROR,
            _ => reply::BAD_FORMAT,
        },
        _ => reply::ERROR,
    }
}

fn answer_lru(tokens: &Tokens<'_>) -> Words {
    let number = |index: usize| parse_i64(tokens.get(index));
    match tokens.get(1) {
        b"mode" if matches!(tokens.get(2), b"flat" | b"segmented") => "OK",
        b"tune" if tokens.count() >= 6 && number(2).is_some() && number(3).is_some() => "OK",
        b"temp_ttl" if number(2).is_some() => "OK",
        _ => reply::ERROR,
    }
}

fn answer_crawler(tokens: &Tokens<'_>) -> Words {
    const SLEEP_MAX: i64 = 1_000_000;
    let number = parse_i64(tokens.get(2));
    match (tokens.get(1), tokens.count()) {
        (b"enable" | b"disable", _) => "OK",
        (b"sleep", 3..) => match number {
            Some(0..=SLEEP_MAX) => "OK",
            Some(_) => reply::CRAWLER_SLEEP,
            None => reply::BAD_FORMAT,
        },
        (b"tocrawl", 3..) => number.map_or(reply::BAD_FORMAT, |_| "OK"),
        (b"crawl", 3..) => match (tokens.get(2), number) {
            (b"all", _) | (_, Some(1..=SLAB_CLASSES)) => "OK",
            _ => reply::BAD_CLASS,
        },
        _ => reply::ERROR,
    }
}
