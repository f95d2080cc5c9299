// SPDX-License-Identifier: GPL-2.0
//! A counting semaphore on a bare futex: one system call to wake, one to wait,
//! nothing else between two threads and the scheduler.

use std::sync::atomic::{AtomicU32, Ordering};

/// Tokens that one thread posts and another takes.
#[derive(Debug, Default)]
pub struct Token {
    count: AtomicU32,
}

impl Token {
    /// None posted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a token and wake one waiter.
    pub fn post(&self) {
        self.count.fetch_add(1, Ordering::Release);
        // SAFETY: the futex word lives as long as `self`; waking touches
        // nothing else.
        unsafe {
            libc::syscall(libc::SYS_futex, self.count.as_ptr(), PRIVATE_WAKE, 1);
        }
    }

    /// Take a token, sleeping until there is one.
    pub fn wait(&self) {
        loop {
            let count = self.count.load(Ordering::Acquire);
            if count == 0 {
                // SAFETY: the futex word lives as long as `self`; without a
                // timeout the kernel only compares it with 0.
                unsafe {
                    let forever = std::ptr::null::<libc::timespec>();
                    libc::syscall(
                        libc::SYS_futex,
                        self.count.as_ptr(),
                        PRIVATE_WAIT,
                        0,
                        forever,
                    );
                }
                continue;
            }
            let taken =
                self.count
                    .compare_exchange(count, count - 1, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }
}

const PRIVATE_WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
const PRIVATE_WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_post_is_taken_once() {
        let token = Arc::new(Token::new());
        let taker = {
            let token = Arc::clone(&token);
            std::thread::spawn(move || (0..10_000).for_each(|_| token.wait()))
        };
        (0..10_000).for_each(|_| token.post());
        taker.join().unwrap();
        assert_eq!(token.count.load(Ordering::Relaxed), 0);
    }
}
