//! Requests that come together: what they need is fetched ahead, and many sets are done in one go.

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
            assert!(handled.consumed > 0, "{:?}", String::from_utf8_lossy(rest));
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

/// A `set`, most often as most are written, and the same in a way that is read word by word.
fn set(n: usize) -> [Vec<u8>; 2] {
    let key = match n % 97 {
        0 => "k".repeat(250),
        1 => "k".repeat(251),
        _ => format!("key{}", n * 7919 % 600),
    };
    let len = match n % 53 {
        _ if key.len() > 250 => 5,
        0 => 5_000,
        1 => 1_100_000,
        _ => n % 30,
    };
    let end = match n % 41 {
        // What follows on a line that is refused so is a line.
        _ if key.len() > 250 => "\r\n",
        0 => "xy",
        1 => "\n\n",
        _ => "\r\n",
    };
    let (exptime, noreply) = ([0, 100, -1, 2_592_001][n % 31 % 4], ["", " noreply"][n / 10 % 2]);
    let rest = format!("{} {exptime} {len}{noreply}\r\n{}{end}", n * 31, "v".repeat(len));
    [" ", "  "].map(|blank| format!("set{blank}{key}{blank}{rest}").into_bytes())
}

#[test]
fn sets_that_come_together_do_what_each_does_word_by_word() {
    const COUNTED: [&str; 5] = [
        "cmd_set ",
        "total_items ",
        "curr_items ",
        "store_too_large ",
        "bytes ",
    ];
    let after = |inputs: &[Vec<u8>]| {
        let serving = Serving::new(&["--memory-limit=64".to_owned()]).expect("a cache");
        let mut service = serving.service();
        let said = ask(&mut service, inputs);
        let gets = (0..600).map(|n| format!("mg key{n} v f t s c\r\n").into_bytes());
        let there = ask(&mut service, &gets.collect::<Vec<_>>());
        let stats = ask(&mut service, &[b"stats\r\n".to_vec()]);
        let stats = String::from_utf8(stats).expect("text");
        let lines = stats.lines().filter_map(|line| line.strip_prefix("STAT "));
        let counted = lines.filter(|line| COUNTED.iter().any(|name| line.starts_with(name)));
        let counted: Vec<String> = counted.map(str::to_owned).collect();
        (said, there, counted)
    };
    let requests = |way: usize| {
        (0..4_000).map(move |n| match n % 29 {
            0 => format!("get key{}\r\n", n % 600).into_bytes(),
            1 if n % 2 == 0 => b"verbosity\r\n".to_vec(),
            _ => set(n)[way].clone(),
        })
    };
    let word_by_word = after(&requests(1).collect::<Vec<_>>());
    assert_eq!(word_by_word.2.len(), COUNTED.len());
    for together in [1, 2, 7, 40, 1_000] {
        let all: Vec<Vec<u8>> = requests(0).collect();
        let inputs: Vec<Vec<u8>> = all.chunks(together).map(<[Vec<u8>]>::concat).collect();
        let found = after(&inputs);
        assert!(found.0 == word_by_word.0, "answers of {together} together");
        assert!(found.1 == word_by_word.1, "items after {together} together");
        assert_eq!(found.2, word_by_word.2, "{together} together");
    }
}
