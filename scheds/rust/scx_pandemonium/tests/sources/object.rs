//! What kernels ask of the BPF object.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use libbpf_rs::btf::types::{Func, FuncProto};
use libbpf_rs::btf::{Btf, ReferencesType};

/// Parameters that registers pass. To Linux 7.3 a function of more takes the others from
/// its stack, also where clang has dropped one that is always the same or not used.
const PARAMETERS_MAX: usize = 5;

#[test]
fn no_function_has_more_parameters_than_registers_pass() -> Result<()> {
    let object = Path::new(env!("OUT_DIR")).join("bpf.bpf.o");
    let btf = Btf::from_path(&object).with_context(|| format!("reading {}", object.display()))?;
    let mut nr_functions = 0;
    let mut wrong = Vec::new();
    for function in btf.type_by_kind::<Func<'_>>() {
        nr_functions += 1;
        let prototype = FuncProto::try_from(function.referenced_type());
        let prototype = prototype.ok().context("a function without a prototype")?;
        if prototype.len() > PARAMETERS_MAX {
            wrong.push(
                function
                    .name()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    ensure!(
        nr_functions > 100,
        "only {nr_functions} functions were found"
    );
    ensure!(
        wrong.is_empty(),
        "more than {PARAMETERS_MAX} parameters: {wrong:?}; make it inline"
    );
    Ok(())
}
