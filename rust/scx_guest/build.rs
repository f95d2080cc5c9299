//! Compiles the programs of ours that guests have, and the plugin of QEMU.
//!
//! The programs are C without a C library, so that a compiler is all that is needed: the
//! static C library is a package of its own on many distributions. Two more are for the
//! tests: one that a guest runs, and one that tests the plugin's model.

use std::env;
use std::error::Error;
use std::path::PathBuf;

/// In a guest `guest-NAME`.
const PROGRAMS: &[&str] = &["clock", "count", "hog", "pause"];

/// What the plugin is made of, and the test of its model.
const PLUGIN_SOURCES: &[&str] = &[
    "plugin/caches.c",
    "plugin/cache_model.h",
    "plugin/qemu_plugin.h",
    "plugin/cache_model_test.c",
];

fn main() -> Result<(), Box<dyn Error>> {
    if env::var("CARGO_CFG_TARGET_ARCH")? != "x86_64" {
        return Err("scx_guest runs x86-64 guests and is built for x86-64 hosts only".into());
    }
    for name in PROGRAMS {
        compile_program(&format!("guest/{name}.c"), &format!("guest-{name}"))?;
    }
    compile_program("tests/walk.c", "test-walk")?;
    for source in PLUGIN_SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let shared = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wextra"];
    compile("plugin/caches.c", "caches.so", &shared)?;
    compile(
        "plugin/cache_model_test.c",
        "test-cache-model",
        &["-Wextra"],
    )
}

/// Compile `source` to a program of a guest.
fn compile_program(source: &str, name: &str) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={source}");
    let words = [
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-pic",
        "-no-pie",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
        "-Wl,--build-id=none",
    ];
    compile(source, name, &words)
}

/// Compile `source` with some more `words` to `name`.
fn compile(source: &str, name: &str, words: &[&str]) -> Result<(), Box<dyn Error>> {
    let output = PathBuf::from(env::var("OUT_DIR")?).join(name);
    let status = cc::Build::new()
        .opt_level(2)
        .get_compiler()
        .to_command()
        .args(words)
        .args(["-Wall", "-Werror", "-s", "-o"])
        .arg(&output)
        .arg(source)
        .status()?;
    if !status.success() {
        return Err(format!("the C compiler could not build {source}: {status}").into());
    }
    Ok(())
}
