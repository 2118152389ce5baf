//! What can happen to the control plane, drawn at random.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway_api::annotation::network::{NETWORK_ID, TUNNEL_KEYS};
use causeway_api::annotation::node::{NODE_ID, NODE_SUBNETS};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::label::PRIMARY_NETWORK;
use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_api::udn::UserDefinedNetwork;
use fastrand::Rng;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::world::World;

/// Label that chooses the namespaces of ClusterUserDefinedNetworks.
pub const TEAM: &str = "team";
/// Kinds of objects come and go under so many names each, so that most that come were there before.
const NAMESPACES: usize = 60;
const NODES: usize = 12;
const CUDNS: usize = 240;
const UDNS: usize = 120;
const TEAMS: usize = 40;

/// What a network is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Primary, with subnets of nodes.
    Layer3Primary,
    /// Secondary, with subnets of nodes.
    Layer3Secondary,
    /// Primary, one subnet.
    Layer2Primary,
    /// Secondary, one subnet.
    Layer2Secondary,
}

/// How somebody spoils a NetworkAttachmentDefinition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Deletes it.
    Delete,
    /// Takes its finalizer off.
    Finalizer,
    /// Takes its numbers away.
    Numbers,
    /// Gives it a number that another network may have.
    Another(u16),
    /// Makes its config unreadable.
    Config,
    /// Takes its labels away.
    Labels,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A namespace comes, in which primary networks may be or not.
    MakeNamespace(String, bool, usize),
    /// A namespace goes.
    DropNamespace(String),
    /// A namespace becomes another team's.
    Team(String, usize),
    /// A Node comes.
    MakeNode(String),
    /// A Node goes.
    DropNode(String),
    /// A network of a team comes.
    MakeCudn(String, Shape, usize),
    /// A network of a team goes.
    DropCudn(String),
    /// A network becomes another team's.
    Retarget(String, usize),
    /// A network gets more addresses.
    Extend(String),
    /// A network of a namespace comes.
    MakeUdn(String, String, Shape),
    /// A network of a namespace goes.
    DropUdn(String, String),
    /// Somebody spoils a NetworkAttachmentDefinition.
    SpoilNad(String, String, Spoil),
    /// Somebody takes an annotation off a Node.
    SpoilNode(String, &'static str),
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Done,
    /// The API server refused: what it was about is gone, still there, or on its way out.
    Refused,
}

/// What should be there, as far as whoever draws knows.
#[derive(Clone, Debug, Default)]
pub struct Population {
    /// Teams by namespace.
    namespaces: BTreeMap<String, usize>,
    nodes: BTreeSet<String>,
    /// Shapes and teams by name.
    cudns: BTreeMap<String, (Shape, usize)>,
    udns: BTreeSet<(String, String)>,
}

impl fmt::Display for Population {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespaces, nodes, cudns, udns } = self;
        let (namespaces, nodes) = (namespaces.len(), nodes.len());
        write!(f, "{namespaces} namespaces, {nodes} nodes, {} CUDNs, {} UDNs", cudns.len(), udns.len())
    }
}

impl Population {
    /// What there is before the trouble begins: so many networks.
    pub fn founding(&mut self, rng: &mut Rng, networks: usize) -> Vec<Act> {
        let mut acts = Vec::new();
        acts.extend((0..NAMESPACES).filter_map(|_| self.make_namespace(rng)));
        acts.extend((0..NODES / 2).filter_map(|_| self.make_node(rng)));
        while self.networks() < networks {
            acts.extend(self.make_network(rng));
        }
        acts
    }

    fn networks(&self) -> usize {
        self.cudns.len() + self.udns.len()
    }

    fn make_namespace(&mut self, rng: &mut Rng) -> Option<Act> {
        let (name, team) = (format!("t{}", rng.usize(0..NAMESPACES)), rng.usize(0..TEAMS));
        if self.namespaces.contains_key(&name) {
            return None;
        }
        self.namespaces.insert(name.clone(), team);
        Some(Act::MakeNamespace(name, rng.u8(0..8) > 0, team))
    }

    fn drop_namespace(&mut self, rng: &mut Rng) -> Option<Act> {
        let name = rng.choice(self.namespaces.keys())?.clone();
        self.namespaces.remove(&name);
        self.udns.retain(|(namespace, _)| *namespace != name);
        Some(Act::DropNamespace(name))
    }

    fn make_node(&mut self, rng: &mut Rng) -> Option<Act> {
        let name = format!("n{}", rng.usize(0..NODES));
        self.nodes.insert(name.clone()).then_some(Act::MakeNode(name))
    }

    fn drop_node(&mut self, rng: &mut Rng) -> Option<Act> {
        let name = rng.choice(&self.nodes)?.clone();
        self.nodes.remove(&name);
        Some(Act::DropNode(name))
    }

    fn make_network(&mut self, rng: &mut Rng) -> Option<Act> {
        let shape = match rng.u8(0..10) {
            0..=2 => Shape::Layer3Primary,
            3..=6 => Shape::Layer3Secondary,
            7 => Shape::Layer2Primary,
            _ => Shape::Layer2Secondary,
        };
        if rng.u8(0..3) > 0 {
            let (name, team) = (format!("c{}", rng.usize(0..CUDNS)), rng.usize(0..TEAMS));
            if self.cudns.contains_key(&name) {
                return None;
            }
            self.cudns.insert(name.clone(), (shape, team));
            return Some(Act::MakeCudn(name, shape, team));
        }
        let namespace = rng.choice(self.namespaces.keys())?.clone();
        let name = format!("u{}", rng.usize(0..UDNS));
        let is_new = self.udns.insert((namespace.clone(), name.clone()));
        is_new.then_some(Act::MakeUdn(namespace, name, shape))
    }

    fn drop_network(&mut self, rng: &mut Rng) -> Option<Act> {
        if rng.u8(0..3) > 0 {
            let name = rng.choice(self.cudns.keys())?.clone();
            self.cudns.remove(&name);
            return Some(Act::DropCudn(name));
        }
        let udn = rng.choice(&self.udns)?.clone();
        self.udns.remove(&udn);
        Some(Act::DropUdn(udn.0, udn.1))
    }

    fn other_team(&mut self, rng: &mut Rng) -> Option<Act> {
        let team = rng.usize(0..TEAMS);
        if rng.bool() {
            let name = rng.choice(self.namespaces.keys())?.clone();
            self.namespaces.insert(name.clone(), team);
            return Some(Act::Team(name, team));
        }
        let name = rng.choice(self.cudns.keys())?.clone();
        if let Some((_, before)) = self.cudns.get_mut(&name) {
            *before = team;
        }
        Some(Act::Retarget(name, team))
    }

    fn extend(&mut self, rng: &mut Rng) -> Option<Act> {
        let layer3 = self.cudns.iter().filter(|(_, (shape, _))| *shape == Shape::Layer3Primary);
        let names: Vec<&String> = layer3.map(|(name, _)| name).collect();
        rng.choice(names).map(|name| Act::Extend(name.clone()))
    }

    fn spoil(&mut self, rng: &mut Rng) -> Option<Act> {
        if rng.u8(0..4) == 0 {
            let annotation = if rng.bool() { NODE_SUBNETS } else { NODE_ID };
            return rng.choice(&self.nodes).map(|name| Act::SpoilNode(name.clone(), annotation));
        }
        let spoil = match rng.u8(0..6) {
            0 => Spoil::Delete,
            1 => Spoil::Finalizer,
            2 => Spoil::Numbers,
            3 => Spoil::Another(rng.u16(1..200)),
            4 => Spoil::Config,
            _ => Spoil::Labels,
        };
        if rng.bool() {
            let (namespace, name) = rng.choice(&self.udns)?.clone();
            return Some(Act::SpoilNad(namespace, name, spoil));
        }
        let (namespace, team) = rng.choice(&self.namespaces)?;
        let of_it: Vec<&String> =
            self.cudns.iter().filter(|(_, (_, of))| of == team).map(|(name, _)| name).collect();
        Some(Act::SpoilNad(namespace.clone(), (*rng.choice(of_it)?).clone(), spoil))
    }
}

impl Act {
    /// Draws one, such that about so many networks are there.
    pub fn draw(rng: &mut Rng, population: &mut Population, networks: usize) -> Self {
        loop {
            let more = population.networks() < networks;
            let drawn = match rng.u8(0..20) {
                0..=6 if more => population.make_network(rng),
                0..=6 => population.drop_network(rng),
                7 | 8 if more => population.drop_network(rng),
                7 | 8 => population.make_network(rng),
                9 | 10 if population.namespaces.len() * 4 < NAMESPACES * 3 => population.make_namespace(rng),
                9 | 10 => population.drop_namespace(rng),
                11 if population.nodes.len() * 2 < NODES => population.make_node(rng),
                11 if rng.bool() => population.make_node(rng),
                11 => population.drop_node(rng),
                12..=14 => population.other_team(rng),
                15 => population.extend(rng),
                _ => population.spoil(rng),
            };
            if let Some(act) = drawn {
                return act;
            }
        }
    }

    /// Lets it happen.
    ///
    /// # Errors
    /// The API server fails, or refuses for a reason that has nothing to do with what is there.
    pub async fn happen(&self, world: &World) -> anyhow::Result<Outcome> {
        match self.request(world).await {
            Ok(()) => Ok(Outcome::Done),
            Err(kube::Error::Api(status)) if is_about_what_is_there(status.code, &status.message) => {
                Ok(Outcome::Refused)
            }
            // What has the name by now is of another shape: it was made while its namesake was on its way out.
            Err(kube::Error::Api(status)) if status.code == 422 && matches!(self, Self::Extend(_)) => {
                Ok(Outcome::Refused)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn request(&self, world: &World) -> kube::Result<()> {
        let client = world.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let nodes: Api<Node> = Api::all(client.clone());
        let cudns: Api<ClusterUserDefinedNetwork> = Api::all(client.clone());
        let (create, delete, change) =
            (PostParams::default(), DeleteParams::default(), PatchParams::default());
        match self {
            Self::MakeNamespace(name, primary, team) => {
                let mut labels = json!({TEAM: team_of(*team)});
                if let Some(labels) = labels.as_object_mut().filter(|_| *primary) {
                    labels.insert(PRIMARY_NETWORK.to_owned(), json!(""));
                }
                let object = read(json!({"metadata": {"name": name, "labels": labels}}))?;
                namespaces.create(&create, &object).await.map(drop)
            }
            Self::DropNamespace(name) => namespaces.delete(name, &delete).await.map(drop),
            Self::Team(name, team) => {
                let patch = json!({"metadata": {"labels": {TEAM: team_of(*team)}}});
                namespaces.patch(name, &change, &Patch::Merge(patch)).await.map(drop)
            }
            Self::MakeNode(name) => {
                nodes.create(&create, &read(json!({"metadata": {"name": name}}))?).await.map(drop)
            }
            Self::DropNode(name) => nodes.delete(name, &delete).await.map(drop),
            Self::MakeCudn(name, shape, team) => {
                let spec = json!({"namespaceSelector": selector(*team), "network": shape.spec()});
                let object = read(json!({
                    "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
                    "metadata": {"name": name}, "spec": spec,
                }))?;
                cudns.create(&create, &object).await.map(drop)
            }
            Self::DropCudn(name) => cudns.delete(name, &delete).await.map(drop),
            Self::Retarget(name, team) => {
                let patch = json!({"spec": {"namespaceSelector": selector(*team)}});
                cudns.patch(name, &change, &Patch::Merge(patch)).await.map(drop)
            }
            Self::Extend(name) => {
                let subnets: Vec<Value> = ["10.20.0.0/16", "10.21.0.0/16"].map(host_subnet).into();
                let patch = json!({"spec": {"network": {"layer3": {"subnets": subnets}}}});
                cudns.patch(name, &change, &Patch::Merge(patch)).await.map(drop)
            }
            Self::MakeUdn(namespace, name, shape) => {
                let udns: Api<UserDefinedNetwork> = Api::namespaced(client, namespace);
                let object = read(json!({
                    "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
                    "metadata": {"name": name, "namespace": namespace}, "spec": shape.spec(),
                }))?;
                udns.create(&create, &object).await.map(drop)
            }
            Self::DropUdn(namespace, name) => {
                let udns: Api<UserDefinedNetwork> = Api::namespaced(client, namespace);
                udns.delete(name, &delete).await.map(drop)
            }
            Self::SpoilNad(namespace, name, spoil) => {
                let nads: Api<NetworkAttachmentDefinition> = Api::namespaced(client, namespace);
                match spoil.patch() {
                    None => nads.delete(name, &delete).await.map(drop),
                    Some(patch) => nads.patch(name, &change, &Patch::Merge(patch)).await.map(drop),
                }
            }
            Self::SpoilNode(name, annotation) => {
                let patch = json!({"metadata": {"annotations": {*annotation: null}}});
                nodes.patch(name, &change, &Patch::Merge(patch)).await.map(drop)
            }
        }
    }
}

/// Whether the API server refuses because of what is there or not there: gone, still there, changed meanwhile, or in a
/// namespace that is being deleted.
fn is_about_what_is_there(code: u16, message: &str) -> bool {
    matches!(code, 404 | 409) || (code == 403 && message.contains("being terminated"))
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> kube::Result<T> {
    serde_json::from_value(object).map_err(kube::Error::SerdeError)
}

fn team_of(team: usize) -> String {
    format!("team-{team}")
}

fn selector(team: usize) -> Value {
    json!({"matchLabels": {TEAM: team_of(team)}})
}

fn host_subnet(cidr: &str) -> Value {
    json!({"cidr": cidr, "hostSubnet": 24})
}

impl Shape {
    fn spec(self) -> Value {
        let layer3 = |role: &str| json!({"role": role, "subnets": [host_subnet("10.20.0.0/16")]});
        let layer2 = |role: &str| json!({"role": role, "subnets": ["10.30.0.0/16"]});
        match self {
            Self::Layer3Primary => json!({"topology": "Layer3", "layer3": layer3("Primary")}),
            Self::Layer3Secondary => json!({"topology": "Layer3", "layer3": layer3("Secondary")}),
            Self::Layer2Primary => json!({"topology": "Layer2", "layer2": layer2("Primary")}),
            Self::Layer2Secondary => json!({"topology": "Layer2", "layer2": layer2("Secondary")}),
        }
    }
}

impl Spoil {
    /// The patch; none where it is deleted.
    fn patch(self) -> Option<Value> {
        Some(match self {
            Self::Delete => return None,
            Self::Finalizer => json!({"metadata": {"finalizers": []}}),
            Self::Numbers => json!({"metadata": {"annotations": {NETWORK_ID: null, TUNNEL_KEYS: null}}}),
            Self::Another(id) => json!({"metadata": {"annotations": {NETWORK_ID: id.to_string()}}}),
            Self::Config => json!({"spec": {"config": "{"}}),
            Self::Labels => json!({"metadata": {"labels": null}}),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64) -> Vec<Act> {
        let (mut rng, mut population) = (Rng::with_seed(seed), Population::default());
        let mut acts = population.founding(&mut rng, 20);
        acts.extend((0..400).map(|_| Act::draw(&mut rng, &mut population, 20)));
        acts
    }

    #[test]
    fn the_same_seed_draws_the_same_acts_and_another_one_others() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn everything_that_can_happen_is_drawn() {
        let kinds: BTreeSet<String> = drawn(7)
            .iter()
            .map(|act| {
                let text = format!("{act:?}");
                text.split(['(', ' ']).next().unwrap_or_default().to_owned()
            })
            .collect();
        assert_eq!(kinds.len(), 13, "{kinds:?}");
    }

    #[test]
    fn the_number_of_networks_stays_where_it_should_be() {
        let (mut rng, mut population) = (Rng::with_seed(7), Population::default());
        population.founding(&mut rng, 200);
        for _ in 0..2000 {
            Act::draw(&mut rng, &mut population, 200);
            assert!((150..=210).contains(&population.networks()), "{population}");
        }
    }
}
