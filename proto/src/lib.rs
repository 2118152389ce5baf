//! gRPC contracts of Causeway.
//!
//! In: the `.proto` files beside this crate. Out: their messages, clients and servers as Rust types, and what two sides of
//! different versions may expect of each other ([`skew`]).
//!
//! Never does: open a socket, decide anything. The agents serve ([`introspect::introspect_server`]), `causewayctl` asks
//! ([`introspect::introspect_client`]).
//!
//! First file to read: `introspect.proto`, then the README on compatibility.

#![forbid(unsafe_code)]

pub mod skew;

/// What an agent sees and decided. The contract is `introspect.proto`.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unreachable_pub,
    reason = "generated from introspect.proto, where the documentation is"
)]
pub mod introspect {
    tonic::include_proto!("causeway.introspect.v1");
}

/// Where an agent serves unless its `--introspect-socket` says otherwise.
pub const INTROSPECT_SOCKET: &str = "/run/causeway/introspect.sock";
