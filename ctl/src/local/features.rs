//! Features of interfaces, by ethtool generic netlink.

use ethtool::{EthtoolAttr, EthtoolFeatureAttr, EthtoolFeatureBit, EthtoolHandle};
use futures::StreamExt;

/// The feature that lets an interface take over rules of traffic control. Source: linux/net/core, netdev features.
const HW_TC_OFFLOAD: &str = "hw-tc-offload";

/// Whether each interface has `hw-tc-offload` on; none for one that cannot, or that cannot be asked.
///
/// # Errors
/// No netlink socket.
pub async fn hw_tc_offload(interfaces: &[&str]) -> Result<Vec<Option<bool>>, String> {
    if interfaces.is_empty() {
        return Ok(Vec::new());
    }
    let (connection, mut handle, _messages) = ethtool::new_connection().map_err(|error| error.to_string())?;
    let running = tokio::spawn(connection);
    let mut all = Vec::new();
    for interface in interfaces {
        all.push(one(&mut handle, interface).await);
    }
    running.abort();
    Ok(all)
}

async fn one(handle: &mut EthtoolHandle, interface: &str) -> Option<bool> {
    let mut answers = Box::pin(handle.feature().get(Some(interface)).execute().await.ok()?);
    let mut attributes = Vec::new();
    while let Some(answer) = answers.next().await {
        attributes.extend(answer.ok()?.payload.nlas);
    }
    read(&attributes)
}

fn read(attributes: &[EthtoolAttr]) -> Option<bool> {
    let bit = |bits: &[EthtoolFeatureBit]| bits.iter().any(|bit| bit.name == HW_TC_OFFLOAD && bit.value);
    let (mut able, mut active) = (false, false);
    for attribute in attributes {
        match attribute {
            EthtoolAttr::Feature(EthtoolFeatureAttr::Hw(bits)) => able = bit(bits),
            EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits)) => active = bit(bits),
            _ => {}
        }
    }
    (able || active).then_some(active)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(on: bool) -> Vec<EthtoolFeatureBit> {
        let bit = |name: &str, value| EthtoolFeatureBit { index: 0, name: name.into(), value };
        vec![bit("tx-checksum-ipv4", true), bit(HW_TC_OFFLOAD, on)]
    }

    #[test]
    fn a_feature_that_can_be_on_is_on_or_off() {
        let hw = |on| EthtoolAttr::Feature(EthtoolFeatureAttr::Hw(bits(on)));
        let active = |on| EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits(on)));
        assert_eq!(read(&[hw(true), active(true)]), Some(true));
        assert_eq!(read(&[hw(true), active(false)]), Some(false));
        assert_eq!(read(&[hw(false), active(false)]), None);
        assert_eq!(read(&[]), None);
    }
}
