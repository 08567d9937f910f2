//! The items to plan for: their lengths, lives and flags as the command line tells them, drawn as a sample.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use scrubjay_cache::plan::ItemMeasure;

use scrubjay_workload::{self as workload, Draw, Format, Verb};

/// Items drawn where all lengths are equally likely.
const SAMPLE_EVEN: usize = 100_000;

/// Items drawn where few long ones matter, and most different keys taken from a file.
const SAMPLE_UNEVEN: usize = 1_000_000;

/// Requests of a file that are looked at for that many keys.
const REQUESTS_MAX: usize = 20_000_000;

/// Key space of a drawn workload: so large that hardly a key comes twice.
const DRAWN_KEYS: u64 = 1 << 40;

const SEED: u64 = 1;

/// Longest key that a server takes.
const KEY_LEN_MAX: usize = 250;

const KEY_LEN_DEFAULT: usize = 16;

/// Lengths of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    /// All of these lengths, equally likely.
    Range(usize, usize),
    /// Few long ones among many short ones; `mean` is the mean length.
    LogNormal { mean: f64, sigma: f64 },
    /// As in a trace or workload tables.
    Table(PathBuf),
}

/// What the command line says of items. What it leaves out comes from the table, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measures {
    pub(super) key: Option<(usize, usize)>,
    pub(super) value: Values,
    pub(super) ttl: Option<Option<(u32, u32)>>,
    pub(super) flags: u32,
}

/// Reads `N` or `A..B`.
fn parse_range(text: &str, least: u32, most: u32) -> Result<(u32, u32), String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let bound = |text: &str| text.trim_start_matches('=').parse::<u32>().ok();
    match (bound(low), bound(high)) {
        (Some(low), Some(high)) if least <= low && low <= high && high <= most => Ok((low, high)),
        _ => Err(format!(
            "give a number or A..B from {least} to {most}, A not above B"
        )),
    }
}

/// Reads `--key`.
pub(super) fn parse_key(text: &str) -> Result<(usize, usize), String> {
    let (low, high) = parse_range(text, 1, KEY_LEN_MAX as u32)?;
    Ok((low as usize, high as usize))
}

/// Reads `--value`.
pub(super) fn parse_value(text: &str) -> Result<Values, String> {
    if let Some(path) = text.strip_prefix("table:") {
        return Ok(Values::Table(PathBuf::from(path)));
    }
    if let Some(rest) = text.strip_prefix("lognormal:") {
        let number = |name: &str| -> Option<f64> {
            let field = rest.split(',').find_map(|field| field.strip_prefix(name))?;
            field.strip_prefix('=')?.parse().ok()
        };
        return match (number("mean"), number("sigma")) {
            (Some(mean), Some(sigma)) if (1.0..1e9).contains(&mean) && (0.0..10.0).contains(&sigma) => {
                Ok(Values::LogNormal { mean, sigma })
            }
            _ => {
                Err("give lognormal:mean=BYTES,sigma=S with a mean from 1 and sigma from 0 to 10".to_owned())
            }
        };
    }
    match parse_range(text, 0, 1 << 30) {
        Ok((low, high)) => Ok(Values::Range(low as usize, high as usize)),
        Err(why) => Err(format!("{why}; or lognormal:mean=BYTES,sigma=S; or table:FILE")),
    }
}

/// Reads `--ttl`.
pub(super) fn parse_ttl(text: &str) -> Result<Option<(u32, u32)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let range = parse_range(text, 1, u32::MAX / 8);
    range.map(Some).map_err(|why| format!("{why}; or none"))
}

/// Reads `--flags`: client flags that take so many bytes.
pub(super) fn parse_flags(text: &str) -> Result<u32, String> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "2" => Ok(1 << 8),
        "4" => Ok(1 << 16),
        _ => Err("give 0, 1, 2 or 4 bytes".to_owned()),
    }
}

impl Measures {
    /// Items as they are told of; the same ones each time.
    ///
    /// # Errors
    /// The file cannot be used; says why.
    pub(super) fn sample(&self) -> Result<Vec<ItemMeasure>, String> {
        let mut random = StdRng::seed_from_u64(SEED);
        match &self.value {
            Values::Range(low, high) => Ok((0..SAMPLE_EVEN)
                .map(|_| {
                    let len = random.random_range(*low..=*high);
                    self.item(&mut random, len)
                })
                .collect()),
            Values::LogNormal { mean, sigma } => {
                let lengths = LogNormal::new(mean.ln() - sigma * sigma / 2.0, *sigma)
                    .map_err(|why| format!("lognormal: {why}"))?;
                Ok((0..SAMPLE_UNEVEN)
                    .map(|_| {
                        let len = lengths.sample(&mut random).round() as usize;
                        self.item(&mut random, len)
                    })
                    .collect())
            }
            Values::Table(path) => self.sample_of_file(path, &mut random),
        }
    }

    fn item(&self, random: &mut StdRng, value_len: usize) -> ItemMeasure {
        let (low, high) = self.key.unwrap_or((KEY_LEN_DEFAULT, KEY_LEN_DEFAULT));
        ItemMeasure {
            key_len: random.random_range(low..=high),
            value_len,
            flags: self.flags,
            ttl_secs: self
                .ttl
                .flatten()
                .map(|(low, high)| random.random_range(low..=high)),
        }
    }

    /// An item for each key of the file, as it is first seen with a value.
    fn sample_of_file(&self, path: &Path, random: &mut StdRng) -> Result<Vec<ItemMeasure>, String> {
        let mut seen = HashSet::new();
        let mut sample = Vec::new();
        for request in requests(path)?.take(REQUESTS_MAX) {
            let request = request.map_err(|why| format!("{}: {why}", path.display()))?;
            let has_value = matches!(request.verb, Verb::Get | Verb::Store(_)) && request.value_len > 0;
            let key_len = request.key.len();
            if !has_value || !seen.insert(request.key) {
                continue;
            }
            let mut item = self.item(random, request.value_len as usize);
            if self.key.is_none() {
                item.key_len = key_len;
            }
            if self.ttl.is_none() {
                item.ttl_secs = (request.ttl > 0).then_some(request.ttl);
            }
            sample.push(item);
            if sample.len() == SAMPLE_UNEVEN {
                break;
            }
        }
        if sample.is_empty() {
            return Err(format!(
                "{}: no request has a value size; name a trace or workload tables",
                path.display()
            ));
        }
        Ok(sample)
    }
}

/// What comes out of a workload file, or is drawn to the figures of a cluster.
fn requests(path: &Path) -> Result<workload::Requests, String> {
    let draw = Draw {
        keys: DRAWN_KEYS,
        seed: SEED,
        rate: 0.0,
    };
    workload::open(path, Format::guess(path), &draw)
}

#[cfg(test)]
mod tests {
    use super::{Measures, Values, parse_flags, parse_key, parse_ttl, parse_value};

    #[test]
    fn lengths_are_read_and_nonsense_is_refused() {
        assert_eq!(parse_key("16"), Ok((16, 16)));
        assert_eq!(parse_key("8..40"), Ok((8, 40)));
        assert_eq!(parse_value("0..9"), Ok(Values::Range(0, 9)));
        assert_eq!(
            parse_value("lognormal:sigma=1.2,mean=200"),
            Ok(Values::LogNormal {
                mean: 200.0,
                sigma: 1.2
            })
        );
        assert_eq!(parse_value("table:a.csv"), Ok(Values::Table("a.csv".into())));
        assert_eq!(parse_ttl("none"), Ok(None));
        assert_eq!(parse_ttl("60..600"), Ok(Some((60, 600))));
        for bad in ["", "0", "251", "9..8", "x"] {
            assert!(parse_key(bad).is_err(), "{bad}");
        }
        for bad in ["-1", "lognormal:mean=200", "lognormal:mean=0,sigma=1", "normal:1"] {
            assert!(parse_value(bad).is_err(), "{bad}");
        }
        assert!(parse_ttl("0").is_err() && parse_flags("3").is_err());
    }

    #[test]
    fn drawn_lengths_have_the_mean_that_was_asked_for() {
        let measures = Measures {
            key: Some((8, 40)),
            value: Values::LogNormal {
                mean: 200.0,
                sigma: 1.2,
            },
            ttl: None,
            flags: 0,
        };
        let sample = measures.sample().expect("drawn");
        let mean = |len: &dyn Fn(usize) -> usize| {
            (0..sample.len()).map(len).sum::<usize>() as f64 / sample.len() as f64
        };
        let (key, value) = (mean(&|at| sample[at].key_len), mean(&|at| sample[at].value_len));
        assert!((23.5..24.5).contains(&key), "{key}");
        assert!((195.0..205.0).contains(&value), "{value}");
    }
}
