//! Keys are where the real libraries said they are: `tests/clients/placement/vectors.tsv`, which they wrote.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use md5::{Digest as _, Md5};
use scrubjay_client::placement::{Placement, Scheme, Server, Servers};

const SERVERS: &str = include_str!("../../../tests/clients/placement/servers.tsv");
const VECTORS: &str = include_str!("../../../tests/clients/placement/vectors.tsv");
const DOCUMENT: &str = include_str!("../../../docs/client/placement.md");
const KEYS: u32 = 100_000;

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

fn topologies() -> BTreeMap<&'static str, Servers> {
    let mut lists: BTreeMap<_, Vec<Server>> = BTreeMap::new();
    for row in rows(SERVERS) {
        let mut server = Server::new(row[1], row[2].parse().unwrap()).weight(row[3].parse().unwrap());
        server.address = Some(row[4].parse().unwrap());
        lists.entry(row[0]).or_default().push(server);
    }
    lists
        .into_iter()
        .map(|(name, list)| (name, Servers::new(list).unwrap()))
        .collect()
}

/// The same keys as in `placement.py`.
fn key(index: u32, kind: &str) -> String {
    if kind == "tagged" {
        return format!("a{{{}}}{index}", index % 1000);
    }
    match index % 5 {
        0 => format!("key-{index}"),
        1 => format!("user:{index}:profile:{}", u64::from(index) * 7919),
        2 => format!("{:08x}", index.wrapping_mul(2_654_435_761)),
        3 => "x".repeat(index as usize % 200) + &format!("-{index}"),
        _ => format!("gr{}n/{index}", if kind == "utf8" { "ü" } else { "u" }),
    }
}

#[test]
fn every_key_is_where_the_real_library_said() {
    let topologies = topologies();
    let kinds: BTreeMap<_, Vec<_>> = ["utf8", "ascii", "tagged"]
        .map(|kind| (kind, (0..KEYS).map(|index| key(index, kind)).collect()))
        .into();
    let mut wrong = String::new();
    for row in rows(VECTORS) {
        let &[name, list, kind, digest, first, library] = row.as_slice() else {
            panic!("{row:?}")
        };
        let servers = &topologies[list];
        let mut scheme: Scheme = name.parse().unwrap();
        if kind == "tagged" {
            scheme = scheme.with_tag(*b"{}");
        }
        if name.starts_with("vbucket") {
            let count = servers.list().len() as u32;
            scheme = scheme.with_buckets((0..1024).map(|bucket| bucket % count).collect());
        }
        let placement = Placement::new(servers, &scheme).unwrap();
        let placed: Vec<u8> = kinds[kind]
            .iter()
            .map(|key| placement.place(key.as_bytes()).get() as u8)
            .collect();
        if hex(&Md5::digest(&placed)) != digest {
            writeln!(
                wrong,
                "{name} {list} {kind}: {library} has\n {first}, we\n {}",
                hex(&placed[..64])
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Every scheme but chance has been asked about with five lists of servers.
#[test]
fn every_scheme_has_vectors() {
    for scheme in Scheme::all() {
        let lists: BTreeSet<_> = rows(VECTORS)
            .filter(|row| row[0] == scheme.name)
            .map(|row| row[1])
            .collect();
        let wanted = if scheme.name == "twemproxy-random" { 0 } else { 5 };
        assert!(lists.len() >= wanted, "{}: {lists:?}", scheme.name);
    }
}

#[test]
fn document_has_the_table_of_schemes() {
    let table: Vec<_> = DOCUMENT
        .lines()
        .skip_while(|line| !line.starts_with("| `ring`"))
        .collect();
    for (row, line) in Scheme::all().iter().zip(table) {
        let weights = format!("{:?}", row.weights).to_lowercase();
        let start = format!("| `{}` | {} | {weights} |", row.name, row.like);
        assert!(line.starts_with(&start), "the document has\n{line}\nfor\n{start}");
        if let Some(hash) = row.hashes.first() {
            assert!(
                line[start.len()..].starts_with(&format!(" `{}` or", hash.name)),
                "{line}"
            );
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
