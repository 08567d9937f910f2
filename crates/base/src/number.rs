//! Decimal numbers as memcached reads them, from command lines and out of values.

/// Reads an unsigned number as memcached's `safe_strtoull` does: leading white space and one sign, digits, then the end,
/// white space or a 0 byte (what follows is not looked at). A minus sign wraps around 2^64, and is refused where the wrapped number is
/// at least 2^63. `None` if it is no number or over 2^64 - 1.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    plain(text).or_else(|| parse_any_u64(text))
}

fn parse_any_u64(text: &[u8]) -> Option<u64> {
    let (negative, number) = split(text)?;
    if !negative {
        return Some(number);
    }
    let wrapped = number.wrapping_neg();
    (wrapped < 1 << 63).then_some(wrapped)
}

/// Reads a signed number as memcached's `safe_strtol` does; as [`parse_u64`], within the range of 64 bits.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match plain(text) {
        Some(number) => i64::try_from(number).ok(),
        None => parse_any_i64(text),
    }
}

fn parse_any_i64(text: &[u8]) -> Option<i64> {
    let (negative, number) = split(text)?;
    if negative {
        0i64.checked_sub_unsigned(number)
    } else {
        i64::try_from(number).ok()
    }
}

/// Digits and nothing else, so few that they fit: what nearly every number is.
#[inline]
fn plain(text: &[u8]) -> Option<u64> {
    /// 10^19 - 1 is below 2^64.
    const DIGITS_MAX: usize = 19;
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let mut number = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

/// The number that a word of text begins with, and its digits; none if it begins with none, or with nothing else.
#[inline(always)]
pub fn leading(word: u64) -> Option<(u64, usize)> {
    const EACH: u64 = u64::MAX / 0xff;
    // A byte each, the first digit in the lowest: what is above 9 is none.
    let digits = word ^ (EACH * 0x30);
    let others = (((digits & (EACH * 0x7f)) + EACH * 0x76) | digits) & (EACH * 0x80);
    let len = others.trailing_zeros() / 8;
    if !(1..8).contains(&len) {
        return None;
    }
    // Behind zeros, as if there were eight. Then neighbours become one: digits, pairs, fours.
    let digits = digits << (64 - 8 * len);
    let pairs = ((digits * 10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = ((pairs * 100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let all = ((fours * 10_000) + (fours >> 32)) & 0xffff_ffff;
    Some((all, len as usize))
}

/// Sign and digits.
fn split(value: &[u8]) -> Option<(bool, u64)> {
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
    if len == 0 || digits.get(len).is_some_and(|byte| !is_space(byte) && *byte != 0) {
        return None;
    }
    let mut number: u64 = 0;
    for digit in &digits[..len] {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some((negative, number))
}

/// Numbers below this one are short: they have four digits at most.
pub const SHORT_BELOW: u64 = 10_000;

/// Appends a decimal number. Most are small: those are no loop.
#[inline]
pub fn append(out: &mut Vec<u8>, number: u64) {
    match number {
        0..10 => out.push(b'0' + number as u8),
        10..SHORT_BELOW => {
            let (digits, len) = short_digits(number as u32);
            let end = out.len() + len;
            out.extend_from_slice(&digits);
            out.truncate(end);
        }
        _ => append_long(out, number),
    }
}

/// The digits of a number below [`SHORT_BELOW`], and how many they are; what is behind them means nothing.
#[inline]
pub fn short_digits(number: u32) -> ([u8; 4], usize) {
    debug_assert!(u64::from(number) < SHORT_BELOW);
    // A byte each, the first digit in the lowest. Two by two: a tenth of what is below a hundred is a product and a shift.
    let pairs = (number / 100) | ((number % 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f;
    let digits = tens | ((pairs - tens * 10) << 8);
    // Those that lead are shifted out, but for the last.
    let leading = (digits | (1 << 24)).trailing_zeros() / 8;
    let word = (digits | 0x3030_3030) >> (8 * leading);
    (word.to_le_bytes(), 4 - leading as usize)
}

fn append_long(out: &mut Vec<u8>, number: u64) {
    // Digits from the back; 2^64 - 1 has 20.
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::{append, leading, parse_i64, parse_u64};

    #[test]
    fn numbers_of_any_length_are_written() {
        let powers = (0..20).map(|digits| 10_u64.pow(digits));
        let around = powers.flat_map(|power| [power - 1, power, power + 1]);
        for number in (0..20_000).chain(around).chain([u64::MAX]) {
            let mut out = b"x".to_vec();
            append(&mut out, number);
            assert_eq!(out, format!("x{number}").as_bytes());
        }
    }

    #[test]
    fn numbers_at_the_front_of_a_word_are_read() {
        let read = |text: &[u8; 8]| leading(u64::from_le_bytes(*text));
        for byte in 0..=u8::MAX {
            for len in 0..=8 {
                let mut text = *b"98765432";
                text[len..].fill(byte);
                let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = text[..digits]
                    .iter()
                    .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
                let expected = (1..8).contains(&digits).then_some((number, digits));
                assert_eq!(read(&text), expected, "{text:?}");
            }
        }
        assert_eq!(read(b"0 f0 key"), Some((0, 1)));
        assert_eq!(read(b"0010 f00"), Some((10, 4)));
        assert_eq!(read(b"12\xff34567"), Some((12, 2)));
    }

    #[test]
    fn numbers_are_read_as_memcached_reads_them() {
        let check =
            |text: &str, number: Option<u64>| assert_eq!(parse_u64(text.as_bytes()), number, "{text:?}");
        check("10", Some(10));
        check(" 12 ", Some(12));
        check("+7", Some(7));
        check("5 abc", Some(5));
        check("5abc", None);
        check("5\0abc", Some(5));
        check("5\0abc", Some(5));
        check("", None);
        check("  ", None);
        check("-5", None);
        check("-18446744073709551615", Some(1));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
        check("9999999999999999999", Some(9_999_999_999_999_999_999));
        check("00000000000000000000007", Some(7));
        let check =
            |text: &str, number: Option<i64>| assert_eq!(parse_i64(text.as_bytes()), number, "{text:?}");
        check("-1", Some(-1));
        check("+1", Some(1));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775807", Some(i64::MAX));
        check("9223372036854775808", None);
    }
}
