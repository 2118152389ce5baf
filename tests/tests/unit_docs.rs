//! The documentation names what the programs can say.

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
