//! `scx_pandemonium top`: the running scheduler on a live screen.
//!
//! A client of the stats server like any other. This module has the terminal, the
//! keys and the server; it tells the screen what came, and does what that asks for.
//!
//! Not here: what the screen holds and what a key means (`screen`), how it is drawn
//! (`draw`), how busy CPUs are (`cpus`).

mod cpus;
mod draw;
mod screen;

use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::cli::TopOpts;
use crate::client::Client;
use crate::control::profile::Profile;
use crate::server::{PROFILE_TARGET, SET_ARG, TASKS_TARGET, TOP_TARGET};
use crate::top::cpus::Cpus;
use crate::top::screen::{Action, Screen, Shown};

/// How soon a signal is seen.
const SIGNAL_POLL: Duration = Duration::from_millis(200);

/// Show the running scheduler until `q` or a signal.
///
/// # Errors
///
/// If there is no terminal, or no scheduler of ours runs at the start.
pub fn run(opts: &TopOpts) -> Result<()> {
    ensure!(
        stdin().is_terminal() && stdout().is_terminal(),
        "top needs a terminal: `scx_pandemonium tasks` and --monitor print to files and pipes"
    );
    let server = Server::connect()?;
    let ends = Arc::new(AtomicBool::new(false));
    let handler = ends.clone();
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))
        .context("setting a signal handler")?;
    let mut terminal = ratatui::try_init().context("preparing the terminal")?;
    let result = watch(&mut terminal, server, opts, &ends);
    ratatui::restore();
    result
}

fn watch(
    terminal: &mut DefaultTerminal,
    server: Server,
    opts: &TopOpts,
    ends: &AtomicBool,
) -> Result<()> {
    let mut screen = Screen::new(opts.selection.clone());
    let mut server = Some(server);
    let mut cpus = Cpus::default();
    let mut due = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        if Instant::now() >= due {
            due = Instant::now() + opts.interval;
            screen.show(look(&mut server, &mut cpus));
        }
        terminal
            .draw(|frame| draw::draw(&mut screen, frame))
            .context("drawing")?;
        let left = due.saturating_duration_since(Instant::now());
        if !event::poll(left.min(SIGNAL_POLL)).context("waiting for a key")? {
            continue;
        }
        let Event::Key(key) = event::read().context("reading a key")? else {
            // A change of size: it is drawn anew.
            continue;
        };
        match screen.press(key) {
            Action::None => {}
            Action::End => break,
            Action::Change(profile) => {
                let changed = server.as_mut().map(|server| server.change(profile));
                screen.changed(changed.transpose().map(|_| ()));
                due = Instant::now();
            }
        }
    }
    Ok(())
}

/// What is to be shown now, or why there is nothing. A scheduler that has ended is
/// looked for again each time.
fn look(server: &mut Option<Server>, cpus: &mut Cpus) -> Result<Shown> {
    let mut connected = match server.take() {
        Some(server) => server,
        None => Server::connect()?,
    };
    let shown = connected.look(cpus)?;
    *server = Some(connected);
    Ok(shown)
}

/// The server of the running scheduler.
struct Server {
    client: Client,
    asked: Instant,
}

impl Server {
    fn connect() -> Result<Server> {
        let mut client = Client::connect()?;
        // What happens counts from now on.
        client.ask::<serde_json::Value>(TOP_TARGET, &[])?;
        let asked = Instant::now();
        Ok(Server { client, asked })
    }

    fn look(&mut self, cpus: &mut Cpus) -> Result<Shown> {
        let metrics = self.client.ask(TOP_TARGET, &[])?;
        let interval = self.asked.elapsed();
        self.asked = Instant::now();
        Ok(Shown {
            metrics,
            interval,
            tasks: self.client.ask(TASKS_TARGET, &[])?,
            busy: cpus.busy()?,
        })
    }

    fn change(&mut self, profile: Profile) -> Result<String> {
        let name = profile.to_string();
        self.client.ask(PROFILE_TARGET, &[(SET_ARG, &name)])
    }
}
