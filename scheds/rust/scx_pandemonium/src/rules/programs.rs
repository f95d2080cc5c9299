//! Wakes the run loop when programs have started.
//!
//! A thread sleeps until the BPF half has something to tell, and then for a
//! moment longer: a build starts many programs, and they are looked at together.
//! While none starts it does not wake.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, bounded};
use log::debug;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// From one wakeup of the run loop to the next, at least.
const PAUSE: Duration = Duration::from_millis(20);

/// Tells when programs have started, until it is dropped.
pub struct Programs {
    /// Gets a message when there is something to look at.
    pub news: Receiver<()>,
    /// Closed with this, which ends the thread.
    _end: Option<OwnedFd>,
}

impl Programs {
    /// Watch `fd`, which can be read from while there is something to tell.
    /// Without one there never is.
    ///
    /// # Errors
    ///
    /// If there are too many open files or threads.
    pub fn watch(fd: Option<OwnedFd>) -> Result<Programs> {
        let (sender, news) = bounded(1);
        let Some(fd) = fd else {
            return Ok(Programs {
                news: crossbeam::channel::never(),
                _end: None,
            });
        };
        let (other_end, end) = std::io::pipe().context("making a pipe")?;
        thread::Builder::new()
            .name("programs".to_owned())
            .spawn(move || wait(&fd, &other_end.into(), &sender))
            .context("starting the thread that watches for programs")?;
        Ok(Programs {
            news,
            _end: Some(end.into()),
        })
    }
}

/// Tell `sender` whenever `fd` has something, until the other end of `end` is
/// closed.
fn wait(fd: &OwnedFd, end: &OwnedFd, sender: &Sender<()>) {
    loop {
        let mut fds = [
            PollFd::new(end.as_fd(), PollFlags::empty()),
            PollFd::new(fd.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(err) => {
                debug!("no new programs are seen from now on: {err}");
                return;
            }
        }
        if fds[0].any() == Some(true) {
            return;
        }
        // A full channel means that the loop has not looked yet.
        let _ = sender.try_send(());
        thread::sleep(PAUSE);
    }
}
