//! A fact of a node breaks, the state says so and why; it heals, the state is as before. Nothing is restarted.

pub(crate) mod card;
pub(crate) mod regular;

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_api::uplink_state::{DiscoveryReason, UplinkState};
use causeway_rig::{Node, UplinkAnnotations, wait_object};
use causeway_tests::blue;
use causeway_tests::manifests;
use causeway_tests::states::{self, DEADLINE};
use serde_json::Value;

use crate::world::{World, said};

/// One fact and what becomes of it.
pub(crate) struct Case {
    /// A sentence of behaviour.
    pub(crate) name: &'static str,
    /// Which Uplink on which node.
    pub(crate) subject: Subject,
    /// How it breaks, step by step.
    pub(crate) breaks: &'static [Break],
    /// How it heals. Where there are several ways, all is well after each.
    pub(crate) heals: &'static [Act],
}

/// One Uplink on one node.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    /// The scenario's Uplink on the node with a card.
    Card,
    /// The scenario's Uplink on the regular node.
    Regular,
    /// Another Uplink that names this interface of the host of the card.
    OnHost(&'static str),
    /// Another Uplink that names this interface of the regular node.
    OnRegular(&'static str),
}

/// One change for the worse.
pub(crate) struct Break {
    /// What happens.
    pub(crate) act: Act,
    /// Conditions afterwards, all `False`: type, reason, message.
    pub(crate) says: &'static [(&'static str, DiscoveryReason, &'static str)],
    /// What the state still says beside `type` and `conditions`.
    pub(crate) keeps: &'static [&'static str],
}

/// Something that happens on a machine or to its Node object.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// A shell script on the host of the card.
    Host(&'static str),
    /// A shell script on the card.
    Card(&'static str),
    /// A shell script on the regular node.
    Regular(&'static str),
    /// The default gateway of the subject's node is on this bridge.
    DefaultGateway(&'static str),
    /// The Node of the subject loses an annotation.
    Forget(&'static str),
    /// The Node of the subject has the annotations that it had at first.
    Remember,
}

impl Subject {
    /// Names of Uplink and Node.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Card => (blue::UPLINK, "node-a"),
            Self::Regular => (blue::UPLINK, "node-b"),
            Self::OnHost(_) => ("spare", "node-a"),
            Self::OnRegular(_) => ("spare", "node-b"),
        }
    }

    fn state(self) -> String {
        let (uplink, node) = self.names();
        format!("{uplink}.{node}")
    }

    fn node(self, world: &World) -> &Node {
        match self {
            Self::Card | Self::OnHost(_) => &world.pair.host,
            Self::Regular | Self::OnRegular(_) => &world.node_b,
        }
    }

    /// The other Uplink, where the scenario's is not meant.
    fn spare(self) -> Option<String> {
        let (Self::OnHost(interface) | Self::OnRegular(interface)) = self else { return None };
        let (name, node) = self.names();
        Some(uplink_of(name, node, interface))
    }
}

/// An Uplink for one node.
pub(crate) fn uplink_of(name: &str, node: &str, interface: &str) -> String {
    manifests::uplink(name, &[(&format!("{{matchLabels: {{kubernetes.io/hostname: {node}}}}}"), interface)])
}

/// Runs a shell script in a node.
pub(crate) async fn shell(node: &Node, script: &str) -> anyhow::Result<()> {
    node.exec(["sh", "-euc", script]).await.map(drop)
}

impl Act {
    /// Makes it happen.
    pub(crate) async fn happen(self, world: &World, subject: Subject) -> anyhow::Result<()> {
        let node = subject.node(world);
        match self {
            Self::Host(script) => shell(&world.pair.host, script).await,
            Self::Card(script) => shell(&world.pair.card, script).await,
            Self::Regular(script) => shell(&world.node_b, script).await,
            Self::DefaultGateway(bridge) => {
                let bridge = bridge.to_owned();
                annotate(node, &UplinkAnnotations { bridge, ..UplinkAnnotations::default() }).await
            }
            Self::Forget(key) => node.set_annotation(key, None).await,
            Self::Remember => annotate(node, &UplinkAnnotations::default()).await,
        }
    }
}

async fn annotate(node: &Node, annotations: &UplinkAnnotations) -> anyhow::Result<()> {
    node.describe(std::collections::BTreeMap::new(), annotations.render(node.name())).await
}

impl Case {
    /// Breaks, looks, heals, looks.
    pub(crate) async fn run(&self, world: &World) -> anyhow::Result<()> {
        let (subject, state) = (self.subject, self.subject.state());
        let spare = subject.spare();
        for (step, broken) in self.breaks.iter().enumerate() {
            broken.act.happen(world, subject).await?;
            if let Some(spare) = spare.as_deref().filter(|_| step == 0) {
                world.rig.apply(spare).await?;
            }
            broken.is_published(world, &state).await.with_context(|| format!("step {step}"))?;
            if spare.is_none() {
                self.is_told_of(world, broken).await?;
            }
        }
        if let Some(spare) = &spare {
            world.rig.delete(spare).await?;
            world.state_is_gone(&state).await?;
        }
        for heal in self.heals {
            heal.happen(world, subject).await?;
            world.is_whole().await?;
        }
        Ok(())
    }

    /// The Uplink names the cause: what the host says, where the card waits for the host.
    async fn is_told_of(&self, world: &World, broken: &Break) -> anyhow::Result<()> {
        let (_, node) = self.subject.names();
        let (_, cause, _) = broken.says.first().context("a case without a condition")?;
        let message =
            format!("1 of 2 selected node(s) have readiness failures; examples: {node}={}", cause.as_str());
        world.uplink_says("False/UplinkStateNotResolved", &message).await.map(drop)
    }
}

impl Break {
    async fn is_published(&self, world: &World, name: &str) -> anyhow::Result<()> {
        let is_said = |state: &UplinkState| {
            self.says.iter().all(|(type_, reason, message)| {
                states::verdict(state.conditions(), type_) == format!("False/{}", reason.as_str())
                    && states::message(state.conditions(), type_) == *message
            })
        };
        let what = || {
            let wanted = self.says.iter();
            let texts = wanted
                .map(|(type_, reason, message)| format!("{type_}=False/{}: {message}", reason.as_str()));
            texts.collect::<Vec<_>>().join(" and ")
        };
        let accept = |state: Option<&UplinkState>| state.is_some_and(is_said);
        let found = wait_object(world.states(), name, &what(), DEADLINE, accept).await?;
        let status = said(&found.context("the state is gone")?);
        let fields = status.as_object().context("a status")?.keys().map(String::as_str);
        let kept: BTreeSet<&str> = fields.filter(|field| !["type", "conditions"].contains(field)).collect();
        let keeps: BTreeSet<&str> = self.keeps.iter().copied().collect();
        ensure!(kept == keeps, "published beside the conditions: {kept:?}, want {keeps:?}: {status:#}");
        let bridge = status.pointer("/ovsBridge/name").and_then(Value::as_str);
        ensure!(bridge.is_some() == keeps.contains("ovsBridge"), "a bridge without a name: {status:#}");
        Ok(())
    }
}

/// Every reason of discovery stands in a case, or in the life-cycle tests that are named here.
pub(crate) fn all_reasons_are_cases() -> anyhow::Result<()> {
    use DiscoveryReason as Reason;
    let cases = card::CASES.iter().chain(regular::CASES);
    let says = cases.flat_map(|case| case.breaks).flat_map(|broken| broken.says);
    let mut seen: BTreeSet<(&str, &str)> = says.map(|(type_, reason, _)| (*type_, reason.as_str())).collect();
    // Where all is well, and `lifecycle::overlap`.
    seen.extend([
        ("Resolved", Reason::Resolved.as_str()),
        ("HostDataReady", Reason::HostDataDiscovered.as_str()),
        ("Resolved", Reason::NodeSelectorOverlap.as_str()),
        ("HostDataReady", Reason::NodeSelectorOverlap.as_str()),
    ]);
    let resolved = Reason::ALL.iter().filter(|reason| **reason != Reason::HostDataDiscovered);
    let host = [
        Reason::HostDataDiscovered,
        Reason::HostInterfaceNotFound,
        Reason::InvalidHostInterface,
        Reason::GatewayInfoUnavailable,
        Reason::NodeSelectorOverlap,
    ];
    let want: BTreeSet<(&str, &str)> = resolved
        .map(|reason| ("Resolved", reason.as_str()))
        .chain(host.iter().map(|reason| ("HostDataReady", reason.as_str())))
        .collect();
    ensure!(seen == want, "without a case: {:?}", want.symmetric_difference(&seen).collect::<Vec<_>>());
    Ok(())
}
