//! A command line cut at blanks.

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

/// The first token of `line` and what comes behind it; `None` if there are only blanks.
pub fn next_token(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|&byte| byte != b' ')?;
    let line = &line[start..];
    let len = memchr::memchr(b' ', line).unwrap_or(line.len());
    Some(line.split_at(len))
}
