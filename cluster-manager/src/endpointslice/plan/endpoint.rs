//! Endpoints on another network. Pure.

use std::fmt;
use std::net::IpAddr;

use causeway_runtime::watch::{Lookup, NamespacedName};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};

use crate::endpointslice::migration::{self, Move};
use crate::endpointslice::observe::{Network, World};
use crate::endpointslice::watched::{SliceKey, Source};
use crate::observed::pod::{Pod, Reach};

/// Kind of IP addresses of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::endpointslice) enum Family {
    V4,
    V6,
}

impl Family {
    /// Of an addressType; none for one that is not of IP addresses.
    #[must_use]
    pub(super) fn of(address_type: &str) -> Option<Self> {
        match address_type {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// An endpoint that is not in the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::endpointslice) struct Omitted {
    /// Its place in the source.
    pub(in crate::endpointslice) index: usize,
    /// The pod, where it is one.
    pub(in crate::endpointslice) pod: Option<String>,
    /// Why it is not.
    pub(in crate::endpointslice) cause: Cause,
}

/// Why an endpoint has no address on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::endpointslice) enum Cause {
    /// It is no pod.
    NotAPod,
    /// The pod has no address on the network yet, or is gone: passes by itself.
    NotYet,
    /// The pod has addresses, of the other family only.
    OtherFamily(Family),
    /// What the pod says about its addresses cannot be read.
    Unreadable(String),
}

impl Cause {
    /// The word in metrics.
    #[must_use]
    pub(in crate::endpointslice) const fn as_str(&self) -> &'static str {
        match self {
            Self::NotAPod => "not_a_pod",
            Self::NotYet => "no_address_yet",
            Self::OtherFamily(_) => "other_family",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Whether people have to do something about it.
    #[must_use]
    pub(in crate::endpointslice) fn is_for_people(&self) -> bool {
        *self != Self::NotYet
    }
}

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pod {
            Some(pod) => write!(f, "pod {pod}")?,
            None => write!(f, "endpoint {}", self.index)?,
        }
        match &self.cause {
            Cause::NotAPod => f.write_str(" is no pod"),
            Cause::NotYet => f.write_str(" has no address yet"),
            Cause::OtherFamily(family) => write!(f, " has no {family} address"),
            Cause::Unreadable(cause) => write!(f, " has addresses that cannot be read ({cause})"),
        }
    }
}

/// The endpoints of `source` that have an address on `network`, in their order, and those that have none.
pub(super) fn mirrored(
    key: &SliceKey,
    source: &Source,
    family: Family,
    network: &Network,
    world: &World,
) -> (Vec<Endpoint>, Vec<Omitted>) {
    let (mut endpoints, mut omitted) = (Vec::new(), Vec::new());
    for (index, endpoint) in source.content.endpoints.iter().enumerate() {
        let target = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
        let pod = target.and_then(|target| target.name.clone());
        let address = match &pod {
            None => Err(Cause::NotAPod),
            Some(pod) => address(&key.pod(pod), family, network, world),
        };
        match address {
            Ok(address) => {
                let mut endpoint = Endpoint { addresses: vec![address.to_string()], ..endpoint.clone() };
                if let Some(pod) = &pod {
                    keep_moving_machine(&key.pod(pod), &mut endpoint, world);
                }
                endpoints.push(endpoint);
            }
            Err(cause) => omitted.push(Omitted { index, pod, cause }),
        }
    }
    (endpoints, omitted)
}

/// Where a pod can be reached on the network.
fn address(pod: &NamespacedName, family: Family, network: &Network, world: &World) -> Result<IpAddr, Cause> {
    let pod: &Pod = match world.pods.lookup(pod) {
        Lookup::Present(pod) => pod,
        Lookup::Absent => return Err(Cause::NotYet),
        Lookup::Unreadable(error) => return Err(Cause::Unreadable(error.to_owned())),
    };
    let addresses = match pod.reach() {
        Reach::Host(addresses) => addresses,
        Reach::Unreadable(cause) => return Err(Cause::Unreadable(cause.to_owned())),
        Reach::Networks(attached) => {
            match attached.iter().find(|one| one.nad == network.attachment).map(|one| &one.addresses) {
                None => return Err(Cause::NotYet),
                Some(Ok(addresses)) => addresses,
                Some(Err(cause)) => return Err(Cause::Unreadable(cause.clone())),
            }
        }
    };
    if addresses.is_empty() {
        return Err(Cause::NotYet);
    }
    let of_family = addresses.iter().copied().find(|address| family.has(*address));
    of_family.ok_or(Cause::OtherFamily(family))
}

/// Leaves an endpoint ready whose virtual machine moves. Both pods can say for a moment that they are not ready although
/// the machine goes on under its address; a load balancer without any endpoint would reset its connections.
fn keep_moving_machine(key: &NamespacedName, endpoint: &mut Endpoint, world: &World) {
    // Not set means ready (Kubernetes API, `EndpointConditions`).
    if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false) {
        return;
    }
    let Some(machine) = world.pods.get(key).and_then(|pod| pod.machine.clone()) else { return };
    let Some(domain) = machine.domain else { return };
    let pods: Vec<(&NamespacedName, _)> =
        world.machines.iter().filter_map(|key| Some((key, world.pods.get(key)?))).collect();
    let of_domain = pods.iter().filter_map(|(key, pod)| {
        let machine = pod.machine.as_ref()?;
        (machine.domain.as_ref() == Some(&domain)).then_some((key.name.as_str(), machine.as_ref()))
    });
    // More pods than a move has say nothing about it: what Kubernetes says stays.
    if let Ok(Some(Move::InProgress | Move::Arrived)) = migration::state(of_domain) {
        endpoint.conditions =
            Some(EndpointConditions { ready: Some(true), serving: Some(true), terminating: Some(false) });
    }
}
