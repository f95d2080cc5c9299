//! Compiles the programs of ours that every guest has.
//!
//! They are C without a C library, so that a compiler is all that is needed: the
//! static C library is a package of its own on many distributions.

use std::env;
use std::error::Error;
use std::path::PathBuf;

const PROGRAMS: &[&str] = &["clock", "hog", "pause"];

fn main() -> Result<(), Box<dyn Error>> {
    if env::var("CARGO_CFG_TARGET_ARCH")? != "x86_64" {
        return Err("scx_guest runs x86-64 guests and is built for x86-64 hosts only".into());
    }
    for name in PROGRAMS {
        compile(name)?;
    }
    Ok(())
}

/// Compile `guest/NAME.c` to `guest-NAME`.
fn compile(name: &str) -> Result<(), Box<dyn Error>> {
    let source = format!("guest/{name}.c");
    println!("cargo::rerun-if-changed={source}");
    let output = PathBuf::from(env::var("OUT_DIR")?).join(format!("guest-{name}"));
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
        .args([
            "-fno-stack-protector",
            "-fno-asynchronous-unwind-tables",
            "-Wall",
            "-Werror",
        ])
        .args(["-Wl,--build-id=none", "-s", "-o"])
        .arg(&output)
        .arg(&source)
        .status()?;
    if !status.success() {
        return Err(format!("the C compiler could not build {source}: {status}").into());
    }
    Ok(())
}
