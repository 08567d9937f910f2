//! A line cut into words.

use memchr::memchr;

/// The words of a line: parted by blanks, any number of them. Tabs and other control characters belong to words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The words of `line`, which has no line end. Cost: none until they are asked for.
    pub const fn new(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many words are left, at most `limit`.
    pub fn count_up_to(self, limit: usize) -> usize {
        self.take(limit).count()
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::Words;

    #[test]
    fn words_are_parted_by_blanks_alone() {
        let check = |line: &str, words: &[&str]| {
            let found: Vec<&[u8]> = Words::new(line.as_bytes()).collect();
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(found, words, "{line:?}");
        };
        check("", &[]);
        check("   ", &[]);
        check("get", &["get"]);
        check("  get  a b ", &["get", "a", "b"]);
        check("get\ta\rb c", &["get\ta\rb", "c"]);
    }
}
