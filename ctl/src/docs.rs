//! The parts of docs/causewayctl.md that are made from tables of this crate, and the test that they are current.

use std::fmt::Write as _;

use crate::exit::Exit;
use crate::remedy;

/// The exit codes as Markdown.
fn exit_codes() -> String {
    let mut text = "| Code | Means |\n|---|---|\n".to_owned();
    for (exit, means) in Exit::ALL {
        // Writing to a String cannot fail.
        writeln!(text, "| {} | {means} |", exit.code()).ok();
    }
    text
}

/// Puts `part` between the two comments that begin with `name`.
fn replaced(document: &str, name: &str, part: &str) -> String {
    let begin = document.find(&format!("<!-- {name}: begin")).expect("the begin of a part");
    let from = begin + document[begin..].find('\n').expect("a line") + 1;
    let to = document.find(&format!("<!-- {name}: end")).expect("the end of a part");
    format!("{}{part}{}", &document[..from], &document[to..])
}

#[test]
fn the_documentation_has_the_exit_codes_and_remedies_that_the_program_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/causewayctl.md");
    let have = std::fs::read_to_string(path).unwrap();
    let want = replaced(&have, "exit codes", &exit_codes());
    let want = replaced(&want, "reasons", &remedy::markdown());
    if std::env::var_os("CAUSEWAY_BLESS").is_some() {
        std::fs::write(path, want).unwrap();
    } else {
        assert!(have == want, "docs/causewayctl.md is not current; CAUSEWAY_BLESS=1 writes it anew");
    }
}
