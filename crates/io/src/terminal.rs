//! Secrets from standard input, not shown when they are typed.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Reads the first line of standard input, without its end, at most `len_max` bytes. On a terminal it asks with `prompt`
/// and does not show what is typed.
///
/// # Errors
/// What the system says, and a line that is too long.
pub fn read_secret(prompt: &str, len_max: usize) -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let hidden = if stdin.is_terminal() {
        eprint!("{prompt}");
        io::stderr().flush()?;
        Some(Hidden::start()?)
    } else {
        None
    };
    let mut line = Vec::new();
    stdin
        .lock()
        .take(len_max as u64 + 2)
        .read_until(b'\n', &mut line)?;
    if hidden.is_some() {
        eprintln!();
    }
    let end = line.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    line.truncate(end.unwrap_or(line.len()));
    if line.len() > len_max {
        let message = format!("it has more than {len_max} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(line)
}

/// While it lives, the terminal does not show what is typed.
struct Hidden(Termios);

impl Hidden {
    fn start() -> io::Result<Hidden> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Nothing helps a terminal that is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Whether standard error is a stream of systemd's journal. Source: JOURNAL_STREAM of systemd.exec(5), device and inode.
pub fn stderr_is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let Ok(stat) = rustix::fs::fstat(io::stderr()) else {
        return false;
    };
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}
