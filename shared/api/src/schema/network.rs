//! Schema fragments of networks: values with rules of their own, and lists of them.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A subnet such as `10.20.0.0/16`; 43 letters hold the longest IPv6 one.
fn cidr_value() -> Value {
    json!({
        "type": "string", "maxLength": 43,
        "x-kubernetes-validations": [{"rule": "isCIDR(self)", "message": "CIDR is invalid"}],
    })
}

/// The rule that two subnets are of two families.
fn different_families() -> Value {
    json!({
        "rule": "size(self) != 2 || !isCIDR(self[0]) || !isCIDR(self[1]) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",
        "message": "When 2 CIDRs are set, they must be from different IP families",
    })
}

/// One subnet.
pub(crate) fn cidr(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "maxLength": 43,
        "x-kubernetes-validations": [{"rule": "isCIDR(self)", "message": "CIDR is invalid"}],
    })
}

/// At most one subnet of each family.
pub(crate) fn dual_stack_cidrs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": 2, "items": cidr_value(),
        "x-kubernetes-validations": [different_families()],
    })
}

/// The same, and it stays as it is.
pub(crate) fn join_subnets_of_layer3(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": 2, "items": cidr_value(),
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "joinSubnets is immutable"},
            different_families(),
        ],
    })
}

/// Up to `most` subnets.
fn cidrs(most: u32) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": most, "x-kubernetes-list-type": "atomic",
        "items": cidr_value(),
    })
}

/// Subnets given to pods only on request.
pub(crate) fn reserved_subnets(_: &mut SchemaGenerator) -> Schema {
    cidrs(25)
}

/// Subnets of the nodes' own ports.
pub(crate) fn infrastructure_subnets(_: &mut SchemaGenerator) -> Schema {
    cidrs(4)
}

/// Subnets that pods never get.
pub(crate) fn exclude_subnets(_: &mut SchemaGenerator) -> Schema {
    cidrs(25)
}

/// At most one address of each family.
pub(crate) fn default_gateway_ips(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": 2,
        "items": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "isIP(self)", "message": "IP is invalid"}],
        },
        "x-kubernetes-validations": [{
            "rule": "size(self) != 2 || !isIP(self[0]) || !isIP(self[1]) || ip(self[0]).family() != ip(self[1]).family()",
            "message": "When 2 IPs are set, they must be from different IP families",
        }],
    })
}

/// An integer of a range.
fn integer(least: i32, most: i32) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": least, "maximum": most})
}

/// Largest packet.
pub(crate) fn mtu(_: &mut SchemaGenerator) -> Schema {
    integer(576, 65_536)
}

/// Prefix length of a node's subnet.
pub(crate) fn host_subnet(_: &mut SchemaGenerator) -> Schema {
    integer(1, 127)
}

/// Number of a VLAN.
pub(crate) fn vlan_id(_: &mut SchemaGenerator) -> Schema {
    integer(1, 4094)
}

/// VXLAN network identifier.
pub(crate) fn vni(_: &mut SchemaGenerator) -> Schema {
    integer(1, 16_777_215)
}

/// The topologies of a namespaced network.
pub(crate) fn topology_of_udn(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "enum": ["Layer2", "Layer3"],
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "Topology is immutable"}],
    })
}

/// The only role of a network of the underlay.
pub(crate) fn role_of_localnet(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Secondary"]})
}

/// Name of a network of the underlay. Comma and colon separate the entries of `ovn-bridge-mappings`.
pub(crate) fn physical_network_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": 253,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[^,:]+$')",
            "message": "physicalNetworkName cannot contain `,` or `:` characters",
        }],
    })
}

/// Names of Uplinks: at most one today.
pub(crate) fn uplinks(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": 1, "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        },
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "uplinks is immutable"}],
    })
}

/// A BGP route target in one of the forms of RFC 4360 and RFC 5668, or with a wildcard before the colon.
pub(crate) fn route_target(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "maxLength": 21,
        "x-kubernetes-validations": [
            {"rule": "self.split(':').size() == 2", "message": "RT must contain exactly one colon"},
            {
                "rule": "self.split(':').size() != 2 || (self.startsWith('*:') || isIP(self.split(':')[0]) || self.split(':')[0].matches('^[0-9]+$'))",
                "message": "RT global administrator must be either '*', an IPv4 address, or a number",
            },
            {
                "rule": "self.split(':').size() != 2 || self.split(':')[1].matches('^[0-9]+$')",
                "message": "RT local administrator must be a number",
            },
            {
                "rule": "self.split(':').size() != 2 || !self.startsWith('*:') || (self.split(':')[1].matches('^[0-9]+$') && uint(self.split(':')[1]) <= 4294967295u)",
                "message": "RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295",
            },
            {
                "rule": "self.split(':').size() != 2 || !self.split(':')[0].contains('.') || (self.split(':')[1].matches('^[0-9]+$') && uint(self.split(':')[1]) <= 65535u)",
                "message": "RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535",
            },
            {
                "rule": "self.split(':').size() != 2 || self.startsWith('*:') || self.split(':')[0].contains('.') || !self.split(':')[0].matches('^[0-9]+$') || !self.split(':')[1].matches('^[0-9]+$') || uint(self.split(':')[0]) <= 65535u || uint(self.split(':')[1]) <= 65535u",
                "message": "RT with 4-byte ASN global administrator must have format GHJK:MN where GHJK <= 4294967295 and MN <= 65535",
            },
            {
                "rule": "self.split(':').size() != 2 || self.startsWith('*:') || self.split(':')[0].contains('.') || !self.split(':')[0].matches('^[0-9]+$') || !self.split(':')[1].matches('^[0-9]+$') || uint(self.split(':')[0]) > 65535u || uint(self.split(':')[1]) <= 4294967295u",
                "message": "RT with 2-byte ASN global administrator must have format EF:OPQR where EF <= 65535 and OPQR <= 4294967295",
            },
        ],
    })
}

/// Blocks of addresses of a VTEP.
pub(crate) fn vtep_cidrs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Where the addresses are from: blocks without host bits that do not overlap.",
        "type": "array", "minItems": 1, "maxItems": 20, "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "maxLength": 43,
            "x-kubernetes-validations": [{
                "rule": "isCIDR(self) && cidr(self) == cidr(self).masked()",
                "message": "CIDR must be a valid network address",
            }],
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(i, a, self.all(j, b, i == j || !(cidr(a).containsIP(cidr(b).ip()) || cidr(b).containsIP(cidr(a).ip()))))",
            "message": "CIDRs must not overlap with each other",
        }],
    })
}

/// Who gives nodes the addresses of a VTEP.
pub(crate) fn vtep_mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Who gives nodes their addresses. Managed when absent.",
        "type": "string", "enum": ["Managed", "Unmanaged"], "default": "Managed",
    })
}
