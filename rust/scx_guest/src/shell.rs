// SPDX-License-Identifier: GPL-2.0
//! Words for the guest's shell.

/// `word` quoted so that a POSIX shell takes it as exactly one word.
///
/// Plain words come back unchanged, since they are read by people in the
/// script and on the console.
pub fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);

    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quote;
    use std::process::Command;

    #[test]
    fn plain_words_stay_plain() {
        assert_eq!(quote("--slice-us=500"), "--slice-us=500");
    }

    #[test]
    fn a_shell_reads_back_any_word() {
        for word in [
            "",
            "a b",
            "it's",
            "$HOME `x` \"y\"",
            "*",
            "a\nb",
            "\\",
            "~",
            "#",
            "&&",
        ] {
            let script = format!("printf %s {}", quote(word));
            let output = Command::new("sh").arg("-c").arg(&script).output().unwrap();
            assert_eq!(
                String::from_utf8(output.stdout).unwrap(),
                word,
                "script: {script}"
            );
        }
    }
}
