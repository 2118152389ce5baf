//! The documentation names what the programs can say, and tests that there are.

use std::collections::BTreeSet;
use std::path::Path;

use causeway_api::uplink::UplinkReason;
use causeway_api::uplink_state::{DiscoveryReason, LinkReason};

#[test]
fn every_reason_has_a_row_with_its_remedy_in_the_users_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/uplinks.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let uplink = UplinkReason::ALL.iter().map(|reason| reason.as_str());
    let discovery = DiscoveryReason::ALL.iter().map(|reason| reason.as_str());
    let link = LinkReason::ALL.iter().map(|reason| reason.as_str());
    for reason in uplink.chain(discovery).chain(link) {
        assert!(
            rows.iter().any(|row| row.starts_with(&format!("| `{reason}` | "))),
            "docs/uplinks.md lacks {reason}"
        );
    }
}

/// Why a case has no test yet, or never will.
const WITHOUT: [&str; 6] = [
    "comes with gateways",
    "comes with pods",
    "comes with EVPN",
    "comes with RouteAdvertisements",
    "comes with egress addresses",
    "not taken over: ",
];

#[test]
fn every_case_names_a_test_that_there_is_or_what_it_comes_with() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/cases.md")).unwrap();
    let mut sources = BTreeSet::new();
    for folder in [
        "cluster-manager",
        "ctl",
        "deploy/gen",
        "dpu-agent",
        "host-agent",
        "node-agent",
        "proto",
        "shared",
        "tests",
    ] {
        words_of_sources(&root.join(folder), &mut sources).unwrap();
    }
    let mut proven = 0;
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Case "));
    for row in rows {
        let [_, case, proof, _] = row.split(" | ").flat_map(|cell| cell.split('|')).collect::<Vec<_>>()[..]
        else {
            panic!("not a row of two cells: {row}");
        };
        let proof = proof.trim();
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        let explained = WITHOUT.iter().any(|reason| proof.starts_with(reason));
        assert!(explained || !names.is_empty(), "{case} has neither a test nor a reason: {proof}");
        for name in names {
            assert!(sources.contains(name), "{case}: there is no test {name}");
            proven += 1;
        }
    }
    assert!(proven > 0, "docs/cases.md has no table of cases");
}

/// Names of functions, and texts in quotes that look like names of tests: a suite of the rig takes them so.
fn words_of_sources(folder: &Path, words: &mut BTreeSet<String>) -> std::io::Result<()> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            words_of_sources(&path, words)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            for start in ["fn ", "\""] {
                let found = text.split(start).skip(1).filter_map(|rest| rest.split(|c| !is_part(c)).next());
                words.extend(found.filter(|word| word.contains('_')).map(str::to_owned));
            }
        }
    }
    Ok(())
}

#[test]
fn every_link_between_documents_leads_to_a_file_that_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let of_docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let at_root = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root.join(name));
    let mut followed = 0;
    for document in of_docs.chain(at_root).filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            assert!(document.with_file_name(file).exists(), "{} links {target}", document.display());
            followed += 1;
        }
    }
    assert!(followed > 30, "only {followed} links were found");
}
