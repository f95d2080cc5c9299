//! Builds the BPF half, and the policy headers natively for the unit tests.

use std::env;
use std::path::{Component, Path, PathBuf};

/// Headers of pure arithmetic, compiled into BPF and into the unit tests.
const POLICY: &[&str] = &[
    "boost",
    "classify",
    "clock",
    "compositor",
    "deficit",
    "frequency",
    "gate",
    "claim",
    "hint",
    "hierarchy",
    "hist",
    "preempt",
    "slice",
    "surge",
    "vtime",
    "wait_age",
    "weight",
];

/// How much clang may inline, in its own unit; -O2 takes 225. A call costs more in
/// BPF than elsewhere: every function saves all registers that it may not change.
const INLINE_THRESHOLD: u32 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    // Where it was built is no part of the program: the same sources give the same
    // bytes anywhere.
    let skeleton = relative(&out_dir.join("bpf_skel.rs"), &root.join("src"));
    println!("cargo:rustc-env=BPF_SKEL={}", skeleton.display());
    // Headers of libbpf come from the directory of another package there.
    let built = out_dir.ancestors().nth(2).unwrap_or(&out_dir);
    scx_cargo::BpfBuilder::new()?
        .enable_intf("src/bpf/intf.h", "bpf_intf.rs")
        .enable_skel("src/bpf/main.bpf.c", "bpf")
        .add_cflag("-mllvm")
        .add_cflag(&format!("-inline-threshold={INLINE_THRESHOLD}"))
        .add_cflag("-ffile-compilation-dir=.")
        .add_cflag(&format!("-ffile-prefix-map={}/=", root.display()))
        .add_cflag(&format!("-ffile-prefix-map={}/=", built.display()))
        .compile_link_gen()?;
    build_policy()
}

/// `path` as it is seen from the directory `from`, both absolute.
fn relative(path: &Path, from: &Path) -> PathBuf {
    let common = path.components().zip(from.components());
    let nr_common = common.take_while(|(a, b)| a == b).count();
    let up = from.components().skip(nr_common);
    up.map(|_| Component::ParentDir)
        .chain(path.components().skip(nr_common))
        .collect()
}

/// Compile the policy headers for the host and bind them, so that the tests run
/// the very arithmetic that schedules.
fn build_policy() -> Result<(), Box<dyn std::error::Error>> {
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let wrapper = out_dir.join("policy_wrap.c");
    let includes: String = POLICY
        .iter()
        .map(|name| format!("#include \"src/bpf/policy/{name}.h\"\n"))
        .collect();
    let root = env::var("CARGO_MANIFEST_DIR")?;

    bindgen::Builder::default()
        .header_contents("policy.h", &includes)
        .clang_arg(format!("-I{root}"))
        .allowlist_file(".*/policy/.*")
        .allowlist_file(".*/intf.h")
        .derive_default(true)
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrapper)
        .generate()?
        .write_to_file(out_dir.join("policy.rs"))?;

    let code = std::fs::read_to_string(&wrapper)?
        .lines()
        .filter(|line| !line.starts_with("#include"))
        .fold(includes, |code, line| code + line + "\n");
    std::fs::write(&wrapper, code)?;
    cc::Build::new()
        .file(&wrapper)
        .include(&root)
        .warnings(false)
        .try_compile("policy")?;
    Ok(())
}
