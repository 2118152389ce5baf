//! A hundred Nodes and a hundred networks at once.

use causeway_rig::RigOptions;

use super::super::audit::Audit;
use super::super::measure::{Goal, Taken};
use super::super::session::Session;
use super::field::{Field, figure, make_namespaces, names};

/// From the first creation until every network is on every Node.
const TIME: &str = "networks_100_nodes_time";
/// Patches of Nodes.
const PATCHES: &str = "networks_100_nodes_patches";
/// Nodes, and networks.
const MANY: usize = 100;

/// Takes every measure of this kind that is wanted.
pub(super) async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any([TIME, PATCHES]) {
        return Ok(());
    }
    let mut field = Field::open(Audit::new(RigOptions::bare())?, MANY).await?;
    let networks = names("net", MANY);
    make_namespaces(&field.client, &networks).await?;
    field.quiet().await?;
    let mark = field.crowd.audit.mark()?;
    let took = field.grow(&networks, MANY).await?;
    field.quiet().await?;
    let patches = field.writes(mark)?.iter().filter(|write| write.resource.starts_with("nodes")).count();
    session.tell(Taken::times(TIME, &[took]).goal(Goal::max(10_000.0)).incumbent("199 s"))?;
    let taken = Taken::values(PATCHES, "patches", vec![figure(patches)?]);
    session.tell(taken.goal(Goal::max(500.0)).incumbent("10,007"))
}
