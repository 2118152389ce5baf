//! Kubernetes API types of Causeway: the wire contract it shares with OVN-Kubernetes.
//!
//! In: nothing. Out: the custom resources as Rust types with their schemas, the condition types, reasons and
//! field managers as enums, the codecs of annotations, and the codec of network configs in
//! NetworkAttachmentDefinitions.
//!
//! Never does I/O and never decides anything: rules over these types live in `causeway-net`. Wire text (names
//! of conditions, reasons, field managers, annotation keys) appears in this crate and nowhere else.
//!
//! First file to read: [`uplink`], then [`uplink_state`]; for networks [`network`], then [`udn`] and [`cudn`]. [`crd`] turns the types into the manifests of
//! `deploy/crds/`.

#![forbid(unsafe_code)]

pub mod annotation;
pub mod condition;
pub mod crd;
pub mod cudn;
mod go_json;
pub mod label;
pub mod manager;
pub mod nad;
pub mod network;
pub mod network_condition;
pub mod route_advertisements;
mod schema;
pub mod udn;
pub mod uplink;
pub mod uplink_state;
pub mod vtep;
mod wire;

/// API group of every custom resource of this crate.
pub const GROUP: &str = "k8s.ovn.org";

/// Version of `Uplink` and `UplinkState`.
pub const V1ALPHA1: &str = "v1alpha1";

/// Version of `UserDefinedNetwork`, `ClusterUserDefinedNetwork`, `RouteAdvertisements` and `VTEP`.
pub const V1: &str = "v1";
