//! A node's subnets by network, beside the text that [`super::node::NODE_SUBNETS`] says of each.
//!
//! A node has one annotation for all networks. Of a thousand networks one changes at a time: what is said of the others is
//! not made anew.

use ipnet::IpNet;

use super::Networks;
use super::node::subnets_text;
use crate::go_json::quoted;

/// Subnets by network; none is without a subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSubnetsText(Networks<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    subnets: Vec<IpNet>,
    /// Key and value, as they stand in the annotation.
    text: Box<str>,
}

impl NodeSubnetsText {
    /// The subnets of one network.
    #[must_use]
    pub fn get(&self, network: &str) -> Option<&[IpNet]> {
        self.0.get(network).map(|entry| entry.subnets.as_slice())
    }

    /// Gives a network these subnets; without any it has no entry.
    pub fn set(&mut self, network: &str, subnets: Vec<IpNet>) {
        if subnets.is_empty() {
            self.0.remove(network);
            return;
        }
        if self.get(network) == Some(subnets.as_slice()) {
            return;
        }
        let text = format!("{}:{}", quoted(network), subnets_text(&subnets)).into();
        self.0.insert(network.to_owned(), Entry { subnets, text });
    }

    /// Takes a network out.
    pub fn remove(&mut self, network: &str) {
        self.0.remove(network);
    }

    /// Keeps the networks for which `keep` says so.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|network, _| keep(network));
    }

    /// Names of the networks.
    pub fn networks(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The annotation; none without any network: it is removed then.
    #[must_use]
    pub fn render(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let length = self.0.values().map(|entry| entry.text.len() + 1).sum::<usize>() + 1;
        let mut out = String::with_capacity(length);
        for (index, entry) in self.0.values().enumerate() {
            out.push(if index == 0 { '{' } else { ',' });
            out.push_str(&entry.text);
        }
        out.push('}');
        Some(out)
    }
}

impl From<Networks<Vec<IpNet>>> for NodeSubnetsText {
    fn from(subnets: Networks<Vec<IpNet>>) -> Self {
        let mut all = Self::default();
        for (network, subnets) in subnets {
            all.set(&network, subnets);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::annotation::node::render_node_subnets;

    fn subnet() -> impl Strategy<Value = IpNet> {
        prop_oneof![
            (any::<[u8; 4]>(), 0..=32u8).prop_map(|(ip, length)| IpNet::new(ip.into(), length).unwrap()),
            (any::<[u8; 16]>(), 0..=128u8).prop_map(|(ip, length)| IpNet::new(ip.into(), length).unwrap()),
        ]
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_the_whole_after_any_changes(
            changes in vec(("[ab\"<é]{1,2}", vec(subnet(), 0..3)), 0..12),
        ) {
            let (mut kept, mut plain) = (NodeSubnetsText::default(), Networks::new());
            for (network, subnets) in changes {
                kept.set(&network, subnets.clone());
                plain.insert(network, subnets);
                prop_assert_eq!(kept.render(), render_node_subnets(&plain));
            }
            kept.retain(|network| !network.starts_with('a'));
            kept.remove("b");
            plain.retain(|network, _| !network.starts_with('a') && network != "b");
            prop_assert_eq!(kept.render(), render_node_subnets(&plain));
            prop_assert_eq!(NodeSubnetsText::from(plain), kept);
        }
    }
}
