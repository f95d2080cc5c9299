// SPDX-License-Identifier: GPL-2.0
//! Orders to a QEMU, in its protocol (QMP), on its standard input and output.
//!
//! *Where is the machine that the guest stopped?* While it runs QEMU gets no order: one
//! would wake its main thread, see `steady`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Error, Result};

/// How long QEMU may take for anything but the guest's own work.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A QEMU that waits for orders.
pub(crate) struct Monitor {
    orders: ChildStdin,
    messages: Receiver<Value>,
}

impl Monitor {
    /// That of `child`, whose standard input and output are pipes.
    pub(crate) fn of(child: &mut Child) -> Result<Monitor> {
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Qemu("takes no orders".to_owned()));
        };
        let (sender, messages) = channel();
        // It ends with QEMU.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                if let Ok(message) = serde_json::from_str(&line)
                    && sender.send(message).is_err()
                {
                    break;
                }
            }
        });
        let mut monitor = Monitor { orders, messages };
        monitor.wait(|message| message.get("QMP").is_some())?;
        monitor.order("qmp_capabilities", json!({}))?;
        let events = json!({"capabilities": [{"capability": "events", "state": true}]});
        monitor.order("migrate-set-capabilities", events)?;
        Ok(monitor)
    }

    /// Let the machine run.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.order("cont", json!({}))
    }

    /// Whether the guest has stopped the machine; asks nothing.
    pub(crate) fn is_stopped(&mut self) -> Result<bool> {
        loop {
            match self.messages.try_recv() {
                Ok(message) if is_event(&message, "GUEST_PANICKED") => return Ok(true),
                Ok(_) => continue,
                // Gone: what became of it, its exit tells.
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Write the state of the stopped machine to the file at `path`.
    pub(crate) fn keep(&mut self, path: &str) -> Result<()> {
        self.order("migrate", json!({"uri": format!("file:{path}")}))?;
        let status = self.wait(|message| {
            is_event(message, "MIGRATION")
                && ["completed", "failed"].contains(&status_of(message).as_str())
        })?;
        match status_of(&status).as_str() {
            "completed" => Ok(()),
            _ => Err(Error::Qemu(format!(
                "the state of the machine cannot be kept: {status}"
            ))),
        }
    }

    fn order(&mut self, name: &str, arguments: Value) -> Result<()> {
        let line = json!({"execute": name, "arguments": arguments});
        writeln!(self.orders, "{line}").map_err(|e| Error::io("giving QEMU an order", e))?;
        let answer =
            self.wait(|message| message.get("return").is_some() || message.get("error").is_some())?;
        match answer.get("error") {
            Some(error) => Err(Error::Qemu(format!("{name}: {error}"))),
            None => Ok(()),
        }
    }

    /// The next message that `is_it`.
    fn wait(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let limit = Instant::now() + ANSWER_LIMIT;
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) if is_it(&message) => return Ok(message),
                Ok(_) => continue,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Error::Qemu("gives no answer".to_owned()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Qemu("ended without an answer".to_owned()));
                }
            }
        }
    }
}

fn is_event(message: &Value, name: &str) -> bool {
    message.get("event").and_then(Value::as_str) == Some(name)
}

fn status_of(message: &Value) -> String {
    let status = message.pointer("/data/status").and_then(Value::as_str);
    status.unwrap_or_default().to_owned()
}
