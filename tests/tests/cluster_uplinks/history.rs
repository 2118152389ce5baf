//! Every version of a state that the API server had during a test.

use causeway_api::uplink_state::UplinkState;
use causeway_tests::observer::Observer;
use kube::ResourceExt;

use crate::world::World;

/// A recording that began before something happens.
pub(crate) struct History {
    name: &'static str,
    observer: Observer<UplinkState>,
}

impl History {
    /// Begins.
    pub(crate) async fn of(world: &World, name: &'static str) -> anyhow::Result<Self> {
        Ok(Self { name, observer: Observer::start(&world.client()).await? })
    }

    /// Every version up to the one that is there now, which must be newer than the beginning.
    pub(crate) async fn until_now(mut self, world: &World) -> anyhow::Result<Vec<UplinkState>> {
        let now = world.state(self.name).await?.resource_version();
        let mut versions = Vec::new();
        let what = format!("version {now:?} of {}", self.name);
        self.observer
            .until(&what, |seen| {
                if seen.is(self.name) {
                    versions.push(seen.object.clone());
                }
                seen.is(self.name) && seen.object.resource_version() == now
            })
            .await?;
        Ok(versions)
    }
}
