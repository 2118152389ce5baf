//! What the conditions of a network should say. Pure.

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_net::network::name::{NadKey, Namespace};
use causeway_net::network_condition::{Created, cudn_created, network_created, udn_created};

use super::observe::Halt;
use crate::observed::cr::{Cr, CrKey};

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Why nothing was done.
    pub(super) halt: Option<Halt>,
    /// Namespaces that have their NetworkAttachmentDefinition.
    pub(super) there: Vec<Namespace>,
    /// NetworkAttachmentDefinitions that are being deleted.
    pub(super) terminating: Vec<NadKey>,
    /// What went wrong, a text each.
    pub(super) problems: Vec<String>,
    /// Fields of the object that have no effect, as their feature is off.
    pub(super) ignored: Vec<&'static str>,
}

/// What `NetworkCreated` should say.
pub(super) fn created(key: &CrKey, cr: &Cr, outcome: &Outcome) -> Wanted {
    let problems = || {
        let mut problems = outcome.problems.clone();
        problems.sort_unstable();
        problems.dedup();
        problems
    };
    let errors = match &outcome.halt {
        Some(Halt::Evpn(problem)) => {
            let (reason, message) = problem.created();
            return Wanted { observed_generation: cr.generation, ..network_created(reason, message) };
        }
        Some(Halt::Ignored(message) | Halt::Selector(message)) => vec![message.clone()],
        Some(Halt::Frozen(_)) => Vec::new(),
        None => problems(),
    };
    let present: Vec<NadKey> = outcome.there.iter().map(|namespace| key.nad_in(namespace)).collect();
    let facts =
        Created { present: present.iter().collect(), deleting: outcome.terminating.iter().collect(), errors };
    let mut wanted = match key {
        CrKey::Udn(_) => udn_created(facts),
        CrKey::Cudn(_) => cudn_created(facts),
    };
    if wanted.status == ConditionStatus::True && !outcome.ignored.is_empty() {
        // Upstream drops them without a word. All of them are of one feature.
        let fields = outcome.ignored.join(", ");
        wanted.message =
            format!("{}; without effect, as preconfigured addresses are off: {fields}", wanted.message);
    }
    Wanted { observed_generation: cr.generation, ..wanted }
}
