//! Numbers as text, the ways other languages write them.

/// The fewest digits that read back as `float`, and the power of ten after the first of them.
fn shortest(float: f64) -> (String, i32) {
    let text = format!("{:e}", float.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Digits with the point where it belongs, without any exponent.
fn positional(digits: &str, exponent: i32) -> String {
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let len = digits.len() as i32;
    if exponent < 0 {
        format!("0.{}{digits}", zeros(-exponent - 1))
    } else if exponent >= len - 1 {
        format!("{digits}{}", zeros(exponent - len + 1))
    } else {
        let (whole, part) = digits.split_at(exponent as usize + 1);
        format!("{whole}.{part}")
    }
}

/// As PHP 7.1 and later writes it with `serialize_precision = -1`: `0.1`, `1.0E+25`, `-0`.
pub(super) fn php(float: f64) -> String {
    php_beyond(float, 17, 'E')
}

/// As php-memcache writes it, `0.1`, `1.0e+25`, but with all its digits: the extension loses those after the 14th.
pub(super) fn php_memcache(float: f64) -> String {
    php_beyond(float, 14, 'e')
}

/// As PHP writes it, with an exponent from that of `scientific` on.
fn php_beyond(float: f64, scientific: i32, letter: char) -> String {
    if float.is_nan() {
        return "NAN".to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    if float.is_infinite() {
        return format!("{sign}INF");
    }
    let (digits, exponent) = shortest(float);
    if (-4..scientific).contains(&exponent) {
        return format!("{sign}{}", positional(&digits, exponent));
    }
    let (first, rest) = digits.split_at(1);
    let rest = if rest.is_empty() { "0" } else { rest };
    format!("{sign}{first}.{rest}{letter}{exponent:+}")
}

/// As php-memcached writes it beside its flag for doubles: `.1`, `1e+06`, `1e-05`, `Infinity`.
pub(super) fn php_memcached(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    if float.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (digits, exponent) = shortest(float);
    if (-4..digits.len() as i32 + 5).contains(&exponent) {
        let text = positional(&digits, exponent);
        let text = if text.len() > 1 {
            text.trim_start_matches('0')
        } else {
            &text
        };
        return format!("{sign}{text}");
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e{exponent:+03}")
}

/// Reads any of them.
pub(super) fn read_float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a decimal whole number. Blanks may follow: memcached leaves them when it has counted down to fewer digits.
pub(super) fn read_int(text: &[u8]) -> Option<i64> {
    let digits = text.trim_ascii_end();
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{php, php_memcache, php_memcached};

    #[test]
    fn floats_are_written_as_in_php() {
        let rows = [
            // serialize, php-memcache, php-memcached
            (0.0, "0", "0", "0"),
            (-0.0, "-0", "-0", "-0"),
            (1.0, "1", "1", "1"),
            (0.1, "0.1", "0.1", ".1"),
            (
                0.1 + 0.2,
                "0.30000000000000004",
                "0.30000000000000004",
                ".30000000000000004",
            ),
            (1e25, "1.0E+25", "1.0e+25", "1e+25"),
            (2.5e-5, "2.5E-5", "2.5e-5", "2.5e-05"),
            (0.0001, "0.0001", "0.0001", ".0001"),
            (1e14, "100000000000000", "1.0e+14", "1e+14"),
            (1e16, "10000000000000000", "1.0e+16", "1e+16"),
            (1e17, "1.0E+17", "1.0e+17", "1e+17"),
            (
                123_456_789_012_345_680.0,
                "1.2345678901234568E+17",
                "1.2345678901234568e+17",
                "123456789012345680",
            ),
            (1.5e300, "1.5E+300", "1.5e+300", "1.5e+300"),
            (f64::INFINITY, "INF", "INF", "Infinity"),
            (f64::NEG_INFINITY, "-INF", "-INF", "-Infinity"),
            (f64::NAN, "NAN", "NAN", "NaN"),
        ];
        for (float, serialize, memcache, memcached) in rows {
            assert_eq!(
                (php(float).as_str(), php_memcache(float).as_str()),
                (serialize, memcache)
            );
            assert_eq!(php_memcached(float), memcached);
        }
    }
}
