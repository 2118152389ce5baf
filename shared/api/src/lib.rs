//! Kubernetes API types, conditions, annotations and constants of Causeway.
