//! The cluster manager, everything that is no state, and tenants.

use std::sync::Arc;

use causeway_rig::Rig;
use causeway_tests::access;
use http::Method;
use serde_json::json;

use crate::attempt::{Attempt, Attempts};
use crate::world::{STATES, UPLINKS, World, condition, state_path, world};
use causeway_tests::rest::{OBJECT, send};

/// Upstream's finalizer of the cluster manager.
const FINALIZER: &str = "k8s.ovn.org/uplink-protection";
/// The lease of the leader. Source: shared/runtime, `leader::LEASE`.
const LEASE: &str = "ovn-kubernetes-master";

pub(crate) async fn manager(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let (manager, blue) = (&world.manager, format!("{UPLINKS}/blue"));
    let identity = |mut more: serde_json::Value| {
        more["apiVersion"] = json!("k8s.ovn.org/v1alpha1");
        more["kind"] = json!("Uplink");
        more["metadata"]["name"] = json!("blue");
        more
    };
    let mut attempts = Attempts::default();
    let ready = identity(json!({"status": {"conditions": [condition("Ready", "True")]}}));
    attempts.allowed("its condition", Attempt::apply(manager, &format!("{blue}/status"), ready)).await?;
    let protect = identity(json!({"metadata": {"finalizers": [FINALIZER]}}));
    attempts.allowed("its finalizer", Attempt::apply(manager, &blue, protect)).await?;
    let protect = json!({"metadata": {"finalizers": ["example.com/other", FINALIZER]}});
    attempts.allowed("its finalizer beside another", Attempt::merge(manager, &blue, protect)).await?;

    for (what, change) in [
        (
            "the spec",
            json!({"spec": {"nodeConfigs": [
            {"type": "OVSBridge", "nodeSelector": {}, "hostInterfaceName": "other"}]}}),
        ),
        ("labels", json!({"metadata": {"labels": {"a": "b"}}})),
        ("annotations", json!({"metadata": {"annotations": {"a": "b"}}})),
        ("another's finalizer", json!({"metadata": {"finalizers": [FINALIZER]}})),
        ("a new finalizer", json!({"metadata": {"finalizers": ["example.com/other", "example.com/new"]}})),
    ] {
        let because = "and the finalizer k8s.ovn.org/uplink-protection, nothing else";
        let write = Attempt::merge(manager, &blue, change);
        attempts.forbidden(&format!("the cluster manager writes {what}"), because, write).await?;
    }
    let uplink = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "metadata": {"name": "new"},
        "spec": {"nodeConfigs": [{"type": "OVSBridge", "nodeSelector": {}, "hostInterfaceName": "br"}]},
    });
    attempts
        .forbidden("a new Uplink", "cannot create", Attempt::create(manager, UPLINKS, uplink.clone()))
        .await?;
    let apply = Attempt::apply(manager, &format!("{UPLINKS}/new"), uplink);
    attempts.forbidden("a new Uplink by apply", "cannot create", apply).await?;
    attempts.forbidden("no Uplink", "cannot delete", Attempt::delete(manager, &blue)).await?;

    for node in ["a", "b"] {
        attempts.allowed("it deletes a state", Attempt::delete(manager, &state_path(node))).await?;
        let write = Attempt::merge(manager, &state_path(node), json!({"status": {"type": "OVSBridge"}}));
        attempts.forbidden("it writes a state", "cannot patch", write).await?;
        let create = Attempt::create(manager, STATES, world.bare("green", node));
        attempts.forbidden("it creates a state", "cannot create", create).await?;
    }
    leases(world, &mut attempts).await?;
    attempts.finish()
}

async fn leases(world: &World, attempts: &mut Attempts) -> anyhow::Result<()> {
    let manager = &world.manager;
    let path = |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let own = path(access::NAMESPACE);
    attempts.allowed("its new lease", Attempt::create(manager, &own, lease(LEASE))).await?;
    let watched = format!("{own}?fieldSelector=metadata.name%3D{LEASE}");
    attempts.allowed("its lease in a list", Attempt::read(manager, &watched)).await?;
    attempts.forbidden("all leases", "cannot list", Attempt::read(manager, &own)).await?;
    let other = Attempt::create(manager, &path("kube-system"), lease(LEASE));
    attempts.forbidden("a lease elsewhere", "cannot create", other).await?;
    for name in [LEASE, "of-another"] {
        // In earnest: a dry run changes nothing, and there would be nothing to renew.
        send(&world.admin, Method::POST, &own, OBJECT, Some(&lease(name))).await?;
        let renew = json!({"spec": {"holderIdentity": "one"}});
        let renew = Attempt::merge(manager, &format!("{own}/{name}"), renew);
        if name == LEASE {
            attempts.allowed("it renews its lease", renew).await?;
        } else {
            attempts.forbidden("it renews another's", "cannot patch", renew).await?;
        }
    }
    Ok(())
}

pub(crate) async fn agents(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    let agents = [("the host", &world.host_a), ("the card", &world.card_a), ("a node", &world.node_b)];
    for (who, client) in agents {
        let blue = format!("{UPLINKS}/blue");
        let change = json!({"metadata": {"finalizers": []}});
        let write = Attempt::merge(client, &blue, change);
        attempts.forbidden(&format!("{who} writes an Uplink"), "cannot patch", write).await?;
        let status = json!({"status": {"conditions": []}});
        let write = Attempt::merge(client, &format!("{blue}/status"), status);
        attempts.forbidden(&format!("{who} writes a status"), "cannot patch", write).await?;
        attempts
            .forbidden(&format!("{who} deletes"), "cannot delete", Attempt::delete(client, &blue))
            .await?;
        attempts.allowed(&format!("{who} lists Uplinks"), Attempt::read(client, UPLINKS)).await?;
        for path in [
            "/api/v1/secrets",
            "/api/v1/configmaps",
            "/api/v1/namespaces/causeway-dpus/serviceaccounts",
            "/apis/coordination.k8s.io/v1/leases",
        ] {
            let read = Attempt::read(client, path);
            attempts.forbidden(&format!("{who} reads {path}"), "cannot list", read).await?;
        }
        // Who isolates pods has to know them.
        let (what, read) = (format!("{who} reads pods"), Attempt::read(client, "/api/v1/pods"));
        if who == "the card" {
            attempts.forbidden(&what, "cannot list", read).await?;
        } else {
            attempts.allowed(&what, read).await?;
        }
    }
    let everyone = agents.into_iter().chain([("the manager", &world.manager)]);
    for (who, client) in everyone {
        let event = |namespace: &str| {
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event",
                "metadata": {"name": "told", "namespace": namespace},
                "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "causeway.internal/test",
                "reportingInstance": "one", "action": "Test", "reason": "Test", "type": "Normal",
                "regarding": {"apiVersion": "v1", "kind": "Node", "name": "a"},
            })
        };
        let events = |namespace: &str| format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let told = Attempt::create(client, &events("default"), event("default"));
        attempts.allowed(&format!("{who} tells an event"), told).await?;
        let elsewhere = Attempt::create(client, &events("kube-system"), event("kube-system"));
        let what = format!("{who} tells one elsewhere");
        // The cluster manager and who isolates pods speak about objects of tenants.
        if who == "the card" {
            attempts.forbidden(&what, "cannot create", elsewhere).await?;
        } else {
            attempts.allowed(&what, elsewhere).await?;
        }
    }
    attempts.finish()
}

/// One tenant per role, bound for the whole cluster: more than any tenant gets.
const TENANTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
";

pub(crate) async fn tenants(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    world.rig.apply(TENANTS).await?;
    let mut attempts = Attempts::default();
    for role in ["view", "edit", "admin"] {
        let yaml = format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {role}, namespace: tenant}}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: tenant-{role}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\n\
             subjects: [{{kind: ServiceAccount, name: {role}, namespace: tenant}}]\n"
        );
        world.rig.apply(&yaml).await?;
        let token = access::token(&world.rig, "tenant", role, None).await?;
        let tenant = access::client_of(&world.rig, &token).await?;
        // The roles are put together by a controller, so this is also the proof that they are.
        let pods = Attempt::read(&tenant, "/api/v1/namespaces/tenant/pods");
        let heeded = || async {
            let answer = pods.answer().await.map_err(|error| format!("{error:#}"))?;
            if answer.is_accepted() { Ok(()) } else { Err(answer.message().to_owned()) }
        };
        world
            .rig
            .wait_for("the tenant's role to be heeded", std::time::Duration::from_secs(30), heeded)
            .await?;

        let attachments = "/apis/k8s.cni.cncf.io/v1/namespaces/tenant/network-attachment-definitions";
        let causeway_tokens = "/api/v1/namespaces/causeway-dpus/serviceaccounts/card-a/token";
        for path in [UPLINKS, STATES, attachments] {
            let read = Attempt::read(&tenant, path);
            attempts.forbidden(&format!("{role} reads {path}"), "cannot list", read).await?;
            let create = Attempt::create(&tenant, path, json!({"metadata": {"name": "new"}}));
            attempts.forbidden(&format!("{role} creates in {path}"), "cannot create", create).await?;
            let change = json!({"metadata": {"labels": {"a": "b"}}});
            let write = Attempt::merge(&tenant, &format!("{path}/blue"), change);
            attempts.forbidden(&format!("{role} writes {path}"), "cannot patch", write).await?;
            let delete = Attempt::delete(&tenant, &format!("{path}/blue"));
            attempts.forbidden(&format!("{role} deletes in {path}"), "cannot delete", delete).await?;
        }
        if role == "view" {
            let request =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
            let token = Attempt::create(&tenant, causeway_tokens, request);
            attempts.forbidden("view asks for a card's token", "cannot create", token).await?;
        }
    }
    attempts.finish()
}
