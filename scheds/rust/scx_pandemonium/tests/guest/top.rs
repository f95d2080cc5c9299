// SPDX-License-Identifier: GPL-2.0
//! `scx_pandemonium top` on a terminal: what it shows, what its keys do, another
//! size, a scheduler that ends and comes back, and how it leaves the terminal.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pty_process::Size;
use pty_process::blocking::{Command, open};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ours::OURS;

/// Runs `top` of a program on a terminal of 100x30, then `stty`, and does one step
/// after the other: `wait` some ms, `type` letters, `enter`, `size` to columns and
/// lines, `show` what is on the screen. Steps are separated by `;`.
pub fn on_terminal(words: &[&str]) -> Result<String> {
    let (program, steps) = words.split_first().context("no program")?;
    let steps = steps.join(" ");
    let steps = steps
        .split(';')
        .map(|step| step.split_whitespace().collect());
    let steps: Vec<Vec<&str>> = steps.collect();
    let (terminal, other_end) = open().context("opening a terminal")?;
    terminal.resize(Size::new(30, 100))?;
    let command = format!("{program} top; echo code $?; stty -a; sleep 1000");
    let command = Command::new("/bin/sh").args(["-c", &command]);
    let mut child = command.env("TERM", "xterm").spawn(other_end)?;
    let parser = Arc::new(Mutex::new(vt100::Parser::new(30, 100, 0)));
    let mut screens = Vec::new();
    let result = thread::scope(|scope| {
        let reader = parser.clone();
        let from = &terminal;
        scope.spawn(move || {
            let mut bytes = [0; 4096];
            // The reader ends with the child: the terminal hangs up then.
            while let Ok(nr @ 1..) = (&*from).read(&mut bytes) {
                held(&reader).process(&bytes[..nr]);
            }
        });
        let result = steps.iter().try_for_each(|step| {
            match step[..] {
                ["wait", ms] => thread::sleep(Duration::from_millis(ms.parse()?)),
                ["type", letters] => (&terminal).write_all(letters.as_bytes())?,
                ["enter"] => (&terminal).write_all(b"\r")?,
                ["size", columns, lines] => {
                    let (columns, lines) = (columns.parse()?, lines.parse()?);
                    let mut parser = held(&parser);
                    parser.screen_mut().set_size(lines, columns);
                    terminal.resize(Size::new(lines, columns))?;
                }
                ["show"] => {
                    let parser = held(&parser);
                    let screen = parser.screen();
                    screens.push(json!({
                        "text": screen.contents(),
                        "alternate": screen.alternate_screen(),
                        "hidden": screen.hide_cursor(),
                    }));
                }
                ref other => bail!("no such step: {other:?}"),
            }
            Ok(())
        });
        child.kill().context("ending the shell")?;
        child.wait().context("waiting for the shell")?;
        result
    });
    result?;
    Ok(Value::from(screens).to_string())
}

/// The screen, whatever became of the thread that had it before.
fn held(parser: &Mutex<vt100::Parser>) -> MutexGuard<'_, vt100::Parser> {
    parser.lock().unwrap_or_else(PoisonError::into_inner)
}

const SCRIPT: &str = "\
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
\"$SCHEDULER\" top </dev/null >/tmp/out 2>/tmp/err
fact refused $? $(cat /tmp/err)
begin
for name in hog1 hog2 hog3 hog4; do
	start_hog $name
	hogs=\"$hogs $!\"
done
usleep 500000
(sleep 9; kill -INT $pid; kill $hogs; sleep 4; \"$SCHEDULER\" 2>>$LOG) &
agent on-terminal $SCHEDULER 'wait 3000; type sss; wait 1000; show; type /hog3; enter; wait 500; show; type p2; wait 1500; show; \
	size 40 12; wait 500; show; wait 5000; show; wait 9000; show; size 100 30; wait 500; type q; wait 1500; show' \
	>/tmp/screens
tell screens /tmp/screens
kill -INT $(pidof scx_pandemonium)
wait
";

/// What a screen is to say, in the order of the script, and what it is not to. The
/// shell makes one space of many.
const EXPECTED: &[(&[&str], &[&str])] = &[
    (
        &[
            "pandemonium auto load ",
            "2 CPUs ",
            "lat_critical waits: mean ",
            "CPUs ██",
            "PID COMMAND TIER NOW BY RUN BURST WAKES/S WAIT",
            "hog1 batch batch",
            "hog3 batch batch",
        ],
        &[],
    ),
    (&[" 1 tasks ", "hog3 batch batch"], &["hog1"]),
    (&["pandemonium gaming load heavy"], &["profile: "]),
    // Narrow, and low.
    (&["PID COMMAND NOW \n", "hog3 batch"], &["WAKES/S"]),
    (&["no scx_pandemonium is running", "hog3 batch"], &[]),
    (
        &["pandemonium auto", "CPUs ··", "q quit"],
        &["is running", "hog"],
    ),
    // As the shell had it.
    (&["code 0", "isig icanon iexten echo "], &["PID"]),
];

/// What `show` tells.
#[derive(Deserialize)]
struct Screen {
    text: String,
    alternate: bool,
    hidden: bool,
}

figure!(
    a_live_screen_shows_the_scheduler_and_leaves_the_terminal_as_it_was,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
        let refused: String = told.one("refused")?;
        told.check(
            refused.starts_with("1 ") && refused.contains("needs a terminal"),
            || refused.clone(),
        )?;
        let screens: Vec<Screen> = serde_json::from_str(&told.one::<String>("screens")?)?;
        for screen in &screens {
            println!("{}\n", screen.text);
        }
        told.check_eq("screens", screens.len(), EXPECTED.len())?;
        for (screen, (has, has_not)) in screens.iter().zip(EXPECTED) {
            for part in *has {
                told.check(screen.text.contains(part), || {
                    format!("no {part:?} in\n{}", screen.text)
                })?;
            }
            for part in *has_not {
                told.check(!screen.text.contains(part), || {
                    format!("{part:?} in\n{}", screen.text)
                })?;
            }
        }
        let (last, live) = screens.split_last().context("no screens")?;
        told.check(
            live.iter().all(|screen| screen.alternate && screen.hidden),
            || "the screen before is drawn over, or the cursor is shown".to_owned(),
        )?;
        told.check(!last.alternate && !last.hidden, || {
            "the screen before is not back, or the cursor".to_owned()
        })
    }
);
