//! Why the scheduler ended, as the BPF half was told by the kernel.
//!
//! Not by `scx_utils::UserExitInfo`, which panics if standard error is full, or if
//! the name of a task in the dump is no UTF-8.

use std::ffi::c_char;

use anyhow::{Result, bail};
use scx_utils::{SCX_ECODE_ACT_RESTART, ScxExitKind};

use crate::bpf_skel::types::user_exit_info;
use crate::output::tell;

/// What stands above and below a dump.
const RULER_LEN: usize = 80;

/// Why the scheduler ended.
#[derive(Debug, Default)]
pub struct Ending {
    /// Of `enum scx_exit_kind`; 0 if it was not ended by the kernel.
    kind: i32,
    code: i64,
    /// `None` if the kernel does not say.
    cpu: Option<i32>,
    reason: String,
    message: String,
    dump: String,
}

impl Ending {
    /// What the BPF half wrote, and the bytes of its dump.
    pub fn new(info: &user_exit_info, dump: &[u8]) -> Ending {
        Ending {
            kind: info.kind,
            code: info.exit_code,
            cpu: (info.exit_cpu >= 0).then_some(info.exit_cpu),
            reason: text_of_chars(&info.reason),
            message: text_of_chars(&info.msg),
            dump: text_of(dump.iter().copied()),
        }
    }

    /// Print the dump, if there is one, and that the kernel ended the scheduler.
    ///
    /// # Errors
    ///
    /// If it was ended for an error or a stall: why.
    pub fn report(&self) -> Result<()> {
        if self.kind == 0 {
            return Ok(());
        }
        if !self.dump.is_empty() {
            let ruler = "=".repeat(RULER_LEN);
            tell(format_args!(
                "\nDEBUG DUMP\n{ruler}\n\n{}\n{ruler}\n",
                self.dump
            ));
        }
        let line = self.line();
        if self.kind > ScxExitKind::UnregKern as i32 {
            bail!(line);
        }
        tell(line);
        Ok(())
    }

    fn line(&self) -> String {
        let mut line = format!("EXIT: {}", self.reason);
        if !self.message.is_empty() {
            line += &format!(" ({})", self.message);
        }
        if let Some(cpu) = self.cpu {
            line += &format!(" on CPU {cpu}");
        }
        line
    }

    /// Whether it is to be started again at once, as after a CPU came or went.
    pub fn should_restart(&self) -> bool {
        let unregistered = [ScxExitKind::UnregBPF as i32, ScxExitKind::UnregKern as i32];
        unregistered.contains(&self.kind) && self.code & *SCX_ECODE_ACT_RESTART as i64 != 0
    }
}

fn text_of_chars(chars: &[c_char]) -> String {
    text_of(chars.iter().map(|c| c.to_ne_bytes()[0]))
}

/// The text before the first 0. What is no UTF-8, as the name of a task may be, is
/// replaced.
fn text_of(bytes: impl Iterator<Item = u8>) -> String {
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: ScxExitKind, reason: &[u8]) -> user_exit_info {
        let mut info = user_exit_info {
            kind: kind as i32,
            exit_cpu: -1,
            ..user_exit_info::default()
        };
        for (to, from) in info.reason.iter_mut().zip(reason) {
            *to = c_char::from_ne_bytes([*from]);
        }
        info
    }

    #[test]
    fn an_error_says_why_whatever_tasks_are_called() {
        let mut stall = info(ScxExitKind::ErrorStall, b"runnable task stall");
        stall.exit_cpu = 3;
        let ending = Ending::new(&stall, b"x\xff[1]\0garbage");
        let why = ending.report().unwrap_err().to_string();
        assert_eq!(why, "EXIT: runnable task stall on CPU 3");
        assert_eq!(ending.dump, "x\u{fffd}[1]");
        // A name that fills its field has no end.
        let long = Ending::new(&info(ScxExitKind::Error, &[b'\xfe'; 999]), &[b'a'; 9]);
        assert!(long.report().is_err());
    }

    #[test]
    fn what_was_asked_for_is_no_error_and_only_a_restart_is_one() {
        let mut unregistered = info(ScxExitKind::UnregKern, b"unregistered from kernel");
        assert!(Ending::new(&unregistered, &[]).report().is_ok());
        assert!(!Ending::new(&unregistered, &[]).should_restart());
        unregistered.exit_code = *SCX_ECODE_ACT_RESTART as i64 | 1;
        let restarts = *SCX_ECODE_ACT_RESTART != 0;
        assert_eq!(Ending::new(&unregistered, &[]).should_restart(), restarts);
        assert!(Ending::default().report().is_ok());
    }
}
