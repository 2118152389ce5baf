//! Every network of the captured runs, rendered: the captured bytes, or the captured refusal.

use serde::Deserialize;

use super::tests::cluster;
use super::*;

/// A network as upstream's API server held it, and what its cluster manager made of it.
#[derive(Deserialize)]
struct Captured {
    /// Name of the run.
    run: String,
    /// Step of the run.
    step: u32,
    /// `name` of a ClusterUserDefinedNetwork, `namespace/name` of a UserDefinedNetwork.
    network: String,
    /// Namespace of the NAD.
    namespace: String,
    /// Families of the cluster: `v4` or `v6`.
    families: String,
    spec: NetworkSpec,
    uplink: Option<String>,
    /// The config that was written.
    #[serde(default)]
    config: Option<String>,
    /// Why none was.
    #[serde(default)]
    refused: Option<String>,
}

/// Refused on purpose, where upstream makes a network that it cannot start.
const TOO_SMALL: &[&str] = &["v-l2-small", "v-l2-32"];

fn cluster_of(families: &str) -> Cluster {
    match families {
        "v6" => {
            let mut v6 = Cluster { families: Families::V6, ..cluster() };
            v6.internal.cluster = vec!["fd00:10:128::/48".parse().unwrap()];
            v6.internal.services = vec!["fd00:10:96::/112".parse().unwrap()];
            v6
        }
        _ => cluster(),
    }
}

#[test]
fn every_captured_network_gives_the_captured_bytes_or_the_captured_refusal() {
    let captured: Vec<Captured> = serde_json::from_str(include_str!("captured.json")).unwrap();
    assert!(captured.len() > 60, "{}", captured.len());
    for case in captured {
        let label = format!("{} step {}: {}", case.run, case.step, case.network);
        let (network, name) = match case.network.split_once('/') {
            Some((namespace, name)) => (NetworkName::of_udn(namespace, name), name),
            None => (NetworkName::of_cudn(&case.network), case.network.as_str()),
        };
        let nad = NadKey::new(case.namespace.as_str(), name);
        let request = Request {
            spec: &case.spec,
            network: &network,
            nad: &nad,
            uplink: case.uplink.as_deref(),
            vids: Vids::default(),
        };
        let found = render(&request, &cluster_of(&case.families));
        if TOO_SMALL.contains(&case.network.as_str()) {
            assert!(matches!(found, Err(RenderError::Config(ConfigError::NoRoom { .. }))), "{label}");
            continue;
        }
        if let Ok(rendered) = &found {
            // What was rendered reads back, and every component accepts it as it is.
            let read =
                Config::read(&rendered.config.render(), &nad.to_string(), GatewayMode::Shared).unwrap();
            assert_eq!(
                accept(&read, &nad, &cluster_of(&case.families)).unwrap().0,
                rendered.config,
                "{label}"
            );
        }
        let found = found.map(|rendered| rendered.config.render()).map_err(|error| error.to_string());
        let want = case.config.ok_or_else(|| case.refused.unwrap_or_default());
        assert_eq!(found, want, "{label}");
    }
}
