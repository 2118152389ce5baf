//! Writes the generated manifests of deploy/, or checks that they are current.
fn main() {}
