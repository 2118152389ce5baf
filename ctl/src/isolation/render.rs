//! An explanation of isolation as text.

use jiff::Timestamp;

use super::model::Explanation;
use crate::agent::render::line;
use crate::output::Shown;

impl Shown for Explanation {
    fn text(&self, _now: Timestamp) -> String {
        let mut text = String::new();
        line(&mut text, format_args!("Node {}", self.node));
        if let Some(kubelet) = &self.kubelet {
            line(&mut text, format_args!("  kubelet     {}", kubelet.sentence()));
            for means in &kubelet.tracking {
                let works =
                    if means.works { "works".to_owned() } else { format!("does not work: {}", means.reason) };
                line(&mut text, format_args!("  restarts    noticed by {}: {works}", means.by));
            }
            line(&mut text, format_args!("  rules for   {}", self.families.join(", ")));
        }
        if let Some(pod) = &self.pod {
            let standing = if pod.isolated { "isolated" } else { "not isolated" };
            line(&mut text, format_args!("\nPod {}: {standing}", pod.name));
            line(&mut text, format_args!("  because     {}", pod.because));
            for element in &pod.elements {
                let name = format!("{} {}", element.element.set, element.element.element);
                line(&mut text, format_args!("  in          {name}: {}", element.because));
            }
        }
        if !self.verdicts.is_empty() {
            line(&mut text, format_args!(""));
        }
        for verdict in &self.verdicts {
            let port = verdict.port.as_deref().unwrap_or("any port that is not open");
            let passes = if verdict.passes { "passes" } else { "is DROPPED" };
            line(
                &mut text,
                format_args!(
                    "{} to {} {port}: {passes}, because {}",
                    verdict.process, verdict.address, verdict.because
                ),
            );
        }
        for problem in &self.problems {
            line(&mut text, format_args!("\nProblem: {}", problem.found));
            line(&mut text, format_args!("  do: {}", problem.remedy));
        }
        text
    }
}
