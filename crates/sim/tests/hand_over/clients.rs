//! Clients that stop in the middle of what they say, each in another state.

/// A value so long that it goes out from where it lies.
const VALUE_LEN: usize = 100_000;

/// A value that comes in pieces.
const UPLOAD_LEN: usize = 1_000_000;

/// What a client sends.
pub struct Client {
    pub name: &'static str,
    /// Up to where it stops.
    pub before: Vec<u8>,
    /// From there on.
    pub after: Vec<u8>,
}

/// So many clients in each state, each with keys of its own; they log in first where they have to.
pub fn clients(guarded: bool, each: usize) -> Vec<Client> {
    let mut all: Vec<Client> = (0..each)
        .flat_map(|number| [writers(number), readers(number), binary_clients(number)])
        .flatten()
        .collect();
    for client in all.iter_mut().filter(|_| guarded) {
        let login = match client.before.first() {
            Some(0x80) => packet(0x21, b"", b"PLAIN", b"\0ann\0secret"),
            _ => b"set login 0 0 10\r\nann secret\r\n".to_vec(),
        };
        client.before.splice(..0, login);
    }
    all
}

fn text(name: &'static str, before: &[u8], after: &[u8]) -> Client {
    let (before, after) = (before.to_vec(), after.to_vec());
    Client { name, before, after }
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| b'a' + ((at * 31 + seed * 7) >> 3) as u8 % 26)
        .collect()
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [
        format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(),
        value,
        b"\r\n",
    ]
    .concat()
}

fn writers(number: usize) -> Vec<Client> {
    let key = format!("key{number}");
    let upload = set(&format!("upload{number}"), &bytes(UPLOAD_LEN, number));
    let read_upload = format!("get upload{number}\r\n").into_bytes();
    let too_large = set(&key, &bytes(3_000_000, number));
    vec![
        text(
            "half a small value",
            format!("set small{number} 0 0 10\r\nhello").as_bytes(),
            format!("world\r\nget small{number}\r\n").as_bytes(),
        ),
        text(
            "half a large value",
            &upload[..600_000],
            &[&upload[600_000..], &read_upload].concat(),
        ),
        text(
            "a large value but for its end",
            &upload[..upload.len() - 1],
            &[b"\n", &read_upload[..]].concat(),
        ),
        text(
            "a large value with a wrong end",
            &upload[..upload.len() - 2],
            &[b"xy", &b"version\r\n"[..]].concat(),
        ),
        text(
            "half of what nobody wants",
            &too_large[..2_000_000],
            &[&too_large[2_000_000..], b"version\r\n"].concat(),
        ),
        text(
            "meta, quietly",
            format!("ms {key} S5 q\r\nvalue\r\nmg none v q\r\nmg {key} v k q\r\nms {key} S").as_bytes(),
            format!("3 q O7\r\nnew\r\nmg {key} v O8 q\r\nmn\r\n").as_bytes(),
        ),
    ]
}

fn readers(number: usize) -> Vec<Client> {
    let large = set(&format!("large{number}"), &bytes(VALUE_LEN, number));
    let get = format!("get large{number}\r\n").into_bytes();
    let many = format!(" large{number}").repeat(100).into_bytes();
    // A line so long that its keys are taken as they come.
    let more = format!(" large{number}{}", " none".repeat(100))
        .repeat(40)
        .into_bytes();
    vec![
        text("idle from the start", b"", b"version\r\n"),
        text("idle", b"version\r\n", b"version\r\n"),
        text("half a line", b"version\r\nver", b"sion\r\n"),
        text("a line but for its last byte", b"version\r", b"\n"),
        text(
            "much unread",
            &[&large[..], &get.repeat(100)].concat(),
            b"version\r\n",
        ),
        text(
            "a multi-get unread",
            &[&large[..], b"get", &many, b"\r\n"].concat(),
            b"version\r\n",
        ),
        text(
            "a multi-get that touches",
            &[&large[..], b"gat 0", &many, b" \r\n"].concat(),
            b"version\r\n",
        ),
        text(
            "an endless multi-get",
            &[&large[..], b"get", &more, b" non"].concat(),
            &[b"e", &more[..], b"\r\nversion\r\n"].concat(),
        ),
        text(
            "closing",
            &[&large[..], &get.repeat(100), b"quit\r\n"].concat(),
            b"",
        ),
    ]
}

/// A request of the binary protocol.
fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body_len = extras.len() + key.len() + value.len();
    let mut bytes = vec![0x80, opcode];
    bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
    bytes.extend_from_slice(&[0; 12]);
    [&bytes, extras, key, value].concat()
}

fn binary_clients(number: usize) -> Vec<Client> {
    let key = format!("binary{number}").into_bytes();
    let stored = packet(0x01, &[0; 8], &key, &bytes(VALUE_LEN, number));
    let get = packet(0x00, b"", &key, b"");
    let noop = packet(0x0a, b"", b"", b"");
    let half = stored.len() / 2;
    vec![
        text(
            "binary, half a header",
            &[&noop[..], &noop[..10]].concat(),
            &noop[10..],
        ),
        text(
            "binary, half a value",
            &stored[..half],
            &[&stored[half..], &get].concat(),
        ),
        text(
            "binary, much unread",
            &[&stored[..], &get.repeat(100)].concat(),
            &noop,
        ),
    ]
}
