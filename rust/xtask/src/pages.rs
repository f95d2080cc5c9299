// SPDX-License-Identifier: GPL-2.0
//! Which pages are made from which committed results.
//!
//! `cargo xtask report` makes them; `tests/pages.rs` of `scx_bench` reads this list
//! too, and fails where a page is not what its results give.

/// Results, and the pages that are made from them alone.
pub struct Pages {
    /// The directory of the results.
    pub results: &'static str,
    /// The arguments of `scx_bench report` after the directory.
    pub args: &'static [&'static str],
}

/// All of them, in the order in which they are made. Paths are from the top level.
pub const PAGES: &[Pages] = &[
    Pages {
        results: "docs/bench/results",
        args: &[
            "--command=cargo xtask bench",
            "--label=pandemonium=scx_pandemonium",
            "--html=docs/bench/report.html",
            "--picture=docs/bench/frames.svg",
            "--score=README.md",
        ],
    },
    Pages {
        results: "docs/bench/layers",
        args: &[
            "--command=cargo xtask bench --layers",
            "--subject=pandemonium",
            "--label=pandemonium=the defaults",
            "--label=no-adaptive=--no-adaptive",
            "--label=adaptive-turns=--adaptive-turns",
            "--label=no-procdb=--no-procdb",
            "--label=gaming=--profile gaming",
            "--label=lowlatency=--profile lowlatency",
            "--label=powersave=--profile powersave",
            "--label=server=--profile server",
            "--html=docs/bench/layers.html",
            "--score=docs/DESIGN.md",
        ],
    },
];
