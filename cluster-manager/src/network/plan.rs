//! What has to be done about one network object. Pure: no I/O, no clock.
//!
//! In: everything that matters for the network at one moment. Out: what to do about its finalizer and about each of its
//! NetworkAttachmentDefinitions. What becomes of that decides the conditions ([`super::verdict`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::annotation::network::NETWORK_NAME;
use causeway_api::label::PRIMARY_NETWORK;
use causeway_api::nad::{Config, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use causeway_api::network_condition::NETWORK_FINALIZER;
use causeway_net::network::name::{NadKey, Namespace};
use causeway_net::render::Rendered;
use causeway_runtime::watch::NamespacedName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::observe::{Halt, Held, Site, World};
use crate::observed::cr::{Cr, CrKey};
use crate::observed::index::Cause;
use crate::observed::nad::Nad;

/// Prefix of annotations that a user's edit of a network does not reach: ids and what others keep there.
const OWN_PREFIX: &str = "k8s.ovn.org";

/// What to do about one network object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// What to do about our finalizer on the object.
    pub(super) protect: bool,
    /// Why nothing is done about NetworkAttachmentDefinitions, if so.
    pub(super) halt: Option<Halt>,
    /// What to do in the namespaces that the network is for, by namespace.
    pub(super) sites: Vec<(Namespace, SiteStep)>,
    /// What to do about NetworkAttachmentDefinitions that are no longer wanted.
    pub(super) removals: Vec<(NadKey, Removal)>,
    /// What to do about those of an object that is gone.
    pub(super) orphans: Vec<(NadKey, Removal)>,
    /// Fields of the object that have no effect, as their feature is off.
    pub(super) ignored: Vec<&'static str>,
    /// Whether our finalizer goes once every removal succeeded.
    pub(super) release: bool,
    /// What a change of would let the network get on.
    pub(super) causes: BTreeSet<Cause>,
}

/// What to do in one namespace.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SiteStep {
    /// All is as it should be.
    Keep,
    /// Make the NetworkAttachmentDefinition; its ids are added when it is made.
    Create(Box<Draft>),
    /// Put it right.
    Update(Change),
    /// It is being deleted and nothing uses it: let it go, so that it can be made again.
    LetGo(Removal),
    /// It is being deleted, and pods still use it.
    Terminating,
    /// It cannot be made.
    Refuse(String),
}

/// A NetworkAttachmentDefinition that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    /// The object.
    pub(super) object: NetworkAttachmentDefinition,
    /// What its config says.
    pub(super) config: Config,
}

/// A merge patch that puts a NetworkAttachmentDefinition right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change(pub(super) Value);

/// How a NetworkAttachmentDefinition is removed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Removal {
    /// Take our finalizer off, and delete it.
    Delete {
        /// Its uid: another object of the name stays.
        uid: String,
        /// The patch that takes the finalizer off; none where it is off.
        strip: Option<Value>,
        /// Whether it is being deleted already.
        terminating: bool,
    },
    /// It has to wait, because of this.
    Refuse(String),
}

/// Plans everything about one network object; `render` makes the config for a namespace, or says why it cannot.
pub(super) fn network(world: &World, render: impl Fn(&Cr, &Namespace) -> Result<Rendered, String>) -> Plan {
    let mut plan = Plan {
        protect: false,
        halt: None,
        sites: Vec::new(),
        removals: Vec::new(),
        orphans: world.orphans.iter().map(|held| (held.key.clone(), removal(held))).collect(),
        ignored: Vec::new(),
        release: false,
        causes: BTreeSet::new(),
    };
    plan.removals = world.surplus.iter().map(|held| (held.key.clone(), removal(held))).collect();
    for (key, removal) in plan.removals.iter().chain(&plan.orphans) {
        if matches!(removal, Removal::Refuse(_)) {
            plan.causes.extend(causes(key));
        }
    }
    let Some(cr) = world.cr.as_deref() else { return plan };
    if cr.terminating {
        plan.release = cr.is_protected();
        if !plan.release {
            plan.removals.clear();
        }
        return plan;
    }
    if let Some(halt) = &world.halt {
        plan.protect = !cr.is_protected() && !matches!(halt, Halt::Ignored(_));
        plan.halt = Some(halt.clone());
        plan.removals.clear();
        return plan;
    }
    plan.protect = !cr.is_protected();
    let mut rendered: Option<Result<Rendered, String>> = None;
    for site in &world.sites {
        // Configs of one network differ in the name of their NetworkAttachmentDefinition alone.
        let config = rendered
            .get_or_insert_with(|| render(cr, &site.namespace))
            .clone()
            .map(|all| Config { nad_name: world.key.nad_in(&site.namespace).to_string(), ..all.config });
        let step = in_namespace(&world.key, cr, site, config);
        if !matches!(step, SiteStep::Keep | SiteStep::Create(_) | SiteStep::Update(_)) {
            plan.causes.extend(causes(&world.key.nad_in(&site.namespace)));
        }
        plan.sites.push((site.namespace.clone(), step));
    }
    plan.ignored = rendered.and_then(Result::ok).map(|rendered| rendered.ignored).unwrap_or_default();
    plan
}

/// What a change of would let a network get on that cannot make, or remove, this NetworkAttachmentDefinition.
pub(super) fn causes(nad: &NadKey) -> [Cause; 2] {
    [Cause::Namespace(nad.namespace().clone()), Cause::Nad(nad.clone())]
}

fn in_namespace(key: &CrKey, cr: &Cr, site: &Site, config: Result<Config, String>) -> SiteStep {
    let nad = match &site.nad {
        Err(error) => {
            return SiteStep::Refuse(format!(
                "NetworkAttachmentDefinition [{}]: {error}",
                key.nad_in(&site.namespace)
            ));
        }
        Ok(nad) => nad.as_deref(),
    };
    let primary = cr.is_primary();
    if primary && !site.takes_primary {
        return SiteStep::Refuse(no_label(&site.namespace));
    }
    if let Some(nad) = nad {
        if !is_of(key, cr, nad) {
            let name = key.nad_in(&site.namespace);
            return SiteStep::Refuse(format!(
                "foreign NetworkAttachmentDefinition with the desired name already exist [{name}]"
            ));
        }
        let second = site.rival.as_ref().filter(|_| primary);
        if nad.terminating || second.is_some() {
            let held = Held {
                key: key.nad_in(&site.namespace),
                nad: Arc::new(nad.clone()),
                users: site.users.clone(),
                unreadable: site.unreadable.clone(),
            };
            return match (removal(&held), second) {
                (removal @ Removal::Delete { .. }, _) => SiteStep::LetGo(removal),
                (Removal::Refuse(_), Some(rival)) => SiteStep::Refuse(primary_exists(&site.namespace, rival)),
                (Removal::Refuse(_), None) => SiteStep::Terminating,
            };
        }
    }
    let config = match config {
        Ok(config) => config,
        Err(error) => return SiteStep::Refuse(error),
    };
    match nad {
        Some(nad) => change(key, cr, nad, &config).map_or(SiteStep::Keep, SiteStep::Update),
        None => match &site.rival {
            Some(rival) if primary => SiteStep::Refuse(primary_exists(&site.namespace, rival)),
            _ => SiteStep::Create(Box::new(draft(key, cr, &site.namespace, config))),
        },
    }
}

/// Whether a NetworkAttachmentDefinition is the network's: the object controls it, or did until somebody took the owner off.
/// Then our finalizer is on it, nobody else controls it, and it is annotated with the network.
fn is_of(key: &CrKey, cr: &Cr, nad: &Nad) -> bool {
    let is_free = || nad.owners.iter().all(|owner| owner.controller != Some(true));
    let network = || nad.annotations.get(NETWORK_NAME).is_some_and(|name| *name == key.network().as_str());
    nad.is_of(&cr.uid) || (nad.is_protected() && is_free() && network())
}

/// Whether a change of a NetworkAttachmentDefinition may change what other networks are told that want its namespace: who
/// holds it, or whether anybody does. One that an object controls can hold it whatever its config says at the moment.
pub(super) fn is_news_to_rivals(old: Option<&Nad>, new: Option<&Nad>) -> bool {
    let holder =
        |nad: &Nad| (nad.is_primary(), nad.controller.as_ref().map(|controller| controller.cr.clone()));
    let (before, after) = (old.map(holder), new.map(holder));
    before != after
        && [before, after].into_iter().flatten().any(|(primary, controller)| primary || controller.is_some())
}

/// The refusal in a namespace that has a primary network already.
pub(super) fn primary_exists(namespace: &Namespace, rival: &str) -> String {
    format!("primary network already exist in namespace \"{namespace}\": \"{rival}\"")
}

fn no_label(namespace: &Namespace) -> String {
    format!(
        "invalid primary network state for namespace \"{namespace}\": a valid primary user defined network or network \
         attachment definition custom resource, and required namespace label \"{PRIMARY_NETWORK}\" must both be present"
    )
}

/// How a NetworkAttachmentDefinition that nobody wants is removed.
fn removal(held: &Held) -> Removal {
    let Held { key, nad, users, unreadable } = held;
    // Another one's hold on it does not count: what matters is whether a pod needs the network.
    if let Some(pod) = unreadable.first() {
        return Removal::Refuse(format!(
            "failed to verify NAD not in use [{key}]: failed to unmarshal pod annotation [{pod}]"
        ));
    }
    if !users.is_empty() {
        let mut pods: Vec<String> = users.iter().map(NamespacedName::to_string).collect();
        pods.sort_unstable();
        return Removal::Refuse(format!("network in use by the following pods: [{}]", pods.join(" ")));
    }
    let rest: Vec<&String> =
        nad.finalizers.iter().filter(|finalizer| *finalizer != NETWORK_FINALIZER).collect();
    let strip = nad
        .is_protected()
        .then(|| json!({"metadata": {"uid": nad.uid, "resourceVersion": nad.version, "finalizers": rest}}));
    Removal::Delete { uid: nad.uid.clone(), strip, terminating: nad.terminating }
}

/// The labels that the NetworkAttachmentDefinitions of a network have.
fn labels(cr: &Cr) -> BTreeMap<String, String> {
    let ours = [(causeway_api::label::USER_DEFINED_NETWORK.to_owned(), String::new())];
    ours.into_iter().chain(cr.labels.clone()).collect()
}

fn owner(key: &CrKey, cr: &Cr) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", causeway_api::GROUP, causeway_api::V1),
        kind: key.kind().to_owned(),
        name: key.name().to_owned(),
        uid: cr.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn draft(key: &CrKey, cr: &Cr, namespace: &Namespace, config: Config) -> Draft {
    let object = NetworkAttachmentDefinition {
        metadata: ObjectMeta {
            namespace: Some(namespace.as_str().to_owned()),
            name: Some(key.name().to_owned()),
            labels: Some(labels(cr)),
            annotations: Some(cr.annotations.clone()),
            owner_references: Some(vec![owner(key, cr)]),
            finalizers: Some(vec![NETWORK_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: NetworkAttachmentDefinitionSpec { config: config.render() },
    };
    Draft { object, config }
}

/// The patch that puts a NetworkAttachmentDefinition right; none where it is.
fn change(key: &CrKey, cr: &Cr, nad: &Nad, config: &Config) -> Option<Change> {
    let mut meta = serde_json::Map::new();
    let labels = difference(&nad.labels, &labels(cr));
    let kept = nad.annotations.iter().filter(|(key, _)| key.starts_with(OWN_PREFIX));
    let wanted = cr.annotations.iter().chain(kept).map(|(key, value)| (key.clone(), value.clone())).collect();
    let annotations = difference(&nad.annotations, &wanted);
    meta.extend(labels.map(|labels| ("labels".to_owned(), labels)));
    meta.extend(annotations.map(|annotations| ("annotations".to_owned(), annotations)));
    if !nad.is_protected() {
        let all: Vec<&str> = nad.finalizers.iter().map(String::as_str).chain([NETWORK_FINALIZER]).collect();
        meta.insert("finalizers".to_owned(), json!(all));
    }
    let owner = owner(key, cr);
    if !nad.owners.contains(&owner) {
        let others = nad.owners.iter().filter(|other| other.uid != cr.uid);
        let all: Vec<&OwnerReference> = others.chain([&owner]).collect();
        meta.insert("ownerReferences".to_owned(), json!(all));
    }
    let config = config.render();
    let same_config = config == *nad.config;
    if meta.is_empty() && same_config {
        return None;
    }
    meta.insert("uid".to_owned(), json!(nad.uid));
    meta.insert("resourceVersion".to_owned(), json!(nad.version));
    let mut patch = json!({ "metadata": meta });
    if let Some(fields) = patch.as_object_mut().filter(|_| !same_config) {
        fields.insert("spec".to_owned(), json!({ "config": config }));
    }
    Some(Change(patch))
}

/// The merge patch from one map to another; none where they are equal.
fn difference(have: &BTreeMap<String, String>, want: &BTreeMap<String, String>) -> Option<Value> {
    if have == want {
        return None;
    }
    let gone = have.keys().filter(|key| !want.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let new = want.iter().filter(|(key, value)| have.get(*key) != Some(value));
    Some(Value::Object(gone.chain(new.map(|(key, value)| (key.clone(), json!(value)))).collect()))
}
