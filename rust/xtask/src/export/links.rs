// SPDX-License-Identifier: GPL-2.0
//! Links of pages that are exported: to what is exported as well, or else to our
//! repository.

use std::path::{Component, Path, PathBuf};

use super::{PACKAGE, PAGES, SCHEDS, STAYS};

/// How a link begins in Markdown, after its text.
const OPENING: &str = "](";

/// The text of `page`, a path from the top level here and from the crate there, with its
/// links as they are there. `url` is that of our repository.
pub fn renew(text: &str, page: &Path, url: &str) -> String {
    let mut parts = text.split(OPENING);
    let mut renewed = parts.next().unwrap_or_default().to_string();
    for part in parts {
        renewed += OPENING;
        match part.split_once(')') {
            Some((link, rest)) => renewed += &format!("{}){rest}", renew_link(link, page, url)),
            None => renewed += part,
        }
    }
    renewed
}

fn renew_link(link: &str, page: &Path, url: &str) -> String {
    let (path, anchor) = link.split_at(link.find('#').unwrap_or(link.len()));
    if path.is_empty() || path.contains("://") {
        return link.to_string();
    }
    let dir = page.parent().unwrap_or(Path::new(""));
    let here = normal(&dir.join(path));
    let in_crate = here.strip_prefix(Path::new(SCHEDS).join(PACKAGE)).ok();
    let in_crate = in_crate.filter(|path| !STAYS.iter().any(|stays| path.starts_with(stays)));
    let is_page = PAGES.iter().any(|page| here == Path::new(page));
    let there = in_crate.or(is_page.then_some(here.as_path()));
    let Some(there) = there else {
        return format!("{url}/blob/main/{}{anchor}", here.display());
    };
    // Pages are at the top of the crate, or in one directory.
    let there = match there.strip_prefix(dir) {
        Ok(below) => below.to_path_buf(),
        Err(_) => Path::new("..").join(there),
    };
    format!("{}{anchor}", there.display())
}

/// `path` without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_what_is_there_or_to_our_repository() {
        let url = "https://example.org/x";
        let renewed = |link: &str, page: &str| {
            let text = renew(&format!("See [a]({link}), b."), Path::new(page), url);
            let link = text.strip_prefix("See [a](").expect("it begins so");
            link.strip_suffix("), b.").expect("it ends so").to_string()
        };
        let design = "docs/DESIGN.md";
        for (page, link, expected) in [
            (
                "ARCHITECTURE.md",
                "docs/DESIGN.md#words",
                "docs/DESIGN.md#words",
            ),
            (
                "ARCHITECTURE.md",
                "CONTRIBUTING.md",
                "https://example.org/x/blob/main/CONTRIBUTING.md",
            ),
            (
                "ARCHITECTURE.md",
                "scheds/rust/scx_pandemonium/tests/sources",
                "tests/sources",
            ),
            (
                design,
                "../scheds/rust/scx_pandemonium/scx_loader.toml",
                "../scx_loader.toml",
            ),
            (design, "REFERENCE.md", "REFERENCE.md"),
            (
                design,
                "../ARCHITECTURE.md#rooms",
                "../ARCHITECTURE.md#rooms",
            ),
            (
                design,
                "bench/report.html",
                "https://example.org/x/blob/main/docs/bench/report.html",
            ),
            (design, "#words", "#words"),
            (design, "https://kernel.org/a", "https://kernel.org/a"),
        ] {
            assert_eq!(renewed(link, page), expected, "{link} of {page}");
        }
        assert_eq!(renew("no [link](", Path::new(design), url), "no [link](");
    }
}
