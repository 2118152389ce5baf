//! A host and its simulated card: two sets of namespaces joined by veth pairs.

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::node::{Node, NodeBuilder};
use crate::rig::Rig;

/// One end of a simulated card's pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardSide {
    /// `eth0-<n>` on the host.
    Host,
    /// `rep0-<n>` on the card.
    Dpu,
}

/// MAC address of pair `index` of a simulated card. Source: reference, Uplinks on the node, 5.7 "Simulated DPU".
///
/// # Errors
/// For an empty node name.
pub fn simulated_mac(node: &str, side: CardSide, index: u16) -> anyhow::Result<String> {
    ensure!(!node.is_empty(), "a simulated card belongs to a node with a name");
    let role = match side {
        CardSide::Host => "host",
        CardSide::Dpu => "dpu",
    };
    let hash = Sha256::new().chain_update(node).chain_update([0]).chain_update(role).finalize();
    let [first, second, ..] = hash.0;
    let [_, low] = index.to_be_bytes();
    Ok(format!("52:54:00:{first:02x}:{second:02x}:{low:02x}"))
}

/// What a pair of host and card will be.
#[derive(Debug)]
pub struct DpuPairBuilder<'a> {
    rig: &'a Rig,
    host: NodeBuilder,
    name: String,
    indices: Vec<u16>,
    physical: String,
}

impl Rig {
    /// A host called `name` and its card, called `<name>-dpu`, to be. The card is no node of the cluster: its programs
    /// work for the host's Node object.
    #[must_use]
    pub fn dpu_pair(&self, name: &str) -> DpuPairBuilder<'_> {
        let (host, physical) = (self.node(name), "p0".to_owned());
        DpuPairBuilder { rig: self, host, name: name.to_owned(), indices: vec![0, 1, 16], physical }
    }
}

impl DpuPairBuilder<'_> {
    /// Other pairs than 0 (gateway), 1 (management port) and 16.
    #[must_use]
    pub fn indices(mut self, indices: impl IntoIterator<Item = u16>) -> Self {
        self.indices = indices.into_iter().collect();
        self
    }

    /// Another name of the card's physical port than `p0`.
    #[must_use]
    pub fn physical(mut self, name: &str) -> Self {
        name.clone_into(&mut self.physical);
        self
    }

    /// Describes the host: labels, annotations, kubelet.
    #[must_use]
    pub fn host(mut self, describe: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Self {
        self.host = describe(self.host);
        self
    }

    /// Starts both sides. All ends of the pairs are up, without addresses.
    ///
    /// # Errors
    /// If a part does not come up.
    pub async fn start(self) -> anyhow::Result<DpuPair> {
        let card = self.rig.node(format!("{}-dpu", self.name)).unregistered().start();
        let (host, card) = futures::try_join!(self.host.start(), card)?;
        let pair = DpuPair { host, card };
        for index in self.indices {
            pair.connect(index).await?;
        }
        pair.card.physical_port(&self.physical).await?;
        Ok(pair)
    }
}

/// A host and its simulated card.
#[derive(Debug)]
pub struct DpuPair {
    /// The host, with `eth0-<n>`.
    pub host: Node,
    /// The card, with `rep0-<n>` and a physical port.
    pub card: Node,
}

impl DpuPair {
    /// Makes the pair `eth0-<index>` ↔ `rep0-<index>`.
    ///
    /// # Errors
    /// If it is there already.
    pub async fn connect(&self, index: u16) -> anyhow::Result<()> {
        let (host, card) = (self.host.init(), self.card.init());
        let host_mac = simulated_mac(self.host.name(), CardSide::Host, index)?;
        let card_mac = simulated_mac(self.host.name(), CardSide::Dpu, index)?;
        let link = format!(
            "link add name eth0-{index} address {host_mac} netns {host} type veth \
             peer name rep0-{index} address {card_mac} netns {card}\n"
        );
        let network = &self.host.shared.ground.network;
        let what = || format!("joining host and card by pair {index}");
        network.exec_with_input(["ip", "-batch", "-"], link.into()).await.with_context(what)?;
        self.host.ip(["link", "set", &format!("eth0-{index}"), "up"]).await.with_context(what)?;
        self.card.ip(["link", "set", &format!("rep0-{index}"), "up"]).await.with_context(what)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_equal_the_examples_of_the_reference() {
        let check = |node, side, index, want: &str| {
            assert_eq!(simulated_mac(node, side, index).unwrap(), want, "{node} {side:?} {index}");
        };
        check("node-a", CardSide::Host, 1, "52:54:00:d9:20:01");
        check("node-a", CardSide::Host, 16, "52:54:00:d9:20:10");
        check("node-b", CardSide::Host, 1, "52:54:00:cf:dd:01");
        check("node-a", CardSide::Dpu, 16, "52:54:00:be:34:10");
        assert!(simulated_mac("", CardSide::Host, 0).is_err());
    }
}
