//! The control plane, and all of it that the verdict is about.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_api::udn::UserDefinedNetwork;
use causeway_rig::{Mark, Rig, RigOptions};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::access::{self, Account};
use crate::bench::audit::{Audit, Request};
use crate::manifests;

/// After so long without a write nothing more comes of what was before: longer than the waits that short trouble leaves.
const QUIET: Duration = Duration::from_secs(3);

/// What the replicas lead by.
const LEASE: &str = "ovn-kubernetes-master";

/// The control plane.
pub struct World {
    /// Its parts.
    pub rig: Rig,
    /// What its API server notes.
    pub audit: Audit,
    /// The cluster manager's account.
    pub token: String,
}

/// Everything that is there.
#[derive(Debug, Default)]
pub struct Inventory {
    /// All Namespaces.
    pub namespaces: Vec<Namespace>,
    /// All Nodes.
    pub nodes: Vec<Node>,
    /// All ClusterUserDefinedNetworks.
    pub cudns: Vec<ClusterUserDefinedNetwork>,
    /// All UserDefinedNetworks.
    pub udns: Vec<UserDefinedNetwork>,
    /// All NetworkAttachmentDefinitions.
    pub nads: Vec<NetworkAttachmentDefinition>,
}

impl World {
    /// Starts it, with the controllers of Kubernetes: they end Namespaces and collect what lost its owner.
    pub async fn start() -> anyhow::Result<Self> {
        let (audit, options) = Audit::new(RigOptions::default())?;
        let rig = Rig::start(options).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        access::install(&rig).await?;
        let token = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        access::wait_roles(&rig, &token).await?;
        Ok(Self { rig, audit, token })
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.rig.client()
    }

    /// What is there now.
    pub async fn inventory(&self) -> anyhow::Result<Inventory> {
        let (namespaces, nodes) = (list(&self.client()).await?, list(&self.client()).await?);
        let (cudns, udns) = (list(&self.client()).await?, list(&self.client()).await?);
        Ok(Inventory { namespaces, nodes, cudns, udns, nads: list(&self.client()).await? })
    }

    /// Which replica leads, if any does.
    pub async fn leader(&self) -> anyhow::Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client(), access::NAMESPACE);
        let spec = leases.get_opt(LEASE).await.context("the lease")?.and_then(|lease| lease.spec);
        Ok(spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty()))
    }

    /// Writes of the cluster manager.
    pub fn writes(&self, mark: Mark) -> anyhow::Result<Vec<Request>> {
        let mut requests = self.audit.since(mark)?;
        requests
            .retain(|request| request.is_write() && request.user.contains(Account::ClusterManager.name()));
        Ok(requests)
    }

    /// Waits until the cluster manager writes nothing more.
    pub async fn comes_to_rest(&self, patience: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let mark = self.audit.mark()?;
            tokio::time::sleep(QUIET).await;
            let Some(write) = self.writes(mark)?.pop() else { return Ok(()) };
            ensure!(begun.elapsed() < patience, "the cluster manager does not come to rest: {write:?}");
        }
    }
}

async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await;
    Ok(list.with_context(|| format!("listing {}", K::plural(&())))?.items)
}
