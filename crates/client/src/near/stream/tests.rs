//! Streams as servers write them, and as they do not.

use std::collections::BTreeMap;

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use scrubjay_base::time::Now;

use super::{Event, KNOWN_FOR_NANOS, Lost, Stream, Why};
use crate::config::Login;

/// An event with what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Changed(Vec<u8>),
    Flush(Why),
    Known(Now),
}

fn feed(stream: &mut Stream, bytes: &[u8]) -> (Vec<Told>, Result<(), Lost>) {
    let mut told = Vec::new();
    let fed = stream.feed(bytes, &mut |event| {
        told.push(match event {
            Event::Changed(key) => Told::Changed(key.to_vec()),
            Event::Flush(why) => Told::Flush(why),
            Event::Known(at) => Told::Known(at),
        });
    });
    (told, fed)
}

/// A stream that began at second 1 and was welcomed.
fn welcomed() -> Stream {
    let (mut stream, request) = Stream::begin(None, Now::from_secs(1));
    assert_eq!(request, b"watch invalidations\r\n");
    assert_eq!(feed(&mut stream, b"OK\r\n"), (Vec::new(), Ok(())));
    stream
}

fn changed(key: &str) -> Told {
    Told::Changed(key.into())
}

const GAP: Told = Told::Flush(Why::Gap);

#[test]
fn lines_become_events_and_numbers_that_are_missing_flushes() {
    let check = |lines: &str, told: &[Told]| {
        assert_eq!(
            feed(&mut welcomed(), lines.as_bytes()),
            (told.to_vec(), Ok(())),
            "{lines:?}"
        );
    };
    check("at=0:7 key=a%2Fb%E4\n", &[Told::Changed(b"a/b\xe4".to_vec())]);
    check("all=3\n", &[Told::Flush(Why::Flushed)]);
    check("skipped=3\n", &[Told::Flush(Why::Skipped)]);
    check("beat=0 at=\n", &[]);
    check("beat=0 at=0:7\nat=0:8 key=a\n", &[changed("a")]);
    check("beat=0 at=0:7\nat=0:9 key=a\n", &[GAP, changed("a")]);
    check("beat=0 at=0:7\nat=0:8 key=a\nbeat=0 at=0:8\n", &[changed("a")]);
    check("beat=0 at=0:7\nbeat=0 at=0:8\n", &[GAP]);
    check("beat=0 at=0:7\nat=1:1 key=a\n", &[changed("a")]);
    check("beat=0 at=0:7\nat=1:2 key=a\n", &[GAP, changed("a")]);
    check("beat=0 at=0:7\nbeat=0 at=0:7,1:1\n", &[GAP]);
    check(
        "at=0:7 key=a\nbeat=0 at=0:6\nat=0:8 key=b\n",
        &[changed("a"), changed("b")],
    );
    check("at=0:7 key=a\nbeat=0 at=0:8\n", &[changed("a"), GAP]);
    // What was missing is missed once.
    check(
        "beat=0 at=0:7\nat=0:9 key=a\nbeat=0 at=0:9\n",
        &[GAP, changed("a")],
    );
    let last = u64::MAX;
    check(
        &format!("at=0:{} key=a\nat=0:{last} key=b\n", last - 1),
        &[changed("a"), changed("b")],
    );
}

#[test]
fn what_is_no_line_ends_the_stream() {
    for lines in [
        "hello\n",
        "\n",
        "at=0:1\n",
        "at=0:1 key=\n",
        "at=0:1 key=%4\n",
        "at=0:1 key=%zz\n",
        "at=0 key=a\n",
        "at=:1 key=a\n",
        "at=0:-1 key=a\n",
        "at=0:18446744073709551616 key=a\n",
        "at=4294967296:1 key=a\n",
        "at=0:1 size=3\n",
        "beat=0\n",
        "beat=0 at=x\n",
        "beat=1 at=\n",
        "all=\n",
        "skipped=x\n",
        "other=1\n",
        // Numbers that go back: told twice, or begun anew.
        "at=0:7 key=a\nat=0:7 key=a\n",
        "at=0:18446744073709551615 key=a\nat=0:0 key=a\n",
    ] {
        let (_, fed) = feed(&mut welcomed(), lines.as_bytes());
        assert!(matches!(fed, Err(Lost::Unreadable(_))), "{lines:?}: {fed:?}");
    }
    let endless = vec![b'a'; 70_000];
    assert!(feed(&mut welcomed(), &endless).1.is_err());
}

#[test]
fn what_the_server_says_first_decides() {
    let check = |has_login: bool, answer: &str, expected: Result<(), Lost>| {
        let login = Login {
            user: "ann".to_owned(),
            password: "secret".to_owned(),
        };
        let login = Some(login).filter(|_| has_login);
        let (mut stream, request) = Stream::begin(login.as_ref(), Now::from_secs(1));
        if login.is_some() {
            assert!(request.starts_with(b"set auth 0 0 10\r\nann secret\r\nwatch "));
        }
        assert_eq!(feed(&mut stream, answer.as_bytes()).1, expected, "{answer:?}");
    };
    check(false, "OK\r\n", Ok(()));
    check(true, "STORED\r\nOK\r\n", Ok(()));
    check(false, "ERROR\r\n", Err(Lost::NoStream));
    let refused = |words: &str| Err(Lost::Refused(words.to_owned()));
    check(
        false,
        "WATCHER_TOO_MANY log watcher limit reached\r\n",
        Err(Lost::Full),
    );
    check(true, "CLIENT_ERROR no\r\n", refused("CLIENT_ERROR no"));
    check(false, "at=0:1 key=a\n", refused("at=0:1 key=a"));
}

#[test]
fn what_is_known_is_known_since_the_echoed_number_was_sent() {
    let mut stream = welcomed();
    let millis = Now::from_millis;
    assert_eq!(stream.ping(millis(1001)), Ok(Some(b"1\n".to_vec())));
    assert_eq!(stream.ping(millis(1002)), Ok(None));
    assert_eq!(stream.due(), millis(1251));
    assert_eq!(stream.ping(millis(1251)), Ok(Some(b"2\n".to_vec())));
    assert_eq!(feed(&mut stream, b"beat=0 at=\n"), (Vec::new(), Ok(())));
    let known = |at| (vec![Told::Known(millis(at))], Ok(()));
    assert_eq!(feed(&mut stream, b"beat=1 at=\n"), known(1001));
    assert_eq!(stream.ping(millis(1501)), Ok(Some(b"3\n".to_vec())));
    assert_eq!(
        feed(&mut stream, b"beat=3 at=\n"),
        known(1501),
        "the second was overtaken"
    );
    assert_eq!(
        feed(&mut stream, b"beat=3 at=\n"),
        (Vec::new(), Ok(())),
        "nothing new"
    );
    let end = Now::from_millis(1501).plus_nanos(KNOWN_FOR_NANOS);
    assert!(stream.ping(end).is_ok());
    assert_eq!(stream.ping(end.plus_nanos(1)), Err(Lost::Silent));
}

#[test]
fn a_server_that_does_not_answer_at_all_is_silent() {
    let (mut stream, _) = Stream::begin(None, Now::from_secs(1));
    assert_eq!(stream.ping(Now::from_secs(2)), Ok(None));
    assert_eq!(stream.ping(stream.due()), Err(Lost::Silent));
}

/// What a server with some workers does.
#[derive(Clone, Debug)]
enum Deed {
    Change(u32, u8),
    /// Its line is lost; the server may say so.
    Drop(u32, bool),
    Beat,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (0..4u32, 0..20u8).prop_map(|(worker, key)| Deed::Change(worker, key)),
        1 => (0..4u32, any::<bool>()).prop_map(|(worker, told)| Deed::Drop(worker, told)),
        2 => Just(Deed::Beat),
    ]
}

/// The lines, and for each how many losses were before it.
fn written(deeds: &[Deed], starts: [u64; 4]) -> Vec<(String, usize)> {
    let mut numbers: BTreeMap<u32, u64> = (0..4).zip(starts).collect();
    let mut losses = 0;
    let next = |numbers: &mut BTreeMap<u32, u64>, worker: &u32| {
        let number = numbers.get_mut(worker).expect("one of four");
        *number += 1;
        *number
    };
    let mut lines = vec![(beat(&numbers), 0)];
    for deed in deeds {
        let line = match deed {
            Deed::Change(worker, key) => {
                let number = next(&mut numbers, worker);
                format!("at={worker}:{number} key=%{key:02X}\n")
            }
            Deed::Drop(worker, told) => {
                next(&mut numbers, worker);
                losses += 1;
                match told {
                    true => "skipped=1\n".to_owned(),
                    false => continue,
                }
            }
            Deed::Beat => beat(&numbers),
        };
        lines.push((line, losses));
    }
    lines
}

fn beat(numbers: &BTreeMap<u32, u64>) -> String {
    let told = numbers.iter().filter(|(_, number)| **number > 0);
    let told: Vec<String> = told
        .map(|(worker, number)| format!("{worker}:{number}"))
        .collect();
    format!("beat=0 at={}\n", told.join(","))
}

proptest! {
    #[test]
    fn nothing_is_lost_unnoticed_and_nothing_is_flushed_without_a_loss(
        deeds in prop::collection::vec(deed(), 0..60),
        starts in prop::array::uniform4(prop_oneof![Just(0), 1..u64::MAX - 100]),
    ) {
        let mut stream = welcomed();
        let mut noticed = 0;
        for (line, losses) in written(&deeds, starts) {
            let (told, fed) = feed(&mut stream, line.as_bytes());
            prop_assert!(fed.is_ok());
            let flushed = told.iter().any(|told| matches!(told, Told::Flush(_)));
            prop_assert!(!flushed || losses > 0, "flushed without a loss at {line:?}");
            if flushed {
                noticed = losses;
            }
            if line.starts_with("beat") {
                prop_assert_eq!(noticed, losses, "a loss was not noticed by the beat {:?}", line);
            }
        }
    }

    #[test]
    fn where_the_stream_is_cut_makes_no_difference(
        deeds in prop::collection::vec(deed(), 0..30),
        garbage in prop::option::of("[ -~\n]{0,30}"),
        cuts in prop::collection::vec(0..2000usize, 0..20),
    ) {
        let mut text = String::from("OK\r\n");
        written(&deeds, [0, 7, 0, 9]).iter().for_each(|(line, _)| text.push_str(line));
        text.push_str(garbage.as_deref().unwrap_or_default());
        let begin = || Stream::begin(None, Now::from_secs(1)).0;
        let (whole, fed) = feed(&mut begin(), text.as_bytes());
        let mut stream = begin();
        let (mut pieces, mut last) = (Vec::new(), Ok(()));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let mut from = 0;
        for cut in cuts {
            if last.is_ok() {
                let (told, fed) = feed(&mut stream, &text.as_bytes()[from..cut]);
                pieces.extend(told);
                last = fed;
            }
            from = cut;
        }
        prop_assert_eq!(pieces, whole);
        prop_assert_eq!(last, fed);
    }

    #[test]
    fn whatever_comes_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut stream = welcomed();
        let _ = feed(&mut stream, &bytes);
    }
}
