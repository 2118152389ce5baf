//! Names and addresses of a simulated card: a veth pair between "host" and "card".
//!
//! Source: OVN-Kubernetes, `dpu-simulator/lib/dpusim`.

use sha2::{Digest, Sha256};

use crate::mac::MacAddress;

/// Which end of a simulated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The host's end, `eth<pf>-<function>`.
    Host,
    /// The card's end, `rep<pf>-<function>`.
    Dpu,
}

/// PF and function index of a simulated interface, from a name that ends in `<pf>-<function>`.
#[must_use]
pub fn function_of(name: &str) -> Option<(u32, u32)> {
    let (head, function) = name.rsplit_once('-')?;
    let digits = head.len() - head.bytes().rev().take_while(u8::is_ascii_digit).count();
    let pf = head.get(digits..)?;
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (all_digits(pf) && all_digits(function)).then_some(())?;
    Some((pf.parse().ok()?, function.parse().ok()?))
}

/// Name of the representor of a simulated function; an interface's alias may hold it instead.
#[must_use]
pub fn representor_name(pf: u32, function: u32) -> String {
    format!("rep{pf}-{function}")
}

/// Index of a representor of physical function 0, from its name `rep0-<n>`.
#[must_use]
pub fn representor_index(name: &str) -> Option<u32> {
    let index = name.strip_prefix("rep0-")?;
    (!index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    index.parse().ok()
}

/// MAC address of one end of the pair with an index: `52:54:00`, two bytes of SHA-256(`<node>` NUL `host`|`dpu`), the
/// index's low byte.
#[must_use]
pub fn mac(node: &str, end: End, index: u32) -> MacAddress {
    let mut hash = Sha256::new();
    hash.update(node.as_bytes());
    hash.update([0]);
    hash.update(match end {
        End::Host => "host",
        End::Dpu => "dpu",
    });
    let digest: [u8; 32] = hash.finalize().into();
    let [first, second, ..] = digest;
    let [_, _, _, low] = index.to_be_bytes();
    MacAddress::new([0x52, 0x54, 0x00, first, second, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_equal_the_published_examples() {
        let cases = [
            ("node-a", End::Host, 1, "52:54:00:d9:20:01"),
            ("node-a", End::Host, 16, "52:54:00:d9:20:10"),
            ("node-b", End::Host, 1, "52:54:00:cf:dd:01"),
            ("node-a", End::Dpu, 16, "52:54:00:be:34:10"),
        ];
        for (node, end, index, want) in cases {
            assert_eq!(mac(node, end, index).to_string(), want, "{node} {end:?} {index}");
        }
    }

    #[test]
    fn the_function_is_read_from_the_end_of_the_name() {
        assert_eq!(function_of("eth0-16"), Some((0, 16)));
        assert_eq!(function_of("ens1-2-7"), Some((2, 7)));
        for name in ["eth0", "eth-1", "eth0-", "-1", "eth0-x", "eth0-+1", "eth0-99999999999"] {
            assert_eq!(function_of(name), None, "{name}");
        }
    }

    #[test]
    fn only_representors_of_function_zero_are_host_facing() {
        assert_eq!(representor_index("rep0-16"), Some(16));
        assert_eq!(
            [representor_index("rep1-16"), representor_index("rep0-"), representor_index("eth0-1")],
            [None; 3]
        );
        assert_eq!(representor_name(0, 16), "rep0-16");
    }
}
