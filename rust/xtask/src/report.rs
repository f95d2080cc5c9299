// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask report`: the pages that show measurements, made from those that
//! are committed.
//!
//! The report, the front picture and README's tables come from `docs/bench/results`
//! alone: nothing is measured, and neither a network, a kernel nor another
//! scheduler's program is needed. The same data gives the same bytes, which
//! `tests/pages.rs` of `scx_bench` holds.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::setup;
use crate::workspace::Workspace;

/// The arguments of `scx_bench`, from the top level.
const PAGES: &str = "report docs/bench/results --label pandemonium=scx_pandemonium --html \
                     docs/bench/report.html --picture docs/bench/frames.svg --score README.md";

/// The arguments of `cargo xtask report`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Build `scx_bench`, make the pages anew.
pub fn main(_args: &Args) -> Result<()> {
    let tools = setup::ensure(&[], false)?;
    let workspace = Workspace::find(&tools)?;
    workspace.build(&tools, "scx_bench")?;
    let mut command = Command::new(workspace.binary("scx_bench"));
    command
        .args(PAGES.split_whitespace())
        .current_dir(workspace.root());
    process::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_those_that_a_test_holds_against_the_data() {
        let words = |text: &str| text.replace(['\\', '"', ';'], " ");
        let held = words(include_str!("../../scx_bench/tests/pages.rs"));
        let held: Vec<&str> = held.split_whitespace().collect();
        let pages: Vec<&str> = PAGES.split_whitespace().collect();
        assert!(held.windows(pages.len()).any(|window| window == pages));
    }
}
