//! What a server gives back beside its connections: listeners and sockets of datagrams, still open.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use scrubjay_base::time::Now;
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Listener, datagrams};
use scrubjay_net::udp::{Policy, Words};
use scrubjay_net::{
    BusyPoll, Config, Control, Counters, EndedBy, Handled, Limits, Live, Next, Output, Peer, Service,
    Sockets, Stop, Udp, UdpConfig,
};

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends back what it gets.
struct Echo;

impl Service for Echo {
    type Session = ();
    type Shared = Vec<u8>;

    fn open(&mut self, _peer: Peer) {}

    fn begin_turn(&mut self, _now: Now) {}

    fn go_idle(&mut self) {}

    fn pack(&mut self, (): (), _input: &mut Vec<u8>) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn handle(&mut self, (): &mut (), input: &[u8], output: &mut Output<Vec<u8>>) -> Handled {
        output.bytes().extend_from_slice(input);
        Handled {
            consumed: input.len(),
            next: Next::Wait,
        }
    }
}

fn udp(places: Vec<(u16, Vec<datagrams::Socket>)>) -> Option<Udp<datagrams::Socket>> {
    let config = UdpConfig {
        policy: Policy {
            allowed: Vec::new(),
            factor: 10,
        },
        words: Words {
            split: b"",
            incomplete: b"",
            soon: b"",
            too_large: b"",
            not_allowed: String::new(),
            not_allowed_short: b"",
        },
    };
    Some(Udp {
        config: Live::new(config),
        places,
    })
}

fn serve(
    sockets: Sockets<Listener, datagrams::Socket, scrubjay_io::driver::Socket>,
    control: &Arc<Control>,
) -> EndedBy<Epoll> {
    let config = Config {
        cores: Vec::new(),
        limits: Live::new(Limits {
            connections_max: 100,
            refusal: None,
            connections_per_address: 0,
            refusal_of_address: b"",
            requests_per_address: 0,
            requests_per_user: 0,
            idle_timeout_secs: 0,
            busy_poll: BusyPoll::Micros(0),
        }),
    };
    let drivers = [(); 2].map(|()| Epoll::new(Clock::start()).unwrap());
    let counters = Arc::<Counters>::default();
    scrubjay_net::run(&config, drivers.into(), sockets, &counters, control, |_| Echo).unwrap()
}

#[test]
fn listeners_and_sockets_of_datagrams_are_given_back_and_go_on() {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Listener::tcp(any, 64).unwrap();
    let address = listener.address().unwrap();
    let group = datagrams::Socket::group(any, 2).unwrap();
    let udp_address = group[0].address().unwrap();
    let client = UdpSocket::bind(any).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(udp_address).unwrap();
    let mut streams = vec![TcpStream::connect(address).unwrap()];
    let mut sockets = Sockets {
        listeners: vec![listener],
        udp: udp(vec![(udp_address.port(), group)]),
        carried: Vec::new(),
    };
    let control = Arc::<Control>::default();
    for round in 0..3_u8 {
        let ended = std::thread::scope(|scope| {
            let control = &control;
            let server = scope.spawn(move || serve(sockets, control));
            streams.push(TcpStream::connect(address).unwrap());
            for stream in &mut streams {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(&[round; 9]).unwrap();
                let mut echoed = [0; 9];
                stream.read_exact(&mut echoed).unwrap();
                assert_eq!(echoed, [round; 9]);
            }
            let datagram = [0, round, 0, 0, 0, 1, 0, 0, b'a', round];
            client.send(&datagram).unwrap();
            let mut echoed = [0; 20];
            let len = client.recv(&mut echoed).unwrap();
            assert_eq!(echoed[..len], datagram);
            control.hand_over();
            server.join().unwrap()
        });
        let sockets_of_datagrams = ended.udp.iter().map(|(port, sockets)| (*port, sockets.len()));
        assert!(sockets_of_datagrams.eq([(udp_address.port(), 2)]));
        assert_eq!((ended.listeners.len(), ended.carried.len()), (1, streams.len()));
        assert!(control.serve_again());
        sockets = Sockets {
            listeners: ended.listeners,
            udp: udp(ended.udp),
            carried: ended.carried,
        };
    }
    control.hand_over();
    control.stop_gracefully();
    assert!(!control.serve_again(), "a stop is not forgotten");
    assert_eq!(control.stop(), Stop::Graceful);
}
