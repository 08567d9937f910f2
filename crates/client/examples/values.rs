//! Bytes and times of every serializer: on the array of a million equal numbers, on rows of mixed kinds, and
//! on Chinese texts.
//!
//! `cargo run --release -p scrubjay-client --example values`; `tests/clients/values/times.php` measures PHP's beside it.

use std::hint::black_box;
use std::time::Instant;

use scrubjay_client::value::{Format, Key, Limits, Value};

const FORMATS: [Format; 5] = [
    Format::Json,
    Format::Php,
    Format::Igbinary,
    Format::Fb,
    Format::Msgpack,
];
const RUNS: usize = 5;

fn rows() -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    let row = |id: i64| {
        let pairs = [
            ("id", Value::Int(70_000 + id)),
            ("name", Value::Text(format!("jay {}", id % 1_000))),
            (
                "city",
                text(["北京市", "上海市", "Zürich", "Aberdeen"][id as usize % 4]),
            ),
            ("score", Value::Float(id as f64 / 8.0)),
            ("active", Value::Bool(id % 3 == 0)),
            ("tags", Value::List(vec![text("acorn"), text("oak")])),
        ];
        Value::Map(
            pairs
                .map(|(key, value)| (Key::Text(key.to_owned()), value))
                .to_vec(),
        )
    };
    Value::List((0..50_000).map(row).collect())
}

fn chinese() -> Value {
    let text = |id: i32| Value::Text(format!("{}{id}", "松鸦记得每一颗橡子".repeat(3)));
    Value::List((0..100_000).map(text).collect())
}

/// The shortest of some runs, in ms, and what the last one made.
fn shortest<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let start = Instant::now();
        let made = black_box(run());
        (start.elapsed().as_secs_f64() * 1e3, made)
    };
    let (mut best, mut last) = timed();
    for _ in 1..RUNS {
        drop(last);
        let (ms, made) = timed();
        best = best.min(ms);
        last = made;
    }
    (best, last)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let equal = |len| Value::List(vec![Value::Int(5_000); len]);
    let corpora = [
        ("1,000,000 equal numbers", equal(1_000_000)),
        ("100,000 equal numbers", equal(100_000)),
        ("50,000 rows", rows()),
        ("100,000 Chinese texts", chinese()),
    ];
    println!(
        "{:<24} {:<10} {:>10} {:>10} {:>10}",
        "corpus", "format", "bytes", "write ms", "read ms"
    );
    for (corpus, value) in &corpora {
        for format in FORMATS {
            let (write_ms, bytes) = shortest(|| format.write(value));
            let bytes = bytes?;
            let (read_ms, read) = shortest(|| format.read(&bytes, &Limits::default()));
            if read? != *value {
                return Err(format!("{format:?} does not bring {corpus} back").into());
            }
            println!(
                "{corpus:<24} {:<10} {:>10} {write_ms:>10.1} {read_ms:>10.1}",
                format!("{format:?}"),
                bytes.len()
            );
        }
    }
    Ok(())
}
