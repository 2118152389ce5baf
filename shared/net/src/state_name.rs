//! Names of UplinkStates.

use std::fmt;

/// The name of the UplinkState of one Uplink on one node. Opaque: two pairs can share a name, so the pair is read
/// from the object's spec, never from its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateName(String);

/// Longest name of a Kubernetes object, in bytes (RFC 1123 subdomain).
const MAX_NAME_BYTES: usize = 253;

impl StateName {
    /// The name for an Uplink on a node: `<uplink>.<node>`, or a hash of that where it would be too long.
    ///
    /// Source: OVN-Kubernetes, `pkg/uplink/names.go`.
    #[must_use]
    pub fn of(uplink: &str, node: &str) -> Self {
        let joined = format!("{uplink}.{node}");
        if joined.len() <= MAX_NAME_BYTES {
            Self(joined)
        } else {
            Self(format!("uplinkstate-a{}", fnv1a_64(joined.as_bytes())))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// FNV-1a of 64 bits. Source: the FNV reference, offset basis and prime for 64 bits.
fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(14_695_981_039_346_656_037, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_equal_the_published_values() {
        let many = |c: &str, n: usize| c.repeat(n);
        let cases = [
            ("tenant-blue".to_owned(), "worker-a".to_owned(), "tenant-blue.worker-a".to_owned()),
            (
                format!("{}.{}", many("a", 63), many("b", 63)),
                format!("{}.{}", many("c", 63), many("d", 61)),
                format!("{}.{}.{}.{}", many("a", 63), many("b", 63), many("c", 63), many("d", 61)),
            ),
            (
                format!("{}.{}", many("a", 63), many("b", 63)),
                format!("{}.{}", many("c", 63), many("d", 62)),
                "uplinkstate-a8221239578933083323".to_owned(),
            ),
            (many("u", 200), many("n", 60), "uplinkstate-a10957393278523658921".to_owned()),
            (many("a", 200), many("b", 53), "uplinkstate-a896807376183364897".to_owned()),
            (
                format!("up-{}.up-{}", many("a", 60), many("b", 60)),
                format!("nd-{}.nd-{}", many("c", 60), many("d", 60)),
                "uplinkstate-a5223663400824505589".to_owned(),
            ),
        ];
        for (uplink, node, name) in cases {
            assert_eq!(StateName::of(&uplink, &node).as_str(), name);
        }
    }

    #[test]
    fn dots_can_make_two_pairs_share_a_name() {
        assert_eq!(StateName::of("a.b", "c"), StateName::of("a", "b.c"));
    }
}
