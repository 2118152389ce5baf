//! Which network device of this machine leads to which function of a host. Pure.
//!
//! Source: OVN-Kubernetes, `pkg/node/uplink/controller.go`; names of ports: the Go library `sriovnet`.

use causeway_net::host_data::PciFunction;
use causeway_net::mac::MacAddress;
use causeway_net::simulated::{self, End};

/// What a port of a switch stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flavour {
    /// The wire.
    Physical,
    /// A physical function.
    Pf,
    /// A virtual function.
    Vf,
    /// A subfunction.
    Sf,
    /// Anything else, or a device that is no port of a switch.
    Other,
}

/// One network device, as devlink, `phys_port_name` and `phys_switch_id` describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netdev {
    /// Name.
    pub name: String,
    /// Alias.
    pub alias: Option<String>,
    /// What it stands for; devlink's word wins over the port name's.
    pub flavour: Flavour,
    /// Controller of the function, where it is told: 1 and up are hosts, absent or 0 the card itself.
    pub controller: Option<u32>,
    /// Index of the physical function.
    pub pf: Option<u32>,
    /// Index of the virtual function.
    pub vf: Option<u32>,
    /// Number of the subfunction.
    pub sf: Option<u32>,
    /// PCI address of the device that it belongs to.
    pub device: Option<String>,
    /// Address of the function on the other side, where it can be read and identifies it.
    pub peer_mac: Option<MacAddress>,
}

/// The network devices of this machine and how representors are told among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Representors {
    /// Ports of real switches (or of netdevsim).
    Switchdev(Vec<Netdev>),
    /// Veth pairs that play a card: everything follows from names.
    Simulated {
        /// The node whose card is played.
        node: String,
        /// Name and alias of every device.
        links: Vec<(String, Option<String>)>,
    },
}

/// Why there is no representor for a function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRepresentor {
    /// Nothing stands for it.
    #[error("failed to find representor for host function {function}: {}", found(.present))]
    NotFound {
        /// The function asked for.
        function: PciFunction,
        /// The functions that there are representors of.
        present: Vec<String>,
    },
    /// Something does, but for another function with these indices.
    #[error(
        "representor {representor} for host function {function} peers with MAC {found}, not the published host MAC {published}"
    )]
    OtherMac {
        /// The device.
        representor: String,
        /// The function asked for.
        function: PciFunction,
        /// What the card says the function's address is.
        found: MacAddress,
        /// What the host says.
        published: MacAddress,
    },
    /// Several do.
    #[error("host function {function} has several representors: {}", .representors.join(", "))]
    Ambiguous {
        /// The function asked for.
        function: PciFunction,
        /// The devices.
        representors: Vec<String>,
    },
}

fn found(functions: &[String]) -> String {
    if functions.is_empty() {
        "there are no representors".to_owned()
    } else {
        format!("found {}", functions.join(", "))
    }
}

impl Representors {
    /// Whether a device leads to a host or guest: it never is a bridge's way out.
    #[must_use]
    pub fn is_host_facing(&self, name: &str) -> bool {
        match self {
            Self::Switchdev(devices) => devices.iter().any(|device| {
                device.name == name && matches!(device.flavour, Flavour::Pf | Flavour::Vf | Flavour::Sf)
            }),
            Self::Simulated { links, .. } => simulated_index(links, name).is_some(),
        }
    }

    /// Address of the function behind a representor, where it can be read.
    #[must_use]
    pub fn peer_mac(&self, name: &str) -> Option<MacAddress> {
        match self {
            Self::Switchdev(devices) => devices.iter().find(|device| device.name == name)?.peer_mac,
            Self::Simulated { node, links } => {
                Some(simulated::mac(node, End::Host, simulated_index(links, name)?))
            }
        }
    }

    /// The representor of a host's function. A readable address of the function must be the one that the host
    /// published: indices of two hosts of one card are the same.
    ///
    /// # Errors
    /// None, another function's, or several with nothing to choose by.
    pub fn of_function(&self, function: PciFunction, published: MacAddress) -> Result<&str, NoRepresentor> {
        let mut candidates = self.candidates(function);
        let mac_of = |name: &str| self.peer_mac(name);
        if let Some(exact) = candidates.iter().find(|(_, name)| mac_of(name) == Some(published)) {
            return Ok(exact.1);
        }
        let refused = candidates.iter().find_map(|(_, name)| Some((*name, mac_of(name)?)));
        candidates.retain(|(_, name)| mac_of(name).is_none());
        let best = candidates.iter().map(|(rank, _)| *rank).min();
        let mut of_best = candidates.iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, name)| *name);
        match (of_best.next(), of_best.next(), refused) {
            (Some(one), None, _) => Ok(one),
            (Some(_), Some(_), _) => Err(NoRepresentor::Ambiguous {
                function,
                representors: candidates.iter().map(|(_, name)| (*name).to_owned()).collect(),
            }),
            (None, _, Some((name, found))) => {
                Err(NoRepresentor::OtherMac { representor: name.to_owned(), function, found, published })
            }
            (None, _, None) => Err(NoRepresentor::NotFound { function, present: self.functions() }),
        }
    }

    /// Devices with the function's indices and how well each fits; the lowest rank fits best.
    fn candidates(&self, function: PciFunction) -> Vec<(u8, &str)> {
        match self {
            Self::Switchdev(devices) => devices
                .iter()
                .filter(|device| {
                    let flavour = if function.vf.is_some() { Flavour::Vf } else { Flavour::Pf };
                    device.flavour == flavour && device.pf == Some(function.pf) && device.vf == function.vf
                })
                .map(|device| (controller_rank(device.controller), device.name.as_str()))
                .collect(),
            Self::Simulated { links, .. } => {
                let Some(vf) = function.vf else { return Vec::new() }; // only VFs are simulated
                let wanted = simulated::representor_name(function.pf, vf);
                let by_name =
                    links.iter().filter(|(name, _)| *name == wanted).map(|(name, _)| (0, name.as_str()));
                let aliased =
                    links.iter().filter(|(name, alias)| *name != wanted && alias.as_deref() == Some(&wanted));
                by_name.chain(aliased.map(|(name, _)| (1, name.as_str()))).collect()
            }
        }
    }

    fn functions(&self) -> Vec<String> {
        match self {
            Self::Switchdev(devices) => devices
                .iter()
                .filter(|device| matches!(device.flavour, Flavour::Pf | Flavour::Vf))
                .filter_map(|device| Some(PciFunction { pf: device.pf?, vf: device.vf }.to_string()))
                .collect(),
            Self::Simulated { links, .. } => {
                let names = links.iter().map(|(name, alias)| alias.as_deref().unwrap_or(name));
                names.filter(|name| simulated::representor_index(name).is_some()).map(str::to_owned).collect()
            }
        }
    }

    /// The representor on this machine of one of its own virtual functions or subfunctions: a regular node with a
    /// SmartNIC in switchdev mode.
    ///
    /// # Errors
    /// A sentence that says what was looked for.
    pub fn of_local(&self, local: &LocalFunction) -> Result<&str, NoLocalRepresentor> {
        let Self::Switchdev(devices) = self else {
            return Err(NoLocalRepresentor::NotFound(local.clone()));
        };
        let matching = devices.iter().filter(|device| {
            let index_fits = match local.kind {
                LocalKind::Vf(vf) => device.flavour == Flavour::Vf && device.vf == Some(vf),
                LocalKind::Sf(sf) => device.flavour == Flavour::Sf && device.sf == Some(sf),
            };
            let of_the_card_itself = device.controller.is_none_or(|controller| controller == 0);
            index_fits && of_the_card_itself && device.device.as_deref() == Some(&local.pf_address)
        });
        let names: Vec<_> = matching.map(|device| device.name.as_str()).collect();
        match names.as_slice() {
            [one] => Ok(one),
            [] => Err(NoLocalRepresentor::NotFound(local.clone())),
            many => Err(NoLocalRepresentor::Ambiguous {
                function: local.clone(),
                representors: many.iter().map(|name| (*name).to_owned()).collect(),
            }),
        }
    }
}

/// A virtual function or subfunction of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFunction {
    /// PCI address of its physical function.
    pub pf_address: String,
    /// Which one.
    pub kind: LocalKind,
}

/// Index of a function on its physical function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    /// Virtual function.
    Vf(u32),
    /// Subfunction.
    Sf(u32),
}

impl std::fmt::Display for LocalFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            LocalKind::Vf(index) => write!(f, "VF {index} of PCI device {}", self.pf_address),
            LocalKind::Sf(number) => write!(f, "SF {number} of PCI device {}", self.pf_address),
        }
    }
}

/// Why a local function has no representor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLocalRepresentor {
    /// Nothing stands for it.
    #[error("no representor of {0}; is the device in switchdev mode?")]
    NotFound(LocalFunction),
    /// Several do.
    #[error("{function} has several representors: {}", .representors.join(", "))]
    Ambiguous {
        /// The function asked for.
        function: LocalFunction,
        /// The devices.
        representors: Vec<String>,
    },
}

/// The host next to the card first, then other hosts, then names that tell no controller (old firmware, or the card's
/// own functions).
fn controller_rank(controller: Option<u32>) -> u8 {
    match controller {
        Some(1) => 0,
        Some(2..) => 1,
        None => 2,
        Some(0) => 3,
    }
}

/// Index of a simulated representor, by its name or its alias.
fn simulated_index(links: &[(String, Option<String>)], name: &str) -> Option<u32> {
    simulated::representor_index(name).or_else(|| {
        let (_, alias) = links.iter().find(|(link, _)| link == name)?;
        simulated::representor_index(alias.as_deref()?)
    })
}

#[cfg(test)]
mod tests;
