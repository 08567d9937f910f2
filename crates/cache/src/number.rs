//! Decimal numbers as memcached reads them out of values.

/// Reads the number at the start of a stored value as memcached's `safe_strtoull` does: leading white space and one sign,
/// digits, then the end or white space (what follows is not looked at). A minus sign wraps around 2^64, and is refused
/// where the wrapped number is at least 2^63. `None` if it is no number or over 2^64 - 1.
pub(crate) fn parse_stored(value: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let start = value.iter().position(|byte| !is_space(byte))?;
    let (negative, digits) = match value[start] {
        b'-' => (true, &value[start + 1..]),
        b'+' => (false, &value[start + 1..]),
        _ => (false, &value[start..]),
    };
    let len = digits
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(digits.len());
    if len == 0 || digits.get(len).is_some_and(|byte| !is_space(byte)) {
        return None;
    }
    let mut number: u64 = 0;
    for digit in &digits[..len] {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if !negative {
        return Some(number);
    }
    let wrapped = number.wrapping_neg();
    (wrapped < 1 << 63).then_some(wrapped)
}

#[cfg(test)]
mod tests {
    use super::parse_stored;

    #[test]
    fn numbers_are_read_as_memcached_reads_them() {
        let check =
            |text: &str, number: Option<u64>| assert_eq!(parse_stored(text.as_bytes()), number, "{text:?}");
        check("10", Some(10));
        check(" 12 ", Some(12));
        check("+7", Some(7));
        check("5 abc", Some(5));
        check("5abc", None);
        check("", None);
        check("  ", None);
        check("-5", None);
        check("-18446744073709551615", Some(1));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
    }
}
