//! What sharing connections costs and gains: `bench_shared PROGRAM [NAME]...` starts `PROGRAM -p -1` (a server of memcached's
//! kind that writes the file `MEMCACHED_PORT_FILENAME`) as often as needed and runs the measurements that are named, or all.
//!
//! Where `LINK_NETNS` and `LINK_ADDRESS` are set, as by `bench/link.py`, servers run there and not on this side.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use scrubjay_client::placement::Server as Place;
use scrubjay_client::protocol::{Get, Reply, Request, Store};
use scrubjay_client::{Call, Client, Config, Route};

const THREADS: usize = 30;

struct Server {
    child: Child,
    host: String,
    port: u16,
}

impl Server {
    fn start(program: &str) -> Server {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("bench_shared-{}-{number}", std::process::id()));
        let host = std::env::var("LINK_ADDRESS").unwrap_or_else(|_| "127.0.0.1".to_owned());
        let mut command = match std::env::var("LINK_NETNS") {
            Ok(far) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &far, program]);
                command
            }
            Err(_) => Command::new(program),
        };
        command.args(
            "-u root -p -1 -m 64 -t 1 -c 4096 -U 0 -l"
                .split(' ')
                .chain([host.as_str()]),
        );
        let mut child = command
            .env("MEMCACHED_PORT_FILENAME", &file)
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the server starts");
        let port = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("TCP"));
            match line.and_then(|line| line.rsplit(' ').next()?.parse().ok()) {
                Some(port) => break port,
                None => thread::yield_now(),
            }
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "{command:?} has ended");
        };
        let _ = std::fs::remove_file(&file);
        Server { child, host, port }
    }

    fn place(&self) -> Place {
        Place::new(&*self.host, self.port)
    }

    fn client(&self) -> Client {
        Client::new(Config::new(vec![self.place()])).expect("one server")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Latencies in microseconds, told by their percentiles.
struct Latencies(Vec<f64>);

impl Latencies {
    fn new(all: impl IntoIterator<Item = Duration>) -> Latencies {
        let mut list: Vec<f64> = all.into_iter().map(|each| each.as_secs_f64() * 1e6).collect();
        list.sort_by(f64::total_cmp);
        Latencies(list)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn show(&self, what: &str) {
        println!(
            "{what}: mean {:.1} us, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} ({} calls)",
            self.mean(),
            self.at(0.5),
            self.at(0.99),
            self.at(0.999),
            self.at(1.0),
            self.0.len()
        );
    }
}

fn get(client: &Client, key: &[u8]) -> Reply {
    client
        .call(Request::Get(Get::new(key)), Call::default())
        .expect("a reply")
}

fn set(client: &Client, key: &[u8], value: &[u8]) {
    let stored = client.call(Request::Store(Store::new(key, value)), Call::default());
    assert_eq!(stored, Ok(Reply::Stored));
}

/// A connection on which requests are written and replies read, and no more: what any client takes at least.
struct Bare {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Bare {
    fn connect(server: &Server) -> Bare {
        let stream = TcpStream::connect((&*server.host, server.port)).expect("a connection");
        stream.set_nodelay(true).expect("settable");
        let buffer = vec![0; 64 * 1024];
        Bare { stream, buffer }
    }

    fn get(&mut self) {
        self.stream
            .write_all(b"mg key s v f k O12345678\r\n")
            .expect("writable");
        let len = self.stream.read(&mut self.buffer).expect("readable");
        assert!(len > 0);
    }
}

/// How long it takes.
fn timed(call: impl FnOnce()) -> Duration {
    let start = Instant::now();
    call();
    start.elapsed()
}

fn single(program: &str) {
    let server = Server::start(program);
    let client = server.client();
    set(&client, b"key", &[b'v'; 100]);
    let calls = 50_000;
    for _ in 0..2 {
        let mut bare = Bare::connect(&server);
        let bare = (0..calls).map(|_| timed(|| bare.get()));
        Latencies::new(bare).show("single get, write and read");
        let ours = (0..calls).map(|_| timed(|| drop(get(&client, b"key"))));
        Latencies::new(ours).show("single get, client        ");
    }
}

/// Calls per second of many threads.
fn throughput(span: Duration, call: impl Fn(usize) + Send + Sync) -> f64 {
    let count = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let start = Barrier::new(THREADS + 1);
    let (call, count, stop, start) = (&call, &count, &stop, &start);
    thread::scope(|scope| {
        for index in 0..THREADS {
            scope.spawn(move || {
                start.wait();
                let mut own = 0;
                while !stop.load(Ordering::Relaxed) {
                    call(index);
                    own += 1;
                }
                count.fetch_add(own, Ordering::Relaxed);
            });
        }
        start.wait();
        thread::sleep(span);
        stop.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / span.as_secs_f64()
}

/// P12: 30 threads on one connection, shared or behind a mutex.
fn mutex(program: &str) {
    let server = Server::start(program);
    let client = server.client();
    set(&client, b"key", &[b'v'; 100]);
    let span = Duration::from_secs(2);
    for _ in 0..2 {
        let locked = Mutex::new(server.client());
        let behind = throughput(span, |_| {
            let client = locked.lock().expect("no panics");
            get(&client, b"key");
        });
        let shared = throughput(span, |_| {
            get(&client, b"key");
        });
        println!(
            "{THREADS} threads, one connection: behind a mutex {behind:.0}/s, shared {shared:.0}/s, {:.2} times",
            shared / behind
        );
    }
}

/// P11: 30 threads, 30 servers, 1,000 requests a second in all, over a connection of each thread to each server or over one to
/// each. Small gets, and sets of what fits in ten packets of TCP, with which it begins after a rest, and of more.
fn cold_sockets(program: &str) {
    let servers: Vec<Server> = (0..THREADS).map(|_| Server::start(program)).collect();
    let client = || Client::new(Config::new(servers.iter().map(Server::place).collect())).expect("servers");
    let shared = client();
    let pool: Vec<Client> = (0..THREADS).map(|_| client()).collect();
    for value_len in [0, 10_000, 50_000] {
        let value = vec![b'v'; value_len];
        let what = match value_len {
            0 => "gets".to_owned(),
            len => format!("sets of {len} bytes"),
        };
        for _ in 0..2 {
            cold_calls(&|index| &pool[index], &value).show(&format!("{what}, a connection each   "));
            cold_calls(&|_| &shared, &value).show(&format!("{what}, shared connections "));
        }
    }
}

/// What sets of `value`, or gets if it is empty, take by the client that each thread has.
fn cold_calls<'a>(client_of: &(dyn Fn(usize) -> &'a Client + Sync), value: &[u8]) -> Latencies {
    let of_thread = |index: usize| {
        let client = client_of(index);
        let places: Vec<_> = client.servers().collect();
        let ask = |number: usize| {
            let route = Route::Server(places[(number + index) % places.len()]);
            let call = Call { route, timeout: None };
            let request = if value.is_empty() {
                Request::Get(Get::new(b"key"))
            } else {
                Request::Store(Store::new(b"other", value))
            };
            timed(|| drop(client.call(request, call).expect("a reply")))
        };
        for number in 0..places.len() {
            ask(number);
        }
        let begin = Instant::now() + Duration::from_millis(index as u64);
        let paced = |number: u32| {
            let due = begin + Duration::from_millis(30) * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            ask(number as usize * 7)
        };
        (0..300).map(paced).collect::<Vec<_>>()
    };
    let of_thread = &of_thread;
    Latencies::new(thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|index| scope.spawn(move || of_thread(index)))
            .collect();
        let all = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panics"));
        all.flatten().collect::<Vec<_>>()
    }))
}

/// P05: a miss, then a set of 10 KB, with gaps: 10,000 of them, by ten clients side by side, so that the long gaps take 100 s only.
fn stalls(program: &str) {
    let server = Server::start(program);
    let value = vec![b'v'; 10 * 1024];
    for gap in [0, 10, 100] {
        let one = |client: &Client, key: &str| {
            thread::sleep(Duration::from_millis(gap));
            let start = Instant::now();
            assert_eq!(get(client, key.as_bytes()), Reply::Miss);
            set(client, key.as_bytes(), &value);
            start.elapsed()
        };
        let of_client = |number: u32| {
            let client = server.client();
            let key = |round| format!("key:{gap}:{number}:{round}");
            (0..1000).map(|round| one(&client, &key(round))).collect()
        };
        let all: Vec<Vec<Duration>> = thread::scope(|scope| {
            let of_client = &of_client;
            let clients: Vec<_> = (0..10)
                .map(|number| scope.spawn(move || of_client(number)))
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().expect("no panics"))
                .collect()
        });
        let latencies = Latencies::new(all.into_iter().flatten());
        let stalls = latencies.0.iter().filter(|each| **each >= 35_000.0).count();
        latencies.show(&format!("miss, then set of 10 KB, gap {gap} ms: {stalls} stalls"));
    }
}

/// P07: the mean at 1 call a second and at 10,000, and what a bare connection takes then.
fn rates(program: &str) {
    let server = Server::start(program);
    let client = server.client();
    set(&client, b"key", &[b'v'; 100]);
    let mut bare = Bare::connect(&server);
    for (rate, calls) in [(1, 60), (10, 100), (100, 300), (1000, 2000), (10_000, 20_000)] {
        paced(rate, calls, || bare.get()).show(&format!("get at {rate}/s, write and read"));
        paced(rate, calls, || drop(get(&client, b"key"))).show(&format!("get at {rate}/s, client        "));
    }
}

/// So many calls, so many a second.
fn paced(rate: u32, calls: u32, mut call: impl FnMut()) -> Latencies {
    let begin = Instant::now();
    let one = |number: u32| {
        let due = begin + Duration::from_secs(1) * number / rate;
        let left = due.saturating_duration_since(Instant::now());
        if left > Duration::from_micros(200) {
            thread::sleep(left - Duration::from_micros(100));
        }
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        timed(&mut call)
    };
    Latencies::new((0..calls).map(one))
}

/// 100 keys at once.
fn batches(program: &str) {
    let servers: Vec<Server> = (0..4).map(|_| Server::start(program)).collect();
    for count in [1, 4] {
        let places = servers[..count].iter().map(Server::place).collect();
        let client = Client::new(Config::new(places)).expect("servers");
        let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
        keys.iter()
            .for_each(|key| set(&client, key.as_bytes(), &[b'v'; 100]));
        let one = |plain: bool| {
            let start = Instant::now();
            let requests = keys
                .iter()
                .map(|key| {
                    let get = Get::new(key.as_bytes());
                    Request::Get(Get { plain, ..get })
                })
                .collect();
            let replies = client.call_all(requests, Call::default());
            assert!(
                replies.iter().all(|reply| matches!(reply, Ok(Reply::Value(_)))),
                "{replies:?}"
            );
            start.elapsed()
        };
        for (plain, words) in [(true, "plain"), (false, "with leases")] {
            Latencies::new((0..5000).map(|_| one(plain)))
                .show(&format!("100 keys from {count} servers, {words}"));
        }
    }
}

/// What it is called, and what measures it with a server's program.
type Measurement = (&'static str, fn(&str));

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("give the program of a server, such as target/release/scrubjay");
        std::process::exit(2);
    };
    let wanted: Vec<String> = arguments.collect();
    let all: [Measurement; 6] = [
        ("single", single),
        ("mutex", mutex),
        ("batches", batches),
        ("stalls", stalls),
        ("rates", rates),
        ("cold", cold_sockets),
    ];
    for (name, measure) in all {
        if wanted.is_empty() || wanted.iter().any(|each| each == name) {
            measure(&program);
        }
    }
}
