//! Requests out of trace files: CSV as Twitter publishes it, and libCacheSim's oracleGeneral records. Both are read as
//! they are asked for, so a trace may be larger than memory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::{Request, Verb};

/// Longest key that a server takes.
const KEY_LEN_MAX: usize = 250;

/// Bytes of a record of libCacheSim's oracleGeneral format: u32 time, u64 object, u32 size, i64 next access.
const ORACLE_RECORD: usize = 24;

/// Opens a trace, decompressing it if its name ends with `.zst`. An error names the file that cannot be read.
pub fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, String> {
    let explain =
        |why: std::io::Error| format!("{}: {why}; name a trace file that can be read", path.display());
    let file = File::open(path).map_err(explain)?;
    if path.extension().is_some_and(|ending| ending == "zst") {
        return Ok(Box::new(BufReader::new(
            zstd::Decoder::new(file).map_err(explain)?,
        )));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
}

/// The requests of a CSV trace, as Twitter publishes them. An error names the line.
pub fn csv(input: impl BufRead) -> impl Iterator<Item = Result<Request, String>> {
    input.lines().enumerate().filter_map(|(index, line)| {
        let at = index + 1;
        let line = match line {
            Ok(line) => line,
            Err(why) => return Some(Err(format!("line {at}: {why}"))),
        };
        // A heading is let pass.
        if line.is_empty() || (at == 1 && line.starts_with("timestamp")) {
            return None;
        }
        Some(parse_csv(&line).map_err(|what| format!("line {at}: {what} in {line:?}")))
    })
}

fn parse_csv(line: &str) -> Result<Request, String> {
    let fields: Vec<&str> = line.split(',').collect();
    let [time, id, key_size, value_size, _, operation, ttl] = fields[..] else {
        let columns = "timestamp,key,key_size,value_size,client_id,operation,ttl";
        return Err(format!(
            "{} fields where 7 are expected ({columns})",
            fields.len()
        ));
    };
    let number = |text: &str, name: &str| text.parse::<u32>().map_err(|_| format!("{name} is no number"));
    let verb = Verb::of(operation).ok_or_else(|| format!("operation {operation:?} is not known"))?;
    if id.is_empty() || id.contains(' ') {
        return Err("the key is empty or has blanks".to_owned());
    }
    Ok(Request {
        time: number(time, "timestamp")?,
        key: padded(id.as_bytes(), number(key_size, "key_size")? as usize),
        value_len: number(value_size, "value_size")?,
        verb,
        ttl: number(ttl, "ttl")?,
    })
}

/// The key on the wire: the id, filled up with zeros in front to `len` bytes, 250 at most.
pub fn padded(id: &[u8], len: usize) -> Vec<u8> {
    let id = &id[id.len().saturating_sub(KEY_LEN_MAX)..];
    let mut key = vec![b'0'; len.clamp(id.len(), KEY_LEN_MAX) - id.len()];
    key.extend_from_slice(id);
    key
}

/// The requests of an oracleGeneral trace: all are look-ups of objects with sizes.
pub fn oracle_general(mut input: impl BufRead) -> impl Iterator<Item = Result<Request, String>> {
    let mut at = 0u64;
    std::iter::from_fn(move || {
        let mut record = [0; ORACLE_RECORD];
        let mut filled = 0;
        while filled < ORACLE_RECORD {
            match input.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return None,
                Ok(0) => {
                    return Some(Err(format!(
                        "record {at} ends after {filled} of {ORACLE_RECORD} bytes"
                    )));
                }
                Ok(len) => filled += len,
                Err(why) => return Some(Err(format!("record {at}: {why}"))),
            }
        }
        at += 1;
        let time = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
        let object = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
        let size = u32::from_le_bytes(record[12..16].try_into().expect("four bytes"));
        Some(Ok(Request {
            time,
            key: format!("{object:016x}").into_bytes(),
            value_len: size,
            verb: Verb::Get,
            ttl: 0,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::{csv, oracle_general, padded};
    use crate::{Request, Verb};

    #[test]
    fn csv_rows_become_requests_or_errors_that_name_the_line() {
        let text = "timestamp,key,key_size,value_size,client_id,operation,ttl\n0,abc,5,10,0,get,0\n1,abc,5,10,0,set,60\n";
        let requests: Vec<Request> = csv(text.as_bytes()).collect::<Result<_, _>>().expect("good rows");
        assert_eq!(requests.len(), 2);
        assert_eq!(
            requests[0],
            Request {
                time: 0,
                key: b"00abc".to_vec(),
                value_len: 10,
                verb: Verb::Get,
                ttl: 0
            }
        );
        assert_eq!(
            (requests[1].time, requests[1].verb, requests[1].ttl),
            (1, Verb::Store("set"), 60)
        );
        let check = |row: &str, says: &str| {
            let error = csv(row.as_bytes()).next().expect("a row").expect_err("a bad row");
            assert!(error.starts_with("line 1: ") && error.contains(says), "{error}");
        };
        check("0,abc,5,10,0,get", "6 fields");
        check("0,abc,x,10,0,get,0", "key_size");
        check("x,abc,5,10,0,get,0", "timestamp");
        check("0,abc,5,10,0,fetch,0", "fetch");
        check("0,,5,10,0,get,0", "key");
    }

    #[test]
    fn keys_are_padded_within_the_limits() {
        assert_eq!(padded(b"12", 4), b"0012");
        assert_eq!(padded(b"12345", 3), b"12345");
        assert_eq!(padded(b"1", 9999).len(), 250);
    }

    #[test]
    fn oracle_records_are_read_and_a_torn_one_is_told() {
        let mut bytes = Vec::new();
        for object in [7u64, 8] {
            bytes.extend_from_slice(&1u32.to_le_bytes());
            bytes.extend_from_slice(&object.to_le_bytes());
            bytes.extend_from_slice(&99u32.to_le_bytes());
            bytes.extend_from_slice(&(-1i64).to_le_bytes());
        }
        let requests: Vec<Request> = oracle_general(&bytes[..])
            .collect::<Result<_, _>>()
            .expect("whole records");
        assert_eq!(
            (
                requests[1].time,
                requests[1].key.as_slice(),
                requests[1].value_len
            ),
            (1, &b"0000000000000008"[..], 99)
        );
        bytes.pop();
        assert!(
            oracle_general(&bytes[..])
                .last()
                .expect("two")
                .expect_err("torn")
                .contains("23 of 24")
        );
    }

    #[test]
    fn compressed_traces_are_read() {
        let row = "0,abc,5,10,0,get,0\n";
        let path = std::env::temp_dir().join(format!("scrubjay-workload-{}.csv.zst", std::process::id()));
        std::fs::write(&path, zstd::encode_all(row.as_bytes(), 1).expect("compresses")).expect("writes");
        let requests: Vec<_> = csv(super::open(&path).expect("opens")).collect();
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(requests.len(), 1);
    }
}
