//! One block of addresses of a network, cut into subnets of one length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::slots::{Skip, Slots};

/// At most so many subnets of a range are handed out. Source: ovn-kubernetes subnet allocator, 2^24.
const MOST_SUBNETS: u32 = 24;

/// From so many bits of subnet number on, IPv6 subnets whose number has its low 16 bits zero are left out, as upstream
/// leaves them out. Source: ovn-kubernetes subnet allocator.
const SKIP_FROM: u32 = 16;

/// Why a range cannot be cut into subnets of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRange {
    /// A subnet would be larger than the range.
    #[error("subnet capacity cannot be larger than number of networks available")]
    HostLongerThanRange,
    /// A subnet would have no address.
    #[error("host capacity cannot be zero")]
    NoHostBits,
}

/// A range with its taken subnets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    network: IpNet,
    host_length: u8,
    order: Order,
    slots: Slots,
}

/// How the number of a subnet is made from its position in the order in which subnets are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// They are the same.
    Straight,
    /// The number's `bits` bits are the position's, rotated left by `by`: subnets whose last octet ends in zeros come
    /// first. Only for IPv4.
    Rotated { bits: u32, by: u32 },
}

impl Order {
    /// Source: ovn-kubernetes subnet allocator: applied when the subnet's number crosses a border of octets and does
    /// not begin at one.
    fn of(network: &IpNet, host_length: u8) -> Self {
        let IpAddr::V4(_) = network.addr() else { return Self::Straight };
        let host = u32::from(32 - host_length);
        let bits = u32::from(host_length - network.prefix_len());
        let crosses = host > 0 && bits > 0 && (host - 1) / 8 != (host + bits - 1) / 8;
        if host.is_multiple_of(8) || !crosses {
            return Self::Straight;
        }
        Self::Rotated { bits, by: 8 - host % 8 }
    }

    fn number(self, position: u128) -> u128 {
        match self {
            Self::Straight => position,
            Self::Rotated { bits, by } => rotate(position, bits, by),
        }
    }

    fn position(self, number: u128) -> u128 {
        match self {
            Self::Straight => number,
            Self::Rotated { bits, by } => rotate(number, bits, bits - by),
        }
    }
}

/// The low `bits` bits rotated left by `by`, at most `bits`.
fn rotate(value: u128, bits: u32, by: u32) -> u128 {
    let mask = (1 << bits) - 1;
    ((value << by) & mask) | ((value & mask) >> (bits - by))
}

impl Range {
    pub(super) fn new(network: IpNet, host_length: u8) -> Result<Self, BadRange> {
        if host_length < network.prefix_len() {
            return Err(BadRange::HostLongerThanRange);
        }
        if host_length >= network.max_prefix_len() {
            return Err(BadRange::NoHostBits);
        }
        let bits = u32::from(host_length - network.prefix_len());
        let skip = if network.addr().is_ipv6() && bits >= SKIP_FROM { Skip::Low16Zero } else { Skip::None };
        Ok(Self {
            network: network.trunc(),
            host_length,
            order: Order::of(&network, host_length),
            slots: Slots::new(1 << bits.min(MOST_SUBNETS), skip),
        })
    }

    pub(super) fn network(&self) -> IpNet {
        self.network
    }

    pub(super) fn host_length(&self) -> u8 {
        self.host_length
    }

    /// How many subnets can be handed out at most.
    pub(super) fn capacity(&self) -> u128 {
        self.slots.capacity()
    }

    /// Takes the next free subnet.
    pub(super) fn take_next(&mut self) -> Option<IpNet> {
        let position = self.slots.take_next()?;
        Some(self.subnet(self.order.number(position)))
    }

    /// Takes a subnet of this range by name; false if it is taken, wholly or in part.
    pub(super) fn take(&mut self, subnet: &IpNet) -> bool {
        let position = self.order.position(self.number(subnet));
        self.slots.take(position)
    }

    pub(super) fn is_taken(&self, subnet: &IpNet) -> bool {
        self.slots.is_taken(self.order.position(self.number(subnet)))
    }

    /// Frees a subnet.
    pub(super) fn release(&mut self, subnet: &IpNet) {
        let position = self.order.position(self.number(subnet));
        self.slots.release(position, position);
    }

    /// Frees a subnet that was just handed out and that nobody got to know of: the next search finds it again.
    pub(super) fn give_back(&mut self, subnet: &IpNet) {
        let position = self.order.position(self.number(subnet));
        self.slots.give_back(position);
    }

    /// Whether an address block is one of the subnets that the range is cut into, taken or not.
    pub(super) fn is_cut_into(&self, subnet: &IpNet) -> bool {
        self.network.contains(subnet) && subnet.prefix_len() == self.host_length && subnet.trunc() == *subnet
    }

    /// Takes every free subnet that a foreign block touches; says which runs of positions those were.
    pub(super) fn block(&mut self, foreign: &IpNet) -> Vec<(u128, u128)> {
        let mut taken = Vec::new();
        if let Some((first, last)) = self.touched(foreign) {
            for (first, last) in self.runs(first, last) {
                taken.extend(self.slots.take_run(first, last));
            }
        }
        taken
    }

    pub(super) fn unblock(&mut self, runs: &[(u128, u128)]) {
        for &(first, last) in runs {
            self.slots.release(first, last);
        }
    }

    /// Numbers of the first and last subnet that share an address with a block.
    fn touched(&self, foreign: &IpNet) -> Option<(u128, u128)> {
        if foreign.contains(&self.network) {
            let bits = u32::from(self.host_length - self.network.prefix_len());
            return Some((0, 1_u128.checked_shl(bits).map_or(u128::MAX, |count| count - 1)));
        }
        let foreign = &foreign.trunc();
        let inside = self.network.contains(foreign);
        let last = IpNet::new_assert(foreign.broadcast(), foreign.max_prefix_len());
        inside.then(|| (self.number(foreign), self.number(&last)))
    }

    /// Positions of numbers that follow one another and begin and end at a power of two.
    fn runs(&self, first: u128, last: u128) -> Vec<(u128, u128)> {
        match self.order {
            Order::Straight => vec![(first, last)],
            // At most 2^7 runs: what varies below the rotation varies at the top of the position.
            Order::Rotated { by, .. } => {
                let step = 1_u128 << by;
                let tops = (last - first + 1).min(step);
                let length = (last - first + 1).div_ceil(step);
                let run = |top| {
                    let position = self.order.position(first + top);
                    (position, position + length - 1)
                };
                (0..tops).map(run).collect()
            }
        }
    }

    /// Number of the subnet that holds the first address of a block inside the range.
    fn number(&self, subnet: &IpNet) -> u128 {
        let host_bits = u32::from(self.network.max_prefix_len() - self.host_length);
        (bits(subnet.addr()) - bits(self.network.network())) >> host_bits
    }

    fn subnet(&self, number: u128) -> IpNet {
        let host_bits = u32::from(self.network.max_prefix_len() - self.host_length);
        let address = bits(self.network.network()) | (number << host_bits);
        let address = match self.network.addr() {
            // A range of IPv4 has no number above its own bits.
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(address).unwrap_or(u32::MAX))),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(address)),
        };
        IpNet::new_assert(address, self.host_length)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn range(network: &str, host_length: u8) -> Range {
        Range::new(network.parse().unwrap(), host_length).unwrap()
    }

    fn first(range: &mut Range, count: usize) -> Vec<String> {
        (0..count).map(|_| range.take_next().unwrap().to_string()).collect()
    }

    #[test]
    fn the_first_subnets_equal_the_published_ones() {
        for (network, host_length, want) in [
            ("10.1.0.0/16", 24, &["10.1.0.0/24", "10.1.1.0/24", "10.1.2.0/24"][..]),
            (
                "10.128.0.0/14",
                23,
                &["10.128.0.0/23", "10.129.0.0/23", "10.130.0.0/23", "10.131.0.0/23", "10.128.2.0/23"],
            ),
            ("10.50.0.0/24", 26, &["10.50.0.0/26", "10.50.0.64/26", "10.50.0.128/26", "10.50.0.192/26"]),
            ("10.41.0.0/16", 25, &["10.41.0.0/25", "10.41.1.0/25"]),
            ("fd00:10:244::/48", 64, &["fd00:10:244:1::/64", "fd00:10:244:2::/64"]),
            ("2001:db2::/56", 64, &["2001:db2::/64", "2001:db2:0:1::/64"]),
            ("2000::/12", 24, &["2000::/24", "2000:100::/24"]),
            ("10.0.0.5/16", 24, &["10.0.0.0/24"]),
            ("10.10.0.0/16", 17, &["10.10.0.0/17", "10.10.128.0/17"]),
            ("10.9.0.0/24", 24, &["10.9.0.0/24"]),
        ] {
            assert_eq!(first(&mut range(network, host_length), want.len()), want, "{network} {host_length}");
        }
    }

    #[test]
    fn subnets_that_end_in_a_zero_octet_come_first_and_then_the_rest() {
        let all = first(&mut range("10.1.0.0/16", 26), 1024);
        assert_eq!((all[0].as_str(), all[1].as_str()), ("10.1.0.0/26", "10.1.1.0/26"));
        assert_eq!((all[255].as_str(), all[256].as_str()), ("10.1.255.0/26", "10.1.0.64/26"));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1024);
    }

    #[test]
    fn every_order_of_subnets_has_its_way_back() {
        for host_length in 9..32 {
            let (prefix, count) = (host_length.max(14) - 6, 1 << (host_length - (host_length.max(14) - 6)));
            let mut range = range(&format!("10.0.0.0/{prefix}"), host_length);
            let all: Vec<IpNet> = (0..count).map(|_| range.take_next().unwrap()).collect();
            assert_eq!(range.take_next(), None);
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), count);
            for subnet in &all {
                assert!(range.is_cut_into(subnet) && !range.take(subnet), "{subnet}");
                range.release(subnet);
                assert!(range.take(subnet), "{subnet}");
            }
        }
    }

    #[test]
    fn lengths_that_leave_no_subnet_or_no_address_are_refused() {
        for (network, host_length, why) in [
            ("10.0.0.0/16", 15, "subnet capacity cannot be larger than number of networks available"),
            ("10.0.0.0/16", 32, "host capacity cannot be zero"),
            ("fd00::/48", 128, "host capacity cannot be zero"),
            ("10.0.0.0/16", 40, "host capacity cannot be zero"),
        ] {
            let found = Range::new(network.parse().unwrap(), host_length).unwrap_err();
            assert_eq!(found.to_string(), why);
        }
    }

    #[test]
    fn a_huge_range_hands_out_no_more_than_two_to_the_24() {
        assert_eq!(range("10.0.0.0/4", 30).capacity(), 1 << 24);
        assert_eq!(range("fd00::/16", 64).capacity(), (1 << 24) - (1 << 8));
        assert_eq!(range("::/0", 127).slots.capacity(), (1 << 24) - (1 << 8));
        let mut range = range("fd00::/16", 64);
        // Beyond those it can still be claimed by name.
        let far: IpNet = "fd00:ffff::/64".parse().unwrap();
        assert!(range.take(&far) && !range.take(&far));
    }

    #[test]
    fn a_foreign_block_takes_the_subnets_that_it_touches_and_no_other() {
        for (network, host_length, foreign) in [
            ("172.16.0.0/16", 24, "172.16.0.0/23"),
            ("172.16.0.0/16", 24, "172.16.8.128/25"),
            ("172.16.0.0/16", 24, "172.0.0.0/8"),
            ("172.16.0.0/18", 26, "172.16.4.0/23"),
            ("172.16.0.0/18", 26, "172.16.4.64/26"),
            ("172.16.0.0/18", 26, "172.16.4.128/25"),
            ("172.16.0.0/18", 29, "172.16.4.0/25"),
            ("172.16.0.0/18", 29, "172.16.4.0/20"),
            ("172.16.0.0/18", 29, "0.0.0.0/0"),
            ("172.16.0.0/18", 26, "10.0.0.0/8"),
        ] {
            let foreign: IpNet = foreign.parse().unwrap();
            let mut all = range(network, host_length);
            let want: BTreeSet<IpNet> = (0..all.capacity())
                .map(|_| all.take_next().unwrap())
                .filter(|subnet| !subnet.contains(&foreign) && !foreign.contains(subnet))
                .collect();
            let mut blocked = range(network, host_length);
            let runs = blocked.block(&foreign);
            let mut left = BTreeSet::new();
            while let Some(subnet) = blocked.take_next() {
                left.insert(subnet);
            }
            assert!(
                left == want,
                "{network} {host_length} {foreign}: {} left, want {}",
                left.len(),
                want.len()
            );
            blocked.unblock(&runs);
            let freed = std::iter::from_fn(|| blocked.take_next()).count();
            assert_eq!(u128::try_from(freed + left.len()).unwrap(), blocked.capacity());
        }
    }
}
