//! Whole passes over made snapshots, against an API server that answers from a script: what is asked, in which
//! order, and what is not asked.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use causeway_api::nad::GatewayMode;
use causeway_runtime::events::{EventMetrics, Recorder};
use causeway_runtime::leader::LeaderMetrics;
use causeway_runtime::watch::Store;
use causeway_runtime::writer::WriteMetrics;
use expect_test::{Expect, expect};
use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::discovery::v1::Endpoint;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fixtures::{ATTACHMENT, NAMESPACE, endpoint, mirror, pod, source, web};
use super::watched::{Mirror, Source};
use super::*;
use crate::observed::fixtures::{self as shared, foreign_nad, primary_config};

/// A room over made snapshots, and what it asked for.
struct Stage {
    room: MirroredSlices,
    asked: Arc<Mutex<String>>,
    happenings: tokio::sync::mpsc::Receiver<causeway_runtime::events::Happening>,
}

/// What the API server holds, as the watches show it.
struct Seen<'s> {
    source: Option<Source>,
    mirrors: Vec<Mirror>,
    pods: &'s [(&'s str, Pod)],
    has_network: bool,
}

impl Stage {
    /// `answers` gives the status and body for a method and path, in turn; anything else that is asked for fails the test.
    fn new(seen: Seen<'_>, answers: &[(&str, u16, Value)]) -> Self {
        let asked = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&asked);
        let script: Vec<(String, u16, Value)> =
            answers.iter().map(|(what, status, body)| ((*what).to_owned(), *status, body.clone())).collect();
        let script = Arc::new(Mutex::new(script));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, script) = (Arc::clone(&log), Arc::clone(&script));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let what = format!("{} {}", parts.method, parts.uri.path());
                {
                    let mut log = log.lock().unwrap();
                    writeln!(log, "{} {}", parts.method, parts.uri).unwrap();
                    if !body.is_empty() {
                        let body: Value = serde_json::from_slice(&body).unwrap();
                        writeln!(log, "{}", serde_json::to_string_pretty(&body).unwrap()).unwrap();
                    }
                }
                let (code, body) = {
                    let mut script = script.lock().unwrap();
                    let next = script.iter().position(|(known, ..)| *known == what);
                    let (_, code, body) = script.remove(next.unwrap_or_else(|| panic!("asked for {what}")));
                    (code, body)
                };
                let body = Body::from(serde_json::to_vec(&body).unwrap());
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let client = Client::new(service, "default");
        let stores = stores(seen);
        let mut registry = Registry::default();
        let leadership =
            Leadership::alone(&CancellationToken::new(), &LeaderMetrics::register(&mut registry));
        let (recorder, happenings) = Recorder::new(EventMetrics::register(&mut registry));
        let written = stores.written.clone();
        let room = MirroredSlices {
            stores,
            reader: Reader::new(client.clone(), GatewayMode::Shared),
            hand: Hand::new(client, WriteMetrics::register(&mut registry), leadership, written),
            metrics: Metrics::register(&mut registry),
            voice: Voice::new(recorder),
        };
        Self { room, asked, happenings }
    }

    async fn pass(&self) -> Result<Requeue, MirrorError> {
        self.room.reconcile(&web()).await
    }

    #[track_caller]
    fn asked(&self, want: &Expect) {
        want.assert_eq(&std::mem::take(&mut *self.asked.lock().unwrap()));
    }

    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(happening) = self.happenings.try_recv() {
            let regarding = happening.regarding;
            let object = [regarding.kind, regarding.namespace, regarding.name, regarding.uid];
            let object = object.map(Option::unwrap_or_default).join("/");
            told.push(format!("{object} {:?} {}: {}", happening.severity, happening.reason, happening.note));
        }
        told
    }
}

fn stores(seen: Seen<'_>) -> Stores {
    let index = Index::default();
    let mut slices: Vec<(SliceKey, Slice)> =
        seen.source.into_iter().map(|source| (web(), Slice::Source(Arc::new(source)))).collect();
    slices
        .extend(seen.mirrors.into_iter().map(|mirror| (mirror.key.clone(), Slice::Mirror(Arc::new(mirror)))));
    for (key, slice) in &slices {
        index.slice(key, None, Some(slice));
    }
    let config = primary_config(ATTACHMENT, "blue_net");
    let nads = if seen.has_network { vec![foreign_nad(NAMESPACE, "net", &config)] } else { Vec::new() };
    let shared = shared::Seen { nads, ..shared::Seen::default() }.stores(GatewayMode::Shared);
    let pods = seen.pods.iter().map(|(name, pod)| (web().pod(name), pod.clone()));
    Stores {
        slices: Store::fixed("EndpointSlice", slices),
        shared: shared.with_pods(pods),
        index,
        written: Written::default(),
    }
}

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/blue/endpointslices";
const POST: &str = "POST /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices";
const PATCH: &str = "PATCH /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices/mirror";
const DELETE: &str = "DELETE /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices/mirror";
const LIST: &str = "GET /apis/k8s.cni.cncf.io/v1/namespaces/blue/network-attachment-definitions";

fn one() -> Vec<Endpoint> {
    vec![endpoint("p1")]
}

fn pods() -> [(&'static str, Pod); 1] {
    [("p1", pod(&["10.20.0.5"]))]
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": reason})
}

/// A mirror of `one()` as the API server has it.
fn answered(version: &str, address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "web-x7k2p", "namespace": "blue", "uid": "uid-new", "resourceVersion": version,
            "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-mirror-controller.k8s.ovn.org",
                "k8s.ovn.org/service-name": "web"},
            "annotations": {"k8s.ovn.org/source-endpointslice": "web-abcde",
                "k8s.ovn.org/source-endpointslice-version": "7", "k8s.ovn.org/endpointslice-network": "blue_net"},
        },
        "addressType": "IPv4",
        "endpoints": [Endpoint { addresses: vec![address.to_owned()], ..endpoint("p1") }],
        "ports": [{"name": "http", "port": 80}],
    })
}

#[tokio::test]
async fn a_mirror_is_made_once_though_the_watch_has_not_shown_it() {
    let seen = Seen { source: Some(source(one())), mirrors: Vec::new(), pods: &pods(), has_network: true };
    let stage = Stage::new(seen, &[(POST, 201, answered("20", "10.20.0.5"))]);
    assert_eq!(stage.pass().await.unwrap(), Requeue::After(UNSEEN));
    stage.asked(&expect![[r#"
        POST /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices?&fieldManager=endpointslice-mirror-controller
        {
          "addressType": "IPv4",
          "apiVersion": "discovery.k8s.io/v1",
          "endpoints": [
            {
              "addresses": [
                "10.20.0.5"
              ],
              "conditions": {
                "ready": true,
                "serving": true,
                "terminating": false
              },
              "hostname": "h",
              "nodeName": "node-000",
              "targetRef": {
                "kind": "Pod",
                "name": "p1",
                "namespace": "blue"
              },
              "zone": "z"
            }
          ],
          "kind": "EndpointSlice",
          "metadata": {
            "annotations": {
              "k8s.ovn.org/endpointslice-network": "blue_net",
              "k8s.ovn.org/source-endpointslice": "web-abcde",
              "k8s.ovn.org/source-endpointslice-version": "7"
            },
            "generateName": "web-",
            "labels": {
              "endpointslice.kubernetes.io/managed-by": "endpointslice-mirror-controller.k8s.ovn.org",
              "k8s.ovn.org/service-name": "web"
            },
            "namespace": "blue",
            "ownerReferences": [
              {
                "apiVersion": "v1",
                "kind": "Service",
                "name": "web",
                "uid": "uid-web"
              }
            ]
          },
          "ports": [
            {
              "name": "http",
              "port": 80
            }
          ]
        }
    "#]]);
    assert_eq!(stage.pass().await.unwrap(), Requeue::After(UNSEEN));
    stage.asked(&expect![""]);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_was_made_and_that_the_watch_never_shows_is_made_again() {
    let seen = Seen { source: Some(source(one())), mirrors: Vec::new(), pods: &pods(), has_network: true };
    let answer = answered("20", "10.20.0.5");
    let stage = Stage::new(seen, &[(POST, 201, answer.clone()), (POST, 201, answer)]);
    let made = || {
        let asked = std::mem::take(&mut *stage.asked.lock().unwrap());
        asked.lines().filter(|line| line.starts_with("POST")).count()
    };
    stage.pass().await.unwrap();
    assert_eq!(made(), 1);
    stage.pass().await.unwrap();
    assert_eq!(made(), 0, "it may still be on its way");
    tokio::time::advance(UNSEEN).await;
    stage.pass().await.unwrap();
    assert_eq!(made(), 1, "it went before the watch showed it");
}

#[tokio::test]
async fn a_mirror_that_was_deleted_is_not_deleted_again_because_it_was_made_a_moment_ago() {
    let seen = Seen { source: Some(source(one())), mirrors: Vec::new(), pods: &pods(), has_network: true };
    let deleted = json!({"kind": "Status", "status": "Success"});
    let delete = "DELETE /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices/web-x7k2p";
    let mut stage = Stage::new(seen, &[(POST, 201, answered("20", "10.20.0.5")), (delete, 200, deleted)]);
    stage.pass().await.unwrap();
    stage.room.stores.slices = Store::fixed("EndpointSlice", []);
    assert_eq!(stage.pass().await.unwrap(), Requeue::After(UNSEEN));
    assert_eq!(stage.pass().await.unwrap(), Requeue::Gone);
    let asked = stage.asked.lock().unwrap().clone();
    assert_eq!(asked.lines().filter(|line| line.starts_with("DELETE")).count(), 1, "{asked}");
}

#[test]
fn mirrors_see_of_a_pod_what_they_rest_on_and_nothing_else() {
    let plain = || pod(&["10.20.0.5"]);
    let machine = || super::fixtures::machine_pod("10.20.0.5", 1, false, false);
    let ordinary = || Pod { attached: Ok(Vec::new()), ..plain() };
    for (what, old, new, seen) in [
        ("nothing", Some(plain()), Some(plain()), false),
        ("its node", Some(plain()), Some(Pod { node: None, ..plain() }), false),
        ("its end", Some(plain()), Some(Pod { finished: true, ..plain() }), false),
        ("what it asks for", Some(plain()), Some(Pod { wanted: vec![key("a/b")], ..plain() }), false),
        ("an ordinary pod", None, Some(ordinary()), false),
        ("its address", Some(plain()), Some(pod(&["10.20.0.6"])), true),
        ("its first address", Some(ordinary()), Some(plain()), true),
        ("its being there", Some(plain()), None, true),
        ("what can be read", Some(plain()), Some(Pod { attached: Err("EOF".to_owned()), ..plain() }), true),
        ("its network", Some(plain()), Some(Pod { host_network: true, ..plain() }), true),
        ("a machine in it", Some(plain()), Some(machine()), true),
        (
            "its machine's end",
            Some(machine()),
            Some(super::fixtures::machine_pod("10.20.0.5", 1, true, false)),
            true,
        ),
    ] {
        assert_eq!(is_seen(old.as_ref(), new.as_ref()), seen, "{what}");
        assert_eq!(is_seen(new.as_ref(), old.as_ref()), seen, "{what}, the other way round");
    }
}

fn key(text: &str) -> causeway_net::network::name::NadKey {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_change_names_the_object_and_the_version_that_it_rests_on() {
    let mirrors = vec![mirror(&[("p1", "10.20.0.9")])];
    let seen = Seen { source: Some(source(one())), mirrors, pods: &pods(), has_network: true };
    let mut changed = answered("20", "10.20.0.5");
    changed["metadata"]["name"] = json!("mirror");
    changed["metadata"]["uid"] = json!("uid-mirror");
    let stage = Stage::new(seen, &[(PATCH, 200, changed)]);
    assert_eq!(stage.pass().await.unwrap(), Requeue::Done);
    stage.asked(&expect![[r#"
        PATCH /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices/mirror?&fieldManager=endpointslice-mirror-controller
        {
          "endpoints": [
            {
              "addresses": [
                "10.20.0.5"
              ],
              "conditions": {
                "ready": true,
                "serving": true,
                "terminating": false
              },
              "hostname": "h",
              "nodeName": "node-000",
              "targetRef": {
                "kind": "Pod",
                "name": "p1",
                "namespace": "blue"
              },
              "zone": "z"
            }
          ],
          "metadata": {
            "annotations": {
              "k8s.ovn.org/endpointslice-network": "blue_net",
              "k8s.ovn.org/source-endpointslice": "web-abcde",
              "k8s.ovn.org/source-endpointslice-version": "7"
            },
            "labels": {
              "endpointslice.kubernetes.io/managed-by": "endpointslice-mirror-controller.k8s.ovn.org",
              "k8s.ovn.org/service-name": "web"
            },
            "resourceVersion": "9",
            "uid": "uid-mirror"
          },
          "ports": [
            {
              "name": "http",
              "port": 80
            }
          ]
        }
    "#]]);
    assert_eq!(stage.pass().await.unwrap(), Requeue::Done);
    stage.asked(&expect![""]);
}

#[tokio::test]
async fn what_was_written_is_looked_for_again_once_the_api_server_denies_it() {
    let seen = Seen { source: Some(source(one())), mirrors: Vec::new(), pods: &pods(), has_network: true };
    let path = format!("PATCH {SLICES}/web-x7k2p");
    let answers = [
        // It comes out with another address than was asked for, so that there is something to change.
        (POST, 201, answered("20", "10.20.0.9")),
        (path.as_str(), 404, failure(404, "NotFound")),
        (POST, 201, answered("30", "10.20.0.5")),
    ];
    let stage = Stage::new(seen, &answers);
    stage.pass().await.unwrap();
    let error = stage.pass().await.unwrap_err();
    assert!(matches!(error, MirrorError::Update { .. }), "{error:?}");
    stage.pass().await.unwrap();
    let asked = stage.asked.lock().unwrap().clone();
    let asked: Vec<&str> = asked.lines().filter(|line| line.contains("/apis/")).collect();
    let manager = "?&fieldManager=endpointslice-mirror-controller";
    let wanted = ["POST ", "PATCH ", "POST "].into_iter().zip(["", "/web-x7k2p", ""]);
    let wanted: Vec<String> = wanted.map(|(verb, name)| format!("{verb}{SLICES}{name}{manager}")).collect();
    assert_eq!(asked, wanted);
}

#[tokio::test]
async fn a_mirror_without_network_goes_when_the_api_server_confirms_it() {
    let seen = Seen {
        source: Some(source(one())),
        mirrors: vec![mirror(&[("p1", "10.20.0.5")])],
        pods: &pods(),
        has_network: false,
    };
    let secondary = json!({"metadata": {"name": "net", "namespace": "blue"}, "spec": {"config":
        r#"{"cniVersion":"1.1.0","name":"x","type":"ovn-k8s-cni-overlay","topology":"layer2","netAttachDefName":"blue/net","role":"secondary"}"#}});
    let list = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinitionList", "metadata": {},
        "items": [secondary]});
    let stage =
        Stage::new(seen, &[(LIST, 200, list), (DELETE, 200, json!({"kind": "Status", "status": "Success"}))]);
    assert_eq!(stage.pass().await.unwrap(), Requeue::Done);
    stage.asked(&expect![[r#"
        GET /apis/k8s.cni.cncf.io/v1/namespaces/blue/network-attachment-definitions?
        DELETE /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices/mirror?
        {
          "preconditions": {
            "uid": "uid-mirror"
          }
        }
    "#]]);
}

#[tokio::test]
async fn a_mirror_stays_while_the_watch_of_networks_is_behind() {
    let seen = Seen {
        source: Some(source(one())),
        mirrors: vec![mirror(&[("p1", "10.20.0.5")])],
        pods: &pods(),
        has_network: false,
    };
    let primary = json!({"metadata": {"name": "net", "namespace": "blue"}, "spec": {"config":
        r#"{"cniVersion":"1.1.0","name":"blue_net","type":"ovn-k8s-cni-overlay","topology":"layer2","netAttachDefName":"blue/net","role":"primary","subnets":"10.20.0.0/16"}"#}});
    let list = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinitionList", "metadata": {},
        "items": [primary]});
    let stage = Stage::new(seen, &[(LIST, 200, list)]);
    let error = stage.pass().await.unwrap_err();
    assert!(matches!(error, MirrorError::Behind { .. }), "{error:?}");
}

#[tokio::test]
async fn the_mirror_of_a_slice_that_is_gone_goes_by_uid_and_the_key_with_it() {
    let mirrors = vec![mirror(&[("p1", "10.20.0.5")])];
    let seen = Seen { source: None, mirrors, pods: &pods(), has_network: true };
    let stage = Stage::new(seen, &[(DELETE, 404, failure(404, "NotFound"))]);
    assert_eq!(stage.pass().await.unwrap(), Requeue::Gone);
    stage.asked(&expect![[r#"
        DELETE /apis/discovery.k8s.io/v1/namespaces/blue/endpointslices/mirror?
        {
          "preconditions": {
            "uid": "uid-mirror"
          }
        }
    "#]]);
}

#[tokio::test]
async fn a_slice_that_cannot_be_read_is_not_one_that_is_gone() {
    let mirrors = vec![mirror(&[("p1", "10.20.0.5")])];
    let mut stage = Stage::new(Seen { source: None, mirrors, pods: &pods(), has_network: true }, &[]);
    stage.room.stores.slices = Store::fixed_unreadable("EndpointSlice", [], [(web(), "bad type")]);
    let error = stage.pass().await.unwrap_err();
    assert!(matches!(error, MirrorError::Unreadable { .. }), "{error:?}");
    stage.asked(&expect![""]);
}

#[tokio::test]
async fn people_are_told_once_what_is_theirs_to_change() {
    let none = Endpoint { target_ref: None, ..endpoint("x") };
    let endpoints: Vec<Endpoint> = std::iter::repeat_n(none, 6).chain([endpoint("late")]).collect();
    let seen = Seen { source: Some(source(endpoints)), mirrors: Vec::new(), pods: &[], has_network: true };
    let mut stage = Stage::new(seen, &[]);
    stage.pass().await.unwrap();
    stage.pass().await.unwrap();
    let told = "Service/blue/web/uid-web Warning EndpointsNotMirrored: 6 of 7 endpoints of EndpointSlice web-abcde cannot \
                be reached on network blue_net: endpoint 0 is no pod, endpoint 1 is no pod, endpoint 2 is no pod, \
                endpoint 3 is no pod, endpoint 4 is no pod, 1 more";
    assert_eq!(stage.told(), [told]);
}

#[tokio::test]
async fn nobody_is_told_of_a_pod_that_has_no_address_yet() {
    let seen = Seen { source: Some(source(one())), mirrors: Vec::new(), pods: &[], has_network: true };
    let mut stage = Stage::new(seen, &[]);
    stage.pass().await.unwrap();
    assert_eq!(stage.told(), [""; 0]);
}

#[test]
fn only_slices_of_networks_and_those_with_mirrors_are_looked_at() {
    let looked_at = |source: Option<Source>, mirrors: Vec<Mirror>, has_network| {
        stores(Seen { source, mirrors, pods: &[], has_network }).of_concern()
    };
    assert!(looked_at(Some(source(one())), Vec::new(), false).is_empty());
    assert_eq!(looked_at(Some(source(one())), Vec::new(), true), [web()].into());
    assert_eq!(looked_at(None, vec![mirror(&[])], false), [web()].into());
}

#[test]
fn the_index_follows_every_change() {
    let index = Index::default();
    let of = |pods: &[&str]| Slice::Source(Arc::new(source(pods.iter().map(|pod| endpoint(pod)).collect())));
    let slices_of = |pod: &str| index.slices_of(&[web().pod(pod)]).len();
    let (first, second) = (of(&["p1", "p2"]), of(&["p2", "p3"]));
    index.slice(&web(), None, Some(&first));
    assert_eq!([slices_of("p1"), slices_of("p2"), slices_of("p3")], [1, 1, 0]);
    index.slice(&web(), Some(&first), Some(&second));
    assert_eq!([slices_of("p1"), slices_of("p2"), slices_of("p3")], [0, 1, 1]);

    let ours = mirror(&[]);
    let other = Mirror { source: SliceKey::new(NAMESPACE, "other"), ..ours.clone() };
    let (ours, other) = (Slice::Mirror(Arc::new(ours)), Slice::Mirror(Arc::new(other)));
    let key = SliceKey::new(NAMESPACE, "mirror");
    index.slice(&key, None, Some(&ours));
    assert_eq!(index.mirrors_of(&web()), std::slice::from_ref(&key));
    // Somebody says that it mirrors another one.
    index.slice(&key, Some(&ours), Some(&other));
    assert!(index.mirrors_of(&web()).is_empty());
    assert_eq!(index.sources_in(NAMESPACE), [web(), SliceKey::new(NAMESPACE, "other")].into());

    index.slice(&key, Some(&other), None);
    index.slice(&web(), Some(&second), None);
    assert!(index.sources_in(NAMESPACE).is_empty() && slices_of("p2") == 0);
}
