// SPDX-License-Identifier: GPL-2.0
//! The plugin's model of caches, natively, against known answers.

use std::process::Command;

#[test]
fn the_model_gives_the_known_answers() {
    let program = concat!(env!("OUT_DIR"), "/test-cache-model");
    let output = Command::new(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "plugin/cache_model_test.c:\n{text}"
    );
}
