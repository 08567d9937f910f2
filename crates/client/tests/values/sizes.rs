//! How large values become: figures that are known of other implementations check the formats as a whole.

use scrubjay_client::value::{Format, Limits, Value};

const FORMATS: [Format; 5] = [
    Format::Json,
    Format::Php,
    Format::Igbinary,
    Format::Fb,
    Format::Msgpack,
];

fn sizes(value: &Value) -> [usize; 5] {
    FORMATS.map(|format| {
        let bytes = format.write(value).unwrap();
        assert_eq!(
            format.read(&bytes, &Limits::default()).as_ref(),
            Ok(value),
            "{format:?}"
        );
        bytes.len()
    })
}

#[test]
fn a_million_equal_numbers_take_what_they_take_elsewhere() {
    let array = |int| Value::List(vec![Value::Int(int); 1_000_000]);
    assert_eq!(
        sizes(&array(5_000)),
        [5_000_001, 15_888_902, 7_868_681, 7_934_338, 3_000_005]
    );
    let small = sizes(&array(500));
    assert_eq!(small[..2], [4_000_001, 14_888_902]);
    let smaller = sizes(&array(200));
    assert_eq!(smaller[2], 6_868_681);
}

#[test]
fn chinese_text_takes_what_utf8_takes() {
    let text = "松鸦记得每一颗橡子".repeat(3);
    let list = Value::List(
        (0..1_000)
            .map(|index| Value::Text(format!("{text}{index}")))
            .collect(),
    );
    let utf8: usize = (0..1_000).map(|index| format!("{text}{index}").len()).sum();
    let [json, _, _, _, msgpack] = sizes(&list);
    assert!(
        msgpack * 10 <= utf8 * 11,
        "{msgpack} bytes of MessagePack for {utf8} of UTF-8"
    );
    assert!(json * 10 <= utf8 * 11, "{json} bytes of JSON for {utf8} of UTF-8");
}
