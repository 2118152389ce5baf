//! The host side of a node: discovery of interfaces.
