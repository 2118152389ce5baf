//! The two halves of a state as a picture.

use causeway_api::uplink_state::UplinkState;

use crate::states::verdict;

/// Width of one box, inside its frame.
const WIDTH: usize = 44;

/// Draws the halves of a state side by side: what the host wrote, what the card wrote.
#[must_use]
pub fn halves(state: &UplinkState) -> String {
    let status = state.status_or_default();
    let function = status.host_function.map_or_else(
        || "-".to_owned(),
        |function| {
            format!("pf{}{}", function.pf_id, function.vf_id.map_or(String::new(), |vf| format!(" vf{vf}")))
        },
    );
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let list = |texts: &[String]| if texts.is_empty() { "-".to_owned() } else { texts.join(" ") };
    let host = [
        format!("interface  {}", or_none(status.host_interface_name.as_deref())),
        format!("mac        {}", or_none(status.mac_address.as_deref())),
        format!("addresses  {}", list(&status.ip_addresses)),
        format!("gateways   {}", list(&status.default_gateways)),
        format!("function   {function}"),
        format!("HostDataReady {}", verdict(&status.conditions, "HostDataReady")),
    ];
    let bridge = status.ovs_bridge.as_ref().and_then(|bridge| bridge.name.as_deref());
    let card = [
        format!("bridge     {}", or_none(bridge)),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        format!("Resolved {}", verdict(&status.conditions, "Resolved")),
    ];
    let mut lines = vec![format!(
        "{}   {}",
        header(&format!("host agent, on {}", state.spec.node_name)),
        header("DPU agent, on its card")
    )];
    lines.extend(
        host.iter().zip(&card).map(|(left, right)| format!("│ {left:WIDTH$} │   │ {right:WIDTH$} │")),
    );
    let line = "─".repeat(WIDTH + 2);
    lines.push(format!("└{line}┘   └{line}┘"));
    let name = format!("╲  UplinkState {}  ╱", state.metadata.name.as_deref().unwrap_or("?"));
    lines.push(format!("{name:^width$}", width = 2 * WIDTH + 11).trim_end().to_owned());
    lines.join("\n")
}

fn header(title: &str) -> String {
    let title = format!("─ {title} ");
    let used = title.chars().count();
    format!("┌{title}{}┐", "─".repeat((WIDTH + 2).saturating_sub(used)))
}
