//! Everything that a reply is made of, read from the server at one moment.

use scrubjay_base::time::Now;
use scrubjay_cache::CurvePoint;
use scrubjay_server::service::Shared;
use scrubjay_server::stats;
use serde_json::{Map, Value, json};

use crate::memory;

/// Names and values of a group of statistics.
pub type Group = Vec<(String, String)>;

/// What the server says of itself.
#[derive(Debug)]
pub struct Reading {
    /// `stats`.
    pub general: Group,
    /// The miss-ratio curve.
    pub curve: Vec<CurvePoint>,
    /// Unix time of the server's start, in milliseconds.
    pub started_unix_millis: u64,
}

/// One group of the statistics table.
pub fn group(shared: &Shared, now: Now, name: &str) -> Group {
    let mut group = Vec::new();
    stats::report(shared, now, name.as_bytes(), &mut |name, value| {
        group.push((name.to_owned(), value.to_owned()));
    });
    group
}

impl Reading {
    /// Reads it.
    pub fn take(shared: &Shared, now: Now) -> Reading {
        Reading {
            general: group(shared, now, ""),
            curve: shared.cache.miss_ratio_curve(),
            started_unix_millis: shared.cache.config().unix_millis_at_start + shared.cache.opened().millis(),
        }
    }

    /// A statistic as `stats` tells it; `None` if it is not told here, as TLS's without TLS.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.general.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A statistic that is a whole number; 0 if it is not told.
    pub fn number(&self, name: &str) -> u64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Everything in `stats` and its groups, with numbers as numbers.
    pub fn json(&self, shared: &Shared, now: Now) -> Value {
        let curve = self.curve.iter().map(|point| {
            json!({
                "factor": point.factor,
                "limit_maxbytes": point.memory_max,
                "miss_ratio": point.miss_ratio,
                "sampled_keys": point.keys,
                "one_key_in": point.sample,
            })
        });
        let parts = memory::parts(self).map(|part| json!({ "part": part.name, "bytes": part.bytes }));
        json!({
            "stats": typed(&self.general),
            "settings": typed(&group(shared, now, "settings")),
            "items": typed(&group(shared, now, "items")),
            "slabs": typed(&group(shared, now, "slabs")),
            "mrc": curve.collect::<Vec<_>>(),
            "memory": parts,
        })
    }
}

fn typed(group: &Group) -> Value {
    let object: Map<String, Value> = group
        .iter()
        .map(|(name, value)| (name.clone(), typed_value(name, value)))
        .collect();
    Value::Object(object)
}

/// Numbers and yes or no as such; the rest, and versions, as text.
fn typed_value(name: &str, text: &str) -> Value {
    let is_number = !name.ends_with("version") && text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    match text {
        "yes" | "on" => json!(true),
        "no" | "off" => json!(false),
        "NULL" => Value::Null,
        _ if !is_number => json!(text),
        _ => match (text.parse::<u64>(), text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), ..) => json!(number),
            (_, Ok(number), _) => json!(number),
            (.., Ok(number)) => json!(number),
            _ => json!(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn statistics_become_what_they_are() {
        for (name, text, expected) in [
            ("curr_items", "18446744073709551615", json!(u64::MAX)),
            ("tcpport", "-1", json!(-1)),
            ("rusage_user", "0.250000", json!(0.25)),
            ("version", "1.6", json!("1.6")),
            ("cas_enabled", "yes", json!(true)),
            ("evictions", "off", json!(false)),
            ("inter", "NULL", json!(null)),
            ("inter", "127.0.0.1:7", json!("127.0.0.1:7")),
            ("word", "nan", json!("nan")),
        ] {
            assert_eq!(super::typed_value(name, text), expected, "{name} {text}");
        }
    }
}
