//! What schemes promise besides compatibility: few keys move, shares are even, wrong servers are refused.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use scrubjay_client::placement::{Placement, PlacementError, Scheme, Server, Servers, Weights};

/// Schemes that are for clusters which grow.
const CONSISTENT: &[&str] = &[
    "ring",
    "rendezvous",
    "jump",
    "ketama",
    "libmemcached-consistent",
    "libmemcached-consistent/md5",
    "twemproxy-ketama",
    "pymemcache",
    "spymemcached",
    "hash-ring",
];

fn servers(count: u32) -> Servers {
    Servers::new(
        (0..count)
            .map(|index| Server::new(format!("10.1.{}.{}", index / 250, index % 250), 11211))
            .collect(),
    )
    .unwrap()
}

fn weighted(weights: &[u32]) -> Servers {
    let server =
        |(index, weight): (usize, &u32)| Server::new(format!("10.2.0.{index}"), 11211).weight(*weight);
    Servers::new(weights.iter().enumerate().map(server).collect()).unwrap()
}

fn placement(scheme: &str, servers: &Servers) -> Placement {
    Placement::new(servers, &scheme.parse().unwrap()).unwrap()
}

fn keys(count: u32) -> impl Iterator<Item = String> {
    (0..count).map(|index| format!("key:{index}"))
}

/// How many of the keys each server has.
fn shares(placement: &Placement, servers: &Servers, keys_count: u32) -> Vec<u32> {
    let mut shares = vec![0; servers.list().len()];
    for key in keys(keys_count) {
        shares[placement.place(key.as_bytes()).get()] += 1;
    }
    shares
}

#[test]
fn one_server_more_moves_few_of_a_million_keys() {
    for scheme in CONSISTENT {
        // A million for the default; others are many, and slower to ask.
        let asked = if *scheme == "ring" { 1_000_000 } else { 50_000 };
        for count in [1, 4, 9, 29] {
            let (before, after) = (
                placement(scheme, &servers(count)),
                placement(scheme, &servers(count + 1)),
            );
            let moved = keys(asked)
                .filter(|key| before.place(key.as_bytes()) != after.place(key.as_bytes()))
                .count();
            let share = moved as f64 / f64::from(asked) * f64::from(count + 1);
            assert!(
                share <= 1.3,
                "{scheme}: server {} took {share:.3} of its share",
                count + 1
            );
        }
    }
}

#[test]
fn own_schemes_move_keys_to_the_new_server_only() {
    for scheme in ["ring", "rendezvous", "jump"] {
        for count in [1, 4, 29] {
            let (before, after) = (
                placement(scheme, &servers(count)),
                placement(scheme, &servers(count + 1)),
            );
            for key in keys(20_000) {
                let (was, is) = (before.place(key.as_bytes()), after.place(key.as_bytes()));
                assert!(
                    was == is || is.get() == count as usize,
                    "{scheme}: {key} went from {was:?} to {is:?}"
                );
            }
        }
    }
}

#[test]
fn fullest_server_of_the_default_has_little_more_than_the_mean() {
    for count in [2, 3, 4, 5, 8, 10, 16, 20, 30, 50, 64, 100] {
        let servers = servers(count);
        let placement = Placement::new(&servers, &Scheme::default()).unwrap();
        let most = shares(&placement, &servers, 1_000_000).into_iter().max().unwrap();
        let ratio = f64::from(most) * f64::from(count) / 1e6;
        assert!(
            ratio <= 1.15,
            "{count} servers: the fullest has {ratio:.3} of the mean"
        );
    }
}

/// K07, for every scheme: four servers have a quarter each, or what the library makes of it.
#[test]
fn four_servers_share_the_keys() {
    for row in Scheme::all() {
        let servers = servers(4);
        let mut scheme: Scheme = row.name.parse().unwrap();
        if row.name == "vbucket" {
            scheme = scheme.with_buckets((0..1024).map(|bucket| bucket % 4).collect());
        }
        let placement = Placement::new(&servers, &scheme).unwrap();
        for share in shares(&placement, &servers, 100_000) {
            // php-memcache's ring is uneven: its hashes of names that differ in a digit are too alike.
            let bound = if row.name.starts_with("php-memcache-consistent") {
                20_000
            } else {
                5_000
            };
            assert!(
                share.abs_diff(25_000) <= bound,
                "{}: {share} of 100,000 keys",
                row.name
            );
        }
    }
}

#[test]
fn weights_share_the_keys_in_proportion() {
    let weights = [1, 2, 10, 50, 37];
    let servers = weighted(&weights);
    for row in Scheme::all().iter().filter(|row| row.weights == Weights::Counted) {
        if row.name.starts_with("php-memcache-consistent") {
            continue;
        }
        let shares = shares(&placement(row.name, &servers), &servers, 100_000);
        for (share, weight) in shares.iter().zip(weights) {
            let wanted = weight * 1_000;
            // Few points are spread less evenly: two weights of a hundred have a dozen of them.
            assert!(
                share.abs_diff(wanted) <= 800 + wanted / 4,
                "{}: {share} for {weight} %",
                row.name
            );
        }
    }
}

#[test]
fn name_keeps_the_keys_when_a_server_moves() {
    for scheme in [
        "ring",
        "ketama",
        "spymemcached",
        "pymemcache",
        "hash-ring",
        "php-memcache-consistent-crc32",
    ] {
        let named = |host: &str| {
            let server = |index: u32| {
                let mut server = Server::new(format!("{host}{index}"), 11211);
                server.name = Some(format!("cache{index}"));
                server
            };
            placement(scheme, &Servers::new((0..3).map(server).collect()).unwrap())
        };
        let (here, there) = (named("here"), named("there"));
        assert!(
            keys(1_000).all(|key| here.place(key.as_bytes()) == there.place(key.as_bytes())),
            "{scheme}"
        );
    }
}

#[test]
fn any_bytes_are_placed() {
    let servers = servers(7);
    for row in Scheme::all().iter().filter(|row| row.name != "vbucket") {
        for hash in [""].into_iter().chain(row.hashes.iter().map(|hash| hash.name)) {
            let name = if hash.is_empty() {
                row.name.to_owned()
            } else {
                format!("{}/{hash}", row.name)
            };
            let placement = placement(&name, &servers);
            for len in 0..300 {
                assert!(placement.place(&vec![0xff; len]).get() < 7, "{name}");
            }
        }
    }
}

#[test]
fn random_has_no_favourite() {
    let servers = servers(3);
    let placement = placement("twemproxy-random", &servers);
    let mut shares = [0u32; 3];
    for _ in 0..30_000 {
        shares[placement.place(b"the same").get()] += 1;
    }
    assert!(
        shares.iter().all(|share| share.abs_diff(10_000) < 500),
        "{shares:?}"
    );
}

#[test]
fn wrong_servers_are_refused() {
    let twice = vec![
        Server::new("a", 1),
        Server::new("b", 1),
        Server::new("a", 1).weight(3),
    ];
    for (servers, refusal) in [
        (vec![], "there are no servers; give at least one"),
        (
            twice,
            "a:1 is listed twice; list it once, with a higher weight if it shall have more keys",
        ),
        (
            vec![Server::new("a", 1).weight(0)],
            "a:1 has weight 0; give it at least 1 or leave it out",
        ),
    ] {
        assert_eq!(Servers::new(servers).unwrap_err().to_string(), refusal);
    }
}

#[test]
fn what_a_scheme_cannot_do_is_refused() {
    let refused = |scheme: &str, servers: &Servers| {
        let scheme = scheme.parse::<Scheme>();
        scheme
            .and_then(|scheme| Placement::new(servers, &scheme).map(|_| ()))
            .unwrap_err()
    };
    for scheme in ["rendezvous", "jump", "pymemcache"] {
        let error = refused(scheme, &weighted(&[1, 1, 2]));
        assert_eq!(
            error,
            PlacementError::WeightsUnknown(scheme, "10.2.0.2:11211".to_owned())
        );
    }
    for scheme in [
        "twemproxy-modula",
        "php-memcache-standard-crc32",
        "php-memcache-consistent-fnv",
    ] {
        assert!(
            matches!(
                refused(scheme, &weighted(&[u32::MAX, 1])),
                PlacementError::TooManyPoints(_)
            ),
            "{scheme}"
        );
    }
    let names = Servers::new(vec![Server::new("a", 1), Server::new("b", 1)]).unwrap();
    for (scheme, text) in [
        (
            "spymemcached",
            "scheme spymemcached hashes the IPv4 address of a:1 too; give the address",
        ),
        ("vbucket", "scheme vbucket needs a map of its buckets; give one"),
        (
            "pymemcache/md5",
            "scheme pymemcache has one hash function only; leave /md5 out",
        ),
        (
            "twemproxy-modula/x",
            "scheme twemproxy-modula has no hash function \"x\"; use one of crc16, crc32, ",
        ),
        (
            "ketoma",
            "there is no scheme \"ketoma\"; use one of ring, rendezvous, jump, ketama, ",
        ),
    ] {
        let said = refused(scheme, &names).to_string();
        assert!(said.starts_with(text), "{said}");
    }
    for (scheme, buckets, refusal) in [
        ("vbucket", vec![0, 1, 0], PlacementError::BucketCount(3)),
        ("vbucket", vec![], PlacementError::BucketCount(0)),
        ("vbucket", vec![0, 2], PlacementError::BucketServer(1, 2, 2)),
        ("ring", vec![0, 1], PlacementError::BucketsUnknown("ring")),
    ] {
        let scheme = scheme.parse::<Scheme>().unwrap().with_buckets(buckets);
        assert_eq!(Placement::new(&names, &scheme).unwrap_err(), refusal);
    }
}

#[test]
fn great_weights_are_no_trouble_for_rings() {
    let servers = weighted(&[u32::MAX, u32::MAX, 1]);
    for scheme in [
        "ring",
        "ketama",
        "libmemcached-consistent",
        "twemproxy-ketama",
        "spymemcached",
        "hash-ring",
    ] {
        let shares = shares(&placement(scheme, &servers), &servers, 10_000);
        assert!(
            shares[0] > 4_000 && shares[1] > 4_000 && shares[2] < 50,
            "{scheme}: {shares:?}"
        );
    }
}
