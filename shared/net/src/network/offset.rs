//! The n-th address of a range.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The address that lies outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("generated ip {} from the idx {index} is out of range in the network {network}",
        .address.map_or_else(|| "above the last one".to_owned(), |address| address.to_string()))]
pub struct OutOfRange {
    /// The address, if there is one so high.
    pub address: Option<IpAddr>,
    /// How far it is from the range's first address.
    pub index: u32,
    /// The range.
    pub network: IpNet,
}

/// The address that is `index` above the first one of a range, whatever host bits the range was written with.
///
/// # Errors
/// The range is too small.
pub fn nth(network: IpNet, index: u32) -> Result<IpAddr, OutOfRange> {
    let network = network.trunc();
    let address = match network.network() {
        IpAddr::V4(base) => {
            base.to_bits().checked_add(index).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        }
        IpAddr::V6(base) => {
            base.to_bits().checked_add(u128::from(index)).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        }
    };
    address.filter(|address| network.contains(address)).ok_or(OutOfRange { address, index, network })
}

/// The same with the range's own mask.
///
/// # Errors
/// The range is too small.
pub fn nth_with_mask(network: IpNet, index: u32) -> Result<IpNet, OutOfRange> {
    // A mask that the range has is one that an address of its family can have.
    nth(network, index).map(|address| IpNet::new_assert(address, network.prefix_len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_is_in_and_the_next_one_is_not() {
        let small: IpNet = "169.254.169.0/29".parse().unwrap();
        assert_eq!(nth(small, 7).unwrap().to_string(), "169.254.169.7");
        assert_eq!(
            nth(small, 27).unwrap_err().to_string(),
            "generated ip 169.254.169.27 from the idx 27 is out of range in the network 169.254.169.0/29"
        );
        assert!(nth("255.255.255.0/24".parse().unwrap(), 300).unwrap_err().address.is_none());
    }

    #[test]
    fn host_bits_of_the_range_play_no_part() {
        assert_eq!(nth_with_mask("10.0.0.9/16".parse().unwrap(), 2).unwrap().to_string(), "10.0.0.2/16");
        assert_eq!(nth_with_mask("fd99::/64".parse().unwrap(), 2).unwrap().to_string(), "fd99::2/64");
    }
}
