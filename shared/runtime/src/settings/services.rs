//! Services of the default network that every primary network reaches.

use std::collections::BTreeSet;

use super::layers::Values;
use crate::watch::NamespacedName;

/// The option.
const OPTION: &str = "udn-allowed-default-services";

/// Longest label and longest name, in bytes (RFC 1123).
const LABEL: usize = 63;
const NAME: usize = 253;

/// Reads them; each once.
pub(super) fn read(values: &Values, problems: &mut Vec<String>) -> BTreeSet<NamespacedName> {
    let text = values.text(OPTION).unwrap_or_default();
    let items = text.split(',').map(str::trim).filter(|_| !text.is_empty());
    let mut services = BTreeSet::new();
    for item in items {
        match service(item) {
            Ok(service) => drop(services.insert(service)),
            Err(what) => problems.push(format!("--{OPTION}: service {item:?} has {what}")),
        }
    }
    services
}

fn service(item: &str) -> Result<NamespacedName, &'static str> {
    let (namespace, name) = item.split_once('/').unwrap_or(("", item));
    if namespace.is_empty() {
        return Err("no namespace");
    }
    if namespace.len() > LABEL || !is_label(namespace) {
        return Err("an invalid namespace");
    }
    if name.len() > NAME || !name.split('.').all(is_label) {
        return Err("an invalid name");
    }
    Ok(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Lower-case letters, digits and dashes, with none of the last at an end.
fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (text.bytes().next(), text.bytes().next_back());
    first.is_some_and(plain)
        && last.is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}
