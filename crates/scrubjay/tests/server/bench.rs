//! `scrubjay bench` against running servers, and against ones that behave badly.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::Output;

use serde_json::Value;

use crate::kit::{Dir, PATIENCE, Server, ended, run, run_within, said_by, scrubjay};
use crate::tls::Certificates;

/// The phases that a run printed as JSON; complains if it failed.
fn phases(output: &Output, what: &str) -> Vec<Value> {
    ended(output, what, 0);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The first round of the first server in the last phase.
fn round(phases: &[Value]) -> &Value {
    &phases.last().expect("a phase")["servers"][0]["rounds"][0]
}

fn memcached() -> String {
    std::env::var("MEMCACHED_BIN").unwrap_or_else(|_| "memcached".to_owned())
}

/// A server of one connection after the other that answers whatever comes with `reply`, byte by byte, and closes if that is
/// empty.
fn answering(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            stream.set_nodelay(true).expect("an open socket");
            let mut input = [0; 4096];
            while stream.read(&mut input).is_ok_and(|len| len > 0) && !reply.is_empty() {
                if reply.chunks(1).any(|byte| stream.write_all(byte).is_err()) {
                    break;
                }
            }
        }
    });
    address
}

#[test]
fn what_was_stored_is_found_by_every_protocol_in_both_servers() {
    let servers = [Server::start("-m 64 -t 1"), Server::start_memcached("-m 64")];
    for server in &servers {
        for protocol in ["text", "meta", "binary"] {
            for how in [
                "",
                "--pipeline 7 --multiget 5 --threads 2",
                "--value-size 1-30000 --keys 200",
            ] {
                let line = format!(
                    "bench --server 127.0.0.1:{} --protocol {protocol} {how} --connections 3 --fill --mix get=3,set=1 \
                     --expect-hits --requests 2000 --json",
                    server.ports[0]
                );
                let phases = phases(&run(&line), &line);
                let round = round(&phases);
                let [requests, hits] = ["requests", "hits"].map(|name| round[name].as_u64().expect(name));
                assert_eq!(
                    (requests, round["hit_ratio"].as_f64()),
                    (2000, Some(1.0)),
                    "{line}: {round}"
                );
                // Three requests of four are gets, and some of those are for five keys.
                assert!((1300..1950).contains(&hits), "{line}: {round}");
                assert!(
                    round["server_cpu_us"].as_f64().is_some(),
                    "the server tells its process: {round}"
                );
            }
        }
    }
}

#[test]
fn stores_without_answers_arrive() {
    for protocol in ["text", "meta", "binary"] {
        let server = Server::start("-m 64 -t 1");
        let here = format!(
            "--server 127.0.0.1:{} --protocol {protocol} --json",
            server.ports[0]
        );
        let line = format!(
            "bench {here} --mix set=1 --key-size 16 --keys 500 --requests 20000 --noreply --pipeline 16"
        );
        assert_eq!(round(&phases(&run(&line), &line))["requests"], 20_000);
        let line = format!("bench {here} --key-size 16 --keys 500 --requests 1000 --expect-hits");
        assert_eq!(round(&phases(&run(&line), &line))["hits"], 1000);
    }
}

#[test]
fn a_named_workload_has_its_phases() {
    let server = Server::start("-m 64 -t 1");
    let line = format!(
        "bench --server 127.0.0.1:{} --workload article-test1 --scale 0.0002 --json",
        server.ports[0]
    );
    let phases = phases(&run(&line), &line);
    let titles: Vec<_> = phases
        .iter()
        .map(|phase| phase["phase"].as_str().expect("a title"))
        .collect();
    assert_eq!(titles, ["set", "get"]);
    assert_eq!(round(&phases)["hits"], 1000);
    let mut stream = server.connect();
    stream
        .write_all(b"get 1\r\nget 1000\r\nget 1001\r\n")
        .expect("writable");
    let mut found = String::new();
    while found.matches("END").count() < 3 {
        let mut piece = [0; 512];
        let len = stream.read(&mut piece).expect("an answer");
        found += &String::from_utf8_lossy(&piece[..len]);
    }
    let lens: Vec<_> = found.lines().filter(|line| line.starts_with("VALUE")).collect();
    assert!(
        lens.len() == 2 && lens.iter().all(|line| line.ends_with(" 100")),
        "{found}"
    );
}

#[test]
fn servers_are_started_and_take_turns_beside_the_floor() {
    let memcached = memcached() + " -m 64";
    let one_run = |servers: &[&str], arguments: &str| {
        let output = scrubjay(&format!("bench {arguments} --json --connections 2"))
            .args(servers)
            .output()
            .expect("runs");
        phases(&output, arguments)
    };
    let own = concat!(env!("CARGO_BIN_EXE_scrubjay"), " -t 1");
    let both = one_run(
        &["--server", &memcached, "--vs", own],
        "--floor --fill --requests 500 --rounds 2",
    );
    let servers = both[0]["servers"].as_array().expect("servers");
    let names: Vec<_> = servers
        .iter()
        .map(|one| one["server"].as_str().expect("a name"))
        .collect();
    assert_eq!(names[1..], ["scrubjay", "floor"]);
    for server in servers {
        let rounds = server["rounds"].as_array().expect("rounds");
        assert!(
            rounds.len() == 2 && rounds.iter().all(|round| round["hits"] == 500),
            "{server}"
        );
    }
    one_run(
        &["--server", &memcached],
        "--listen unix --fill --expect-hits --requests 500",
    );
    let udp = one_run(&["--server", &memcached], "--listen udp --requests 500");
    assert_eq!(round(&udp)["misses"], 500);
    for way in [
        "",
        "--protocol meta",
        "--protocol binary",
        "--multiget 5",
        "--value-size 3000",
    ] {
        let line = format!("--listen udp --fill --expect-hits --requests 500 --pipeline 16 --rounds 1 {way}");
        let udp = one_run(&["--server", own, "--vs", &memcached], &line);
        assert_eq!(round(&udp)["lost"].as_u64().unwrap_or(0), 0, "{way}");
        let line = line.replace("--expect-hits", "--floor");
        let udp = one_run(&["--server", own], &line);
        assert_eq!(udp[0]["servers"][1]["rounds"][0]["hits"], 500, "{way}");
    }
    // What is due is answered or told to be late.
    let paced = one_run(&["--server", &memcached], "--rate 500 --duration 1");
    let counts = ["requests", "unsent"].map(|name| round(&paced)[name].as_f64().unwrap_or(0.0));
    assert_eq!(counts.iter().sum::<f64>(), 500.0, "{paced:?}");
}

#[test]
fn a_sweep_has_steps_and_a_chart() {
    let dir = Dir::new();
    let path = dir.path("sweep.svg");
    let server = Server::start("-m 64 -t 1");
    let line = format!(
        "bench --server 127.0.0.1:{} --sweep --fill --keys 100 --duration 0.5 --connections 2 --target-p99 60000 --svg {} --json",
        server.ports[0],
        path.display()
    );
    let curves = phases(&run(&line), &line);
    let steps = curves[0]["steps"].as_array().expect("steps");
    assert!(
        !steps.is_empty() && steps.iter().all(|step| step["asked"].as_f64() > Some(0.0)),
        "{curves:?}"
    );
    let svg = std::fs::read_to_string(path).expect("written");
    assert_eq!(svg.matches("<polyline").count(), 2);
}

#[test]
fn what_goes_wrong_is_told_and_ends_the_run() {
    let check = |arguments: &str, exit: i32, says: &[&str]| {
        let text = said_by(&format!("bench --requests 100 --connections 1 {arguments}"), exit);
        for part in says {
            assert!(text.contains(part), "{arguments}: {text}");
        }
    };
    // A port that was free might be somebody else's by now; nobody is given the first one.
    check(
        "--server 127.0.0.1:1",
        2,
        &["127.0.0.1:1", "is a server listening there?"],
    );
    check(
        "--server /no/such.sock",
        2,
        &["/no/such.sock", "is a server listening there?"],
    );
    check("--server no-such-program", 2, &["no-such-program"]);
    check(
        "--server false",
        2,
        &["ended with exit status: 1", "run it by hand"],
    );
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let silent = silent
        .local_addr()
        .map(|address| (address, silent))
        .expect("its address");
    check(
        &format!("--timeout 0.3 --server {}", silent.0),
        2,
        &["no answer for 0.3 s", "--timeout"],
    );
    let on = |reply| format!("--server {} --pid 1", answering(reply));
    check(&on(b""), 2, &["the server closed the connection"]);
    check(
        &on(b"HTTP/1.1 400 Bad Request\r\n"),
        2,
        &["unexpected reply", "HTTP/1.1 400"],
    );
    check(
        &on(b"SERVER_ERROR out of memory\r\n"),
        1,
        &["100 times SERVER_ERROR out of memory"],
    );
    check(
        &on(b"VALUE key 0 3\r\nabc\r\nEND\r\n"),
        1,
        &["100 values were not those of their keys"],
    );
    check(&(on(b"VALUE key 0 3\r\nabc\r\nEND\r\n") + " --no-verify"), 0, &[]);
    check(&on(b"END\r\n"), 0, &[]);
    check(
        &(on(b"END\r\n") + " --expect-hits"),
        1,
        &["100 gets found nothing where all must"],
    );
    check("--server udp://127.0.0.1:1 --mix set=1", 2, &["gets only"]);
    check("--sweep", 2, &["leave out --rate, --requests"]);
    check("--protocol http", 1, &["invalid value 'http'"]);
}

/// A server of UDP that takes requests by `batch`, never answers the first, and others in the wrong order, twice, cut into two
/// and with what nobody asked for between them.
fn confused(batch: usize) -> String {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
    let address = socket.local_addr().expect("its address");
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        let mut input = [0; 100];
        while let Ok((_, from)) = socket.recv_from(&mut input) {
            asked.push([input[0], input[1]]);
            if asked.len() < batch {
                continue;
            }
            for [high, low] in asked.drain(..).skip(1).rev() {
                let stranger = [high ^ 0x80, low, 0, 0, 0, 1, 0, 0].to_vec();
                let part = |number: u8, text: &[u8]| [&[high, low, 0, number, 0, 2, 0, 0], text].concat();
                let (start, end) = (part(0, b"EN"), part(1, b"D\r\n"));
                for datagram in [
                    &stranger,
                    &end,
                    &end,
                    &b"short".to_vec(),
                    &start,
                    &start,
                    &stranger,
                ] {
                    socket.send_to(datagram, from).expect("sent");
                }
            }
        }
    });
    format!("udp://{address}")
}

#[test]
fn over_udp_replies_are_known_by_their_numbers_and_lost_ones_given_up_alone() {
    let line = format!(
        "bench --server {} --pid 1 --connections 1 --pipeline 4 --requests 12 --timeout 0.2 --json",
        confused(4)
    );
    let phases = phases(&run(&line), &line);
    let counts = ["lost", "misses", "requests"].map(|name| round(&phases)[name].as_f64());
    assert_eq!(counts, [Some(3.0), Some(9.0), Some(9.0)]);
}

/// A command line of encrypted load.
fn to(server: &Server, rest: &str) -> String {
    let (port, pid) = (server.ports[0], server.child.id());
    format!("bench --server localhost:{port} --pid {pid} --tls --requests 300 --json {rest}")
}

#[test]
fn encrypted_load_is_believed_and_counted_by_its_handshakes() {
    let certificates = Certificates::new();
    let chain = certificates.path("chain").display().to_string();
    let server = Server::start(&format!(
        "-m 64 -t 1 {},ssl_session_cache",
        certificates.options()
    ));
    for protocol in ["text", "meta", "binary"] {
        let rest = format!(
            "--tls-ca {chain} --protocol {protocol} --value-size 1-60000 --keys 50 --pipeline 9 --fill --expect-hits"
        );
        let line = to(&server, &rest);
        let phases = phases(&run(&line), &line);
        assert_eq!(round(&phases)["hits"], 300, "{line}");
    }
    let per_second = |rest: &str| {
        let line = to(&server, rest);
        let phases = phases(&run(&line), &line);
        let round = round(&phases).clone();
        ["connections", "full_handshakes", "resumed_handshakes"].map(|name| {
            let per_second = round[format!("{name}_per_second")].as_f64().unwrap_or(0.0);
            (per_second * round["seconds"].as_f64().expect("a time")).round()
        })
    };
    assert_eq!(
        per_second("--tls-no-verify --connect --key-size 20"),
        [300.0, 300.0, 0.0]
    );
    let [all, full, resumed] = per_second(&format!(
        "--tls-ca {chain} --connect --tls-resume --connections 2 --key-size 20"
    ));
    assert!(
        all == 300.0 && full + resumed == all && resumed > 200.0,
        "{full} {resumed}"
    );
}

#[test]
fn encrypted_load_is_refused_in_words_when_one_side_does_not_believe_the_other() {
    let certificates = Certificates::new();
    let [chain, key] = ["chain", "key"].map(|name| certificates.path(name).display().to_string());
    let server = Server::start(&format!("-t 1 {}", certificates.options()));
    let refused = |server: &Server, rest: &str, says: &str| {
        let text = said_by(&to(server, rest), 2);
        assert!(text.contains(says), "{rest}: {text}");
    };
    let stranger = Certificates::new().path("chain").display().to_string();
    refused(&server, &format!("--tls-ca {stranger}"), "--tls-ca");
    let other = Certificates::new();
    refused(
        &server,
        &format!("--tls-ca {}", other.path("chain").display()),
        "invalid peer certificate",
    );
    refused(
        &server,
        &format!("--tls-ca {chain} --tls-name other.org"),
        "--tls-name",
    );
    refused(&Server::start("-t 1"), "--tls-no-verify", "speak TLS");
    let strict = Server::start(&format!(
        "-t 1 {},ssl_ca_cert={chain},ssl_verify_mode=2",
        certificates.options()
    ));
    let shown = format!("--tls-ca {chain} --tls-cert {chain} --tls-key {key} --fill --keys 10 --expect-hits");
    let line = to(&strict, &shown);
    assert_eq!(round(&phases(&run(&line), &line))["hits"], 300);
    refused(&strict, &format!("--tls-ca {chain}"), "--tls-cert");
}

#[test]
fn what_a_get_does_not_find_is_stored_at_once() {
    let server = Server::start("-m 64 -t 1");
    for protocol in ["text", "meta", "binary"] {
        let line = format!(
            "bench --server 127.0.0.1:{} --protocol {protocol} --key-size 20 --keys 40 --refill --requests 2000 --connect --ttl 60 --json",
            server.ports[0]
        );
        let found = phases(&run(&line), &line);
        let [hits, requests] = ["hits", "requests"].map(|name| round(&found)[name].as_u64().expect(name));
        assert!(hits > 1000 && requests >= 2000, "{line}: {found:?}");
        assert!(round(&found)["connections_per_second"].as_f64() > Some(0.0));
    }
    let line = format!(
        "bench --server 127.0.0.1:{} --workload delay --rates 100,400 --duration 1 --json",
        server.ports[0]
    );
    let curves = phases(&run(&line), &line);
    let steps = curves[0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2);
    for step in steps {
        let [get, set] = ["get_mean_us", "set_mean_us"].map(|name| step[name].as_f64());
        assert!(get > Some(0.0) && set > Some(0.0), "every key is new: {step}");
    }
}

#[test]
fn a_workload_that_must_hit_fails_when_something_is_gone() {
    let server = Server::start("-m 4 -t 1");
    let on = format!("bench --server 127.0.0.1:{} --pid 1", server.ports[0]);
    // Just more than there is room for; a busy machine takes its time.
    let line = format!("{on} --workload article-test1 --scale 0.01");
    let output = run_within(&line, 5 * PATIENCE);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("gets found nothing where all must"), "{text}");
    // The same where nothing is promised.
    let line = format!("{on} --workload article-test2 --scale 0.001 --json");
    assert!(round(&phases(&run(&line), &line))["hit_ratio"].as_f64() < Some(1.0));
}

#[test]
fn system_calls_are_counted_or_it_is_said_what_is_missing() {
    // A worker that looks for the next request may call as often as it likes.
    let server = Server::start("-m 64 -t 1 -o busy_poll=0");
    let line = format!(
        "bench --server 127.0.0.1:{} --connections 1 --requests 500 --syscalls --json",
        server.ports[0]
    );
    let output = run(&line);
    if output.status.success() {
        // A wait, a read and a write each by epoll, all three in one by io_uring.
        let calls = round(&phases(&output, &line))["server_syscalls"].as_f64();
        assert!(calls > Some(0.9) && calls < Some(6.0), "{calls:?}");
    } else {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("be root"), "{text}");
    }
}
