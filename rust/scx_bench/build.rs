// SPDX-License-Identifier: GPL-2.0
//! Compiles the short process of fork loads, which the bench carries inside.
//!
//! It is C without a C library, so that a compiler is all that is needed and
//! starting it costs little more than fork and exec.

use std::env;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let source = "child/child.c";
    println!("cargo::rerun-if-changed={source}");

    let output = PathBuf::from(env::var("OUT_DIR")?).join("child");
    let status = cc::Build::new()
        .opt_level(2)
        .get_compiler()
        .to_command()
        .args([
            "-static",
            "-nostdlib",
            "-ffreestanding",
            "-fno-pic",
            "-no-pie",
        ])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables"])
        .args(["-fno-tree-vectorize", "-Wall", "-Werror"])
        .args(["-Wl,--build-id=none", "-s", "-o"])
        .arg(&output)
        .arg(source)
        .status()?;
    if !status.success() {
        return Err(format!("the C compiler could not build {source}: {status}").into());
    }
    Ok(())
}
