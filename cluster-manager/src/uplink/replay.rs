//! Replays what was recorded of upstream's cluster manager: the requests of `tests/conformance/uplink/05-uplink` go
//! into a small API server in memory, the planner runs for every Uplink until it is quiet, and after each step all
//! conditions and states equal the recorded ones, but for the differences that are listed beside them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::nad::GatewayMode;
use causeway_api::uplink_state::UplinkState;
use causeway_runtime::watch::Store;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::observe::{self, StateIndex, Stores};
use super::plan::{self, Step};
use super::users::Users;
use super::watched::{State, StateKey, Uplink, UplinkName};
use crate::observed::fixtures::Seen;
use crate::written::Written;

macro_rules! recorded {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/uplink/05-uplink/", $file))
    };
}

#[derive(Deserialize)]
struct Request {
    step: i64,
    verb: Verb,
    path: String,
    object: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    MergePatch,
    Delete,
}

/// What changed in a step.
#[derive(Deserialize)]
struct Want {
    step: i64,
    #[serde(default)]
    ready: BTreeMap<String, Ready>,
    #[serde(default)]
    states: Vec<String>,
    #[serde(default)]
    deleted: Vec<String>,
}

/// A condition, and the step in which its transition time lies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Ready {
    status: String,
    reason: String,
    message: String,
    since: i64,
}

/// What differs on purpose, from step to step, both included.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Difference {
    object: String,
    steps: (i64, i64),
    causeway: Option<Ready>,
    #[serde(default)]
    why: String,
}

/// Everything there is after a step, by `kind/name`; states have no content here.
type Outcome = BTreeMap<String, Option<Ready>>;

/// Objects by collection and name, as an API server stores them.
#[derive(Default)]
struct Server {
    objects: BTreeMap<(String, String), Value>,
    uids: u64,
}

impl Server {
    fn request(&mut self, request: &Request) {
        let (collection, name) = request.path.rsplit_once('/').unwrap();
        let key = (collection.rsplit('/').next().unwrap().to_owned(), name.to_owned());
        match (request.verb, &request.object) {
            (Verb::Create, Some(object)) => {
                assert!(!self.objects.contains_key(&key), "{} exists", request.path);
                self.uids += 1;
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
                object["metadata"]["generation"] = json!(1);
                self.objects.insert(key, object);
            }
            (Verb::MergePatch, Some(patch)) => {
                let object = self.objects.get_mut(&key).unwrap();
                let spec = object["spec"].clone();
                merge(object, patch);
                if object["spec"] != spec {
                    object["metadata"]["generation"] =
                        json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
                }
            }
            // A state may be gone already: collected here, kept by upstream.
            (Verb::Delete, None) => {
                let gone = self.objects.remove(&key).is_none();
                assert!(!gone || key.0 == "uplinkstates", "{} does not exist", request.path);
            }
            (Verb::Create | Verb::MergePatch, None) | (Verb::Delete, Some(_)) => panic!("{}", request.path),
        }
    }

    fn named<T: for<'de> Deserialize<'de>>(&self, collection: &str) -> Vec<(&str, T)> {
        let of_kind = self.objects.iter().filter(|((kind, _), _)| kind == collection);
        of_kind
            .map(|((_, name), object)| (name.as_str(), serde_json::from_value(object.clone()).unwrap()))
            .collect()
    }

    /// The snapshots that watches of this server would hold.
    fn stores(&self) -> Stores {
        let index = StateIndex::default();
        let states: Vec<(StateKey, State)> = self
            .named::<UplinkState>("uplinkstates")
            .into_iter()
            .map(|(name, state)| (StateKey::from(name), State::of(state).unwrap()))
            .collect();
        for (key, state) in &states {
            index.change(key, None, Some(state));
        }
        let nodes = self.named::<Value>("nodes").into_iter().map(|(_, node)| node).collect();
        let uplinks = self.named::<causeway_api::uplink::Uplink>("uplinks").into_iter();
        Stores {
            uplinks: Store::fixed(
                "Uplink",
                uplinks.map(|(name, uplink)| (UplinkName::from(name), Uplink::of(&uplink).unwrap())),
            ),
            states: Store::fixed("UplinkState", states),
            shared: Seen { nodes, ..Seen::default() }.stores(GatewayMode::Shared),
            index,
            users: Users::default(),
            written: Written::default(),
        }
    }

    /// Every Uplink that exists or that a state names.
    fn keys(&self) -> BTreeSet<UplinkName> {
        let states = self.named::<UplinkState>("uplinkstates").into_iter();
        let named = states.map(|(_, state)| UplinkName::from(state.spec.uplink_name.as_str()));
        let uplinks = self.named::<Value>("uplinks").into_iter().map(|(name, _)| UplinkName::from(name));
        named.chain(uplinks).collect()
    }

    /// Plans every Uplink and carries the plans out; whether anything was to do.
    fn pass(&mut self, now: Timestamp) -> bool {
        let mut busy = false;
        for name in self.keys() {
            let plan = plan::uplink(&name, &observe::world(&name, &self.stores()).unwrap(), now);
            for step in plan.steps {
                busy = true;
                match step {
                    Step::WriteReady { condition, .. } => {
                        let key = ("uplinks".to_owned(), name.as_str().to_owned());
                        let object = self.objects.get_mut(&key).unwrap();
                        assert_eq!(condition.observed_generation, object["metadata"]["generation"].as_i64());
                        object["status"] = json!({"conditions": [condition]});
                    }
                    Step::DeleteState(deletion) => {
                        let key = ("uplinkstates".to_owned(), deletion.state.as_str().to_owned());
                        let object = self.objects.remove(&key).unwrap();
                        assert_eq!(object["metadata"]["uid"], json!(deletion.uid));
                    }
                    Step::Protect { .. } | Step::ReleaseFinalizer { .. } => {
                        panic!("no Uplink of the recording has a finalizer")
                    }
                }
            }
        }
        busy
    }

    fn outcome(&self) -> Outcome {
        let uplinks = self.named::<causeway_api::uplink::Uplink>("uplinks").into_iter();
        let ready = uplinks.map(|(name, uplink)| {
            let [condition] = uplink.conditions() else { panic!("{name}: {:?}", uplink.conditions()) };
            let ready = Ready {
                status: condition.status.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.0.as_second(),
            };
            (format!("Uplink/{name}"), Some(ready))
        });
        let states = self.named::<Value>("uplinkstates").into_iter();
        ready.chain(states.map(|(name, _)| (format!("UplinkState/{name}"), None))).collect()
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.as_object_mut().unwrap().remove(key)),
            value => merge(&mut target[key.as_str()], value),
        }
    }
}

/// Takes what upstream did in a step into what it had done before.
fn advance(upstream: &mut Outcome, want: Want) {
    for (name, ready) in want.ready {
        upstream.insert(format!("Uplink/{name}"), Some(ready));
    }
    for name in want.states {
        upstream.insert(format!("UplinkState/{name}"), None);
    }
    for object in want.deleted {
        upstream.remove(&object);
    }
}

#[test]
fn upstreams_recorded_conditions_come_out_but_for_the_listed_differences() {
    let requests: Vec<Request> = serde_yaml_ng::from_str(recorded!("input.yaml")).unwrap();
    let wants: Vec<Want> = serde_yaml_ng::from_str(recorded!("want.yaml")).unwrap();
    let mut listed: Vec<Difference> = serde_yaml_ng::from_str(recorded!("differences.yaml")).unwrap();
    assert_eq!(wants.len(), 43);
    assert!(listed.iter().all(|difference| !difference.why.is_empty()), "each difference has a reason");

    let mut server = Server::default();
    let mut upstream = Outcome::new();
    let mut found: Vec<Difference> = Vec::new();
    for want in wants {
        let step = want.step;
        requests.iter().filter(|request| request.step == step).for_each(|request| server.request(request));
        let passes = (0..5).find(|_| !server.pass(Timestamp::from_second(step).unwrap()));
        assert!(passes.is_some(), "step {step} never becomes quiet");

        advance(&mut upstream, want);
        let ours = server.outcome();
        let objects: BTreeSet<&String> = upstream.keys().chain(ours.keys()).collect();
        for object in objects.into_iter().filter(|object| upstream.get(*object) != ours.get(*object)) {
            let causeway = ours.get(object).cloned().flatten();
            let last = found.iter_mut().rev().find(|difference| difference.object == *object);
            match last.filter(|last| last.steps.1 == step - 1 && last.causeway == causeway) {
                Some(last) => last.steps.1 = step,
                None => found.push(Difference {
                    object: object.clone(),
                    steps: (step, step),
                    causeway,
                    why: String::new(),
                }),
            }
        }
    }
    for difference in &mut listed {
        difference.why.clear();
    }
    let order = |difference: &Difference| (difference.object.clone(), difference.steps);
    found.sort_by_key(order);
    listed.sort_by_key(order);
    assert_eq!(found, listed, "found: {found:#?}");
}
