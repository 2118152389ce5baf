//! What has to be done about the mirrors of one EndpointSlice. Pure: no client, no clock, no log.
//!
//! In: a [`World`]. Out: a [`Plan`]: steps, and which endpoints have no address on the network, for people and metrics.
//!
//! A mirror has the endpoints of its source, in the same order, with their addresses on the primary network of the
//! namespace; addressType, ports, owners and whatever else endpoints hold are copied. Labels of the source are not copied
//! but for the Service's name, so that what selects Kubernetes' slices by label finds no mirror; labels and annotations
//! of others on a mirror stay.
//!
//! Differs from upstream: the whole mirror is compared, not only its source's version; an endpoint without an address is
//! left out, where upstream fails on the slice; mirrors that are not needed any more go; of several, one stays.

mod endpoint;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

#[cfg(test)]
pub(super) use self::endpoint::Cause;
pub(super) use self::endpoint::Omitted;
use self::endpoint::mirrored;
use super::observe::{Network, World};
use super::watched::{Content, Mirror, SliceKey, Source};

/// Longest name of an object. Source: RFC 1123, and `IsDNS1123Subdomain` of Kubernetes.
const MAX_NAME: usize = 253;

/// What has to be done, and what cannot be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// In this order.
    pub(super) steps: Vec<Step>,
    /// Endpoints that are not in the mirror.
    pub(super) omitted: Vec<Omitted>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Deletes a mirror.
    Delete {
        /// Its key.
        mirror: SliceKey,
        /// Its uid.
        uid: String,
        /// Why it has to go.
        because: Unneeded,
    },
    /// Makes a mirror.
    Create {
        /// What its name begins with.
        prefix: String,
        /// Whom it goes with.
        owners: Vec<OwnerReference>,
        /// What it is.
        wanted: Wanted,
    },
    /// Changes a mirror.
    Update {
        /// Its key.
        mirror: SliceKey,
        /// Its uid.
        uid: String,
        /// The version that this rests on.
        version: String,
        /// What it becomes.
        wanted: Wanted,
    },
}

/// What a mirror is, but for its name and owners, which stay as they were made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Name of its Service.
    pub(super) service: String,
    /// Version of its source.
    pub(super) source_version: String,
    /// Network of its addresses.
    pub(super) network: String,
    /// What it says.
    pub(super) content: Content,
}

/// Why a mirror has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unneeded {
    /// The namespace has no primary network.
    NoNetwork,
    /// There is nothing to mirror.
    NoSource,
    /// What there is has no IP addresses.
    NoAddresses,
    /// It is of another network or kind of addresses, which a name and an object do not outlive.
    Other,
    /// There is another one.
    Duplicate,
}

impl Unneeded {
    /// The word in logs and metrics.
    #[must_use]
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::NoNetwork => "no_network",
            Self::NoSource => "no_source",
            Self::NoAddresses => "no_addresses",
            Self::Other => "other_network",
            Self::Duplicate => "duplicate",
        }
    }
}

impl fmt::Display for Unneeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Plan {
    /// Whether a mirror goes because its namespace has no primary network.
    #[must_use]
    pub(super) fn misses_network(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Delete { because: Unneeded::NoNetwork, .. }))
    }
}

/// What has to be done about the mirrors of the slice `key`.
#[must_use]
pub(super) fn mirrors(key: &SliceKey, world: &World) -> Plan {
    let all_go = |because| Plan { steps: deletions(&world.mirrors, because), omitted: Vec::new() };
    let Some(network) = &world.network else { return all_go(Unneeded::NoNetwork) };
    let Some(source) = &world.source else { return all_go(Unneeded::NoSource) };
    let Some(family) = endpoint::Family::of(&source.content.address_type) else {
        return all_go(Unneeded::NoAddresses);
    };
    let (endpoints, omitted) = mirrored(key, source, family, network, world);
    let wanted = Wanted {
        service: source.service.clone(),
        source_version: source.version.clone(),
        network: network.name.clone(),
        content: Content { endpoints, ..source.content.clone() },
    };

    let (fitting, others): (Vec<_>, Vec<_>) =
        world.mirrors.iter().cloned().partition(|mirror| fits(mirror, &wanted));
    let mut steps = deletions(&others, Unneeded::Other);
    // The oldest stays: whoever uses it sees no gap. Before that, one that goes with the Service: times have seconds only,
    // and one that somebody made by hand may go with nothing.
    let goes_with = |mirror: &Mirror| source.owners.iter().any(|owner| mirror.owners.contains(&owner.uid));
    let rank = |mirror: &&Arc<Mirror>| (!goes_with(mirror), mirror.created, mirror.key.clone());
    let oldest = fitting.iter().min_by_key(rank);
    let rest: Vec<_> = fitting.iter().filter(|mirror| Some(*mirror) != oldest).cloned().collect();
    steps.extend(deletions(&rest, Unneeded::Duplicate));
    match oldest {
        Some(mirror) if is_as_wanted(mirror, &wanted) => {}
        Some(mirror) => steps.push(Step::Update {
            mirror: mirror.key.clone(),
            uid: mirror.uid.clone(),
            version: mirror.version.clone(),
            wanted,
        }),
        // A new mirror without endpoints would tell nobody anything.
        None if wanted.content.endpoints.is_empty() => {}
        None => steps.push(Step::Create {
            prefix: prefix(source, network),
            owners: source.owners.clone(),
            wanted,
        }),
    }
    Plan { steps, omitted }
}

fn deletions(mirrors: &[Arc<Mirror>], because: Unneeded) -> Vec<Step> {
    let deletion =
        |mirror: &Arc<Mirror>| Step::Delete { mirror: mirror.key.clone(), uid: mirror.uid.clone(), because };
    mirrors.iter().map(deletion).collect()
}

/// Whether a mirror can become what is wanted: the kind of addresses never changes, and the name of a mirror can hold the
/// network's. A mirror that somebody took the network from is still ours.
fn fits(mirror: &Mirror, wanted: &Wanted) -> bool {
    mirror.content.address_type == wanted.content.address_type
        && mirror.network.as_ref().is_none_or(|network| *network == wanted.network)
}

fn is_as_wanted(mirror: &Mirror, wanted: &Wanted) -> bool {
    let Wanted { service, source_version, network, content } = wanted;
    mirror.service.as_ref() == Some(service)
        && mirror.source_version.as_ref() == Some(source_version)
        && mirror.network.as_ref() == Some(network)
        && mirror.content == *content
}

/// What the name of a new mirror begins with: the network, if a name may hold it, then as the source's. The API server
/// cuts it and adds five letters. Source: upstream's `getMirroredEndpointSlice`; networks of UDNs and CUDNs have an
/// underscore in their names, so theirs never are in it.
fn prefix(source: &Source, network: &Network) -> String {
    let with_network = format!("{}-{}", network.name, source.prefix);
    if is_name_prefix(&with_network) { with_network } else { source.prefix.clone() }
}

/// Whether a name may begin with this: a DNS subdomain, also one that ends in `-`. Source: `NameIsDNSSubdomain` of
/// Kubernetes with `prefix`, which replaces a last `-` by a letter.
fn is_name_prefix(text: &str) -> bool {
    let whole = text.strip_suffix('-').map_or_else(|| text.to_owned(), |rest| format!("{rest}a"));
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    whole.len() <= MAX_NAME
        && whole.split('.').all(|label| {
            let ends = [label.bytes().next(), label.bytes().next_back()];
            ends.into_iter().all(|end| end.is_some_and(is_alphanumeric))
                && label.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
        })
}
