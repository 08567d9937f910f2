//! The floor: a server that finds out where requests end, and answers each with the same bytes. What it costs is the kernel's
//! share, and what it reaches no real server can.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::datagrams::{self, Inbox, Outbox};
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Driver, Listener, Ready, Socket};
use scrubjay_io::thread::{id, spawn, stay_on};
use scrubjay_io::usage::Whose;

use crate::datagrams::FRAME_LEN;
use crate::transport::Address;

/// Longest payload of a datagram that is sent: as the servers'.
const PART_LEN_MAX: usize = 1_400 - FRAME_LEN;

/// Most bytes received at once.
const ROOM: usize = 64 << 10;

const LISTENER: u64 = u64::MAX - 1;

/// A connection, the rest of its input, and replies that are not sent.
struct Client {
    socket: Socket,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Where it serves.
enum Place {
    Tcp(Listener),
    Udp(Box<datagrams::Socket>),
}

/// Serves on a free port, by UDP or TCP, on a thread of its own that stays on `cores`, until the process ends. Every value has `value_len`
/// bytes. Returns where, and whose time it takes.
///
/// # Errors
/// No port, no thread, or none of the cores.
pub fn start(value_len: u32, by_udp: bool, cores: Option<Vec<usize>>) -> io::Result<(Address, Whose)> {
    let any = ([127, 0, 0, 1], 0).into();
    let (place, address) = if by_udp {
        let socket = datagrams::Socket::group(any, 1)?.remove(0);
        let address = Address::Udp(socket.address()?);
        (Place::Udp(Box::new(socket)), address)
    } else {
        let listener = Listener::tcp(any, 1024)?;
        let address = listener.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        (Place::Tcp(listener), Address::Tcp(address))
    };
    let (sender, receiver) = sync_channel(1);
    spawn("floor", move || {
        let pinned = cores.map_or(Ok(()), |cores| stay_on(&cores));
        // Who asked is waiting.
        let _ = sender.send(pinned.map(|()| id()));
        let value = vec![b'v'; value_len as usize];
        let served = match place {
            Place::Tcp(listener) => serve(&listener, &value),
            Place::Udp(socket) => serve_datagrams(*socket, &value),
        };
        if let Err(why) = served {
            eprintln!("scrubjay bench: the floor stopped: {why}");
        }
    })?;
    let thread = receiver
        .recv()
        .map_err(|_| io::Error::other("the floor did not start"))??;
    Ok((address, Whose::Thread(thread)))
}

fn serve_datagrams(mut socket: datagrams::Socket, value: &[u8]) -> io::Result<()> {
    let mut driver = Epoll::new(Clock::start())?;
    driver.add_datagrams(&socket, LISTENER)?;
    let (mut inbox, mut outbox) = (Inbox::default(), Outbox::default());
    let (mut ready, mut reply) = (Vec::new(), Vec::new());
    loop {
        driver.wait(None, &mut ready)?;
        // An error is of one datagram, which is lost; the inbox is empty then.
        let _ = driver.receive(&mut socket, &mut inbox);
        for index in 0..inbox.len() {
            let (datagram, peer) = inbox.get(index);
            let Some((frame, requests)) = datagram.split_first_chunk::<FRAME_LEN>() else {
                continue;
            };
            append_replies(requests, value, &mut reply);
            if outbox.is_full() {
                driver.send(&mut socket, &mut outbox);
            }
            append_parts(frame, &reply, peer, &mut outbox);
            reply.clear();
        }
        driver.send(&mut socket, &mut outbox);
    }
}

/// Cuts a reply into numbered datagrams.
fn append_parts(frame: &[u8; FRAME_LEN], reply: &[u8], peer: SocketAddr, outbox: &mut Outbox) {
    let parts = reply.chunks(PART_LEN_MAX);
    let total = (parts.len() as u16).to_be_bytes();
    for (number, part) in parts.enumerate() {
        let bytes = outbox.bytes();
        for half in [[frame[0], frame[1]], (number as u16).to_be_bytes(), total, [0; 2]] {
            bytes.extend_from_slice(&half);
        }
        bytes.extend_from_slice(part);
        outbox.finish(peer);
    }
}

fn serve(listener: &Listener, value: &[u8]) -> io::Result<()> {
    let mut driver = Epoll::new(Clock::start())?;
    driver.add_listener(listener, LISTENER)?;
    let mut clients: BTreeMap<u64, Client> = BTreeMap::new();
    let (mut next, mut room) = (0, vec![0; ROOM]);
    let mut ready: Vec<Ready> = Vec::new();
    loop {
        driver.wait(None, &mut ready)?;
        for event in &ready {
            if event.token == LISTENER {
                while let Ok((mut socket, _)) = driver.accept(listener) {
                    driver.add(&mut socket, next)?;
                    let (input, output) = (Vec::new(), Vec::new());
                    clients.insert(
                        next,
                        Client {
                            socket,
                            input,
                            output,
                        },
                    );
                    next += 1;
                }
            } else if let Some(client) = clients.get_mut(&event.token)
                && client.answer(&mut driver, &mut room, value).is_err()
            {
                clients.remove(&event.token);
            }
        }
    }
}

impl Client {
    fn answer(&mut self, driver: &mut Epoll, room: &mut [u8], value: &[u8]) -> io::Result<()> {
        let len = driver.read(&self.socket, room)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let whole = if self.input.is_empty() {
            &room[..len]
        } else {
            self.input.extend_from_slice(&room[..len]);
            &self.input
        };
        let used = append_replies(whole, value, &mut self.output);
        if self.input.is_empty() {
            self.input.extend_from_slice(&room[used..len]);
        } else {
            self.input.drain(..used);
        }
        // A load that is this far ahead is not waited for: the thread has nobody else to serve well.
        let mut sent = 0;
        while sent < self.output.len() {
            match driver.write(&self.socket, &[IoSlice::new(&self.output[sent..])]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        Ok(())
    }
}

/// Answers the whole requests in `input` and returns their bytes.
fn append_replies(input: &[u8], value: &[u8], out: &mut Vec<u8>) -> usize {
    let mut used = 0;
    while let Some(&first) = input.get(used) {
        let rest = &input[used..];
        let len = if first == 0x80 {
            append_binary(rest, value, out)
        } else {
            append_text(rest, value, out)
        };
        let Some(len) = len else {
            break;
        };
        used += len;
    }
    used
}

/// Values have no line ends: they are the load's.
fn append_text(input: &[u8], value: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let end = memchr::memchr(b'\n', input)? + 1;
    let line = input[..end].trim_ascii_end();
    match (input[0], input[1]) {
        (b'g', _) => {
            for key in line[4..].split(|byte| *byte == b' ') {
                append_value(&[b"VALUE ", key, b" 0 "], value, out);
            }
            out.extend_from_slice(b"END\r\n");
        }
        (b'm', b'g') if line.ends_with(b"q") => {
            let key = line[3..].split(|byte| *byte == b' ').next().unwrap_or_default();
            append_value_meta(Some(key), value, out);
        }
        (b'm', b'g') => append_value_meta(None, value, out),
        (b's', _) | (b'm', b's') => {
            let value_end = memchr::memchr(b'\n', &input[end..])? + 1;
            let is_quiet = line.ends_with(b"noreply") || line.ends_with(b" q");
            if !is_quiet {
                out.extend_from_slice(if input[0] == b's' {
                    b"STORED\r\n"
                } else {
                    b"HD\r\n"
                });
            }
            return Some(end + value_end);
        }
        (b'd', _) => out.extend_from_slice(b"DELETED\r\n"),
        (b'm', b'd') => out.extend_from_slice(b"HD\r\n"),
        (b'm', _) => out.extend_from_slice(b"MN\r\n"),
        _ => out.extend_from_slice(b"VERSION floor\r\n"),
    }
    Some(end)
}

fn append_value(before_len: &[&[u8]], value: &[u8], out: &mut Vec<u8>) {
    before_len.iter().for_each(|part| out.extend_from_slice(part));
    append_len(value, out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn append_value_meta(key: Option<&[u8]>, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"VA ");
    append_len(value, out);
    out.extend_from_slice(b" f0");
    if let Some(key) = key {
        out.extend_from_slice(b" k");
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn append_len(value: &[u8], out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let first = crate::item::write_digits(value.len() as u64, &mut digits);
    out.extend_from_slice(&digits[first..]);
}

fn append_binary(input: &[u8], value: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    const HEADER_LEN: usize = 24;
    const FLAGS: [u8; 4] = [0; 4];
    const STORES_QUIETLY: u8 = 0x11;
    let header = input.first_chunk::<HEADER_LEN>()?;
    let body_len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let len = HEADER_LEN + body_len;
    if input.len() < len {
        return None;
    }
    let opcode = header[1];
    let has_value = matches!(opcode, 0x00 | 0x09);
    if opcode != STORES_QUIETLY {
        let body_len = if has_value { FLAGS.len() + value.len() } else { 0 };
        let extras_len = if has_value { FLAGS.len() as u8 } else { 0 };
        out.extend_from_slice(&[0x81, opcode, 0, 0, extras_len, 0, 0, 0]);
        out.extend_from_slice(&(body_len as u32).to_be_bytes());
        out.extend_from_slice(&header[12..]);
        if has_value {
            out.extend_from_slice(&FLAGS);
            out.extend_from_slice(value);
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use scrubjay_io::driver::datagrams::Outbox;

    use super::{PART_LEN_MAX, append_parts, append_replies};
    use crate::exchange::{Exchange, Outcome, Protocol, Terms};
    use crate::item::{Amount, Items};

    #[test]
    fn replies_are_cut_into_numbered_datagrams() {
        let check = |len: usize, expected: &[usize]| {
            let reply: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut outbox = Outbox::default();
            append_parts(
                &[1, 2, 0, 0, 0, 1, 0, 0],
                &reply,
                ([127, 0, 0, 1], 9).into(),
                &mut outbox,
            );
            let mut whole = Vec::new();
            let mut lens = Vec::new();
            for (number, (datagram, _)) in outbox.iter().enumerate() {
                let frame = [1, 2, 0, number as u8, 0, expected.len() as u8, 0, 0];
                assert_eq!(datagram[..8], frame);
                whole.extend_from_slice(&datagram[8..]);
                lens.push(datagram.len() - 8);
            }
            assert_eq!((&lens[..], whole), (expected, reply));
        };
        check(0, &[]);
        check(100, &[100]);
        check(PART_LEN_MAX, &[PART_LEN_MAX]);
        check(3_000, &[PART_LEN_MAX, PART_LEN_MAX, 216]);
    }

    #[test]
    fn every_request_of_the_load_is_answered_as_a_hit() {
        for protocol in [Protocol::Text, Protocol::Meta, Protocol::Binary] {
            let terms = Terms {
                protocol,
                items: Items::new("key", Amount::Fixed(11), Amount::Fixed(5), Amount::Fixed(0)),
                verify: false,
            };
            let mut exchange = Exchange::new(Arc::new(terms));
            let mut requests = Vec::new();
            exchange.get(&[1], 0, &mut requests);
            exchange.get(&[2, 3, 4], 0, &mut requests);
            exchange.set(5, 0, 0, &mut requests);
            exchange.set_quietly(&[6, 7], 0, 0, &mut requests);
            exchange.delete(8, 0, &mut requests);
            let mut replies = Vec::new();
            for cut in 0..requests.len() {
                replies.clear();
                let used = append_replies(&requests[..cut], b"value", &mut replies);
                append_replies(&requests[used..], b"value", &mut replies);
            }
            let mut outcomes = Vec::new();
            exchange
                .take(&replies, |_, outcome| outcomes.push(outcome == Outcome::Hit(5)))
                .expect("good replies");
            assert_eq!(
                outcomes,
                [true, true, true, true, false, false, false, false],
                "{protocol:?}"
            );
            assert_eq!(exchange.units(), 0);
        }
    }
}
