//! Both node roles in one process, for regular nodes.
fn main() {}
