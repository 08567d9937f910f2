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
    if float.is_nan() {
        return "NAN".to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    if float.is_infinite() {
        return format!("{sign}INF");
    }
    let (digits, exponent) = shortest(float);
    if (-4..17).contains(&exponent) {
        return format!("{sign}{}", positional(&digits, exponent));
    }
    let (first, rest) = digits.split_at(1);
    let rest = if rest.is_empty() { "0" } else { rest };
    format!("{sign}{first}.{rest}E{exponent:+}")
}

/// As php-memcached writes it beside its flag for doubles: `0.1`, `1e+25`, and `Infinity`.
pub(super) fn php_memcached(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    if float.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (digits, exponent) = shortest(float);
    if (-4..=5).contains(&exponent) {
        return format!("{sign}{}", positional(&digits, exponent));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e{exponent}")
}

/// Reads any of them.
pub(super) fn read_float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a decimal whole number.
pub(super) fn read_int(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::php;

    #[test]
    fn floats_are_written_as_php_writes_them() {
        let rows = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e25, "1.0E+25"),
            (1e-7, "1.0E-7"),
            (123_456_789.125, "123456789.125"),
            (1e17, "1.0E+17"),
            (1e16, "10000000000000000"),
            (0.0001, "0.0001"),
            (0.00001, "1.0E-5"),
            (1.5e300, "1.5E+300"),
            (f64::NEG_INFINITY, "-INF"),
            (f64::NAN, "NAN"),
        ];
        for (float, text) in rows {
            assert_eq!(php(float), text);
        }
    }
}
