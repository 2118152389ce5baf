//! Policy routing rules.

mod decode;
mod model;
mod table;

pub(crate) use decode::{RTM_DELRULE, RTM_GETRULE, RTM_NEWRULE, decode};
pub use model::{PortRange, Rule, RuleAction, UidRange};
pub use table::Rules;
pub(crate) use table::Seen;
