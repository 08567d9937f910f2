//! Requests that are drawn before the clock runs, and the loop that asks a cache for them.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};

/// Sixteen hexadecimal digits.
pub type Key = [u8; 16];

/// Bytes of a value: the key's number, eight times over.
pub const VALUE_LEN: usize = 64;

/// Requests between two looks at the clock, as a server answers what was read together.
pub const TURN: usize = 16;

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Every key as often as any other.
    Uniform,
    /// The n-th most wanted key with a frequency of 1 / n^0.99.
    Zipf,
}

impl Draw {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Draw::Uniform => "uniform",
            Draw::Zipf => "Zipf 0.99",
        }
    }
}

/// One request: a get, or a set if `dice`, 0 to 99, is below the share of sets.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The key's bytes.
    pub key: Key,
    /// The key's number.
    pub number: u32,
    dice: u32,
}

impl Request {
    /// A request for the key of this number.
    pub fn of(number: u32, dice: u32) -> Request {
        Request {
            key: key(number),
            number,
            dice,
        }
    }
}

/// The key of a number: its digits are spread, as those of hashed names are.
fn key(number: u32) -> Key {
    let spread = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let digit = |at: usize| b"0123456789abcdef"[(spread >> (4 * at)) as usize & 15];
    std::array::from_fn(digit)
}

/// The value of a key.
pub fn value(number: u32) -> [u8; VALUE_LEN] {
    let word = u64::from(number).to_le_bytes();
    std::array::from_fn(|at| word[at % 8])
}

/// Reads all of a value; the sum of its words.
#[inline]
pub fn sum(value: &[u8]) -> u64 {
    let words = value.chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("chunks of eight")))
        .fold(0, u64::wrapping_add)
}

/// Draws requests for `keys` keys.
pub fn draw(keys: u32, draw: Draw, count: usize, seed: u64) -> Vec<Request> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let ranks = Zipf::new(f64::from(keys), 0.99).expect("there are keys");
    (0..count)
        .map(|_| {
            let number = match draw {
                Draw::Uniform => rng.random_range(0..keys),
                // Ranks next to each other are not neighbours in memory.
                Draw::Zipf => (ranks.sample(&mut rng) as u64 * 2_654_435_761 % u64::from(keys)) as u32,
            };
            Request::of(number, rng.random_range(0..100))
        })
        .collect()
}

/// One thread's way into a cache.
pub trait Session {
    /// Sixteen requests follow.
    fn begin_turn(&mut self) {}

    /// Hints which keys the requests of this turn are for.
    fn fetch_ahead(&mut self, _requests: &[Request]) {}

    /// Reads the whole value; its [`sum`].
    fn get(&mut self, key: &Key) -> Option<u64>;

    /// Stores a value.
    fn set(&mut self, key: &Key, value: &[u8; VALUE_LEN]);
}

/// What a loop found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Requests to read.
    pub gets: u64,
    /// Of these, how many found a value.
    pub hits: u64,
}

/// Makes the requests, of which `sets` in a hundred store; every value read is looked at.
pub fn drive(session: &mut impl Session, requests: &[Request], sets: u32) -> Found {
    let mut found = Found::default();
    for turn in requests.chunks(TURN) {
        session.begin_turn();
        session.fetch_ahead(turn);
        for request in turn {
            if request.dice < sets {
                session.set(&request.key, &value(request.number));
                continue;
            }
            found.gets += 1;
            if let Some(sum) = session.get(&request.key) {
                assert_eq!(sum, u64::from(request.number) * 8, "the value of another key");
                found.hits += 1;
            }
        }
    }
    found
}
