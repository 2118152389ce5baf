//! The room over made snapshots: what it plans, and whole passes against a small API server: what is asked, in which order,
//! and what is not asked.

mod evpn;
mod leftovers;
mod passes;
mod plans;
mod rivals;
mod texts;
mod transports;
mod vteps;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use causeway_api::nad::Defaults;
use causeway_net::activity::Mode;
use causeway_runtime::leader::{LeaderMetrics, Leadership};
use causeway_runtime::writer::WriteMetrics;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::allocation::ClusterPlan;
use crate::observed::fixtures::{
    BROKEN, Seen, cluster, cudn, foreign_nad, layer2_secondary, layer3, namespace, pod, primary_config,
    primary_namespace, terminating, udn, with,
};

/// Everything that networks can ask for but Uplinks, which the API alone can ask for.
const FEATURES: Features = Features {
    multi_network: true,
    network_segmentation: true,
    uplink: true,
    persistent_ips: false,
    preconfigured_addresses: false,
    dynamic_allocation: false,
    route_advertisements: false,
    evpn: false,
    egress_ips: false,
    network_connect: false,
};

/// Objects by path, and a log of what was asked.
#[derive(Default)]
struct Api {
    objects: Mutex<BTreeMap<String, Value>>,
    log: Mutex<String>,
    /// Answers to requests, by method and path; anything else is carried out.
    answers: BTreeMap<String, (u16, Value)>,
}

/// A room, and the API server that it talks to.
struct Rig {
    room: Networks,
    api: Arc<Api>,
}

/// What a pass ended with and asked for.
struct Pass {
    result: Result<Requeue, NetworkError>,
    asked: String,
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": format!("because {reason}")});
    (code, body)
}

fn path(object: &Value) -> String {
    let meta = &object["metadata"];
    let name = meta["name"].as_str().unwrap();
    let namespace = meta["namespace"].as_str().unwrap_or_default();
    match object["kind"].as_str() {
        Some("UserDefinedNetwork") => {
            format!("/apis/k8s.ovn.org/v1/namespaces/{namespace}/userdefinednetworks/{name}")
        }
        Some("ClusterUserDefinedNetwork") => {
            format!("/apis/k8s.ovn.org/v1/clusteruserdefinednetworks/{name}")
        }
        _ => nad_path(&format!("{namespace}/{name}")),
    }
}

fn nad_path(key: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap();
    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions/{name}")
}

/// Carries out a merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

impl Api {
    fn answer(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        if let Some((code, answer)) = self.answers.get(&format!("{method} {path}")) {
            return (*code, answer.clone());
        }
        let mut objects = self.objects.lock().unwrap();
        let status = path.strip_suffix("/status").unwrap_or(path).to_owned();
        match method {
            "POST" => {
                let mut object = body.clone();
                object["metadata"]["uid"] = json!("uid-made");
                object["metadata"]["resourceVersion"] = json!("100");
                object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
                let name = object["metadata"]["name"].as_str().unwrap();
                objects.insert(format!("{path}/{name}"), object.clone());
                (201, object)
            }
            "DELETE" => {
                objects.remove(path);
                (200, json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}))
            }
            "PATCH" => {
                let Some(object) = objects.get_mut(&status) else { return failure(404, "NotFound") };
                merge(object, body);
                object["metadata"]["resourceVersion"] = json!("100");
                let gone = object["metadata"]["deletionTimestamp"].is_string()
                    && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
                let object = object.clone();
                if gone {
                    objects.remove(&status);
                }
                (200, object)
            }
            _ => objects.get(path).map_or_else(|| failure(404, "NotFound"), |object| (200, object.clone())),
        }
    }
}

fn client(api: &Arc<Api>) -> Client {
    let api = Arc::clone(api);
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&api);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (method, path) = (parts.method.as_str(), parts.uri.path());
            writeln!(api.log.lock().unwrap(), "{method} {path} {}", without_times(body.clone())).unwrap();
            let (code, answer) = api.answer(method, path, &body);
            let answer = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    Client::new(service, "default")
}

/// The values of a request that depend on the clock.
fn without_times(mut body: Value) -> Value {
    for condition in
        body.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    body
}

fn rig(seen: &Seen) -> Rig {
    rig_with(seen, FEATURES, [])
}

fn rig_with(
    seen: &Seen,
    features: Features,
    answers: impl IntoIterator<Item = (String, (u16, Value))>,
) -> Rig {
    let objects = seen.udns.iter().chain(&seen.cudns).chain(&seen.nads);
    let objects = objects.map(|object| (path(object), object.clone())).collect();
    let api = Api { objects: Mutex::new(objects), answers: answers.into_iter().collect(), ..Api::default() };
    let api = Arc::new(api);
    let mut registry = Registry::default();
    let leadership = Leadership::alone(&CancellationToken::new(), &LeaderMetrics::register(&mut registry));
    let cluster = cluster();
    let plan = ClusterPlan {
        ranges: Vec::new(),
        transit: ("100.88.0.0/16".parse().unwrap(), "fd97::/64".parse().unwrap()),
        defaults: Defaults::default(),
        mode: Mode::Everywhere,
        without_subnets: None,
    };
    let (mode, stores) = (cluster.gateway_mode, seen.stores(cluster.gateway_mode));
    let book = Book::new(plan, &cluster, &leadership);
    let metrics = WriteMetrics::register(&mut registry);
    let hand = Hand::new(client(&api), metrics, leadership.clone(), mode, stores.clone(), book.clone());
    let room = Networks {
        stores,
        cluster: Arc::new(cluster),
        features,
        gateway_mode: GatewayMode::Shared,
        carriers: Carriers::default(),
        domains: Domains::default(),
        hand,
        book,
        waiting: Waiting::default(),
        expected: Expected::default(),
        wake: Wake::new(&KeyQueue::default(), &leadership),
    };
    Rig { room, api }
}

impl Rig {
    async fn pass(&self, key: &CrKey) -> Pass {
        self.api.log.lock().unwrap().clear();
        let result = self.room.reconcile(key).await;
        Pass { result, asked: self.api.log.lock().unwrap().clone() }
    }

    /// The same room over what the API server has by now; nothing is remembered.
    fn restarted(&self, seen: &Seen) -> Self {
        let of = |kind: &str| -> Vec<Value> {
            let objects = self.api.objects.lock().unwrap();
            objects.values().filter(|object| object["kind"] == kind).cloned().collect()
        };
        let seen = Seen {
            udns: of("UserDefinedNetwork"),
            cudns: of("ClusterUserDefinedNetwork"),
            nads: of("NetworkAttachmentDefinition"),
            ..seen.clone()
        };
        rig_with(&seen, self.room.features, [])
    }

    /// What the API server has under a path.
    fn object(&self, path: &str) -> Option<Value> {
        self.api.objects.lock().unwrap().get(path).cloned()
    }

    /// Status, reason and message of a condition, as the API server has it.
    fn condition(&self, path: &str, type_: &str) -> Option<(String, String, String)> {
        let object = self.object(path)?;
        let conditions = object.pointer("/status/conditions")?.as_array()?.clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == type_)?;
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// What is planned, a line for each namespace and each removal.
    fn plan(&self, key: &CrKey) -> Plan {
        let world = observe::world(key, &self.room.stores, |cr, there| self.room.halt(cr, there)).unwrap();
        let vids = self.room.vids(key, &world);
        plan::network(&world, |cr, namespace| self.room.render(key, cr, namespace, &vids))
    }
}

use self::plan::Plan;

impl Pass {
    /// Method and last parts of each path that was asked for.
    fn order(&self) -> Vec<String> {
        let short = |line: &str| -> Option<String> {
            let mut words = line.split(' ');
            let (method, path) = (words.next()?, words.next()?);
            let path = path
                .trim_start_matches("/apis/k8s.ovn.org/v1/")
                .trim_start_matches("/apis/k8s.cni.cncf.io/v1/");
            Some(format!("{method} {path}"))
        };
        self.asked.lines().filter_map(short).collect()
    }
}

fn udn_key(namespace: &str, name: &str) -> CrKey {
    CrKey::Udn(NadKey::new(namespace, name))
}

fn cudn_key(name: &str) -> CrKey {
    CrKey::Cudn(name.into())
}

/// A NetworkAttachmentDefinition as the room makes it for an object.
async fn made(seen: &Seen, key: &CrKey, nad: &str) -> Value {
    let rig = rig(&Seen { nads: Vec::new(), ..seen.clone() });
    rig.pass(key).await.result.unwrap();
    rig.object(&nad_path(nad)).unwrap_or_else(|| panic!("{nad} was not made"))
}
