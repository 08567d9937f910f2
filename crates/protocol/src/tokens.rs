//! A command line cut at blanks.

use scrubjay_base::bytes;

use crate::limits::TOKENS_MAX;

/// A line's tokens. Runs of blanks count as one; other control characters belong to tokens, as in memcached.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    tokens: [&'a [u8]; TOKENS_MAX],
    count: usize,
}

impl<'a> Tokens<'a> {
    /// Cuts `line`, which has no line end. What is beyond 24 tokens is left out but counted as one.
    pub fn cut(line: &'a [u8]) -> Tokens<'a> {
        let mut tokens: [&[u8]; TOKENS_MAX] = [&[]; TOKENS_MAX];
        let mut count = 0;
        let mut rest = line;
        while let Some((token, after)) = next_token(rest) {
            if count == TOKENS_MAX {
                break;
            }
            tokens[count] = token;
            count += 1;
            rest = after;
        }
        Tokens { tokens, count }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The tokens.
    pub fn all(&self) -> &[&'a [u8]] {
        &self.tokens[..self.count]
    }

    /// Token `index`; empty if there is none.
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.all().get(index).copied().unwrap_or_default()
    }

    /// The last token; empty if there is none.
    pub fn last(&self) -> &'a [u8] {
        self.all().last().copied().unwrap_or_default()
    }
}

/// The tokens of `line`, cut one by one: for lines of which each is looked at in turn.
#[inline]
pub fn tokens(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (token, after) = next_token(rest)?;
        rest = after;
        Some(token)
    })
}

/// The first token of `line` and what comes behind it; `None` if there are only blanks.
#[inline]
pub fn next_token(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|&byte| byte != b' ')?;
    let line = &line[start..];
    Some(line.split_at(bytes::find(line, b' ').unwrap_or(line.len())))
}

#[cfg(test)]
mod tests {
    use super::next_token;

    #[test]
    fn a_token_ends_at_the_first_blank_wherever_that_is() {
        for filler in [b'a', b'!', 0x00, 0xff] {
            for len in 0..40 {
                let token = vec![filler; len];
                let mut line = token.clone();
                let wanted = (len > 0).then_some((token.as_slice(), b"".as_slice()));
                assert_eq!(next_token(&line), wanted);
                line.extend_from_slice(b" next one");
                let wanted = match len {
                    0 => (b"next".as_slice(), b" one".as_slice()),
                    _ => (token.as_slice(), b" next one".as_slice()),
                };
                assert_eq!(next_token(&line), Some(wanted));
            }
        }
    }
}
