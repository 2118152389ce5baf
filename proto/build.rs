//! Compiles the contracts without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=introspect.proto");
    let descriptors = protox::compile(["introspect.proto"], ["."])?;
    let builder = tonic_prost_build::configure().emit_rerun_if_changed(false).btree_map(".");
    builder.compile_fds(descriptors)?;
    Ok(())
}
