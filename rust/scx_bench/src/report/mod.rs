// SPDX-License-Identifier: GPL-2.0
//! What people read who did not measure: `report.html`, a picture, a table.
//!
//! The page is a single file without scripts, fonts or pictures from elsewhere,
//! so it can be mailed, committed and read in ten years. `model` is what it shows,
//! also put into it as JSON; `page` is its text, `tables` and `chart` are what
//! stands in it, `style.css` is how it looks. `picture`, `front` and `score` are
//! for a front page.
//!
//! Not here: what is computed (`compare`), tables on the terminal (`text`).

mod caches;
mod chart;
mod front;
mod model;
mod page;
mod picture;
mod score;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::caches::{found, kept};
use crate::dataset::Dataset;
use crate::prometheus;
use crate::repeat;
use crate::table;
use crate::text;
use model::Model;

/// Name of the page in its directory.
pub const FILE_NAME: &str = "report.html";

/// Join results and show them.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportArgs {
    /// Files that `--out` of `scx_bench guest` or `host`, or `scx_bench run --json` wrote, and
    /// directories of `--results`.
    #[arg(required = true, value_name = "RESULTS")]
    pub files: Vec<PathBuf>,
    /// Print a small table of one scenario instead of all tables: wakeup latency and CPU share.
    #[arg(long)]
    pub brief: bool,
    /// Write a page with tables and pictures to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the figures to this file, in the text format of Prometheus.
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Draw how long frames take, under the kernel's scheduler and the subject, into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Renew the table of better and worse figures in this Markdown file, between the lines
    /// `<!-- score:begin -->` and `<!-- score:end -->`; and between `<!-- front:begin -->` and
    /// `<!-- front:end -->`, if it has those, that of a few figures.
    #[arg(long, value_name = "FILE")]
    pub score: Option<PathBuf>,
    /// What the results are about: its losses are listed. Without it, what the results say.
    #[arg(long, value_name = "NAME")]
    pub subject: Option<String>,
    /// What to type in place of `scx_bench guest` to measure directories of `--results` again, if it
    /// adds programs by itself that are neither the kernel's nor published.
    #[arg(long, value_name = "TEXT")]
    pub command: Option<String>,
    /// What a scheduler is called where its name would not do. Repeatable.
    #[arg(long, value_name = "NAME=LABEL", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Add a tab to the page: what `scx_bench guest --caches --keep` wrote into this directory.
    #[arg(long, value_name = "DIR", requires = "html")]
    pub caches: Option<PathBuf>,
}

/// Print the tables of all files and write what was asked for. Returns whether
/// everything has a result.
pub fn run(args: &ReportArgs) -> Result<bool> {
    let all = args.files.iter().map(|file| read(file, args));
    let mut dataset = Dataset::merge(all.collect::<Result<_>>()?)?;
    if let Some(subject) = &args.subject {
        dataset.check_scheduler(subject)?;
        dataset.subject = Some(subject.clone());
    }
    for (name, label) in &args.label {
        dataset.check_scheduler(name)?;
        dataset.labels.insert(name.clone(), label.clone());
    }
    table::say(&match args.brief {
        true => text::brief(&dataset),
        false => text::tables(&dataset),
    })?;
    if let Some(path) = &args.html {
        let caches = args.caches.as_deref().map(kept::read).transpose()?;
        write_text(path, &html(&dataset, caches.as_ref())?)?;
    }
    if let Some(path) = &args.prometheus {
        prometheus::write(&dataset, path)?;
    }
    if let Some(path) = &args.picture {
        write_text(path, &picture::svg(&dataset)?)?;
    }
    if let Some(path) = &args.score {
        let page =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let renewing = || format!("renewing {}", path.display());
        let mut page =
            score::renew(&page, "score", &score::markdown(&dataset)?).with_context(renewing)?;
        if page.contains(&score::marks("front").0) {
            page =
                score::renew(&page, "front", &front::markdown(&dataset)?).with_context(renewing)?;
        }
        write_text(path, &page)?;
    }
    Ok(dataset.is_whole())
}

/// The results in `path`. A file says itself by which command it is repeated.
fn read(path: &Path, args: &ReportArgs) -> Result<Dataset> {
    let mut dataset = Dataset::read(path)?;
    if path.is_dir() {
        dataset.command = repeat::commands(&dataset, args.command.as_deref())?;
    }
    Ok(dataset)
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, label) = text.split_once('=').ok_or("it is not NAME=LABEL")?;
    Ok((name.to_string(), label.to_string()))
}

/// Write the page about `dataset` to `path`. It lists the losses of its
/// subject, if that was measured.
pub fn write(dataset: &Dataset, path: &Path) -> Result<()> {
    write_text(path, &html(dataset, None)?)
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    table::say(&format!("written: {}\n", path.display()))
}

fn html(dataset: &Dataset, counts: Option<&found::Dataset>) -> Result<String> {
    let model = Model::of(dataset);
    let data = serde_json::to_string(&model).context("writing JSON")?;
    // In JSON `<` stands in strings only; without it there is no way out of the
    // script element.
    let data = data.replace('<', "\\u003c");
    let label = |name: &str| dataset.label(name);
    let counts = counts.map(|counts| {
        let subject = dataset.subject.as_deref();
        let is_there = |name: &&str| counts.schedulers.iter().any(|(known, _)| known == name);
        caches::section(caches::Page {
            dataset: counts,
            subject: subject.filter(is_there),
            label: &label,
        })
    });
    Ok(page::page(&model, &data, counts).into_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::testing;

    fn example() -> Dataset {
        let mut dataset = testing::dataset(&[
            ("default", &[2.0, 2.2, 2.1]),
            ("mine", &[3.0, 3.1, 3.2]),
            ("<odd>", &[9.0]),
        ]);
        dataset.command = "scx_bench guest --seeds 3".into();
        dataset.subject = Some("mine".into());
        for sample in &mut dataset.samples {
            let seed = sample.seed;
            let figures = vec![
                testing::metric("ratio", 9.0 + seed as f64 / 10.0, "", Better::Near(9.3)),
                testing::metric("gap", 0.0, "ms", Better::Lower),
            ];
            let nice = testing::scenario("nice", seed, figures);
            sample.result.scenarios.push(nice);
        }
        dataset
    }

    #[test]
    fn the_page_stands_alone_and_says_what_it_is_about() {
        let html = html(&example(), None).unwrap();
        for word in [
            "6.18",
            "QEMU 10",
            "scx_bench guest --seeds 3",
            "3 seeds",
            "saturation",
        ] {
            assert!(html.contains(word), "{word}");
        }
        for reference in ["http://", "https://", "src=", "href=\"/", "url(", "@import"] {
            let found = html
                .replace("http://www.w3.org/2000/svg", "")
                .contains(reference);
            assert!(!found, "{reference}");
        }
    }

    #[test]
    fn a_real_machine_is_measured_in_repeats() {
        let mut dataset = example();
        dataset.qemu.clear();
        let html = html(&dataset, None).unwrap();
        assert!(html.contains("median of 3 repeats"));
        assert!(!html.contains("seeds, ") && !html.contains("A seed"));
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let mut dataset = example();
        dataset.schedulers[1].1 = "</script><b>".into();
        let html = html(&dataset, None).unwrap();
        assert!(!html.contains("<odd>"), "a name is markup");
        assert_eq!(html.matches("</script>").count(), 1);
    }

    #[test]
    fn the_data_in_the_page_is_what_it_shows() {
        let html = html(&example(), None).unwrap();
        let (_, data) = html.split_once("type=\"application/json\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let row = &data["machines"][0]["rows"][0];
        assert_eq!(row["metric"], "wake_p99");
        assert_eq!(row["cells"][0]["median"], 2.1);
        assert_eq!(data["machines"][0]["losses"][0]["winner"], 0);
    }

    #[test]
    fn caches_are_a_tab_of_their_own() {
        let counts = found::tests::dataset([(10, 1000, 1); 4]);
        let with = html(&example(), Some(&counts)).unwrap();
        for part in ["id=\"tab-caches\"", "for=\"tab-caches\"", "id=\"caches\""] {
            assert_eq!(with.matches(part).count(), 1, "{part}");
        }
        // Only a scheduler that was measured there can lose there.
        assert!(!with.contains("loses to"));
        let without = html(&example(), None).unwrap();
        assert!(!without.contains("caches"));
    }

    #[test]
    fn tags_are_balanced() {
        let counts = found::tests::dataset([(10, 1000, 1); 4]);
        let html = html(&example(), Some(&counts)).unwrap();
        for tag in [
            "section", "table", "tr", "td", "th", "div", "svg", "g", "p", "ul", "li",
        ] {
            let opened = html.matches(&format!("<{tag}>")).count()
                + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
