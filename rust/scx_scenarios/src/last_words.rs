// SPDX-License-Identifier: GPL-2.0
//! What a program said last, quoted when it fails.

/// Lines that are quoted.
const QUOTED_LINES: usize = 6;

/// The last of `lines`, but for blank ones, in one line.
pub(crate) fn quote<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let quoted = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
    if quoted.is_empty() {
        "it said nothing".to_string()
    } else {
        quoted.join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_quoted_and_blank_ones_are_not() {
        let text = "0\n1\n2\n\n3\n4\n  \n5\n6";
        assert_eq!(quote(text.lines()), "1 | 2 | 3 | 4 | 5 | 6");
        assert_eq!(quote("\n \n".lines()), "it said nothing");
    }
}
