//! The floor: epoll, one read, one write, no look at what was asked. Every request is taken to be `get` of a 32-byte value
//! or a `set`, by its first letter and the fixed lengths of this bench's requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::load::{GET_LEN, SET_LEN, get_reply};

/// Serves on `port` until killed.
pub fn serve(port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(
        &poll,
        listener.as_fd(),
        EventData::new_u64(u64::MAX),
        EventFlags::IN,
    )?;
    let mut connections: Vec<Option<(TcpStream, usize)>> = Vec::new();
    let mut input = vec![0; 64 << 10];
    let gets: Vec<u8> = get_reply().repeat(64 << 4);
    let sets: Vec<u8> = b"STORED\r\n".repeat(64 << 4);
    let mut events = Vec::with_capacity(512);
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    epoll::add(
                        &poll,
                        stream.as_fd(),
                        EventData::new_u64(connections.len() as u64),
                        EventFlags::IN,
                    )?;
                    connections.push(Some((stream, 0)));
                }
                continue;
            }
            let index = event.data.u64() as usize;
            let Some((stream, left_over)) = connections[index].as_mut() else {
                continue;
            };
            match stream.read(&mut input) {
                Ok(len) if len > 0 => {
                    let (request, replies) = match input[0] {
                        b's' => (SET_LEN, &sets),
                        _ => (GET_LEN, &gets),
                    };
                    let reply = replies.len() / (64 << 4);
                    let whole = (*left_over + len) / request;
                    *left_over = (*left_over + len) % request;
                    stream.write_all(&replies[..whole * reply])?;
                }
                _ => connections[index] = None,
            }
        }
    }
}
