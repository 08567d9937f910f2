//! A cache so large that a connection's next look-ups are fetched ahead.

use scrubjay_net::{Output, Peer, Service as _};
use scrubjay_server::service::CacheService;
use scrubjay_sim::serving::{START, Serving};

/// Enough for an index of 1 MiB, twice over.
const KEYS: usize = 300_000;

fn ask(service: &mut CacheService, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut session = service.open(Peer::Unix);
    let (mut output, mut received) = (Output::default(), Vec::new());
    for input in inputs {
        service.begin_turn(START);
        let mut rest = input.as_slice();
        while !rest.is_empty() {
            let handled = service.handle(&mut session, rest, &mut output);
            rest = &rest[handled.consumed..];
            output
                .pieces()
                .for_each(|piece| received.extend_from_slice(piece));
            output.clear();
        }
    }
    received
}

fn packet(key: &str) -> Vec<u8> {
    let mut bytes = vec![0x80, 0, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0, key.len() as u8];
    bytes.resize(24, 0);
    bytes.extend_from_slice(key.as_bytes());
    bytes
}

#[test]
fn requests_that_come_together_are_answered_as_one_by_one() {
    let serving = Serving::new(&["--memory-limit=64".to_owned()]).expect("a cache");
    let mut service = serving.service();
    let stores = (0..KEYS).map(|n| format!("set k{n} {n} 0 2 noreply\r\nv{}\r\n", n % 10).into_bytes());
    assert_eq!(ask(&mut service, &stores.collect::<Vec<_>>()), b"");
    assert!(serving.cache().usage().index_bytes >= 1 << 20);
    let text = |n: usize| {
        let key = n * 7919 % (KEYS + KEYS / 4);
        match n % 7 {
            0 => format!("mg k{key} v f\r\n"),
            1 => format!("gets k{key}  k{}\r\n", key / 2),
            2 => (0..40).fold("get".to_owned(), |line, m| format!("{line} k{}", key / (m + 1))) + "\r\n",
            3 if n.is_multiple_of(2) => format!("set other{n} 0 0 3\r\nget\r\n"),
            4 if n.is_multiple_of(2) => "get \r\n".to_owned(),
            _ => format!("get k{key}\r\n"),
        }
    };
    let lines: Vec<Vec<u8>> = (0..2000).map(|n| text(n).into_bytes()).collect();
    // In runs of one kind, as clients ask for many keys, and a line of another kind in between.
    let flags = |n: usize| match n / 25 % 4 {
        _ if n.is_multiple_of(19) => "f v k b".to_owned(),
        0 => format!("f v k O{}", n / 25),
        1 => format!("f v k q O{n}"),
        2 => "s t v q".to_owned(),
        _ => format!("v O{n} k"),
    };
    let gets: Vec<Vec<u8>> = (0..2000)
        .map(|n| format!("mg k{} {}\r\n", n * 7919 % (KEYS + KEYS / 4), flags(n)).into_bytes())
        .collect();
    let packets: Vec<Vec<u8>> = (0..2000).map(|n| packet(&format!("k{}", n * 211))).collect();
    for requests in [lines, gets, packets] {
        let one_by_one = ask(&mut service, &requests);
        let together: Vec<Vec<u8>> = requests.chunks(40).map(<[Vec<u8>]>::concat).collect();
        assert!(
            ask(&mut service, &together) == one_by_one,
            "{} bytes",
            one_by_one.len()
        );
    }
}
