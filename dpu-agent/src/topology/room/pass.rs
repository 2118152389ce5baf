//! One pass: look, plan, write the difference, say what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::uplink_state::UplinkState;
use causeway_net::network::name::{NadKey, NetworkName, NodeName};
use causeway_net::state_name::StateName;
use causeway_runtime::engine::{Requeue, Room};
use causeway_runtime::watch::{Lookup, Snapshot, Store};
use ovsdb::DiffError;
use tracing::{debug, info};

use super::super::cluster::Cluster;
use super::super::exit::{Exit, ExitError};
use super::super::network::Network;
use super::super::node::ZoneNode;
use super::super::northbound::{LogicalRouter, LogicalSwitch, Pairs};
use super::super::own::Owner;
use super::super::plan::{Part, Plan, PlanError, Ways, plan, remote_chassis, service_addresses};
use super::super::southbound::write_chassis;
use super::super::write::{Outcome, Parts, WriteError, Zone};
use super::book::{Book, Wanted, Why};
use super::chassis::Chassis;
use super::error::{PassError, is_away};
use super::inbox::{Inbox, Key, Stir};
use super::ledger::{Ledger, Standing};
use super::metrics::Metrics;
use super::nodes::is_in;
use super::services::Services;
use super::tell::{Said, Subject, Voice};
use super::watched::{Nad, NadProblem, NodeFacts};

/// What the room works with.
pub(super) struct TopologyRoom {
    pub(super) cluster: Cluster,
    pub(super) zone: Zone,
    /// Whether networks are only on nodes that use them.
    pub(super) dynamic: bool,
    pub(super) northbound: ovsdb::Store,
    pub(super) southbound: ovsdb::Store,
    pub(super) chassis: Chassis,
    pub(super) nads: Store<NadKey, Nad>,
    pub(super) nodes: Store<String, NodeFacts>,
    pub(super) states: Option<Store<String, UplinkState>>,
    pub(super) services: Services,
    pub(super) book: SharedBook,
    pub(super) inbox: Inbox,
    pub(super) ledger: Ledger,
    pub(super) voice: Voice,
    pub(super) metrics: Metrics,
    /// Whether the zone's own rows were compared once: networks refer to them.
    pub(super) zone_done: tokio::sync::Mutex<bool>,
}

/// The networks, shared with the watches that keep them.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedBook(Arc<Mutex<Book>>);

impl SharedBook {
    pub(super) fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room for TopologyRoom {
    const NAME: &'static str = "topology";
    type Key = Key;
    type Error = PassError;

    async fn reconcile(&self, key: &Key) -> Result<Requeue, PassError> {
        let result = match key {
            Key::Zone => self.zone_rows(true).await,
            Key::Network(network) => self.network(key, network).await,
            Key::Services => self.service_addresses(key).await,
            Key::Leftovers => self.leftovers(),
            Key::Chassis => self.remote_chassis(key).await,
            Key::Settings => self.chassis.settle().await.map(|changed| {
                if changed {
                    info!("Settings of ovn-controller written");
                }
                Requeue::Done
            }),
        };
        let result = result.or_else(|error| match error {
            // Whoever follows the database says when it is back.
            PassError::Write(WriteError::NotCurrent(_)) => Ok(Requeue::Done),
            PassError::Write(WriteError::Transact { ref source, .. }) | PassError::Settings(ref source)
                if is_away(source) =>
            {
                Ok(Requeue::Done)
            }
            other => Err(other),
        });
        if let Key::Network(network) = key {
            if let Err(error) = &result {
                self.failed(key, network, error);
            }
            if self.ledger.passed(network) {
                self.inbox.key(Key::Leftovers);
            }
        } else if !matches!(key, Key::Chassis | Key::Services) || result.is_err() {
            self.other(key, result.as_ref().err().map(PassError::note));
        }
        result
    }
}

impl TopologyRoom {
    fn node(&self) -> &NodeName {
        &self.zone.node
    }

    async fn zone_rows(&self, again: bool) -> Result<Requeue, PassError> {
        let mut done = self.zone_done.lock().await;
        if again || !*done {
            let outcome = self.zone.write(&self.northbound).await?;
            self.metrics.wrote(outcome);
            *done = true;
        }
        Ok(Requeue::Done)
    }

    /// Addresses of the Services that networks reach, for rules of features that name them.
    async fn service_addresses(&self, key: &Key) -> Result<Requeue, PassError> {
        let sight = self.services.look();
        let rows = service_addresses(&self.cluster, &sight.there);
        let outcome = Zone::write_services(&self.northbound, &rows, sight.unknown.is_empty()).await?;
        self.metrics.wrote(outcome);
        self.ledger.lock().others.remove("services");
        let said = sight.remarks.into_iter().map(|text| (Subject::Remark, text));
        self.voice.set(key, &said.collect());
        Ok(Requeue::Done)
    }

    async fn network(&self, key: &Key, network: &NetworkName) -> Result<Requeue, PassError> {
        self.zone_rows(false).await?;
        let stir = self.inbox.take(network);
        let wanted = if network.is_default() {
            Wanted::Here(Arc::new(Network::default_network(&self.cluster)))
        } else {
            self.book.lock().wanted(network)
        };
        let result = match wanted {
            Wanted::Here(network) => self.write(key, &network, &stir).await,
            Wanted::Kept(why) => {
                self.keep(key, network, why);
                return Ok(Requeue::Done);
            }
            Wanted::Gone => self.remove(key, network).await,
        };
        if result.is_err() {
            self.inbox.put_back(network, stir);
        }
        result
    }

    async fn write(&self, key: &Key, network: &Network, stir: &Stir) -> Result<Requeue, PassError> {
        let nodes = self.nodes.snapshot();
        let own = match nodes.lookup(self.node().as_str()) {
            Lookup::Present(own) => Arc::clone(own),
            Lookup::Unreadable(error) => {
                let (name, error) = (self.node().to_string(), error.to_owned());
                return Err(PassError::Unreadable { name, error });
            }
            Lookup::Absent => {
                // Nothing says what this node has. What there is stays: a node that is gone has no agent either.
                let why = format!("there is no Node named {}", self.node());
                self.inbox.put_back(&network.name, stir.clone());
                self.stand(key, network, Some(why), &Parts::all(), BTreeMap::new(), None, &nodes);
                return Ok(Requeue::Done);
            }
        };
        let exit = self.exit(network, &own.node);
        let remotes: Vec<&ZoneNode> = nodes
            .iter()
            .filter(|(name, facts)| {
                name.as_str() != self.node().as_str()
                    && stir.covers(&super::nodes::part_of(facts))
                    && is_in(network, facts, self.dynamic)
            })
            .map(|(_, facts)| &facts.node)
            .collect();
        // Of a node that cannot be read nothing is known, not even that it is gone.
        let unknown = nodes.unreadable().map(|(name, _)| Part::Remote(name.as_str().into()));
        let services = self.services.look();
        let unknown = unknown.chain(services.unknown.into_iter().map(Part::Service)).collect();
        let parts = stir.clone().parts(unknown);
        let ways = Ways { exit: &exit, services: &services.there };
        let plan = plan(&self.cluster, network, &own.node, ways, remotes);
        if parts.covers(&Part::Network) {
            self.evict(network).await?;
        }
        let outcome = match self.zone.write_network(&self.northbound, &network.name, &plan, &parts).await {
            // A part that something else lives in is not there: each part for itself gets as far as it can.
            Err(WriteError::Diff { source: DiffError::Missing { .. }, .. }) => {
                self.part_by_part(network, &plan, &parts).await?
            }
            other => other?,
        };
        self.metrics.wrote(outcome);
        let Plan { problems, .. } = plan;
        self.stand(key, network, None, &parts, problems, Some(outcome), &nodes);
        Ok(Requeue::Done)
    }

    /// Writes what can be written of a network some of whose parts are missing. What lives in a missing part waits for it.
    async fn part_by_part(
        &self,
        network: &Network,
        plan: &Plan,
        parts: &Parts,
    ) -> Result<Outcome, PassError> {
        let mut all = Outcome::Unchanged;
        let mut waiting = BTreeSet::new();
        let single = |part: &Part| (Some(part.clone()), Parts::Only([part.clone()].into()));
        // Last what nobody plans any more, as of a node that is gone.
        let rest = match parts {
            Parts::AllBut(unknown) => {
                let planned = plan.parts.keys().chain(unknown).cloned().collect();
                Some((None, Parts::AllBut(planned)))
            }
            Parts::Only(_) => None,
        };
        for (part, only) in plan.parts.keys().filter(|part| parts.covers(part)).map(single).chain(rest) {
            match self.zone.write_network(&self.northbound, &network.name, plan, &only).await {
                Ok(Outcome::Unchanged) => {}
                Ok(outcome @ Outcome::Changed { .. }) => all = outcome,
                Err(WriteError::Diff { source: DiffError::Missing { table, key }, .. }) => {
                    debug!(network = %network.name, ?part, table, key, "Part waits for what it lives in");
                    waiting.extend(part);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !waiting.is_empty() {
            self.inbox.put_back(&network.name, Stir::Only(waiting));
        }
        Ok(all)
    }

    /// Removes another network whose rows have this network's names: it is gone, or had to give them up.
    async fn evict(&self, network: &Network) -> Result<(), PassError> {
        if network.is_default() {
            return Ok(());
        }
        let have = self.northbound.current().map_err(WriteError::from)?;
        let owner = Owner::new(&network.name, self.node(), &self.zone.default_join);
        let mut others = BTreeSet::new();
        let mut note = |ids: &Pairs| {
            if let Some(other) = ids.get(super::super::mark::NETWORK) {
                let other = NetworkName::from(other);
                if other != network.name && other.ovn_prefix() == network.name.ovn_prefix() {
                    others.insert(other);
                }
            }
        };
        for (name, _) in owner.switches() {
            have.find(LogicalSwitch::by_name(), name.as_str()).for_each(|(_, row)| note(&row.external_ids));
        }
        for (name, _) in owner.routers() {
            have.find(LogicalRouter::by_name(), name.as_str()).for_each(|(_, row)| note(&row.external_ids));
        }
        for other in others {
            info!(network = %other, by = %network.name, "Network gives up its names in OVN");
            let outcome = self.zone.remove_network(&self.northbound, &other).await?;
            self.metrics.wrote(outcome);
        }
        Ok(())
    }

    /// Where a network leaves this node.
    fn exit(&self, network: &Network, node: &ZoneNode) -> Result<Exit, ExitError> {
        let Some(uplink) = network.primary().and_then(|primary| primary.uplink.as_deref()) else {
            return Exit::of_node(network, node);
        };
        let name = StateName::of(uplink, self.node().as_str());
        let state = self.states.as_ref().and_then(|states| states.snapshot().get(name.as_str()).cloned());
        Exit::of_uplink(network, self.node(), &self.cluster, name.as_str(), uplink, state.as_deref())
    }

    async fn remove(&self, key: &Key, network: &NetworkName) -> Result<Requeue, PassError> {
        let holder = self.book.lock().holder(&network.ovn_prefix()).cloned();
        if let Some(holder) = holder {
            // Its rows have the other one's names: that one removes them before it writes its own.
            self.inbox.network(&holder, Stir::All);
        } else {
            let outcome = self.zone.remove_network(&self.northbound, network).await?;
            self.metrics.wrote(outcome);
            if outcome != Outcome::Unchanged {
                info!(%network, "Network removed from OVN");
            }
        }
        self.ledger.lock().networks.remove(network);
        self.voice.set(key, &BTreeSet::new());
        Ok(Requeue::Gone)
    }

    fn keep(&self, key: &Key, network: &NetworkName, why: Why) {
        let (text, said) = match why {
            Why::Nad { problem: problem @ NadProblem::NoNumber(_), .. } => (problem.to_string(), None),
            // The cluster manager tells who wrote the object.
            Why::Nad {
                key: nad, problem: problem @ (NadProblem::Config(_) | NadProblem::Number(_)), ..
            } => {
                let text = problem.to_string();
                (text.clone(), Some((Subject::Log, format!("NetworkAttachmentDefinition {nad}: {text}"))))
            }
            Why::Nad { key: nad, nad: object, problem: NadProblem::Network(error) } => {
                (error.to_string(), Some(self.on(nad, &object, error.to_string())))
            }
            Why::Prefix { key: nad, nad: object, error } => {
                (error.to_string(), Some(self.on(nad, &object, error.to_string())))
            }
        };
        let mut book = self.ledger.lock();
        let standing = book.networks.entry(network.clone()).or_default();
        standing.why = Some(text);
        standing.problems.clear();
        drop(book);
        self.voice.set(key, &said.into_iter().collect());
    }

    /// Notes what became of a network, and tells what somebody has to act on.
    #[expect(clippy::too_many_arguments, reason = "what a pass found out, each a fact of its own")]
    fn stand(
        &self,
        key: &Key,
        network: &Network,
        why: Option<String>,
        parts: &Parts,
        problems: BTreeMap<Part, PlanError>,
        outcome: Option<Outcome>,
        nodes: &Snapshot<String, NodeFacts>,
    ) {
        let mut book = self.ledger.lock();
        let standing = book.networks.entry(network.name.clone()).or_default();
        standing.id = Some(network.id.get().into());
        standing.why = why;
        standing.take(parts, problems);
        if matches!(outcome, Some(Outcome::Changed { .. })) {
            standing.transactions = standing.transactions.saturating_add(1);
        }
        let said = self.said(standing, nodes);
        drop(book);
        self.voice.set(key, &said);
    }

    fn said(&self, standing: &Standing, nodes: &Snapshot<String, NodeFacts>) -> BTreeSet<Said> {
        let subject = |name: &NodeName| {
            let uid = nodes.get(name.as_str()).map(|facts| facts.uid.clone()).unwrap_or_default();
            Subject::Node { name: name.clone(), uid }
        };
        let loud = standing.problems.values().filter(|problem| !problem.is_quiet());
        loud.map(|problem| (subject(problem.node().unwrap_or(self.node())), problem.to_string())).collect()
    }

    fn failed(&self, key: &Key, network: &NetworkName, error: &PassError) {
        let note = error.note();
        self.metrics.failures.inc();
        self.ledger.lock().networks.entry(network.clone()).or_default().why = Some(note.clone());
        self.voice.set(key, &[(self.own_subject(), note)].into());
    }

    fn other(&self, key: &Key, problem: Option<String>) {
        let what = match key {
            Key::Zone => "zone",
            Key::Settings => "chassis settings",
            Key::Chassis => "chassis",
            Key::Services => "services",
            Key::Leftovers | Key::Network(_) => "leftovers",
        };
        let mut book = self.ledger.lock();
        match &problem {
            Some(problem) => drop(book.others.insert(what, format!("{what}: {problem}"))),
            None => drop(book.others.remove(what)),
        }
        drop(book);
        let said = problem.map(|problem| (self.own_subject(), problem));
        self.voice.set(key, &said.into_iter().collect());
    }

    /// Something that is wrong with a NetworkAttachmentDefinition. A card may not write Events in tenants' namespaces: it
    /// tells by the Node.
    fn on(&self, key: NadKey, nad: &Nad, note: String) -> Said {
        if self.chassis.is_node {
            return (Subject::Nad { key, uid: nad.uid.clone() }, note);
        }
        (self.own_subject(), format!("NetworkAttachmentDefinition {key}: {note}"))
    }

    fn own_subject(&self) -> Subject {
        let uid = self.nodes.snapshot().get(self.node().as_str()).map(|facts| facts.uid.clone());
        Subject::Node { name: self.node().clone(), uid: uid.unwrap_or_default() }
    }

    /// Networks in the database that nobody wants.
    fn leftovers(&self) -> Result<Requeue, PassError> {
        if let Some((nad, _)) = self.nads.snapshot().unreadable().next() {
            info!(%nad, "Networks that nobody knows stay while a NetworkAttachmentDefinition cannot be read");
            return Ok(Requeue::Done);
        }
        let have = self.northbound.current().map_err(WriteError::from)?;
        let book = self.book.lock();
        let there = super::super::networks(&have);
        let unwanted: Vec<NetworkName> =
            there.into_iter().filter(|network| !network.is_default() && !book.knows(network)).collect();
        drop(book);
        for network in unwanted {
            info!(%network, "Nobody knows this network any more");
            self.inbox.network(&network, Stir::All);
        }
        Ok(Requeue::Done)
    }

    async fn remote_chassis(&self, key: &Key) -> Result<Requeue, PassError> {
        let nodes = self.nodes.snapshot();
        let mut unknown: BTreeSet<NodeName> =
            nodes.unreadable().map(|(name, _)| name.as_str().into()).collect();
        let mut wanted = Vec::new();
        let mut said = BTreeSet::new();
        let own = self.node().as_str();
        for (name, facts) in nodes.iter().filter(|(name, facts)| name.as_str() != own && !facts.outside) {
            match remote_chassis(&self.cluster, &facts.node) {
                Ok(row) => wanted.push(row),
                Err(error) => {
                    unknown.insert(name.as_str().into());
                    if !error.is_quiet() {
                        let subject = Subject::Node { name: name.as_str().into(), uid: facts.uid.clone() };
                        said.insert((subject, error.to_string()));
                    }
                }
            }
        }
        let (outcome, refused) = write_chassis(&self.southbound, &wanted, &unknown).await?;
        self.metrics.wrote(outcome);
        for (name, conflict) in refused {
            let uid = nodes.get(name.as_str()).map(|facts| facts.uid.clone()).unwrap_or_default();
            said.insert((Subject::Node { name, uid }, format!("no tunnel to this node: {conflict}")));
        }
        let mut book = self.ledger.lock();
        if said.is_empty() {
            book.others.remove("chassis");
        } else {
            let texts: Vec<String> = said.iter().map(|(subject, note)| named(subject, note)).collect();
            book.others.insert("chassis", texts.join("; "));
        }
        drop(book);
        self.voice.set(key, &said);
        Ok(Requeue::Done)
    }
}

fn named(subject: &Subject, note: &str) -> String {
    match subject {
        Subject::Node { name, .. } => format!("node {name}: {note}"),
        Subject::Nad { key, .. } => format!("{key}: {note}"),
        Subject::Log | Subject::Remark => note.to_owned(),
    }
}
