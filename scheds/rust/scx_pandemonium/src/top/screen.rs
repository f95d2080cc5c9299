//! What the screen holds, and what a key changes of it.
//!
//! Not here: the terminal and the server (top), how it looks (`draw`).

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Error, Result};
use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::control::profile::Profile;
use crate::selection::{Selection, parse_pattern};
use crate::stats::Metrics;
use crate::tasks::Tasks;

/// Intervals of which the waits are drawn.
pub const NR_INTERVALS: usize = 256;

/// Tiers, the most latency critical first.
pub const NR_TIERS: usize = 3;

/// What is shown of one interval.
#[derive(Debug, Default)]
pub struct Shown {
    /// What happened in it.
    pub metrics: Metrics,
    /// How long it was.
    pub interval: Duration,
    /// The tasks at its end.
    pub tasks: Tasks,
    /// How busy each CPU was, 0 to 1.
    pub busy: Vec<f64>,
}

/// What keys are taken for.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Commands.
    List,
    /// Letters of a name; what was typed so far.
    Name(String),
    /// The number of a profile.
    Profile,
}

/// What a key asks for beside a change of the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Nothing.
    None,
    /// To end.
    End,
    /// To change to that profile.
    Change(Profile),
}

/// What the screen holds.
pub struct Screen {
    /// The last interval, if the scheduler has answered.
    pub shown: Option<Shown>,
    /// p99 of the waits of each tier in us, the newest last.
    pub waits_us: [VecDeque<u64>; NR_TIERS],
    /// Which tasks are listed.
    pub selection: Selection,
    /// Number of tasks above the first that is drawn.
    pub scroll: usize,
    /// Number of tasks that the last picture had room for.
    pub nr_rows: usize,
    /// What keys are taken for.
    pub mode: Mode,
    /// What went wrong last.
    pub problem: Option<String>,
}

impl Screen {
    /// An empty one.
    pub fn new(selection: Selection) -> Screen {
        Screen {
            shown: None,
            waits_us: Default::default(),
            selection,
            scroll: 0,
            nr_rows: 0,
            mode: Mode::List,
            problem: None,
        }
    }

    /// Take what came of an interval, or why nothing did. What was there stays then.
    pub fn show(&mut self, shown: Result<Shown>) {
        match shown {
            Ok(mut shown) => {
                let metrics = &shown.metrics;
                let newest = [
                    metrics.lat_critical_p99_us,
                    metrics.interactive_p99_us,
                    metrics.batch_p99_us,
                ];
                for (waits_us, newest_us) in self.waits_us.iter_mut().zip(newest) {
                    waits_us.push_back(newest_us);
                    if waits_us.len() > NR_INTERVALS {
                        waits_us.pop_front();
                    }
                }
                self.selection.apply(&mut shown.tasks.tasks);
                self.shown = Some(shown);
                self.problem = None;
            }
            Err(err) => self.failed(&err),
        }
    }

    /// Take how a change of the profile went.
    pub fn changed(&mut self, result: Result<()>) {
        if let Err(err) = result {
            self.failed(&err);
        }
    }

    fn failed(&mut self, err: &Error) {
        self.problem = Some(format!("{err:#}"));
    }

    /// Do what `key` says.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::End,
                _ => Action::None,
            };
        }
        match std::mem::replace(&mut self.mode, Mode::List) {
            Mode::List => self.command(key.code),
            Mode::Name(name) => {
                self.letter(name, key.code);
                Action::None
            }
            Mode::Profile => chosen(key.code).map_or(Action::None, Action::Change),
        }
    }

    fn command(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::End,
            KeyCode::Char('s') => self.selection.sort = self.selection.sort.next(),
            KeyCode::Char('S') => self.selection.sort = self.selection.sort.previous(),
            KeyCode::Char('/') => self.mode = Mode::Name(String::new()),
            KeyCode::Char('p') => self.mode = Mode::Profile,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                self.scroll = self.scroll.saturating_add(1);
            }
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(self.nr_rows),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(self.nr_rows),
            KeyCode::Home => self.scroll = 0,
            KeyCode::End => self.scroll = usize::MAX,
            _ => {}
        }
        // What is there already is put in the new order at once.
        if let Some(shown) = &mut self.shown {
            self.selection.apply(&mut shown.tasks.tasks);
        }
        Action::None
    }

    fn letter(&mut self, mut name: String, key: KeyCode) {
        match key {
            KeyCode::Enter => self.choose(&name),
            KeyCode::Esc => {}
            KeyCode::Backspace => {
                name.pop();
                self.mode = Mode::Name(name);
            }
            KeyCode::Char(letter) => {
                name.push(letter);
                self.mode = Mode::Name(name);
            }
            _ => self.mode = Mode::Name(name),
        }
    }

    /// List tasks whose name begins with `name` only, or all if it is empty.
    fn choose(&mut self, name: &str) {
        self.scroll = 0;
        if name.is_empty() {
            self.selection.name = None;
            return;
        }
        match parse_pattern(&format!("{}*", name.trim_end_matches('*'))) {
            Ok(pattern) => {
                self.selection.name = Some(pattern);
                if let Some(shown) = &mut self.shown {
                    self.selection.apply(&mut shown.tasks.tasks);
                }
            }
            Err(why) => self.problem = Some(why),
        }
    }
}

/// The profile whose number, from 1 on, is `key`.
fn chosen(key: KeyCode) -> Option<Profile> {
    let KeyCode::Char(digit) = key else {
        return None;
    };
    let number = usize::try_from(digit.to_digit(10)?).ok()?;
    Profile::value_variants()
        .get(number.checked_sub(1)?)
        .copied()
}

#[cfg(test)]
pub mod tests {
    use anyhow::anyhow;
    use clap::Parser;

    use super::*;
    use crate::selection::Column;
    use crate::tasks::Task;

    #[derive(Parser)]
    struct Words {
        #[clap(flatten)]
        selection: Selection,
    }

    pub fn screen() -> Screen {
        Screen::new(Words::parse_from(["top"]).selection)
    }

    pub fn shown(names: &[&str]) -> Shown {
        let tasks = names.iter().zip(1..).map(|(name, pid)| Task {
            pid,
            comm: (*name).to_owned(),
            tier: "batch".to_owned(),
            last_wait_ns: 1_000_000 * pid as u64,
            ..Task::default()
        });
        Shown {
            metrics: Metrics {
                profile: "auto".to_owned(),
                regime: "heavy".to_owned(),
                lat_critical_p99_us: 42,
                nr_cpus: 2,
                nr_placed: 3000,
                ..Metrics::default()
            },
            interval: Duration::from_secs(2),
            tasks: Tasks {
                tasks: tasks.collect(),
            },
            busy: vec![0.0, 1.0],
        }
    }

    pub fn press(screen: &mut Screen, keys: &[KeyCode]) -> Action {
        let pressed = keys.iter().map(|key| screen.press((*key).into()));
        pressed.last().unwrap()
    }

    pub fn names(screen: &Screen) -> Vec<&str> {
        let tasks = screen.shown.as_ref().unwrap().tasks.tasks.iter();
        tasks.map(|task| task.comm.as_str()).collect()
    }

    #[test]
    fn a_name_is_typed_and_chosen_and_an_empty_one_chooses_all() {
        let mut screen = screen();
        screen.show(Ok(shown(&["game", "cc1", "game-audio"])));
        let typed = [
            KeyCode::Char('/'),
            KeyCode::Char('g'),
            KeyCode::Char('q'),
            KeyCode::Backspace,
        ];
        assert_eq!(press(&mut screen, &typed), Action::None);
        assert_eq!(screen.mode, Mode::Name("g".to_owned()));
        press(&mut screen, &[KeyCode::Enter]);
        assert_eq!(names(&screen), ["game", "game-audio"]);
        press(&mut screen, &[KeyCode::Char('/'), KeyCode::Enter]);
        screen.show(Ok(shown(&["game", "cc1"])));
        assert_eq!(names(&screen), ["game", "cc1"]);
    }

    #[test]
    fn a_change_of_the_order_is_seen_at_once() {
        let mut screen = screen();
        screen.show(Ok(shown(&["first", "second"])));
        while screen.selection.sort != Column::Wait {
            press(&mut screen, &[KeyCode::Char('s')]);
        }
        assert_eq!(names(&screen), ["second", "first"]);
        press(&mut screen, &[KeyCode::Char('S')]);
        assert_eq!(screen.selection.sort, Column::Slice);
    }

    #[test]
    fn a_profile_is_chosen_by_its_number_and_not_by_accident() {
        let mut screen = screen();
        let change = press(&mut screen, &[KeyCode::Char('p'), KeyCode::Char('2')]);
        assert_eq!(change, Action::Change(Profile::Gaming));
        for key in ['0', '6', 'x'] {
            let none = press(&mut screen, &[KeyCode::Char('p'), KeyCode::Char(key)]);
            assert_eq!((none, &screen.mode), (Action::None, &Mode::List));
        }
        assert_eq!(press(&mut screen, &[KeyCode::Char('2')]), Action::None);
    }

    #[test]
    fn q_and_escape_and_an_interrupt_end_it() {
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for key in [KeyCode::Char('q').into(), KeyCode::Esc.into(), interrupt] {
            assert_eq!(screen().press(key), Action::End);
        }
        let mut naming = screen();
        naming.mode = Mode::Name("a".to_owned());
        assert_eq!(naming.press(KeyCode::Esc.into()), Action::None);
        assert_eq!(naming.press(interrupt), Action::End);
    }

    #[test]
    fn a_scheduler_that_has_ended_leaves_what_was_there_until_it_is_back() {
        let mut screen = screen();
        screen.show(Ok(shown(&["game"])));
        screen.show(Err(anyhow!("gone")));
        assert_eq!(screen.problem.as_deref(), Some("gone"));
        assert_eq!(names(&screen), ["game"]);
        screen.show(Ok(shown(&["cc1"])));
        assert_eq!(
            (screen.problem.as_deref(), names(&screen)),
            (None, vec!["cc1"])
        );
    }

    #[test]
    fn no_more_waits_are_kept_than_can_be_drawn() {
        let mut screen = screen();
        for _ in 0..NR_INTERVALS + 10 {
            screen.show(Ok(shown(&[])));
        }
        assert!(
            screen
                .waits_us
                .iter()
                .all(|waits_us| waits_us.len() == NR_INTERVALS)
        );
    }
}
