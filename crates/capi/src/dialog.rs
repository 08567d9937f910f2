//! Statistics and keys. They are asked for rarely, and answered in as many lines as there are: a short connection of their own
//! keeps them from standing in the way of requests.

use std::ffi::{c_char, c_int, c_void};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use scrubjay_client::config::Config;
use scrubjay_client::placement::Server;

use crate::border::{SjResult, fill, object, status, text};
use crate::client::{SjClient, no_callback};

type StatFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
type KeyFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Most bytes of a line.
const LINE_LEN_MAX: u64 = 64 * 1024;

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_stats(
    client: *const SjClient,
    server: u32,
    argument: *const c_char,
    each: Option<StatFn>,
    context: *mut c_void,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them; the callback gets what it was promised.
    unsafe {
        fill(result, || {
            let each = each.ok_or_else(no_callback)?;
            let argument = if argument.is_null() {
                ""
            } else {
                text(argument, "argument")?
            };
            if argument.bytes().any(|byte| byte.is_ascii_control()) {
                let words = "the argument has control bytes";
                return Err(SjResult::error(status::ARGUMENT, words));
            }
            let command = format!("stats {argument}").trim_end().to_owned();
            ask(object(client, "client")?, server, &command, |line| {
                let Some(stat) = line.strip_prefix(b"STAT ") else {
                    return;
                };
                let name_len = stat.iter().position(|byte| *byte == b' ').unwrap_or(stat.len());
                let (name, value) = stat.split_at(name_len);
                let value = value.strip_prefix(b" ").unwrap_or(value);
                each(
                    context,
                    name.as_ptr().cast(),
                    name.len(),
                    value.as_ptr().cast(),
                    value.len(),
                );
            })
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_keys(
    client: *const SjClient,
    server: u32,
    each: Option<KeyFn>,
    context: *mut c_void,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them; the callback gets what it was promised.
    unsafe {
        fill(result, || {
            let each = each.ok_or_else(no_callback)?;
            ask(
                object(client, "client")?,
                server,
                "lru_crawler metadump all",
                |line| {
                    let Some(rest) = line.strip_prefix(b"key=") else {
                        return;
                    };
                    let len = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
                    let key = unescaped(&rest[..len]);
                    each(context, key.as_ptr().cast(), key.len());
                },
            )
        })
    }
}

/// `%41` to `A`.
fn unescaped(escaped: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut key = Vec::with_capacity(escaped.len());
    let mut at = 0;
    while let Some(byte) = escaped.get(at) {
        match (byte, digit(escaped.get(at + 1)), digit(escaped.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                key.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                key.push(*byte);
                at += 1;
            }
        }
    }
    key
}

/// Asks a server, and hands on the lines of its answer.
fn ask(client: &SjClient, number: u32, command: &str, each: impl FnMut(&[u8])) -> Result<SjResult, SjResult> {
    let index = client.server(number)?;
    let config = client.client.config();
    let server = &config.servers[index.get()];
    let name = format!("{}:{}", server.host, server.port);
    let stream = connect(server, config).map_err(|error| {
        let words =
            format_args!("{name}: no connection: {error}; check that the server runs and can be reached");
        SjResult::error(status::CONNECT, words)
    })?;
    let mut reader = BufReader::new(stream);
    answer(&mut reader, config, command, each).map_err(|error| {
        let status = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => status::TIMED_OUT,
            ErrorKind::Unsupported => status::UNKNOWN,
            ErrorKind::PermissionDenied => status::CLIENT,
            _ => status::BROKEN,
        };
        SjResult::error(status, format_args!("{name}: {command}: {error}"))
    })?;
    Ok(SjResult::new(status::OK))
}

/// What both kinds of sockets are.
trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

fn connect(server: &Server, config: &Config) -> std::io::Result<Box<dyn Socket>> {
    let timeout = Some(config.timeout);
    if server.host.starts_with('/') {
        let stream = UnixStream::connect(&server.host)?;
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        return Ok(Box::new(stream));
    }
    let mut last = ErrorKind::NotFound.into();
    for address in (server.host.as_str(), server.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, config.connect_timeout) {
            Ok(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)?;
                return Ok(Box::new(stream));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn answer(
    reader: &mut BufReader<Box<dyn Socket>>,
    config: &Config,
    command: &str,
    mut each: impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let mut line = Vec::new();
    if let Some(login) = &config.login {
        let token = format!("{} {}", login.user, login.password);
        write!(reader.get_mut(), "set login 0 0 {}\r\n{token}\r\n", token.len())?;
        if read_line(reader, &mut line)? != b"STORED" {
            return Err(ErrorKind::PermissionDenied.into());
        }
    }
    write!(reader.get_mut(), "{command}\r\n")?;
    loop {
        match read_line(reader, &mut line)? {
            b"END" | b"RESET" | b"OK" => return Ok(()),
            words @ (b"ERROR"
            | [b'C', b'L', b'I', b'E', b'N', b'T', b'_', ..]
            | [b'B', b'U', b'S', b'Y', ..]) => {
                let words = String::from_utf8_lossy(words).into_owned();
                return Err(std::io::Error::new(ErrorKind::Unsupported, words));
            }
            line => each(line),
        }
    }
}

/// A line without its end.
fn read_line<'a>(reader: &mut impl BufRead, line: &'a mut Vec<u8>) -> std::io::Result<&'a [u8]> {
    line.clear();
    reader.take(LINE_LEN_MAX).read_until(b'\n', line)?;
    let line = line.strip_suffix(b"\n").ok_or(ErrorKind::UnexpectedEof)?;
    Ok(line.strip_suffix(b"\r").unwrap_or(line))
}
