//! `scx_pandemonium completions` and `scx_pandemonium man`.
//!
//! Both are made from the definition of the command line, and into memory first:
//! the generators panic where a stream fails.
//!
//! Not here: what an option means (cli), where installed files go (`install.list`
//! at the top level).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::cli::Opts;
use crate::output;

/// What the program is called where it is typed.
const NAME: &str = env!("CARGO_PKG_NAME");

/// The command line, with the version that manual pages tell.
fn command() -> clap::Command {
    Opts::command().version(env!("CARGO_PKG_VERSION"))
}

/// Print what completes the command line in `shell`.
///
/// # Errors
///
/// As [`output::print`].
pub fn print_completions(shell: Shell) -> Result<()> {
    output::print(&completions(shell)?)
}

/// Print the manual page of the program.
///
/// # Errors
///
/// As [`output::print`].
pub fn print_page() -> Result<()> {
    output::print(&page()?)
}

/// Write the manual pages of the program and its subcommands to `dir`.
///
/// # Errors
///
/// If it is no directory, or cannot be written to.
pub fn write_pages(dir: &Path) -> Result<()> {
    let is_dir = fs::metadata(dir).is_ok_and(|dir| dir.is_dir());
    ensure!(is_dir, "there is no directory {}", dir.display());
    clap_mangen::generate_to(command(), dir)
        .with_context(|| format!("writing manual pages to {}", dir.display()))
}

fn completions(shell: Shell) -> Result<String> {
    let mut bytes = Vec::new();
    generate(shell, &mut Opts::command(), NAME, &mut bytes);
    String::from_utf8(bytes).context("making completions")
}

fn page() -> Result<String> {
    let mut bytes = Vec::new();
    Man::new(command())
        .render(&mut bytes)
        .context("making the manual page")?;
    String::from_utf8(bytes).context("making the manual page")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, ValueEnum};

    use super::*;

    /// What is installed, as `cargo xtask install` and meson read it.
    const INSTALL_LIST: &str = "../../../install.list";

    /// The long flags of `command` itself.
    fn longs(command: &Command) -> Vec<String> {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        shown
            .filter_map(|arg| arg.get_long().map(str::to_owned))
            .collect()
    }

    /// Does `text` have `word`, which no letter, digit or hyphen continues?
    fn has_word(text: &str, word: &str) -> bool {
        text.match_indices(word).any(|(at, _)| {
            let next = text[at + word.len()..].chars().next();
            !next.is_some_and(|next| next.is_alphanumeric() || next == '-')
        })
    }

    /// A page as it is typed: without the escapes of hyphens.
    fn unescaped(page: &str) -> String {
        page.replace("\\-", "-")
    }

    fn built() -> Command {
        let mut command = Opts::command();
        command.build();
        command
    }

    #[test]
    fn completions_of_each_shell_name_every_long_flag_and_subcommand() {
        for shell in Shell::value_variants() {
            let script = completions(*shell).unwrap();
            let mut commands = vec![built()];
            while let Some(command) = commands.pop() {
                let before = if *shell == Shell::Fish { "-l " } else { "--" };
                for long in longs(&command) {
                    let flag = format!("{before}{long}");
                    assert!(has_word(&script, &flag), "{shell}: {flag} is missing");
                }
                assert!(has_word(&script, command.get_name()), "{shell}");
                commands.extend(command.get_subcommands().cloned());
            }
        }
    }

    #[test]
    fn the_manual_page_names_every_long_flag_and_subcommand() {
        let page = unescaped(&page().unwrap());
        let command = built();
        for long in longs(&command) {
            assert!(has_word(&page, &format!("--{long}")), "{long} is missing");
        }
        for subcommand in command.get_subcommands() {
            let name = format!("{NAME}-{}(1)", subcommand.get_name());
            assert!(
                page.contains(&name) || subcommand.get_name() == "help",
                "{name} is missing"
            );
        }
        assert!(page.contains(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_directory_gets_a_page_for_each_subcommand_and_all_are_installed() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(dir.path()).unwrap();
        let names = fs::read_dir(dir.path()).unwrap();
        let made: BTreeSet<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();

        let mut commands = vec![(NAME.to_owned(), built())];
        while let Some((name, command)) = commands.pop() {
            let page = fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap();
            for long in longs(&command) {
                assert!(has_word(&unescaped(&page), &format!("--{long}")), "{name}");
            }
            let below = command.get_subcommands().filter(|sub| {
                // clap's own, which completions offer and which has no page.
                sub.get_name() != "help"
            });
            commands.extend(below.map(|sub| (format!("{name}-{}", sub.get_name()), sub.clone())));
        }

        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join(INSTALL_LIST);
        let list = fs::read_to_string(list).unwrap();
        let pages = list.lines().filter_map(|line| line.strip_prefix("page "));
        let installed: BTreeSet<String> = pages
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect();
        assert_eq!(made, installed);
    }

    #[test]
    fn pages_go_to_a_directory_that_exists() {
        let dir = tempfile::tempdir().unwrap();
        let err = write_pages(&dir.path().join("none")).unwrap_err();
        assert!(err.to_string().starts_with("there is no directory"));
    }
}
