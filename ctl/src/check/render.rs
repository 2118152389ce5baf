//! A report as text.

use jiff::Timestamp;

use super::{Level, Report};
use crate::agent::render::line;
use crate::output::Shown;

impl Shown for Report {
    fn text(&self, _now: Timestamp) -> String {
        let mut text = String::new();
        let mut area = "";
        for finding in &self.findings {
            if finding.area != area {
                area = finding.area;
                line(&mut text, format_args!("{area}:"));
            }
            let mark = match finding.level {
                Level::Good => "ok     ",
                Level::Note => "note   ",
                Level::Problem => "PROBLEM",
            };
            line(&mut text, format_args!("  {mark} {}: {}", finding.subject, finding.found));
            if !finding.remedy.is_empty() {
                line(&mut text, format_args!("          do: {}", finding.remedy));
            }
        }
        match self.problems {
            0 => line(&mut text, format_args!("No problem found.")),
            count => line(&mut text, format_args!("{count} problem(s) found.")),
        }
        text
    }
}
