//! Says what a start waits for, if it takes long: under a heavy load that may be
//! many seconds, and looks as if the program hung.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use log::{info, warn};

/// How long a start may take without a word.
const LIMIT: Duration = Duration::from_secs(2);

/// What a start does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The verifier looks at the BPF half.
    Load,
    /// The kernel hands over every task.
    Attach,
}

const STEPS: [&str; 2] = [
    "loading and verifying the programs",
    "attaching: the kernel hands over every task",
];

/// A start that is under way until this is dropped.
pub struct Patience {
    step: Arc<AtomicUsize>,
    _ends: mpsc::Sender<()>,
}

impl Patience {
    /// Begin to watch a start.
    pub fn begin() -> Patience {
        Patience::with_limit(LIMIT, |what| {
            let seconds = LIMIT.as_secs();
            info!("not scheduling yet after {seconds} s: {what}");
        })
    }

    fn with_limit(limit: Duration, tell: impl FnOnce(&str) + Send + 'static) -> Patience {
        let step = Arc::new(AtomicUsize::new(Step::Load as usize));
        let (ends, ended) = mpsc::channel();
        let seen = step.clone();
        let watch = move || {
            if ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                tell(STEPS[seen.load(Ordering::Relaxed)]);
            }
        };
        if let Err(err) = thread::Builder::new().spawn(watch) {
            warn!("a long start will not be explained: {err}");
        }
        Patience { step, _ends: ends }
    }

    /// It is at `step` from now on.
    pub fn at(&self, step: Step) {
        self.step.store(step as usize, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a start that is at `step`, and ends if it `is_short`.
    fn told(step: Step, is_short: bool) -> Option<String> {
        let (told, tells) = mpsc::channel();
        let limit = Duration::from_millis(if is_short { 60_000 } else { 1 });
        let (begun, begins) = mpsc::channel::<()>();
        let patience = Patience::with_limit(limit, move |what| {
            // Not before the step is known.
            let _ = begins.recv();
            let _ = told.send(what.to_owned());
        });
        patience.at(step);
        drop(begun);
        if is_short {
            drop(patience);
        }
        tells.recv().ok()
    }

    #[test]
    fn only_a_long_start_is_told_of() {
        assert!(told(Step::Load, false).unwrap().contains("verifying"));
        assert_eq!(told(Step::Attach, true), None);
    }
}
