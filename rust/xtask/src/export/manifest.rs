// SPDX-License-Identifier: GPL-2.0
//! The scheduler's Cargo.toml as the monorepo's workspace takes it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use semver::{Version, VersionReq};
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Tables of dependencies that a build takes.
const DEPENDENCIES: &[&str] = &["dependencies", "build-dependencies", "dev-dependencies"];

/// From the scheduler's directory to the top level.
const TOP_LEVEL: &str = "../../..";

/// A crate that has to be of the version that others there use, to share its types.
const SHARED: &str = "libbpf-rs";

/// A library of the monorepo.
#[derive(Debug)]
pub struct Crate {
    name: String,
    version: Version,
    /// From the top level.
    path: PathBuf,
    /// The version of [`SHARED`] that it takes.
    shared: Option<String>,
}

impl Crate {
    /// The one whose Cargo.toml, at `path`, is `text`; none if that is of no package.
    pub fn parse(text: &str, path: &Path) -> Result<Option<Crate>> {
        let manifest: DocumentMut = text.parse()?;
        let field = |name| manifest.get("package")?.get(name)?.as_str();
        let (Some(name), Some(version)) = (field("name"), field("version")) else {
            return Ok(None);
        };
        let dependency = manifest.get("dependencies").and_then(|all| all.get(SHARED));
        Ok(Some(Crate {
            name: name.to_string(),
            version: version.parse().context("its version")?,
            path: path.to_path_buf(),
            shared: dependency.and_then(version_of).map(str::to_string),
        }))
    }
}

/// The version that a dependency asks for.
fn version_of(dependency: &Item) -> Option<&str> {
    let item = dependency.as_str();
    item.or_else(|| dependency.get("version")?.as_str())
}

/// Say in `manifest` what it has from our workspace's Cargo.toml, `ours`.
pub fn inherit(manifest: &mut DocumentMut, ours: &DocumentMut) -> Result<()> {
    let workspace = ours.get("workspace");
    let ours = |name| {
        let table = workspace.and_then(|workspace| workspace.get(name));
        table.with_context(|| format!("Cargo.toml has no workspace.{name}"))
    };
    let package = manifest.get_mut("package").and_then(Item::as_table_mut);
    for (key, item) in package.context("it is of no package")?.iter_mut() {
        if is_inherited(item) {
            let value = ours("package")?.get(key.get());
            let value = value.with_context(|| format!("Cargo.toml has no {}", key.get()))?;
            *item = value.clone();
        }
    }
    let lints = manifest.get_mut("lints");
    if let Some(lints) = lints.filter(|lints| is_inherited(lints)) {
        let mut tables = Table::new();
        // Only those of the tables in it have headings.
        tables.set_implicit(true);
        for (tool, rules) in ours("lints")?.as_table().into_iter().flatten() {
            let mut table = Table::new();
            for (rule, level) in rules.as_table().into_iter().flatten() {
                table.insert(rule, level.clone());
            }
            tables.insert(tool, Item::Table(table));
        }
        *lints = Item::Table(tables);
    }
    Ok(())
}

/// Let the package be called `name`.
pub fn rename(manifest: &mut DocumentMut, name: &str) -> Result<()> {
    let package = manifest.get_mut("package").and_then(Item::as_table_mut);
    let package = package.context("it is of no package")?;
    package.insert("name", toml_edit::value(name));
    Ok(())
}

/// Where `manifest` says that the sources are.
pub fn repository(manifest: &DocumentMut) -> Result<String> {
    let url = manifest
        .get("package")
        .and_then(|package| package.get("repository"));
    let url = url.and_then(Item::as_str).context("it has no repository")?;
    Ok(url.to_string())
}

fn is_inherited(item: &Item) -> bool {
    let flag = item.get("workspace").and_then(Item::as_bool);
    flag == Some(true)
}

/// Let the dependencies among `crates` be those, and [`SHARED`] be theirs.
pub fn use_paths(manifest: &mut DocumentMut, crates: &[Crate]) -> Result<()> {
    for kind in DEPENDENCIES {
        let table = manifest.get_mut(kind).and_then(Item::as_table_like_mut);
        for (key, item) in table.into_iter().flat_map(TableLike::iter_mut) {
            let wanted = version_of(item).unwrap_or("*").to_string();
            if key.get() == SHARED {
                let theirs = crates.iter().find_map(|one| one.shared.as_deref());
                set(item, "version", theirs.unwrap_or(&wanted));
            }
            let Some(one) = crates.iter().find(|one| one.name == key.get()) else {
                continue;
            };
            ensure!(
                VersionReq::parse(&wanted)?.matches(&one.version),
                "the checkout's {} is {}, and {wanted} is needed: update it first",
                one.name,
                one.version
            );
            let path = Path::new(TOP_LEVEL).join(&one.path);
            set(item, "path", &path.to_string_lossy());
        }
    }
    Ok(())
}

/// Set a field of a dependency, which may be a version and nothing else.
fn set(dependency: &mut Item, field: &str, value: &str) {
    if let Some(version) = dependency.as_str() {
        if field == "version" {
            *dependency = toml_edit::value(value);
            return;
        }
        let mut table = InlineTable::new();
        table.insert("version", Value::from(version));
        *dependency = toml_edit::value(table);
    }
    if let Some(table) = dependency.as_table_like_mut() {
        table.insert(field, toml_edit::value(value));
    }
    if let Some(table) = dependency.as_inline_table_mut() {
        table.fmt();
    }
}

/// Drop what only tests need and none of `sources` names; return what.
pub fn drop_unused(manifest: &mut DocumentMut, sources: &str) -> Result<Vec<String>> {
    let table = manifest.get_mut("dev-dependencies");
    let table = table.and_then(Item::as_table_mut);
    let table = table.context("it has no dev-dependencies")?;
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_string()).collect();
    let is_used = |name: &String| {
        let path = format!("{}::", name.replace('-', "_"));
        let mut places = sources.match_indices(&path);
        places.any(|(at, _)| {
            let before = sources.get(..at).unwrap_or_default();
            !before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c))
        })
    };
    let dropped: Vec<String> = names.into_iter().filter(|name| !is_used(name)).collect();
    for name in &dropped {
        table.remove(name);
    }
    Ok(dropped)
}
