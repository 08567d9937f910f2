//! How long workers look for requests before they sleep.

use scrubjay_net::BusyPoll;

use super::Options;

/// Longest that can be asked for, in microseconds.
const MICROS_MAX: u32 = 10_000;

/// Takes `auto` or a number of microseconds.
pub(super) fn set(options: &mut Options, text: &str) -> Result<(), String> {
    options.busy_poll = match text.parse().ok().filter(|micros| *micros <= MICROS_MAX) {
        Some(micros) => BusyPoll::Micros(micros),
        None if text == "auto" => BusyPoll::Auto,
        None => {
            return Err(format!(
                "takes auto or 0 to {MICROS_MAX} microseconds, not `{text}`"
            ));
        }
    };
    Ok(())
}

/// As [`set`] takes it.
pub(super) fn text(rule: BusyPoll) -> String {
    match rule {
        BusyPoll::Auto => "auto".to_owned(),
        BusyPoll::Micros(micros) => micros.to_string(),
    }
}
