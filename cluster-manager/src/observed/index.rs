//! What belongs together, kept change by change, so that a look at one network costs what that network has.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::network::name::{NadKey, Namespace};
use causeway_runtime::watch::{Change, NamespacedName};

use super::cr::CrKey;
use super::nad::Nad;
use super::place::Place;
use super::pod::{Attachment, Pod};
use crate::groups::Groups;

/// Which NetworkAttachmentDefinitions belong to whom, and which pods use them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    /// By the name of the network object that controls them, or did: one of another uid is none of the object's.
    controlled: Groups<CrKey, NadKey>,
    /// Of primary networks, by namespace.
    primary: Groups<Namespace, NadKey>,
    /// Those that a network object controls, by namespace.
    by_namespace: Groups<Namespace, (CrKey, NadKey)>,
    /// Namespaces by a label and its value.
    labelled: Groups<(String, String), Namespace>,
    /// Pods that are attached and have not ended.
    users: Groups<NadKey, NamespacedName>,
    /// Pods whose attachments cannot be read, by namespace.
    unreadable: Groups<Namespace, NamespacedName>,
}

impl Index {
    /// Takes over a change of a NetworkAttachmentDefinition.
    pub(crate) fn nad(&self, change: &Change<'_, NadKey, Nad>) {
        let mut tables = self.lock();
        let (key, namespace) = (change.key, change.key.namespace());
        if let Some(old) = &change.old {
            if let Some(controller) = &old.controller {
                tables.controlled.remove(&controller.cr, key);
                tables.by_namespace.remove(namespace, &(controller.cr.clone(), key.clone()));
            }
            tables.primary.remove(namespace, key);
        }
        if let Some(new) = &change.new {
            if let Some(controller) = &new.controller {
                tables.controlled.insert(controller.cr.clone(), key.clone());
                tables.by_namespace.insert(namespace.clone(), (controller.cr.clone(), key.clone()));
            }
            if new.is_primary() {
                tables.primary.insert(namespace.clone(), key.clone());
            }
        }
    }

    /// Takes over a change of a Namespace.
    pub(crate) fn place(&self, change: &Change<'_, Namespace, Place>) {
        let mut tables = self.lock();
        let labels =
            |place: &Option<Arc<Place>>| place.as_ref().map(|place| place.labels.clone()).unwrap_or_default();
        let (old, new) = (labels(&change.old), labels(&change.new));
        if old == new {
            return;
        }
        for label in old {
            tables.labelled.remove(&label, change.key);
        }
        for label in new {
            tables.labelled.insert(label, change.key.clone());
        }
    }

    /// The namespaces of which a label has a value.
    pub(crate) fn labelled(&self, label: &str, value: &str) -> Vec<Namespace> {
        self.lock().labelled.of(&(label.to_owned(), value.to_owned()))
    }

    /// Takes over a change of a Pod; returns the NetworkAttachmentDefinitions that it no longer uses.
    pub(crate) fn pod(&self, change: &Change<'_, NamespacedName, Pod>) -> Vec<NadKey> {
        let mut tables = self.lock();
        let key = change.key;
        let (before, after) = (uses(change.old.as_deref()), uses(change.new.as_deref()));
        let freed: Vec<NadKey> = before
            .iter()
            .map(|of| &of.nad)
            .filter(|nad| after.iter().all(|of| of.nad != **nad))
            .cloned()
            .collect();
        for nad in &freed {
            tables.users.remove(nad, key);
        }
        for Attachment { nad, .. } in after {
            tables.users.insert(nad.clone(), key.clone());
        }
        let namespace = Namespace::from(key.namespace.as_str());
        if change.new.as_ref().is_some_and(|pod| !pod.finished && pod.attached.is_err()) {
            tables.unreadable.insert(namespace, key.clone());
        } else {
            tables.unreadable.remove(&namespace, key);
        }
        freed
    }

    /// The NetworkAttachmentDefinitions that an object of this name controls, whatever its uid.
    pub(crate) fn controlled_by(&self, cr: &CrKey) -> Vec<NadKey> {
        self.lock().controlled.of(cr)
    }

    /// Every network object that controls one, also of those that are gone.
    pub(crate) fn controllers(&self) -> Vec<CrKey> {
        self.lock().controlled.names().cloned().collect()
    }

    /// The NetworkAttachmentDefinitions of primary networks in a namespace.
    pub(crate) fn primary_in(&self, namespace: &Namespace) -> Vec<NadKey> {
        self.lock().primary.of(namespace)
    }

    /// Whether a namespace has a NetworkAttachmentDefinition of a primary network.
    pub(crate) fn has_primary(&self, namespace: &str) -> bool {
        self.lock().primary.has(namespace)
    }

    /// Every namespace that has one.
    pub(crate) fn primary_namespaces(&self) -> Vec<Namespace> {
        self.lock().primary.names().cloned().collect()
    }

    /// The network objects that have a NetworkAttachmentDefinition in a namespace.
    pub(crate) fn networks_in(&self, namespace: &Namespace) -> Vec<CrKey> {
        let mut networks: Vec<CrKey> =
            self.lock().by_namespace.of(namespace).into_iter().map(|(cr, _)| cr).collect();
        networks.dedup();
        networks
    }

    /// The pods that are attached to a NetworkAttachmentDefinition.
    pub(crate) fn users_of(&self, nad: &NadKey) -> Vec<NamespacedName> {
        self.lock().users.of(nad)
    }

    /// The pods of a namespace of which nobody can say what they are attached to.
    pub(crate) fn unreadable_in(&self, namespace: &Namespace) -> Vec<NamespacedName> {
        self.lock().unreadable.of(namespace)
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a pod that has not ended is attached to.
fn uses(pod: Option<&Pod>) -> &[Attachment] {
    match pod {
        Some(Pod { finished: false, attached: Ok(attached), .. }) => attached,
        _ => &[],
    }
}

/// What a network waits for. Cheap to clone.
///
/// A pass says what kept it from getting on; a change of just that wakes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<Mutex<Waiters>>);

#[derive(Debug, Default)]
struct Waiters {
    by_cause: Groups<Cause, CrKey>,
    causes: HashMap<CrKey, BTreeSet<Cause>>,
}

/// What keeps a network from getting on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    /// Something in a namespace: its label, its primary network, a pod that cannot be read.
    Namespace(Namespace),
    /// A NetworkAttachmentDefinition, or who uses it.
    Nad(NadKey),
}

impl Waiting {
    /// Makes `causes` what `cr` waits for.
    pub(crate) fn set(&self, cr: &CrKey, causes: BTreeSet<Cause>) {
        let mut waiters = self.lock();
        let before = waiters.causes.remove(cr).unwrap_or_default();
        for gone in before.difference(&causes) {
            waiters.by_cause.remove(gone, cr);
        }
        for cause in &causes {
            waiters.by_cause.insert(cause.clone(), cr.clone());
        }
        if !causes.is_empty() {
            waiters.causes.insert(cr.clone(), causes);
        }
    }

    /// Forgets everything: objects may have gone while nobody looked.
    pub(crate) fn forget_all(&self) {
        *self.lock() = Waiters::default();
    }

    /// Who waits for this.
    pub(crate) fn for_cause(&self, cause: &Cause) -> Vec<CrKey> {
        self.lock().by_cause.of(cause)
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::nad::GatewayMode;
    use serde_json::{Value, json};

    use super::*;
    use crate::observed::fixtures::{foreign_nad, nad_of, pod, pod_of, primary_config, with};

    fn key(text: &str) -> NadKey {
        text.parse().unwrap()
    }

    fn cudn(name: &str) -> CrKey {
        CrKey::Cudn(name.into())
    }

    /// A NetworkAttachmentDefinition of a ClusterUserDefinedNetwork.
    fn owned(namespace: &str, name: &str, uid: &str) -> Value {
        let config = primary_config(&format!("{namespace}/{name}"), &format!("cluster_udn_{name}"));
        let owner = json!([{"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "name": name,
            "uid": uid, "controller": true}]);
        with(foreign_nad(namespace, name, &config), "/metadata/ownerReferences", owner)
    }

    fn change(index: &Index, old: Option<&Value>, new: Option<&Value>) {
        let of = |object: &Value| nad_of(object, GatewayMode::Shared);
        let key = old.or(new).map(|object| of(object).0).unwrap();
        let value = |object: Option<&Value>| object.map(|object| Arc::new(of(object).1));
        index.nad(&Change { key: &key, old: value(old), new: value(new), unreadable: None });
    }

    fn pod_change(index: &Index, old: Option<&Value>, new: Option<&Value>) -> Vec<NadKey> {
        let key = old.or(new).map(|object| pod_of(object).0).unwrap();
        let value = |object: Option<&Value>| object.map(|object| Arc::new(pod_of(object).1));
        index.pod(&Change { key: &key, old: value(old), new: value(new), unreadable: None })
    }

    #[test]
    fn a_definition_counts_for_its_controller_and_its_namespace_as_long_as_it_is_there() {
        let index = Index::default();
        let (in_a, in_b) = (owned("a", "net", "uid-1"), owned("b", "net", "uid-2"));
        change(&index, None, Some(&in_a));
        change(&index, None, Some(&in_b));
        assert_eq!(index.controlled_by(&cudn("net")), [key("a/net"), key("b/net")]);
        assert_eq!(index.networks_in(&"a".into()), [cudn("net")]);
        assert_eq!(index.primary_in(&"b".into()), [key("b/net")]);
        assert_eq!(index.controllers(), [cudn("net")]);
        change(&index, Some(&in_a), None);
        assert_eq!(index.controlled_by(&cudn("net")), [key("b/net")]);
        assert_eq!((index.networks_in(&"a".into()), index.primary_in(&"a".into())), (vec![], vec![]));
        change(&index, Some(&in_b), None);
        assert_eq!(index.controllers(), [], "nothing is kept of what is gone");
    }

    #[test]
    fn an_edit_moves_a_definition_to_where_it_belongs_now() {
        let index = Index::default();
        let before = owned("a", "net", "uid-1");
        change(&index, None, Some(&before));
        let config = primary_config("a/net", "x").replace("primary", "secondary");
        let after = foreign_nad("a", "net", &config);
        change(&index, Some(&before), Some(&after));
        assert_eq!((index.controlled_by(&cudn("net")), index.primary_in(&"a".into())), (vec![], vec![]));
        change(&index, Some(&after), Some(&before));
        assert_eq!(index.primary_in(&"a".into()), [key("a/net")]);
        change(&index, Some(&before), Some(&foreign_nad("a", "net", "{")));
        assert_eq!(index.primary_in(&"a".into()), [], "one that cannot be used is nobody's primary one");
    }

    #[test]
    fn two_definitions_of_one_controller_in_a_namespace_are_one_network_until_both_are_gone() {
        let index = Index::default();
        let (first, second) = (owned("a", "net", "uid-1"), owned("a", "net", "uid-1"));
        let second = with(second, "/metadata/name", json!("copy"));
        change(&index, None, Some(&first));
        change(&index, None, Some(&second));
        assert_eq!(index.networks_in(&"a".into()), [cudn("net")]);
        change(&index, Some(&second), None);
        assert_eq!(index.networks_in(&"a".into()), [cudn("net")]);
        change(&index, Some(&first), None);
        assert_eq!(index.networks_in(&"a".into()), []);
    }

    #[test]
    fn a_pod_uses_its_networks_until_it_ends_or_goes_and_says_what_it_let_go() {
        let index = Index::default();
        let running = pod("a", "p", &["default", "a/net", "a/other/1"]);
        let name = pod_of(&running).0;
        assert_eq!(pod_change(&index, None, Some(&running)), []);
        assert_eq!(index.users_of(&key("a/net")), vec![name.clone()]);
        assert_eq!(index.users_of(&key("a/other")), [name], "also by a key with an index");
        let ended = with(running.clone(), "/status", json!({"phase": "Succeeded"}));
        assert_eq!(pod_change(&index, Some(&running), Some(&ended)), [key("a/net"), key("a/other")]);
        assert_eq!(index.users_of(&key("a/net")), []);
        assert_eq!(pod_change(&index, Some(&ended), None), [], "it let nothing go that it had not");
        pod_change(&index, None, Some(&running));
        let fewer = pod("a", "p", &["a/net"]);
        assert_eq!(pod_change(&index, Some(&running), Some(&fewer)), [key("a/other")]);
        assert_eq!(pod_change(&index, Some(&fewer), None), [key("a/net")]);
    }

    #[test]
    fn a_pod_that_cannot_be_read_counts_against_its_namespace_until_it_can() {
        let index = Index::default();
        let blind =
            with(pod("a", "p", &[]), "/metadata/annotations", json!({"k8s.ovn.org/pod-networks": "{"}));
        pod_change(&index, None, Some(&blind));
        assert_eq!(index.unreadable_in(&"a".into()).len(), 1);
        assert_eq!(index.unreadable_in(&"b".into()), []);
        pod_change(&index, Some(&blind), Some(&pod("a", "p", &["a/net"])));
        assert_eq!(index.unreadable_in(&"a".into()), []);
        pod_change(&index, Some(&pod("a", "p", &["a/net"])), Some(&blind));
        let ended = with(blind.clone(), "/status", json!({"phase": "Failed"}));
        pod_change(&index, Some(&blind), Some(&ended));
        assert_eq!(index.unreadable_in(&"a".into()), [], "what has ended uses nothing");
    }

    #[test]
    fn who_waits_is_found_by_each_cause_and_by_no_former_one() {
        let waiting = Waiting::default();
        let (at, nad) = (Cause::Namespace("a".into()), Cause::Nad(key("a/net")));
        waiting.set(&cudn("x"), BTreeSet::from([at.clone(), nad.clone()]));
        waiting.set(&cudn("y"), BTreeSet::from([at.clone()]));
        assert_eq!(waiting.for_cause(&at), [cudn("x"), cudn("y")]);
        assert_eq!(waiting.for_cause(&nad), [cudn("x")]);
        waiting.set(&cudn("x"), BTreeSet::from([nad.clone()]));
        assert_eq!(waiting.for_cause(&at), [cudn("y")]);
        waiting.set(&cudn("x"), BTreeSet::new());
        waiting.set(&cudn("y"), BTreeSet::new());
        assert!(waiting.lock().causes.is_empty() && waiting.lock().by_cause.is_empty(), "nothing is kept");
        waiting.set(&cudn("x"), BTreeSet::from([nad.clone()]));
        waiting.forget_all();
        assert_eq!(waiting.for_cause(&nad), []);
    }

    #[test]
    fn a_namespace_is_found_by_the_labels_that_it_has_now() {
        let index = Index::default();
        let place = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            Some(Arc::new(Place { labels, terminating: false }))
        };
        let change = |name: &str, old: Option<Arc<Place>>, new: Option<Arc<Place>>| {
            index.place(&Change { key: &Namespace::from(name), old, new, unreadable: None });
        };
        let found = |value: &str| -> Vec<String> {
            index.labelled("team", value).iter().map(ToString::to_string).collect()
        };
        let (red, blue) = (place(&[("team", "red"), ("x", "y")]), place(&[("team", "blue")]));
        change("a", None, red.clone());
        change("b", None, red.clone());
        assert_eq!((found("red"), found("blue")), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        change("a", red.clone(), blue.clone());
        assert_eq!((found("red"), found("blue")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        change("a", blue, None);
        change("b", red, None);
        assert!(index.lock().labelled.names().next().is_none(), "nothing is kept");
    }
}
