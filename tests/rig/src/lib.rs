//! Clusters, nodes and simulated cards made of real parts on one machine.
