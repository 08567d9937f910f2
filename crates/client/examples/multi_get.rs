//! Multi-gets over datagrams from many servers of this machine: what the window saves, and how long it takes beside TCP.
//! `cargo run --release -p scrubjay-client --example multi_get -- PROGRAM [SERVERS]`, where PROGRAM is scrubjay or memcached.

use std::error::Error;
use std::fs;
use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scrubjay_client::placement::Server;
use scrubjay_client::protocol::{Conversation, Form, Get, Request, Settings, Store};
use scrubjay_client::udp::{Options, Reader};
use scrubjay_client::{Call, Client, Config};

const KEYS: usize = 500;
const ROUNDS: usize = 50;
const TIMEOUT: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error>;

/// A server process with its TCP and its UDP port.
struct Process {
    child: Child,
    tcp: u16,
    udp: u16,
}

impl Process {
    fn start(program: &str, number: usize) -> Result<Process, Failure> {
        let name = format!("multi-get-{}-{number}", std::process::id());
        let port_file = std::env::temp_dir().join(name);
        let child = Command::new(program)
            .args("-l 127.0.0.1 -p -1 -U -1 -t 1 -m 64 -u root".split(' '))
            .env("MEMCACHED_PORT_FILENAME", &port_file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut process = Process {
            child,
            tcp: 0,
            udp: 0,
        };
        process.read_ports(&port_file)?;
        fs::remove_file(port_file)?;
        Ok(process)
    }

    fn read_ports(&mut self, port_file: &PathBuf) -> Result<(), Failure> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended: {status}").into());
            }
            let text = fs::read_to_string(port_file).unwrap_or_default();
            let port = |kind: &str| {
                let mut lines = text.lines().filter(|line| line.starts_with(kind));
                lines.find_map(|line| line.rsplit(' ').next()?.parse().ok())
            };
            if let (Some(tcp), Some(udp)) = (port("TCP"), port("UDP")) {
                (self.tcp, self.udp) = (tcp, udp);
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        Err("the server does not say its ports".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("multi-get:{number:06}").into_bytes()
}

/// 100 to 2,000 bytes.
fn value(number: usize) -> Vec<u8> {
    vec![b'a' + (number % 26) as u8; 100 + number * 997 % 1901]
}

/// Datagrams that the sockets of these ports have dropped, as the kernel counts them.
fn drops(ports: &[u16]) -> Result<u64, Failure> {
    let mut sum = 0;
    for line in fs::read_to_string("/proc/net/udp")?.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let port = words[1].rsplit(':').next().unwrap_or_default();
        if ports.contains(&u16::from_str_radix(port, 16)?) {
            sum += words[words.len() - 1].parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// What one row of the table is about.
struct Way {
    name: &'static str,
    options: Options,
}

fn ways(receive_buffer: Option<usize>) -> Vec<Way> {
    let options = Options {
        receive_buffer,
        ..Options::default()
    };
    vec![
        Way {
            name: "no window",
            options: Options {
                window_min: 1000,
                heed_buffer: false,
                ..options.clone()
            },
        },
        Way {
            name: "learnt by losses",
            options: Options {
                heed_buffer: false,
                ..options.clone()
            },
        },
        Way {
            name: "and by the buffer",
            options,
        },
    ]
}

fn quantiles(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    format!("{:6.2} | {:6.2}", at(0.5), at(0.99))
}

fn measure(client: &Client, servers: &[Process], way: &Way) -> Result<(), Failure> {
    let address = |server: &Process| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, server.udp)));
    let addresses = servers.iter().map(address).collect();
    let mut reader = Reader::with_addresses(client, addresses, way.options.clone())?;
    let mut ports: Vec<u16> = servers.iter().map(|server| server.udp).collect();
    ports.push(reader.local_addr()?.port());
    let before = drops(&ports)?;
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let values = reader.get_many(&keys, TIMEOUT);
        times.push(start.elapsed().as_secs_f64() * 1e3);
        for (number, found) in values.into_iter().enumerate() {
            let found = found?.map(|found| found.bytes);
            assert_eq!(found, Some(value(number)), "the value of key {number}");
        }
    }
    let counts = reader.counts();
    let lost = drops(&ports)? - before;
    println!(
        "| {:17} | {:>7} | {:9} | {:8} | {:7} | {:6} | {} |",
        way.name,
        way.options
            .receive_buffer
            .map_or("system".to_owned(), |len| len.to_string()),
        counts.datagrams,
        lost,
        counts.fallback_keys,
        reader.window(),
        quantiles(times)
    );
    Ok(())
}

/// The same over a connection to each server, all asked at once.
fn measure_tcp(client: &Client, servers: &[Process]) -> Result<(), Failure> {
    let mut streams = Vec::new();
    for server in servers {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.tcp))?;
        stream.set_nodelay(true)?;
        streams.push((stream, Conversation::new(Settings::new(Form::Meta, 1))));
    }
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let (mut times, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for key in &keys {
            let server = client.place(key).get();
            streams[server].1.ask(Request::Get(Get::new(key)))?;
        }
        for (stream, conversation) in &mut streams {
            let mut output = conversation.take_output();
            while !output.is_empty() {
                let slices: Vec<IoSlice<'_>> = output.slices().map(IoSlice::new).collect();
                let sent = stream.write_vectored(&slices)?;
                output.advance(sent);
            }
        }
        let mut replies = Vec::new();
        for (stream, conversation) in &mut streams {
            while conversation.is_awaited() {
                let len = stream.read(&mut buffer)?;
                conversation.feed(&buffer[..len], &mut replies)?;
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(replies.len(), KEYS);
    }
    println!(
        "| {:17} | {:>7} | {:>9} | {:>8} | {:>7} | {:>6} | {} |",
        "TCP",
        "",
        "",
        "",
        "",
        "",
        quantiles(times)
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let program = words.next().ok_or("name the server's program")?;
    let count = words.next().map_or(Ok(20), |count| count.parse())?;
    let servers = (0..count)
        .map(|number| Process::start(&program, number))
        .collect::<Result<Vec<_>, _>>()?;
    let places = servers.iter().map(|server| Server::new("127.0.0.1", server.tcp));
    let client = Client::new(Config::new(places.collect()))?;
    for number in 0..KEYS {
        let (key, value) = (key(number), value(number));
        client.call(Request::Store(Store::new(&key, value)), Call::default())?;
    }
    println!("{KEYS} keys of 100 to 2,000 bytes on {count} servers, {ROUNDS} multi-gets a row");
    println!("| way               |  buffer | datagrams |     lost | by TCP  | window | p50 ms | p99 ms |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for receive_buffer in [Some(4 << 10), Some(16 << 10), Some(64 << 10), None] {
        for way in ways(receive_buffer) {
            measure(&client, &servers, &way)?;
        }
    }
    measure_tcp(&client, &servers)
}
