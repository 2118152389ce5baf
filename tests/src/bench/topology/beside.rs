//! A plain client that writes one network beside each that the agent writes.
//!
//! It works on a copy of the Northbound database, on a server of its own, and at the same API server. It hears by a watch of a
//! NetworkAttachmentDefinition of the same size that the agent is not meant for, and then sends the very transaction that the
//! agent would send for the network: it knows it beforehand. So what it takes is what the two servers and the ways to them
//! take, and the follower that sees the rows.

use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_dpu_agent::topology::northbound;
use causeway_rig::{Process, Program};
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::PostParams;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, ResourceExt};
use ovsdb::{Client, Options, Remote, Store};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::until;
use crate::topology::world::{DEADLINE, NetworkSpec, World};

/// The agent's database inside the node, and the copy.
const DATABASE: &str = "/var/lib/ovn/ovnnb_db.db";
const COPY: &str = "/var/lib/ovn/beside.db";
const SOCKET: &str = "/run/ovn/beside.sock";

/// The server with the copy, and the client.
pub(super) struct Beside {
    _server: Process,
    store: Store,
    client: Client,
    api: Api<NetworkAttachmentDefinition>,
    heard: BoxStream<'static, Result<Event<NetworkAttachmentDefinition>, Error>>,
    _stop: DropGuard,
}

impl Beside {
    /// Starts both. The agent has to be at rest.
    pub(super) async fn open(world: &World) -> anyhow::Result<Self> {
        let machine = &world.machine;
        machine.exec(["cp", DATABASE, COPY]).await?;
        let server = Program::new("ovsdb-server").named("beside-server").arg(COPY).args([
            &format!("--remote=punix:{SOCKET}"),
            "--unixctl=/run/ovn/beside.ctl",
            "--pidfile=/run/ovn/beside.pid",
            "--no-chdir",
        ]);
        let server = machine.spawn(server).await?;
        let remote = Remote::Unix(machine.path(SOCKET));
        let (store, driver) = northbound::declare(Store::builder(remote.clone(), "OVN_Northbound")).build();
        let stop = CancellationToken::new();
        tokio::spawn(driver.run(stop.clone()));
        store.synced(DEADLINE).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let client = Client::connect(&remote, Options::default()).await?;
        let api: Api<NetworkAttachmentDefinition> = Api::namespaced(world.rig.client(), "default");
        let mut heard = watcher(api.clone(), Config::default()).boxed();
        while !matches!(heard.next().await.context("a watch that ends")??, Event::InitDone) {}
        Ok(Self { _server: server, store, client, api, heard, _stop: stop.drop_guard() })
    }

    /// Writes one network, of so many that there are then: how long from its object to its rows.
    pub(super) async fn one(
        &mut self,
        world: &World,
        spec: &NetworkSpec,
        many: usize,
    ) -> anyhow::Result<Duration> {
        let change = world.change(spec, &self.store.current()?)?;
        let mut nad = spec.object();
        nad.metadata.name = Some(format!("{}-beside", spec.nad()));
        nad.spec.config = nad.spec.config.replace("ovn-k8s-cni-overlay", "plain-beside-client");
        let Self { store, client, api, heard, .. } = self;
        let write = async {
            loop {
                let event = heard.next().await.context("a watch that ends")??;
                if matches!(&event, Event::Apply(object) if object.name_any() == nad.name_any()) {
                    break;
                }
            }
            client.transact("OVN_Northbound", &change).await?;
            until(store, many).await
        };
        let parameters = PostParams::default();
        let begun = Instant::now();
        let (made, written) = tokio::join!(api.create(&parameters, &nad), write);
        made.with_context(|| nad.name_any())?;
        written?;
        Ok(begun.elapsed())
    }
}
