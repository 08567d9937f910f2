//! The load: one thread, many connections, a fixed number of requests in flight on each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Bytes of a value.
const VALUE_LEN: usize = 32;

/// Bytes of `get key00000000\r\n`.
pub const GET_LEN: usize = 17;

/// Bytes of a set with its value.
pub const SET_LEN: usize = 24 + VALUE_LEN + 2;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Gets that hit.
    Get,
    /// Sets.
    Set,
}

/// A load.
pub struct Load {
    /// What is asked.
    pub operation: Operation,
    /// How many connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
}

/// What a round showed.
pub struct Result {
    /// Requests a second.
    pub rate: f64,
    /// The server's processor time per request.
    pub cpu_micros: f64,
}

/// The reply to a get of this bench.
pub fn get_reply() -> Vec<u8> {
    [
        &b"VALUE key00000000 0 32\r\n"[..],
        &[b'v'; VALUE_LEN],
        b"\r\nEND\r\n",
    ]
    .concat()
}

fn get(key: usize) -> Vec<u8> {
    format!("get key{key:08}\r\n").into_bytes()
}

fn set(key: usize) -> Vec<u8> {
    let mut request = format!("set key{key:08} 0 0 {VALUE_LEN}\r\n").into_bytes();
    request.extend_from_slice(&[b'v'; VALUE_LEN]);
    request.extend_from_slice(b"\r\n");
    request
}

struct Connection {
    stream: TcpStream,
    /// Bytes of replies still to come.
    awaited: usize,
    next: usize,
}

/// Keeps this process on one core.
pub fn pin(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(why) = rustix::thread::sched_setaffinity(None, &cores) {
        eprintln!("bench: cannot stay on core {core}: {why}");
    }
}

/// Puts `load` on the server for `time`.
pub fn run(load: &Load, port: u16, pid: u32, keys: usize, time: Duration) -> std::io::Result<Result> {
    fill(port, keys)?;
    let batches: Vec<Vec<u8>> = (0..keys / load.depth)
        .map(|batch| {
            let of = |key| match load.operation {
                Operation::Get => get(key),
                Operation::Set => set(key),
            };
            // Neighbouring requests are for keys far from each other.
            (0..load.depth)
                .flat_map(|n| of((batch * load.depth + n) * 7919 % keys))
                .collect()
        })
        .collect();
    let reply_len = match load.operation {
        Operation::Get => get_reply().len(),
        Operation::Set => "STORED\r\n".len(),
    };
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut connections = Vec::new();
    for index in 0..load.connections {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(
            &poll,
            stream.as_fd(),
            EventData::new_u64(index as u64),
            EventFlags::IN,
        )?;
        connections.push(Connection {
            stream,
            awaited: 0,
            next: index * 31,
        });
    }
    for connection in &mut connections {
        send(connection, &batches, reply_len * load.depth)?;
    }
    let mut input = vec![0; 256 << 10];
    let mut events = Vec::with_capacity(256);
    let mut requests = 0;
    let (start, cpu_before) = (Instant::now(), cpu_nanos(pid)?);
    while start.elapsed() < time {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let connection = &mut connections[event.data.u64() as usize];
            let len = connection.stream.read(&mut input)?;
            if len == 0 || len > connection.awaited {
                return Err(std::io::Error::other(format!(
                    "{len} bytes came, {} awaited",
                    connection.awaited
                )));
            }
            connection.awaited -= len;
            if connection.awaited == 0 {
                requests += load.depth;
                send(connection, &batches, reply_len * load.depth)?;
            }
        }
    }
    let (elapsed, cpu) = (start.elapsed(), cpu_nanos(pid)? - cpu_before);
    Ok(Result {
        rate: requests as f64 / elapsed.as_secs_f64(),
        cpu_micros: cpu as f64 / 1000.0 / requests as f64,
    })
}

fn send(connection: &mut Connection, batches: &[Vec<u8>], awaited: usize) -> std::io::Result<()> {
    connection.next = (connection.next + 1) % batches.len();
    connection.awaited = awaited;
    connection.stream.write_all(&batches[connection.next])
}

fn fill(port: u16, keys: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut replies = vec![0; "STORED\r\n".len() * 100];
    for first in (0..keys).step_by(100) {
        let batch: Vec<u8> = (first..first + 100).flat_map(set).collect();
        stream.write_all(&batch)?;
        stream.read_exact(&mut replies)?;
    }
    Ok(())
}

/// Processor time of all threads of a process, in nanoseconds.
fn cpu_nanos(pid: u32) -> std::io::Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        sum += text
            .split(' ')
            .next()
            .and_then(|nanos| nanos.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok(sum)
}
