//! Clusters, nodes and simulated cards made of real parts on one machine.
//!
//! A [`Rig`] is a control plane in namespaces of its own. [`Rig::node`] adds nodes: namespaces over a Debian tree, with
//! or without a kubelet, in which programs under test run as they would on a machine. Everything a rig starts ends with
//! its owner, however that dies; what is left in the file system is removed by the next start.
#![forbid(unsafe_code)]

mod access;
mod apply;
mod card;
mod cgroup;
mod control_plane;
mod folder;
mod forward;
mod ground;
mod harness;
mod holder;
mod inside;
mod keep;
mod lines;
mod logs;
mod node;
mod ns;
mod observe;
mod ovn;
mod ovs;
mod pki;
mod process;
mod require;
mod rig;
mod settings;
mod uml;
mod wait;

pub use access::Side;
pub use card::{CardSide, DpuPair, DpuPairBuilder, simulated_mac};
pub use folder::{Living, living, sweep};
pub use ground::{API_V4, API_V6, FABRIC_V4, FABRIC_V6};
pub use harness::{SharedRig, Suite};
pub use keep::{clean, end_kept};
pub use lines::{Mark, whole_lines};
pub use node::{Families, KUBECONFIG, KUBELET_CGROUP, Node, NodeBuilder, PROGRAMS, UplinkAnnotations};
pub use observe::wait_object;
pub use ovn::{NORTHBOUND_SOCKET, OvnZone, SOUTHBOUND_SOCKET};
pub use ovs::{BridgeBuilder, OVS_SOCKET, Ovs};
pub use process::{Process, Program};
pub use require::{Level, Missing, UnknownLevel, require};
pub use rig::{Rig, RigOptions};
pub use settings::{Settings, built_programs};
pub use uml::{UML_OUT, UML_WORK, Uml, UmlBuilder, UmlOutput};
pub use wait::wait_for;
