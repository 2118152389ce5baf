//! The demo, as `make demo` runs it: what it tells is true.

use std::process::ExitCode;

use causeway_rig::{Level, Suite};
use causeway_tests::demo::story;
use causeway_tests::demo::telling::Telling;

fn main() -> ExitCode {
    Suite::new().test(Level::Cluster, "every_sentence_of_the_demo_is_true", demo).run()
}

async fn demo() -> anyhow::Result<()> {
    let mut telling = Telling::new();
    story::tell(&mut telling).await.map(drop)
}
