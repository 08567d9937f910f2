//! The values of `tests/clients/values/cases.json`, as the scripts beside it build them too.

use scrubjay_client::value::{Body, Key, Object, Value};
use serde_json::Value as Json;

/// All cases by name.
pub fn cases() -> Vec<(String, Value)> {
    let text = include_str!("../../../../tests/clients/values/cases.json");
    let Json::Object(cases) = serde_json::from_str(text).unwrap() else {
        panic!("cases.json is no object")
    };
    cases
        .iter()
        .map(|(name, case)| (name.clone(), build(case)))
        .collect()
}

/// The bytes of a linear congruential generator, which is the same in every language.
pub fn random(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let step = |_| {
        state = (state * 1_103_515_245 + 12_345) & 0x7fff_ffff;
        (state >> 16) as u8
    };
    (0..len).map(step).collect()
}

fn build(case: &Json) -> Value {
    match case {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => Value::Int(number.as_i64().unwrap()),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(list) => Value::List(list.iter().map(build).collect()),
        Json::Object(tagged) => {
            let (kind, with) = tagged.iter().next().unwrap();
            tagged_value(kind, with)
        }
    }
}

fn tagged_value(kind: &str, with: &Json) -> Value {
    let text = |at: usize| with[at].as_str().unwrap_or_default().to_owned();
    let object = |body| Value::Object(Box::new(Object { class: text(0), body }));
    match kind {
        "float" => Value::Float(with.as_str().unwrap().parse().unwrap()),
        "hex" => {
            let digits = with.as_str().unwrap();
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            Value::Bytes((0..digits.len()).step_by(2).map(byte).collect())
        }
        "random" => Value::Bytes(random(with.as_u64().unwrap() as usize)),
        "repeat" => Value::Text(text(0).repeat(with[1].as_u64().unwrap() as usize) + &text(2)),
        "map" => Value::Map(pairs(with)),
        "object" => object(Body::Properties(pairs(&with[1]))),
        "custom" => object(Body::Custom(text(1).into_bytes())),
        "case" => object(Body::Case(text(1))),
        _ => panic!("unknown kind {kind} in cases.json"),
    }
}

fn pairs(pairs: &Json) -> Vec<(Key, Value)> {
    let pair = |pair: &Json| {
        let key = pair[0]
            .as_i64()
            .map_or_else(|| Key::Text(pair[0].as_str().unwrap().to_owned()), Key::Int);
        (key, build(&pair[1]))
    };
    pairs.as_array().unwrap().iter().map(pair).collect()
}
