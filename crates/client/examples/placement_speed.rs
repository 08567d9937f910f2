//! How long it takes to build each scheme and to place a key, and how even the shares are: `cargo run --release -p scrubjay-client --example placement_speed`.

use std::hint::black_box;
use std::time::Instant;

use scrubjay_client::placement::{Placement, PlacementError, Scheme, Server, Servers, Weights};

const KEYS: usize = 1 << 16;
const ROUNDS: usize = 16;
const BUILDS: u32 = 20;
const SHARED: u32 = 1_000_000;

fn servers(weights: &[u32]) -> Result<Servers, PlacementError> {
    let server =
        |(index, weight): (usize, &u32)| Server::new(format!("10.0.0.{index}"), 11211).weight(*weight);
    Servers::new(weights.iter().enumerate().map(server).collect())
}

/// Milliseconds of the fastest of some builds.
fn build(servers: &Servers, scheme: &Scheme) -> Result<f64, PlacementError> {
    let mut fastest = f64::MAX;
    for _ in 0..BUILDS {
        let start = Instant::now();
        black_box(Placement::new(servers, scheme)?);
        fastest = fastest.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(fastest)
}

/// What the fullest of the servers has of the mean.
fn fullest(servers: &Servers, scheme: &Scheme) -> Result<f64, PlacementError> {
    let placement = Placement::new(servers, scheme)?;
    let mut shares = vec![0u32; servers.list().len()];
    for key in 0..SHARED {
        shares[placement.place(format!("key:{key}").as_bytes()).get()] += 1;
    }
    let most = shares.iter().max().copied().unwrap_or_default();
    Ok(f64::from(most) * shares.len() as f64 / f64::from(SHARED))
}

fn main() -> Result<(), PlacementError> {
    let keys: Vec<String> = (0..KEYS).map(|index| format!("user:{index}:profile")).collect();
    let hundred: Vec<u32> = (0..100).map(|index| [1, 2, 10, 50, 100][index % 5]).collect();
    let (weighted, equal) = (servers(&hundred)?, servers(&[1; 100])?);
    let (four_equal, four) = (servers(&[1; 4])?, servers(&[1, 2, 10, 50])?);
    println!(
        "| scheme | build, 4 servers equal / weighted, ms | build, 100, ms | million keys a second | fullest of 100 |"
    );
    println!("|---|---|---|---|---|");
    for row in Scheme::all() {
        let scheme: Scheme = row.name.parse()?;
        let scheme = match row.name {
            "vbucket" => scheme.with_buckets((0..1024).map(|bucket| bucket % 4).collect()),
            _ => scheme,
        };
        let refused = row.weights == Weights::Refused;
        let (large, small) = if refused {
            (&equal, &four_equal)
        } else {
            (&weighted, &four)
        };
        let placement = Placement::new(large, &scheme)?;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for key in &keys {
                black_box(placement.place(black_box(key.as_bytes())));
            }
        }
        let rate = (KEYS * ROUNDS) as f64 / start.elapsed().as_secs_f64() / 1e6;
        let (plain, weighed) = (build(&four_equal, &scheme)?, build(small, &scheme)?);
        let (slow, most) = (build(large, &scheme)?, fullest(&equal, &scheme)?);
        println!(
            "| `{}` | {plain:.3} / {weighed:.3} | {slow:.3} | {rate:.1} | {most:.2} |",
            row.name
        );
    }
    Ok(())
}
