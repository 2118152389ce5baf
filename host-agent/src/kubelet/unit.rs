//! systemd's words about a unit: its object path, and the signal that it became active.

use std::collections::HashMap;

use causeway_runtime::settings::CgroupPath;
use zbus::message::Type;
use zbus::names::MemberName;
use zbus::{Message, OwnedVariant};

/// Where units stand in an object path that is split at `/`: `/org/freedesktop/systemd1/unit/NAME`.
const UNIT: usize = 4;

/// No unit has this cgroup, so systemd cannot tell about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no systemd unit corresponds to cgroup {:?}", .0.as_str())]
pub struct NoUnit(CgroupPath);

/// The unit whose cgroup this is: the last component, if it is called as services and scopes are.
/// Source: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
///
/// # Errors
/// If it is called otherwise.
pub fn unit_of(path: &CgroupPath) -> Result<&str, NoUnit> {
    let unit = path.leaf();
    let named = [".service", ".scope"].iter().any(|kind| unit.ends_with(kind));
    if named { Ok(unit) } else { Err(NoUnit(path.clone())) }
}

/// The name that an element of an object path stands for: `_xx` is a byte; what is no such escape stays.
/// Source: systemd, `src/libsystemd/sd-bus/bus-label.c`.
fn decode(element: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(element.len());
    let mut rest = element.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = match (first, tail) {
            (b'_', [high, low, after @ ..]) => {
                hex(*high).zip(hex(*low)).map(|(high, low)| (high << 4 | low, after))
            }
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((*first, tail));
        bytes.push(byte);
        rest = after;
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Whether `message` says that `unit` is active now. All else that may arrive says nothing.
#[must_use]
pub fn became_active(unit: &str, message: &Message) -> bool {
    let header = message.header();
    let member = header.member().map(MemberName::as_str);
    if message.message_type() != Type::Signal || member != Some("PropertiesChanged") {
        return false;
    }
    let Some(path) = header.path() else { return false };
    let elements: Vec<&str> = path.as_str().split('/').collect();
    let of_unit = elements.get(UNIT) == Some(&"unit");
    let name = elements.get(UNIT + 1);
    of_unit && name.is_some_and(|name| decode(name) == unit.as_bytes()) && says_active(message)
}

/// Whether the second item of the body has `ActiveState` = `active`.
fn says_active(message: &Message) -> bool {
    type Changed = HashMap<String, OwnedVariant>;
    let body = message.body();
    // What follows the two is not looked at, as long as it can be read.
    let changed = match body.deserialize::<(String, Changed, Vec<String>)>() {
        Ok((_, changed, _)) => changed,
        Err(_) => match body.deserialize::<(String, Changed)>() {
            Ok((_, changed)) => changed,
            Err(_) => return false,
        },
    };
    changed
        .get("ActiveState")
        .is_some_and(|state| <&str>::try_from(state).is_ok_and(|state| state == "active"))
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use zbus::{DynamicType, Variant};

    use super::*;

    const UNIT: &str = "/org/freedesktop/systemd1/unit/kubelet_2eservice";

    fn path(text: &str) -> CgroupPath {
        text.parse().unwrap()
    }

    #[test]
    fn services_and_scopes_are_units_and_nothing_else_is() {
        for (cgroup, want) in [
            ("kubelet.slice/kubelet.service", Ok("kubelet.service")),
            ("system.slice/rke2-agent.service", Ok("rke2-agent.service")),
            ("user.slice/session-1.scope", Ok("session-1.scope")),
            ("podruntime/kubelet", Err("no systemd unit corresponds to cgroup \"podruntime/kubelet\"")),
            ("kubelet.slice", Err("no systemd unit corresponds to cgroup \"kubelet.slice\"")),
        ] {
            assert_eq!(
                unit_of(&path(cgroup)).map_err(|error| error.to_string()),
                want.map_err(str::to_owned),
                "{cgroup}"
            );
        }
    }

    #[test]
    fn elements_of_object_paths_are_decoded() {
        for (element, want) in [
            ("kubelet_2eservice", "kubelet.service"),
            ("custom_2Dkubelet_2Eservice", "custom-kubelet.service"),
            ("getty_40tty1_2eservice", "getty@tty1.service"),
            ("rke2_2dagent_2eservice", "rke2-agent.service"),
            ("kubelet_2", "kubelet_2"),
            ("custom_zzkubelet", "custom_zzkubelet"),
            ("_", "_"),
            ("__5f_5f", "___"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(decode(element)).unwrap(), want, "{element}");
        }
    }

    fn signal<B: Serialize + DynamicType>(path: &str, body: &B) -> Message {
        let builder = Message::signal(path, "org.freedesktop.DBus.Properties", "PropertiesChanged");
        builder.build(body).unwrap()
    }

    fn states(state: &Variant<'_>) -> HashMap<&'static str, OwnedVariant> {
        HashMap::from([("ActiveState", state.try_to_owned().unwrap())])
    }

    fn changed(path: &str, state: &str) -> Message {
        signal(path, &("org.freedesktop.systemd1.Unit", states(&Variant::from(state)), Vec::<String>::new()))
    }

    #[test]
    fn only_the_units_own_signal_with_the_state_active_counts() {
        let none = || HashMap::<&str, OwnedVariant>::new();
        let odd = states(&Variant::from(42_u32));
        let other = HashMap::from([("SubState", Variant::from("active").try_to_owned().unwrap())]);
        let interface = "org.freedesktop.systemd1.Unit";
        let active = states(&Variant::from("active"));
        for (what, message, want) in [
            ("active", changed(UNIT, "active"), true),
            (
                "upper case digits",
                changed("/org/freedesktop/systemd1/unit/kubelet_2Eservice", "active"),
                true,
            ),
            ("two items", signal(UNIT, &(interface, active.clone())), true),
            ("inactive", changed(UNIT, "inactive"), false),
            ("activating", changed(UNIT, "activating"), false),
            ("another unit", changed("/org/freedesktop/systemd1/unit/crio_2eservice", "active"), false),
            ("a longer name", changed("/org/freedesktop/systemd1/unit/kubelet_2eservices", "active"), false),
            ("a job", changed("/org/freedesktop/systemd1/job/kubelet_2eservice", "active"), false),
            ("a short path", changed("/org/freedesktop/systemd1/unit", "active"), false),
            ("the root", changed("/", "active"), false),
            ("empty body", signal(UNIT, &()), false),
            ("one item", signal(UNIT, &(interface,)), false),
            ("one item that is a map", signal(UNIT, &(active,)), false),
            ("no map", signal(UNIT, &(interface, "active")), false),
            ("an empty map", signal(UNIT, &(interface, none(), Vec::<String>::new())), false),
            ("no ActiveState", signal(UNIT, &(interface, other, Vec::<String>::new())), false),
            ("ActiveState=42", signal(UNIT, &(interface, odd, Vec::<String>::new())), false),
        ] {
            assert_eq!(became_active("kubelet.service", &message), want, "{what}");
        }
    }

    #[test]
    fn names_with_a_dash_are_matched_and_other_messages_of_the_unit_are_not() {
        let rke2 = changed("/org/freedesktop/systemd1/unit/rke2_2dagent_2eservice", "active");
        assert!(became_active("rke2-agent.service", &rke2));
        let body = ("org.freedesktop.systemd1.Unit", states(&Variant::from("active")), Vec::<String>::new());
        let call = Message::method_call(UNIT, "PropertiesChanged").build(&body).unwrap();
        assert!(!became_active("kubelet.service", &call));
    }
}
