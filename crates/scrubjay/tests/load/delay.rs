//! A client that sends a request in pieces, with Nagle's algorithm on, does not wait for a delayed acknowledgement.
//!
//! A busy machine delays requests, too, but not for ever; the acknowledgement would be late each time.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::kit::{Connection, PATIENCE, Server};

/// A delayed acknowledgement takes 40 ms; a stall of every request shows in the median.
const MEDIAN_MAX: Duration = Duration::from_millis(20);

/// Requests measured.
const ROUNDS: usize = 50;

/// Bytes of a value.
const LEN: usize = 10 << 10;

/// Measures until the median is small enough.
fn is_soon_fast(mut round: impl FnMut()) {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                round();
                start.elapsed()
            })
            .collect();
        times.sort();
        let median = times[ROUNDS / 2];
        if median < MEDIAN_MAX {
            return;
        }
        assert!(Instant::now() < end, "{median:?}");
    }
}

fn connect_with_nagle(server: &Server) -> Connection {
    let connection = server.connect();
    connection.0.get_ref().set_nodelay(false).expect("an option");
    connection
}

#[test]
fn a_text_set_in_three_writes_after_a_miss_does_not_stall() {
    let server = Server::start("-t 2");
    let mut client = connect_with_nagle(&server);
    let value = vec![b'v'; LEN];
    is_soon_fast(|| {
        client.send(b"get absent\r\n");
        assert_eq!(client.line(), "END");
        client.send(format!("set key 0 0 {LEN}\r\n").as_bytes());
        client.send(&value);
        client.send(b"\r\n");
        assert_eq!(client.line(), "STORED");
    });
}

#[test]
fn a_binary_set_in_three_writes_after_a_miss_does_not_stall() {
    let server = Server::start("-t 2");
    let mut client = connect_with_nagle(&server);
    let header = |opcode: u8, extras: usize, value: usize| {
        let mut header = vec![0x80, opcode, 0, 3, extras as u8, 0, 0, 0];
        header.extend_from_slice(&((extras + 3 + value) as u32).to_be_bytes());
        header.resize(24 + extras, 0);
        header.extend_from_slice(b"key");
        header
    };
    let status = |client: &mut Connection| {
        let mut reply = [0; 24];
        client.0.read_exact(&mut reply).expect("a reply");
        let body = u32::from_be_bytes([reply[8], reply[9], reply[10], reply[11]]);
        client
            .0
            .read_exact(&mut vec![0; body as usize])
            .expect("its body");
        reply[7]
    };
    let value = vec![b'v'; LEN];
    is_soon_fast(|| {
        client.send(&header(0x04, 0, 0));
        status(&mut client);
        client.send(&header(0x01, 8, LEN));
        client.send(&value[..LEN / 2]);
        client.send(&value[LEN / 2..]);
        assert_eq!(status(&mut client), 0);
    });
}
