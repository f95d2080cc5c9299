//! Text from elsewhere, as a terminal may see it.

/// `text` with `?` for what would steer a terminal: a file may contain anything,
/// and a task may call itself anything.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
