//! Scenarios, demo and benches over real parts.
