//! The picture of a screen.
//!
//! From above: what the scheduler is set to and did, waits by tier with those of
//! earlier intervals, a bar for each CPU, the tasks, and the keys. A low terminal
//! loses the CPUs first and then the waits, a narrow one the last columns of tasks.

use std::iter;

use clap::ValueEnum;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use crate::control::profile::Profile;
use crate::selection::Column;
use crate::tasks::{HEADING, NR_COLUMNS, Task};
use crate::top::screen::{Mode, NR_TIERS, Screen, Shown};

/// Widths of the columns of tasks, and which of them a narrow terminal keeps: those
/// that fit, in this order.
const WIDTHS: [u16; NR_COLUMNS] = [7, 15, 12, 12, 10, 6, 6, 8, 8, 8, 7, 8];
const KEPT: [usize; NR_COLUMNS] = [0, 1, 3, 11, 2, 7, 9, 4, 8, 10, 5, 6];

/// Lines of the head and of the keys, and those that tasks have at least.
const HEAD_LINES: u16 = 2;
const NR_TASK_LINES_MIN: u16 = 5;

/// Columns before the waits of earlier intervals.
const TIER_WIDTH: u16 = 46;

/// A bar of a CPU, from idle to busy.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draw `screen`, and tell it how many tasks there was room for.
pub fn draw(screen: &mut Screen, frame: &mut Frame) {
    let area = frame.area();
    let nr_cpus = screen.shown.as_ref().map_or(0, |shown| shown.busy.len());
    let cpu_lines = lines_of_cpus(nr_cpus, area.width);
    let room = area.height.saturating_sub(HEAD_LINES + 1);
    let fits = |lines: u16| lines.saturating_add(NR_TASK_LINES_MIN) <= room;
    let tier_lines = if fits(NR_TIERS as u16) {
        NR_TIERS as u16
    } else {
        0
    };
    let cpu_lines = if tier_lines > 0 && fits(tier_lines + cpu_lines) {
        cpu_lines
    } else {
        0
    };
    let [head, tiers, cpus, tasks, keys] = Layout::vertical([
        Constraint::Length(HEAD_LINES),
        Constraint::Length(tier_lines),
        Constraint::Length(cpu_lines),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    if let Some(shown) = &screen.shown {
        draw_head(shown, frame, head);
        draw_tiers(screen, shown, frame, tiers);
        draw_cpus(&shown.busy, frame, cpus);
    }
    draw_tasks(screen, frame, tasks);
    draw_keys(screen, frame, keys);
}

fn draw_head(shown: &Shown, frame: &mut Frame, area: Rect) {
    let metrics = &shown.metrics;
    let seconds = shown.interval.as_secs_f64().max(1e-3);
    let rate = |count: u64| (count as f64 / seconds).round();
    let first = Line::from(vec![
        "pandemonium ".bold(),
        metrics.profile.as_str().cyan().bold(),
        format!(
            "  load {}  {} CPUs  {} tasks  worst wait {}",
            metrics.regime,
            metrics.nr_cpus,
            shown.tasks.tasks.len(),
            short(metrics.max_wait_us)
        )
        .into(),
    ]);
    let second = format!(
        "each second: placed {} ({:.0}% on idle CPUs)  handed over {}  preempted {}  migrated {}  rescued {}",
        rate(metrics.nr_placed),
        metrics.idle_pct,
        rate(metrics.nr_handoff),
        rate(metrics.nr_preempted),
        rate(metrics.nr_migrate),
        rate(metrics.nr_serve_rescued),
    );
    frame.render_widget(Paragraph::new(vec![first, second.into()]), area);
}

fn draw_tiers(screen: &Screen, shown: &Shown, frame: &mut Frame, area: Rect) {
    let metrics = &shown.metrics;
    let tiers = [
        (
            "lat_critical",
            metrics.lat_critical_mean_us,
            metrics.lat_critical_p99_us,
        ),
        (
            "interactive",
            metrics.interactive_mean_us,
            metrics.interactive_p99_us,
        ),
        ("batch", metrics.batch_mean_us, metrics.batch_p99_us),
    ];
    for ((line, (name, mean_us, p99_us)), waits_us) in area.rows().zip(tiers).zip(&screen.waits_us)
    {
        let [text, bars] =
            Layout::horizontal([Constraint::Length(TIER_WIDTH), Constraint::Fill(1)]).areas(line);
        let figures = format!(
            "{name:<12} waits: mean {:>7}  p99 {:>7}",
            short(mean_us),
            short(p99_us)
        );
        frame.render_widget(figures, text);
        let newest = waits_us.len().saturating_sub(bars.width.into());
        let waits_us: Vec<u64> = waits_us.iter().skip(newest).copied().collect();
        frame.render_widget(Sparkline::default().data(waits_us).green(), bars);
    }
}

fn lines_of_cpus(nr_cpus: usize, width: u16) -> u16 {
    let width = usize::from(width).saturating_sub(CPUS_TITLE.len()).max(1);
    u16::try_from(nr_cpus.div_ceil(width)).unwrap_or(u16::MAX)
}

const CPUS_TITLE: &str = "CPUs ";

fn draw_cpus(busy: &[f64], frame: &mut Frame, area: Rect) {
    // Text is drawn even into an area without lines, over the line below it.
    if area.is_empty() {
        return;
    }
    let [title, bars] = Layout::horizontal([
        Constraint::Length(CPUS_TITLE.len() as u16),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(CPUS_TITLE, title);
    let levels: Vec<char> = busy.iter().map(|busy| level(*busy)).collect();
    let lines = levels.chunks(usize::from(bars.width).max(1));
    let lines = lines.map(|line| Line::from(line.iter().collect::<String>()));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).yellow(), bars);
}

fn level(busy: f64) -> char {
    let top = (LEVELS.len() - 1) as f64;
    LEVELS[(busy.clamp(0.0, 1.0) * top).round() as usize]
}

fn draw_tasks(screen: &mut Screen, frame: &mut Frame, area: Rect) {
    screen.nr_rows = usize::from(area.height.saturating_sub(1));
    let tasks: &[Task] = screen
        .shown
        .as_ref()
        .map_or(&[], |shown| &shown.tasks.tasks);
    screen.scroll = screen
        .scroll
        .min(tasks.len().saturating_sub(screen.nr_rows));
    let columns = columns_within(area.width);
    let sort = screen.selection.sort;
    let headings = columns.iter().map(|column| {
        let heading = HEADING[*column].0;
        match Column::of_heading(heading) {
            Some(column) if column == sort => Cell::from(heading).reversed(),
            _ => Cell::from(heading),
        }
    });
    let rows = tasks.iter().skip(screen.scroll).take(screen.nr_rows);
    let rows = rows.map(|task| {
        let cells = task.cells();
        let cells: Vec<String> = columns
            .iter()
            .map(|column| cells[*column].clone())
            .collect();
        Row::new(cells)
    });
    let widths = columns
        .iter()
        .map(|column| Constraint::Length(WIDTHS[*column]));
    let table = Table::new(rows, widths).header(Row::new(headings).bold());
    frame.render_widget(table, area);
}

/// The columns that fit into `width`, from left to right.
fn columns_within(width: u16) -> Vec<usize> {
    let mut left = width;
    let mut columns: Vec<usize> = KEPT
        .into_iter()
        .take_while(|column| {
            let rest = left.checked_sub(WIDTHS[*column] + 1);
            left = rest.unwrap_or(0);
            rest.is_some()
        })
        .collect();
    columns.sort_unstable();
    columns
}

fn draw_keys(screen: &Screen, frame: &mut Frame, area: Rect) {
    let line = match (&screen.mode, &screen.problem) {
        (Mode::Name(name), _) => Line::from(format!("name: {name}_  Enter chooses, Esc leaves")),
        (Mode::Profile, _) => {
            let profiles = Profile::value_variants().iter().zip(1..);
            let profiles = profiles.map(|(profile, number)| format!("{number} {profile}"));
            let words: Vec<String> = iter::once("profile:".to_owned()).chain(profiles).collect();
            Line::from(words.join("  "))
        }
        (Mode::List, Some(problem)) => Line::from(problem.clone().red()),
        (Mode::List, None) => Line::from("q quit  s/S sort  / name  p profile  arrows scroll"),
    };
    frame.render_widget(line, area);
}

/// A time of `us` in few letters.
fn short(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::*;
    use crate::top::screen::tests::{press, screen, shown};

    /// The lines of a terminal of that size.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(screen, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(width.into());
        lines
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>())
            .collect()
    }

    #[test]
    fn a_wide_screen_has_all_parts() {
        let mut screen = screen();
        screen.show(Ok(shown(&["game", "cc1"])));
        let lines = drawn(&mut screen, 132, 24);
        let text = lines.join("\n");
        for part in [
            "pandemonium auto  load heavy  2 CPUs  2 tasks",
            "placed 1500",
            "lat_critical waits: mean    0 us  p99   42 us",
            "CPUs ·█",
            "cc1",
            "q quit",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        for (heading, _) in HEADING {
            assert!(text.contains(heading), "no {heading} in\n{text}");
        }
    }

    #[test]
    fn a_low_screen_has_no_cpus_and_a_lower_one_no_waits() {
        for height in 4..=24 {
            let mut screen = screen();
            screen.show(Ok(shown(&["game", "cc1"])));
            let lines = drawn(&mut screen, 132, height);
            let has = |word: &str| lines.iter().any(|line| line.contains(word));
            assert_eq!(has("waits: mean"), height >= 11, "{height}");
            assert_eq!(has("CPUs ·█"), height >= 12, "{height}");
            assert!(!has("PIDs"), "{height}: {lines:?}");
        }
    }

    #[test]
    fn any_size_is_drawn_and_a_small_one_keeps_the_tasks() {
        let names: Vec<String> = (0..300).map(|nr| format!("task{nr}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for width in [1, 2, 10, 39, 40, 80, 200] {
            for height in [1, 2, 3, 4, 9, 24, 70] {
                let mut screen = screen();
                drawn(&mut screen, width, height);
                let mut shown = shown(&names);
                shown.busy = vec![0.5; 512];
                screen.show(Ok(shown));
                let text = drawn(&mut screen, width, height).join("\n");
                if width >= 40 && height >= 9 {
                    assert!(text.contains("task0"), "{width}x{height}\n{text}");
                    assert!(text.contains("COMMAND"), "{width}x{height}\n{text}");
                }
            }
        }
    }

    #[test]
    fn the_list_scrolls_to_its_end_and_no_further() {
        let names: Vec<String> = (0..100).map(|nr| format!("task{nr}.")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut screen = screen();
        screen.show(Ok(shown(&names)));
        drawn(&mut screen, 80, 24);
        for (key, first_shown) in [
            (KeyCode::Down, "task1."),
            (KeyCode::Up, "task0."),
            (KeyCode::Up, "task0."),
        ] {
            press(&mut screen, &[key]);
            let lines = drawn(&mut screen, 80, 24);
            let heading = lines.iter().position(|line| line.contains("COMMAND"));
            assert!(
                lines[heading.unwrap() + 1].contains(first_shown),
                "{lines:#?}"
            );
        }
        press(&mut screen, &[KeyCode::End, KeyCode::Down]);
        let lines = drawn(&mut screen, 80, 24);
        assert!(lines[22].contains("task99."), "{lines:#?}");
        press(
            &mut screen,
            &[KeyCode::PageUp, KeyCode::PageDown, KeyCode::Home],
        );
        assert!(drawn(&mut screen, 80, 24).join("").contains("task0."));
    }

    #[test]
    fn the_last_line_says_what_keys_are_for_and_what_went_wrong() {
        let mut screen = screen();
        let last = |screen: &mut Screen| drawn(screen, 80, 24).pop().unwrap();
        press(&mut screen, &[KeyCode::Char('p')]);
        assert!(last(&mut screen).contains("2 gaming"));
        press(
            &mut screen,
            &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('x')],
        );
        assert!(last(&mut screen).contains("name: x_"));
        press(&mut screen, &[KeyCode::Esc]);
        screen.show(Err(anyhow!("it has ended")));
        assert!(last(&mut screen).contains("it has ended"));
    }

    #[test]
    fn times_are_in_few_letters() {
        for (us, expected) in [
            (0, "0 us"),
            (999, "999 us"),
            (1500, "1.5 ms"),
            (2_000_000, "2.0 s"),
        ] {
            assert_eq!(short(us), expected);
        }
    }
}
