// SPDX-License-Identifier: GPL-2.0
//! A project that a real make builds with a real compiler.
//!
//! `project DIR OBJECTS`: one C source, without a header or a library of the
//! system, and a Makefile that compiles it as so many objects. A compiler runs for
//! a few million instructions, so that builds of a second start many of them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Functions of an object: some 10 million instructions for tcc.
const NR_FUNCTIONS: usize = 100;

const HEADER: &str = "\
struct item {
	long key;
	long value;
};

static long mix(long a, long b)
{
	a ^= b + (a << 6) + (a >> 2);
	return a * 31;
}
";

/// What the words after `project` ask for.
pub fn project(words: &[&str]) -> Result<String> {
    let [dir, nr_objects] = words else {
        bail!("project DIR OBJECTS");
    };
    let (dir, nr_objects) = (Path::new(dir), nr_objects.parse().context("objects")?);
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    for (name, text) in [("unit.c", unit()), ("Makefile", makefile(nr_objects))] {
        fs::write(dir.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    Ok(dir.display().to_string())
}

/// Tables, loops and branches. Objects are told apart by UNIT.
fn unit() -> String {
    let mut text = HEADER.to_owned();
    for nth in 0..NR_FUNCTIONS {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
static const struct item table_{nth}[] = {{
	{{ UNIT, {nth} }},
	{{ UNIT + {nth}, UNIT ^ {nth} }},
}};

long unit_{nth}(long x, struct item *item)
{{
	long sum = x + UNIT * 31L + {nth};
	int i;

	for (i = 0; i < 2; i++) {{
		switch ((sum >> i) & 3) {{
		case 0:
			sum += table_{nth}[i].key * (long)sizeof(*item);
			break;
		case 1:
			sum ^= mix(sum, table_{nth}[i].value);
			break;
		default:
			sum = item ? sum - item->value : sum << 1;
		}}
	}}
	return sum;
}}
"
        );
    }
    text
}

fn makefile(nr_objects: usize) -> String {
    let objects: Vec<String> = (0..nr_objects).map(|nth| format!("unit{nth}.o")).collect();
    format!(
        "all: {}\n\nunit%.o: unit.c\n\ttcc -nostdinc -DUNIT=$* -c -o $@ $<\n",
        objects.join(" ")
    )
}
