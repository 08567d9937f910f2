//! What is counted as a request where the rate of requests is limited, however the input is cut.

use scrubjay_net::{Output, Peer, Service};
use scrubjay_server::service::CacheService;
use scrubjay_sim::serving::{START, Serving};

fn service(arguments: &[&str]) -> CacheService {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let mut service = Serving::new(&arguments).expect("good options").service();
    service.begin_turn(START);
    service
}

/// Requests that are counted for `input`, which arrives `step` bytes at a time.
fn counted(service: &mut CacheService, input: &[u8], step: usize) -> u64 {
    let mut session = service.open(Peer::Unix);
    let mut output = Output::default();
    let (mut start, mut count) = (0, 0);
    for end in (step..input.len()).step_by(step).chain([input.len()]) {
        loop {
            let handled = service.handle(&mut session, &input[start..end], &mut output);
            output.clear();
            start += handled.consumed;
            count += service.take_asked();
            if handled.consumed == 0 || start == end {
                break;
            }
        }
    }
    assert_eq!(start, input.len(), "all of it is a request");
    service.close(session);
    count
}

/// A request of the binary protocol without a value.
fn packet(opcode: u8, key: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 24];
    packet[..4].copy_from_slice(&[0x80, opcode, 0, key.len() as u8]);
    packet[11] = key.len() as u8;
    packet.extend_from_slice(key);
    packet
}

#[test]
fn a_command_counts_as_one_and_a_look_up_of_several_keys_as_so_many() {
    let mut service = service(&["-m", "64"]);
    let large = [&b"set a 0 0 300000\r\n"[..], &[b'x'; 300_000], b"\r\n"].concat();
    let long = format!("get{}\r\n", " key".repeat(5_000));
    let packets = [packet(0x09, b"a"), packet(0x0d, b"b"), packet(0x0a, b"")].concat();
    let rows: &[(&[u8], u64)] = &[
        (b"get a\r\nget a\r\nget b\r\n", 3),
        (b"get a b c\r\n", 3),
        (b"gets a b c d\r\n", 4),
        (b"gat 10 a b\r\n", 2),
        (b"version\r\nversion\r\n", 2),
        (b"nonsense\r\n", 1),
        (b"mg a v\r\nmg b v\r\nmn\r\n", 3),
        (b"set a 0 0 1\r\nx\r\ndelete a\r\nincr a 1\r\ntouch a 10\r\n", 4),
        (b"set a 0 0 1 noreply\r\nx\r\nverbosity 0 noreply\r\n", 2),
        (&large, 1),
        (long.as_bytes(), 5_000),
        (&packets, 3),
    ];
    for (input, expected) in rows {
        let steps = [input.len(), 40_000, 2_000, 7, 1];
        for step in steps.into_iter().filter(|step| input.len() / step < 1_000) {
            let text = String::from_utf8_lossy(&input[..input.len().min(30)]).into_owned();
            assert_eq!(counted(&mut service, input, step), *expected, "{text}, {step}");
        }
    }
    // Of what comes together whichever are more.
    let mixed = b"version\r\nversion\r\nget x y z\r\n";
    assert_eq!(counted(&mut service, mixed, mixed.len()), 3);
}

#[test]
fn what_is_answered_before_a_login_counts_and_has_no_user() {
    let users = std::env::temp_dir().join(format!("scrubjay-rates-{}", std::process::id()));
    std::fs::write(&users, "ann:secret\n").expect("writable");
    let mut service = service(&["-m", "64", "-Y", &users.display().to_string()]);
    std::fs::remove_file(&users).expect("it is there");
    let (mut session, mut other) = (service.open(Peer::Unix), service.open(Peer::Unix));
    let mut output = Output::default();
    assert!(service.allowance(&session).is_none());
    let wrong = b"set x 0 0 9\r\nann wrong\r\n";
    service.handle(&mut session, wrong, &mut output);
    assert_eq!(service.take_asked(), 1);
    assert!(service.allowance(&session).is_none());
    let login = b"set x 0 0 10\r\nann secret\r\n";
    for session in [&mut session, &mut other] {
        service.handle(session, login, &mut output);
        assert_eq!(service.take_asked(), 1);
    }
    let allowances = [&session, &other].map(|session| service.allowance(session).expect("a user"));
    assert!(
        std::ptr::eq(allowances[0], allowances[1]),
        "one for all of a user"
    );
}
