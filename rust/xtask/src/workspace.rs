// SPDX-License-Identifier: GPL-2.0
//! Where things are in the checkout, and how they are built.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;
use crate::setup::Tools;

/// The checkout this xtask was started in.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
    packages: Vec<Package>,
}

/// What is read of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

/// A package of the workspace, as its Cargo.toml has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub authors: Vec<String>,
    pub description: Option<String>,
    pub license: Option<String>,
    pub repository: Option<String>,
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// What cargo builds of a package.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    name: String,
    kind: Vec<String>,
}

impl Workspace {
    /// Ask cargo.
    pub fn find(tools: &Tools) -> Result<Workspace> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let output = tools
            .cargo()
            .args(["metadata", "--no-deps", "--format-version=1"])
            .current_dir(manifest_dir)
            .output()
            .context("cannot run cargo")?;
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).trim().to_string())?;
        Ok(Workspace {
            root: metadata.workspace_root,
            target: metadata.target_directory,
            packages: metadata.packages,
        })
    }

    /// The top level.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The package `name`.
    pub fn package(&self, name: &str) -> Result<&Package> {
        let package = self.packages.iter().find(|package| package.name == name);
        package.with_context(|| format!("there is no package {name} here"))
    }

    /// The names of all test programs that are no unit tests.
    pub fn test_targets(&self) -> BTreeSet<&str> {
        let all = self.packages.iter().flat_map(|package| &package.targets);
        all.filter(|target| target.kind.iter().any(|kind| kind == "test"))
            .map(|target| target.name.as_str())
            .collect()
    }

    /// The version of the package `name`.
    pub fn version(&self, name: &str) -> Result<&str> {
        Ok(&self.package(name)?.version)
    }

    /// Where cargo puts what it builds.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The program `name`, once built.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// The guest tests of the scheduler whose names contain `test`, with the kernel of
    /// `image`.
    pub fn guest_test(&self, tools: &Tools, test: &str, image: &Path) -> Command {
        let mut command = tools.cargo();
        command
            .current_dir(&self.root)
            .args(["test", "--release", "--locked", "--package"])
            .args(["scx_pandemonium", "--test", "guest", test, "--"])
            .env("SCX_GUEST_KERNEL", image);
        command
    }

    /// Build the program of `package`, and nothing that it does not need.
    pub fn build(&self, tools: &Tools, package: &str) -> Result<()> {
        let mut command = tools.cargo();
        command.current_dir(&self.root).args([
            "build",
            "--release",
            "--locked",
            "--package",
            package,
        ]);
        process::run(&mut command)
    }

    /// `cargo test` of everything.
    pub fn test_all(&self, tools: &Tools) -> Command {
        let mut command = tools.cargo();
        command
            .current_dir(&self.root)
            .args(["test", "--workspace", "--release", "--locked"]);
        command
    }

    /// Build all programs and tests. Which features of a dependency a program gets goes
    /// by what is built together, and so its bytes and every figure of the bench: what
    /// is measured is what was tested.
    pub fn build_all(&self, tools: &Tools) -> Result<()> {
        process::run(self.test_all(tools).arg("--no-run"))
    }
}
