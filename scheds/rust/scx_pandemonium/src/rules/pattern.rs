//! What a rule compares: a text, or with a `*` at its end the beginning of one.

use std::fmt;
use std::path::Path;

use serde::Deserialize;

/// Bytes of a pattern: that of a path of Linux, the longest of them.
const PATTERN_LEN_MAX: usize = 4096;

/// A text or the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    is_prefix: bool,
}

impl TryFrom<String> for Pattern {
    type Error = String;

    /// Refused is what nothing or everything would match.
    fn try_from(mut text: String) -> Result<Pattern, String> {
        let is_prefix = text.ends_with('*');
        if is_prefix {
            text.pop();
        }
        if text.is_empty() {
            return Err(match is_prefix {
                true => "would match everything".to_owned(),
                false => "is empty".to_owned(),
            });
        }
        if text.contains('*') {
            return Err("a * may only stand at the end".to_owned());
        }
        if text.contains(char::is_control) {
            return Err("contains a control character".to_owned());
        }
        if text.len() > PATTERN_LEN_MAX {
            return Err(format!("is longer than {PATTERN_LEN_MAX} bytes"));
        }
        Ok(Pattern { text, is_prefix })
    }
}

impl Pattern {
    /// Whether it is what `text` is, or how it begins.
    pub fn matches(&self, text: &str) -> bool {
        match self.is_prefix {
            true => text.starts_with(&self.text),
            false => text == self.text,
        }
    }

    /// What it begins with, or is.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether more may follow.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Put `home` in place of a `~` that stands for it.
    pub fn expand(&mut self, home: &Path) {
        let below = self.text.strip_prefix("~/");
        let whole = below.and_then(|below| Some(format!("{}/{below}", home.to_str()?)));
        if let Some(whole) = whole {
            self.text = whole;
        }
    }

    /// The text that it matches, if that is one only.
    pub fn whole(&self) -> Option<&str> {
        (!self.is_prefix).then_some(self.text.as_str())
    }
}

impl fmt::Display for Pattern {
    /// As it is written.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_prefix { "*" } else { "" };
        write!(out, "{:?}", format!("{}{star}", self.text))
    }
}
