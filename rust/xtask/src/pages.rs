// SPDX-License-Identifier: GPL-2.0
//! Which pages are made from which committed results.
//!
//! `cargo xtask report` makes them; `tests/pages.rs` of `scx_bench` reads this list
//! too, and fails where a page is not what its results give.

/// Ours with one layer off or on, or in one profile: names of columns, and options.
/// `cargo xtask bench --layers` measures them; pages call them by their options.
pub const LAYERS: &[(&str, &str)] = &[
    ("no-adaptive", "--no-adaptive"),
    ("adaptive-turns", "--adaptive-turns"),
    ("no-procdb", "--no-procdb"),
    ("gaming", "--profile gaming"),
    ("lowlatency", "--profile lowlatency"),
    ("powersave", "--profile powersave"),
    ("server", "--profile server"),
];

/// Results, and the pages that are made from them alone.
pub struct Pages {
    /// The directory of the results.
    pub results: &'static str,
    /// Columns, and what they are called where their names would not do.
    labels: &'static [(&'static str, &'static str)],
    /// Other arguments of `scx_bench report` after the directory.
    others: &'static [&'static str],
}

impl Pages {
    /// The arguments of `scx_bench report` after the directory.
    pub fn args(&self) -> Vec<String> {
        let labels = self.labels.iter();
        let labels = labels.map(|(name, label)| format!("--label={name}={label}"));
        labels
            .chain(self.others.iter().map(ToString::to_string))
            .collect()
    }
}

/// All of them, in the order in which they are made. Paths are from the top level.
pub const PAGES: &[Pages] = &[
    Pages {
        results: "docs/bench/results",
        labels: &[("pandemonium", "scx_pandemonium")],
        others: &[
            "--command=cargo xtask bench",
            "--html=docs/bench/report.html",
            "--caches=docs/bench/caches",
            "--picture=docs/bench/frames.svg",
            "--score=README.md",
        ],
    },
    // The other kernel: `cargo xtask kernel` builds it and says where it is.
    Pages {
        results: "docs/bench/results-6.12",
        labels: &[("pandemonium", "scx_pandemonium")],
        others: &[
            "--command=cargo xtask bench --kernel vmlinuz-6.12-hz1000",
            "--html=docs/bench/report-6.12.html",
        ],
    },
    Pages {
        results: "docs/bench/layers",
        labels: LAYERS,
        others: &[
            "--command=cargo xtask bench --layers",
            "--subject=pandemonium",
            "--label=pandemonium=the defaults",
            "--html=docs/bench/layers.html",
            "--score=docs/DESIGN.md",
        ],
    },
];
