//! The card side of a node: representors, bridges, OVN.
