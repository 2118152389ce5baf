//! How the story is printed: chapters, deeds and what came of them.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Prints the story. Colours only where a person looks.
pub struct Telling {
    start: Instant,
    colours: bool,
    chapter: u32,
    reactions: Vec<Duration>,
}

impl Telling {
    /// Starts the clock.
    #[must_use]
    pub fn new() -> Self {
        let colours = std::io::stdout().is_terminal();
        Self { start: Instant::now(), colours, chapter: 0, reactions: Vec::new() }
    }

    /// A new chapter.
    pub fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        let line = format!("{}. {title}", self.chapter);
        say(&format!("\n{}", self.paint("1", &line)));
    }

    /// A line of the story.
    pub fn line(&self, text: &str) {
        say(&format!("   {text}"));
    }

    /// Something was done; the command is what a person would type.
    pub fn deed(&self, who: &str, command: &str) {
        say(&format!("   {} {command}", self.paint("36", &format!("{who}$"))));
    }

    /// What came of it, and how soon.
    pub fn outcome(&mut self, good: bool, what: &str, detail: &str, after: Duration) {
        self.reactions.push(after);
        let mark = if good { self.paint("32", "✔") } else { self.paint("31", "✘") };
        say(&format!("   {mark} {what}   {}", self.paint("2", &format!("({} ms)", after.as_millis()))));
        if !detail.is_empty() {
            say(&format!("     {}", self.paint("2", detail)));
        }
    }

    /// A block of text as it is.
    pub fn block(&self, text: &str) {
        for line in text.lines() {
            say(&format!("   {line}"));
        }
    }

    /// The last words: how long it took, and how soon things were noticed.
    pub fn end(&mut self) {
        self.reactions.sort_unstable();
        let middle = self.reactions.get(self.reactions.len() / 2).copied().unwrap_or_default();
        let slowest = self.reactions.last().copied().unwrap_or_default();
        say(&format!(
            "\n{} {} changes were noticed, in the median {} ms after the command was given, {} ms at most.",
            self.paint("1", "The end."),
            self.reactions.len(),
            middle.as_millis(),
            slowest.as_millis()
        ));
        say(&format!("The story took {:.0} s.", self.start.elapsed().as_secs_f64()));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Default for Telling {
    fn default() -> Self {
        Self::new()
    }
}

/// A closed pipe ends the telling, not the story.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{text}").and_then(|()| out.flush());
}
