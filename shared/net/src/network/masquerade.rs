//! Masquerade addresses: what a node's traffic wears between the host and OVN.
//!
//! The first ones are shared by all networks; each network other than the default one has two of its own.

use std::net::IpAddr;

use ipnet::IpNet;

use super::id::NetworkId;
use super::offset::{OutOfRange, nth, nth_with_mask};

/// Below this offset are the shared addresses. Source: ovn-kubernetes `udngenerator`: 10 + 2·id - 1 and 10 + 2·id.
const USER_BASE: u32 = 10;

/// Why a network has no masquerade addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasqueradeError {
    /// The default network uses the shared ones.
    #[error("invalid argument: network ID should be bigger that 0")]
    DefaultNetwork,
    /// The range ends before the network's address.
    #[error("failed generating network id '{id}' {family}-masquerade-ips {end} ip: {source}")]
    TooSmall {
        /// The network.
        id: NetworkId,
        /// `v4` or `v6`.
        family: &'static str,
        /// Whose address it is.
        end: &'static str,
        /// Part of the text on purpose: conditions have one line.
        source: OutOfRange,
    },
}

/// The range cannot hold every network that there can be. Said at start, so that no single network finds out later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "masquerade subnet {range} is too small: network id {} needs an address {needed} above its first one; use at least a /{longest}",
    NetworkId::MAX
)]
pub struct RangeTooSmall {
    /// The range.
    pub range: IpNet,
    /// Offset of the highest address needed.
    pub needed: u32,
    /// Longest prefix that holds it.
    pub longest: u8,
}

/// The addresses that a network has of its own in one masquerade range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkMasquerade {
    /// The gateway router's.
    pub gateway_router: IpNet,
    /// The management port's.
    pub management_port: IpNet,
}

/// The addresses that all networks share in one masquerade range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMasquerade {
    /// OVN's.
    pub ovn: IpAddr,
    /// The host's.
    pub host: IpAddr,
    /// The host's, for services whose external traffic stays local.
    pub host_local_traffic: IpAddr,
    /// A next hop that nobody has.
    pub dummy_next_hop: IpAddr,
    /// A service's when it is reached by its own backend.
    pub service_hairpin: IpAddr,
}

/// The two addresses of a network.
///
/// # Errors
/// It is the default network, or the range ends before them.
pub fn of_network(range: IpNet, id: NetworkId) -> Result<NetworkMasquerade, MasqueradeError> {
    if id.is_default() {
        return Err(MasqueradeError::DefaultNetwork);
    }
    let family = if range.addr().is_ipv4() { "v4" } else { "v6" };
    let last = last_offset(id);
    let at = |index, end| {
        nth_with_mask(range, index).map_err(|source| MasqueradeError::TooSmall { id, family, end, source })
    };
    Ok(NetworkMasquerade {
        gateway_router: at(last - 1, "gateway router")?,
        management_port: at(last, "management port")?,
    })
}

/// The shared addresses.
///
/// # Errors
/// The range ends before them.
pub fn shared(range: IpNet) -> Result<SharedMasquerade, OutOfRange> {
    Ok(SharedMasquerade {
        ovn: nth(range, 1)?,
        host: nth(range, 2)?,
        host_local_traffic: nth(range, 3)?,
        dummy_next_hop: nth(range, 4)?,
        service_hairpin: nth(range, 5)?,
    })
}

/// Whether the range holds the addresses of every network that there can be.
///
/// # Errors
/// It does not; says how large it has to be.
pub fn check_holds_every_network(range: IpNet) -> Result<(), RangeTooSmall> {
    let needed = last_offset(NetworkId::MAX);
    // Bits that a host part needs to count up to the offset.
    let bits = u32::BITS - needed.leading_zeros();
    let longest = range.max_prefix_len().saturating_sub(u8::try_from(bits).unwrap_or(u8::MAX));
    nth(range, needed).map(drop).map_err(|_| RangeTooSmall { range: range.trunc(), needed, longest })
}

fn last_offset(id: NetworkId) -> u32 {
    USER_BASE + 2 * u32::from(id.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn the_two_addresses_of_a_network_equal_the_published_ones() {
        for (id, v4, v6) in [
            (1, ["169.254.0.11/17", "169.254.0.12/17"], ["fd69::b/112", "fd69::c/112"]),
            (2, ["169.254.0.13/17", "169.254.0.14/17"], ["fd69::d/112", "fd69::e/112"]),
            (4095, ["169.254.32.7/17", "169.254.32.8/17"], ["fd69::2007/112", "fd69::2008/112"]),
        ] {
            let id = NetworkId::try_from(id).unwrap();
            for (range, [gateway, port]) in [("169.254.0.0/17", v4), ("fd69::/112", v6)] {
                let found = of_network(net(range), id).unwrap();
                assert_eq!((found.gateway_router, found.management_port), (net(gateway), net(port)), "{id}");
            }
        }
    }

    #[test]
    fn the_default_network_and_a_range_that_ends_too_early_are_refused() {
        let error = of_network(net("169.254.0.0/17"), NetworkId::DEFAULT).unwrap_err();
        assert_eq!(error.to_string(), "invalid argument: network ID should be bigger that 0");
        let error = of_network(net("169.254.169.0/29"), NetworkId::try_from(9).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed generating network id '9' v4-masquerade-ips gateway router ip: generated ip 169.254.169.27 \
             from the idx 27 is out of range in the network 169.254.169.0/29"
        );
    }

    #[test]
    fn shared_addresses_are_the_first_five() {
        let found = shared(net("169.254.0.0/17")).unwrap();
        let texts =
            [found.ovn, found.host, found.host_local_traffic, found.dummy_next_hop, found.service_hairpin]
                .map(|address| address.to_string());
        assert_eq!(texts, ["169.254.0.1", "169.254.0.2", "169.254.0.3", "169.254.0.4", "169.254.0.5"]);
    }

    #[test]
    fn a_range_too_small_for_the_highest_network_id_is_refused_at_once() {
        for fits in ["169.254.0.0/17", "169.254.0.0/18", "fd69::/112", "fd69::/114"] {
            assert_eq!(check_holds_every_network(net(fits)), Ok(()), "{fits}");
        }
        for (small, longest) in [
            ("169.254.0.0/19", "/18"),
            ("169.254.169.0/29", "/18"),
            ("fd69::/115", "/114"),
            ("fd69::/125", "/114"),
        ] {
            let text = check_holds_every_network(net(small)).unwrap_err().to_string();
            assert!(text.contains(small) && text.ends_with(longest), "{text}");
        }
    }
}
