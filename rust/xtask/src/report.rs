// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask report`: the pages that show measurements, made from those that
//! are committed.
//!
//! They come from results below `docs/bench` alone (`pages`): nothing is measured,
//! and neither a network, a kernel nor another scheduler's program is needed. The
//! same data gives the same bytes, which `tests/pages.rs` of `scx_bench` holds.

use std::process::Command;

use anyhow::Result;

use crate::pages::PAGES;
use crate::process;
use crate::setup;
use crate::workspace::Workspace;

/// The arguments of `cargo xtask report`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Build `scx_bench`, make the pages anew.
pub fn main(_args: &Args) -> Result<()> {
    let tools = setup::ensure(&[], false)?;
    let workspace = Workspace::find(&tools)?;
    workspace.build(&tools, "scx_bench")?;
    for pages in PAGES {
        let mut command = Command::new(workspace.binary("scx_bench"));
        command
            .args(["report", pages.results])
            .args(pages.args())
            .current_dir(workspace.root());
        process::run(&mut command)?;
    }
    Ok(())
}
