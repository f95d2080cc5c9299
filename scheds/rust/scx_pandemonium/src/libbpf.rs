//! The options that are handed to libbpf, and whether they can be.
//!
//! `scx_utils` defines them, and drops all of them without a word if the file of one
//! cannot be read. So files are looked at here: on the command line, and each time
//! before the BPF half is opened.
//!
//! Not here: what libbpf does with them.

use std::fs;

use anyhow::{Result, anyhow, ensure};
use clap::Arg;
use libbpf_rs::libbpf_sys::bpf_object_open_opts;
use scx_utils::libbpf_clap_opts::LibbpfOpts;

/// The help of `--kconfig`; that of `scx_utils` does not say that it is a file.
const KCONFIG_HELP: &str = "Read CONFIG_xxx=value lines from FILE, which augment and override the \
                            kernel's configuration for CONFIG_xxx externs";

/// `arg`, if it is one of libbpf, with what kind of value it takes.
pub fn describe(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "kconfig" => arg
            .value_name("FILE")
            .help(KCONFIG_HELP)
            .long_help(KCONFIG_HELP)
            .value_parser(parse_text_file),
        "btf_custom_path" => arg.value_name("FILE").value_parser(parse_file),
        "pin_root_path" | "bpf_token_path" => arg.value_name("DIR"),
        _ => arg,
    }
}

/// What to open the BPF object with; `None` if no option was given.
///
/// # Errors
///
/// If a file that an option names can no longer be read.
pub fn open_opts(opts: &LibbpfOpts) -> Result<Option<bpf_object_open_opts>> {
    if let Some(path) = &opts.kconfig {
        parse_text_file(path).map_err(|why| anyhow!("--kconfig {path}: {why}"))?;
    }
    if let Some(path) = &opts.btf_custom_path {
        parse_file(path).map_err(|why| anyhow!("--btf-custom-path {path}: {why}"))?;
    }
    let is_any_given = opts.relaxed_maps.is_some()
        || opts.pin_root_path.is_some()
        || opts.kconfig.is_some()
        || opts.btf_custom_path.is_some()
        || opts.bpf_token_path.is_some();
    let made = opts.clone().into_bpf_open_opts();
    ensure!(
        made.is_some() == is_any_given,
        "the options for libbpf cannot be used"
    );
    Ok(made)
}

/// The path of a regular file that can be read.
fn parse_file(path: &str) -> Result<String, String> {
    let file = fs::metadata(path).map_err(|err| err.to_string())?;
    if !file.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    fs::File::open(path).map_err(|err| err.to_string())?;
    Ok(path.to_owned())
}

/// The path of a regular file of text that can be handed over as a C string.
fn parse_text_file(path: &str) -> Result<String, String> {
    let path = parse_file(path)?;
    let text = fs::read_to_string(&path).map_err(|err| err.to_string())?;
    if text.contains('\0') {
        return Err("it is not text: it contains a NUL byte".to_owned());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use tempfile::TempDir;

    use super::*;
    use crate::cli::Opts;

    /// A directory with a file that holds `bytes`, and the path of that file.
    fn file(bytes: &[u8]) -> (TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (dir, path)
    }

    fn parse(words: &[&str]) -> Result<Opts, clap::Error> {
        Opts::try_parse_from([&["scx_pandemonium"], words].concat())
    }

    #[test]
    fn a_file_of_libbpf_that_cannot_be_read_is_a_wrong_command_line() {
        let (dir, nul) = file(b"CONFIG_HZ=250\n\0");
        let (_binary_dir, binary) = file(b"\xff\xfe");
        let missing = dir.path().join("missing");
        let dir = dir.path().to_str().unwrap();
        for (flag, path) in [
            ("--kconfig", missing.to_str().unwrap()),
            ("--kconfig", dir),
            ("--kconfig", &nul),
            ("--kconfig", &binary),
            ("--kconfig", ""),
            ("--btf-custom-path", missing.to_str().unwrap()),
            ("--btf-custom-path", dir),
        ] {
            let err = parse(&[flag, path, "--relaxed-maps", "true"]).unwrap_err();
            assert_eq!(err.exit_code(), 2);
            let text = err.to_string();
            assert!(text.contains(path) && text.contains(flag), "{text}");
        }
    }

    #[test]
    fn options_of_libbpf_are_all_handed_over_or_named() {
        let (dir, path) = file(b"CONFIG_HZ=250\n");
        let given = [
            &["--kconfig", path.as_str()][..],
            &["--btf-custom-path", path.as_str()],
            &["--relaxed-maps", "false"],
            &["--pin-root-path", "/sys/fs/bpf"],
            &["--bpf-token-path", ""],
        ];
        for words in given {
            let opts = parse(words).unwrap();
            assert!(open_opts(&opts.libbpf).unwrap().is_some(), "{words:?}");
        }
        assert!(open_opts(&parse(&[]).unwrap().libbpf).unwrap().is_none());
        // The file goes away before the kernel asks for a restart.
        let before = [
            parse(&[given[0], given[2]].concat()).unwrap(),
            parse(given[1]).unwrap(),
        ];
        drop(dir);
        for opts in before {
            let why = open_opts(&opts.libbpf).unwrap_err().to_string();
            assert!(why.contains(&path), "{why}");
        }
    }

    #[test]
    fn the_help_says_which_options_take_a_file() {
        let command = Opts::command();
        let value_name = |id: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id);
            arg.unwrap().get_value_names().unwrap()[0].to_string()
        };
        assert_eq!(value_name("kconfig"), "FILE");
        assert_eq!(value_name("btf_custom_path"), "FILE");
        assert_eq!(value_name("pin_root_path"), "DIR");
    }
}
