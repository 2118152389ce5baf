//! What the Uplinks of a ClusterUserDefinedNetwork mean for its NADs, before any of them is rendered.

use causeway_api::nad::{Config, ReadError};

use crate::uplinks_ready::GatewayMode;

/// Whether Uplinks are switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkFeature {
    /// They are.
    On,
    /// They are not.
    Off,
}

/// Why a ClusterUserDefinedNetwork with Uplinks gets no NADs. Permanent: only a change of its spec or of the cluster's
/// settings helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UplinksRefused {
    /// Uplinks are off. Nothing about the network may be written, its finalizer included.
    #[error("spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN")]
    FeatureOff,
    /// Uplinks need shared gateway mode. Differs from upstream, which finds out when it renders the first NAD, and so
    /// never for a network that selects no namespace; the text is that of a NAD.
    #[error(transparent)]
    GatewayMode(ReadError),
}

/// The Uplink for the NADs of a ClusterUserDefinedNetwork that is not being deleted: the first one, if it has any.
///
/// # Errors
/// The network cannot have NADs. What there is of them stays as it is: without its Uplink such a network would leave the
/// cluster by the nodes' default gateway.
pub fn uplink_for_nads(
    uplinks: &[String],
    feature: UplinkFeature,
    mode: GatewayMode,
) -> Result<Option<&str>, UplinksRefused> {
    let Some(uplink) = uplinks.first() else { return Ok(None) };
    if feature == UplinkFeature::Off {
        return Err(UplinksRefused::FeatureOff);
    }
    if mode != GatewayMode::Shared {
        return Err(UplinksRefused::GatewayMode(ReadError::UplinkMode(uplink.clone())));
    }
    Ok(Some(uplink))
}

/// The Uplink that a NAD's network leads out by, as consumers see it: none while Uplinks are off.
#[must_use]
pub fn visible_uplink(config: &Config, feature: UplinkFeature) -> Option<&str> {
    config.uplink.as_deref().filter(|_| feature == UplinkFeature::On)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_feature_is_asked_before_the_mode_and_neither_without_an_uplink() {
        let (none, one) = (Vec::new(), vec!["br-test".to_owned()]);
        for (uplinks, feature, mode, want) in [
            (&none, UplinkFeature::Off, GatewayMode::Local, Ok(None)),
            (&one, UplinkFeature::On, GatewayMode::Shared, Ok(Some("br-test"))),
            (
                &one,
                UplinkFeature::Off,
                GatewayMode::Local,
                Err("spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN"),
            ),
            (
                &one,
                UplinkFeature::On,
                GatewayMode::Local,
                Err(r#"uplink "br-test" is supported only in shared gateway mode"#),
            ),
            (
                &one,
                UplinkFeature::On,
                GatewayMode::Disabled,
                Err(r#"uplink "br-test" is supported only in shared gateway mode"#),
            ),
        ] {
            let found = uplink_for_nads(uplinks, feature, mode).map_err(|error| error.to_string());
            assert_eq!(found, want.map_err(str::to_owned), "{feature:?} {mode:?}");
        }
    }

    #[test]
    fn a_network_behaves_as_if_it_had_no_uplink_while_the_feature_is_off() {
        let config = Config { uplink: Some("ext-a".into()), ..Config::default() };
        assert_eq!(visible_uplink(&config, UplinkFeature::On), Some("ext-a"));
        assert_eq!(visible_uplink(&config, UplinkFeature::Off), None);
    }
}
