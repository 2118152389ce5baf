//! Carries out a plan and tells what became of it. Decides nothing but what an answer of the API server means.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_api::condition::Wanted;
use causeway_api::manager::FieldManager;
use causeway_api::nad::GatewayMode;
use causeway_api::network_condition::NETWORK_FINALIZER;
use causeway_net::network::name::{NadKey, Namespace};
use causeway_runtime::engine::{Retry, Retryable};
use causeway_runtime::leader::Leadership;
use causeway_runtime::writer::{Expected, WriteError, WriteMetrics, Writer};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::{Api, Client};
use serde_json::{Value, json};
use tracing::info;

use super::claims::Claims;
use super::error::NetworkError;
use super::observe::{Halt, World};
use super::plan::{self, Change, Draft, Plan, Removal, SiteStep};
use super::verdict::Outcome;
use crate::allocation::Book;
use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey, WatchedCudn, WatchedUdn};
use crate::observed::index::Cause;
use crate::observed::nad::{Nad, WatchedNad};

/// NetworkAttachmentDefinitions of one network that are written at a time.
const WIDTH: usize = 8;

/// How long one read may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Writes network objects and their NetworkAttachmentDefinitions.
#[derive(Clone)]
pub(super) struct Hand {
    writer: Writer,
    client: Client,
    mode: GatewayMode,
    pub(super) stores: Stores,
    book: Book,
    /// Namespaces in which primary networks are being made.
    pub(super) claims: Claims,
}

/// What became of one namespace, or of one NetworkAttachmentDefinition.
enum Done {
    There(Namespace),
    Made(Namespace),
    Terminating(NadKey),
    Gone,
    Problem(Problem),
    Failed(NetworkError),
}

/// What people have to hear of.
struct Problem {
    text: String,
    nad: NadKey,
    /// Another attempt may put it right although nothing is heard of that: this is why it failed.
    again: Option<NetworkError>,
}

/// What is left to do after a plan was carried out.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// What a change of would let the network get on.
    pub(super) causes: BTreeSet<Cause>,
    /// Whether something was made that the watch has to show.
    pub(super) unseen: bool,
    /// A problem that another attempt may put right.
    pub(super) again: Option<NetworkError>,
}

impl Hand {
    /// A hand over this connection, that writes as long as this process leads.
    pub(super) fn new(
        client: Client,
        metrics: WriteMetrics,
        leadership: Leadership,
        mode: GatewayMode,
        stores: Stores,
        book: Book,
    ) -> Self {
        let writer = Writer::new(FieldManager::UserDefinedNetwork.as_str(), metrics).fenced(leadership);
        Self { writer, client, mode, stores, book, claims: Claims::default() }
    }

    fn nads(&self, namespace: &Namespace) -> Api<WatchedNad> {
        Api::namespaced(self.client.clone(), namespace.as_str())
    }

    /// Puts our finalizer on.
    pub(super) async fn protect(&self, key: &CrKey, cr: &Cr) -> Result<(), NetworkError> {
        let mut body = key.body(Some(&cr.uid));
        if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.insert("finalizers".to_owned(), json!([NETWORK_FINALIZER]));
        }
        let fail = |source| NetworkError::Finalizer { network: key.clone(), source };
        let (writer, name) = (&self.writer, key.name());
        let written = match key {
            CrKey::Udn(nad) => writer.apply(&self.udns(nad.namespace()), name, &body).await.map(Cr::of_udn),
            CrKey::Cudn(_) => writer.apply(&self.cudns(), name, &body).await.map(Cr::of_cudn),
        };
        self.remember(key, written.map_err(fail)?);
        Ok(())
    }

    /// Takes our finalizer off.
    async fn release(&self, key: &CrKey, cr: &Cr) -> Result<(), NetworkError> {
        let rest: Vec<&String> =
            cr.finalizers.iter().filter(|finalizer| *finalizer != NETWORK_FINALIZER).collect();
        let patch = json!({"metadata": {"uid": cr.uid, "resourceVersion": cr.version, "finalizers": rest}});
        let (writer, name) = (&self.writer, key.name());
        let written = match key {
            CrKey::Udn(nad) => writer.merge(&self.udns(nad.namespace()), name, &patch).await.map(Cr::of_udn),
            CrKey::Cudn(_) => writer.merge(&self.cudns(), name, &patch).await.map(Cr::of_cudn),
        };
        match written {
            Ok(cr) => self.remember(key, cr),
            Err(WriteError::NotFound(_)) => {}
            Err(source) => return Err(NetworkError::Finalizer { network: key.clone(), source }),
        }
        info!(network = %key, "Network released");
        Ok(())
    }

    /// Writes conditions, if they say something else now.
    pub(super) async fn tell(
        &self,
        key: &CrKey,
        wanted: &[Wanted],
        now: Timestamp,
    ) -> Result<(), NetworkError> {
        let Ok(Some(cr)) = self.stores.cr(key) else { return Ok(()) };
        if wanted.iter().all(|wanted| wanted.is_met_by(&cr.conditions)) {
            return Ok(());
        }
        let conditions: Vec<_> = wanted.iter().map(|wanted| wanted.against(&cr.conditions, now)).collect();
        let body = key.status_body(&conditions);
        let (writer, name) = (&self.writer, key.name());
        let written = match key {
            CrKey::Udn(nad) => {
                writer.apply_status(&self.udns(nad.namespace()), name, &body).await.map(Cr::of_udn)
            }
            CrKey::Cudn(_) => writer.apply_status(&self.cudns(), name, &body).await.map(Cr::of_cudn),
        };
        match written {
            Ok(cr) => self.remember(key, cr),
            // It went meanwhile.
            Err(WriteError::NotFound(_)) => return Ok(()),
            Err(source) => return Err(NetworkError::Status { network: key.clone(), source }),
        }
        for condition in conditions {
            let (status, reason, detail) = (condition.status, condition.reason, condition.message);
            info!(network = %key, type = condition.type_, status, reason, detail, "Network condition written");
        }
        Ok(())
    }

    fn udns(&self, namespace: &Namespace) -> Api<WatchedUdn> {
        Api::namespaced(self.client.clone(), namespace.as_str())
    }

    fn cudns(&self) -> Api<WatchedCudn> {
        Api::all(self.client.clone())
    }

    fn remember(&self, key: &CrKey, cr: Option<Cr>) {
        if let Some(cr) = cr {
            self.stores.written_crs.remember(key, cr);
        }
    }

    /// Makes sure that an object of this name, and with one of these uids, is really gone: what it left behind is removed.
    pub(super) async fn confirm_gone(
        &self,
        key: &CrKey,
        uids: &BTreeSet<String>,
    ) -> Result<(), NetworkError> {
        let name = key.name();
        let read = async {
            Ok(match key {
                CrKey::Udn(nad) => {
                    let found = self.udns(nad.namespace()).get_metadata_opt(name).await?;
                    found.and_then(|found| found.metadata.uid)
                }
                CrKey::Cudn(_) => {
                    self.cudns().get_metadata_opt(name).await?.and_then(|found| found.metadata.uid)
                }
            })
        };
        let read = tokio::time::timeout(DEADLINE, read).await.unwrap_or_else(|_elapsed| Err(too_late()));
        let fail = |source| NetworkError::Confirm { network: key.clone(), source: Box::new(source) };
        match read.map_err(fail)? {
            Some(uid) if uids.contains(&uid) => Err(NetworkError::Behind { network: key.clone() }),
            _ => Ok(()),
        }
    }

    async fn create(&self, key: &CrKey, nad: &NadKey, draft: &Draft) -> Done {
        let namespace = nad.namespace();
        if draft.config.is_primary()
            && let Err(rival) = self.claims.claim(namespace, key)
        {
            let text = plan::primary_exists(namespace, rival.name());
            return Done::Problem(Problem { text, nad: nad.clone(), again: None });
        }
        let mut object = draft.object.clone();
        match self.book.identify(&key.network(), &draft.config) {
            Ok(ids) => {
                object.metadata.annotations.get_or_insert_default().extend(ids.annotations(&key.network()));
            }
            Err(text) => return Done::Problem(Problem { text, nad: nad.clone(), again: None }),
        }
        match self.writer.create(&self.nads(namespace), &object).await {
            Ok(written) => {
                if let Some(written) = Nad::of(written, self.mode) {
                    self.stores.written_nads.created(nad, written);
                }
                info!(network = %key, nad = %nad, "NetworkAttachmentDefinition created");
                Done::Made(namespace.clone())
            }
            Err(source) => failed(nad, source, "failed to create NetworkAttachmentDefinition"),
        }
    }

    async fn update(&self, key: &CrKey, nad: &NadKey, change: &Change) -> Done {
        match self.writer.merge(&self.nads(nad.namespace()), nad.name(), &change.0).await {
            Ok(written) => {
                if let Some(written) = Nad::of(written, self.mode) {
                    self.stores.written_nads.remember(nad, written);
                }
                info!(network = %key, nad = %nad, "NetworkAttachmentDefinition put right");
                Done::There(nad.namespace().clone())
            }
            Err(source) => failed(nad, source, "failed to update NetworkAttachmentDefinition"),
        }
    }

    async fn remove(&self, key: &CrKey, nad: &NadKey, removal: &Removal) -> Done {
        let what = format!("failed to delete NetworkAttachmentDefinition [{nad}]");
        let (uid, strip, terminating) = match removal {
            Removal::Refuse(why) => {
                let text = format!("{what}: {why}");
                return Done::Problem(Problem { text, nad: nad.clone(), again: None });
            }
            Removal::Delete { uid, strip, terminating } => (uid, strip, *terminating),
        };
        let nads = self.nads(nad.namespace());
        if let Some(strip) = strip {
            match self.writer.merge(&nads, nad.name(), strip).await {
                Ok(written) => {
                    if let Some(written) = Nad::of(written, self.mode) {
                        self.stores.written_nads.remember(nad, written);
                    }
                }
                Err(WriteError::NotFound(_)) => {}
                Err(source) => return failed(nad, source, &what),
            }
        }
        // One that was being deleted went with its last finalizer.
        if !terminating {
            let expected = Expected { uid: Some(uid.clone()), resource_version: None };
            match self.writer.delete(&nads, nad.name(), expected).await {
                // Another object of the name is none of this one's.
                Ok(()) | Err(WriteError::Conflict(_)) => {}
                Err(source) => return failed(nad, source, &what),
            }
        }
        info!(network = %key, nad = %nad, "NetworkAttachmentDefinition deleted");
        Done::Gone
    }

    async fn at_site(&self, key: &CrKey, namespace: &Namespace, step: &SiteStep) -> Done {
        let nad = key.nad_in(namespace);
        match step {
            SiteStep::Keep => Done::There(namespace.clone()),
            SiteStep::Create(draft) => self.create(key, &nad, draft).await,
            SiteStep::Update(change) => self.update(key, &nad, change).await,
            SiteStep::LetGo(removal) => match self.remove(key, &nad, removal).await {
                // It is made again when the watch shows that it is gone.
                Done::Gone => Done::Terminating(nad),
                done => done,
            },
            SiteStep::Terminating => Done::Terminating(nad),
            SiteStep::Refuse(why) => Done::Problem(Problem { text: why.clone(), nad, again: None }),
        }
    }
}

/// Removes what objects that are gone have left behind, as far as nothing uses it.
///
/// # Errors
/// They are not gone, nobody can say, or a removal failed.
///
/// # Cancellation
/// Leaves some of it done; the next pass plans the rest.
pub(super) async fn orphans(world: &World, plan: &Plan, hand: &Hand) -> Result<(), NetworkError> {
    let free = plan.orphans.iter().filter(|(_, removal)| !matches!(removal, Removal::Refuse(_)));
    let free: Vec<&(NadKey, Removal)> = free.collect();
    if free.is_empty() {
        return Ok(());
    }
    let controllers = world.orphans.iter().filter_map(|held| held.nad.controller.as_ref());
    let uids: BTreeSet<String> = controllers.map(|controller| controller.uid.clone()).collect();
    hand.confirm_gone(&world.key, &uids).await?;
    for (nad, removal) in free {
        match hand.remove(&world.key, nad, removal).await {
            Done::Failed(error) | Done::Problem(Problem { again: Some(error), .. }) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Carries out `plan`.
///
/// # Errors
/// The first write that failed in a way that another attempt may put right. Everything else was tried all the same.
///
/// # Cancellation
/// Leaves some of it done; the next pass plans the rest.
pub(super) async fn run(
    key: &CrKey,
    cr: &Cr,
    plan: &Plan,
    hand: &Hand,
) -> Result<(Outcome, Rest), NetworkError> {
    let (halt, ignored) = (plan.halt.clone(), plan.ignored.clone());
    let mut outcome = Outcome { halt, ignored, ..Outcome::default() };
    if let Some(Halt::Frozen(namespaces)) = &plan.halt {
        outcome.there.clone_from(namespaces);
    }
    let mut rest = Rest { causes: plan.causes.clone(), ..Rest::default() };
    // Boxed: the compiler cannot tell yet that futures made by a closure over references may move between threads.
    let mut work: Vec<BoxFuture<'_, Done>> = Vec::new();
    for (namespace, step) in &plan.sites {
        work.push(hand.at_site(key, namespace, step).boxed());
    }
    for (nad, removal) in &plan.removals {
        work.push(hand.remove(key, nad, removal).boxed());
    }
    let protected = async { if plan.protect { hand.protect(key, cr).await } else { Ok(()) } };
    let work = futures::stream::iter(work).buffer_unordered(WIDTH).collect::<Vec<Done>>();
    // Nothing waits for the finalizer: what is made of an object that goes meanwhile is an orphan, and found as one.
    let (protected, done) = tokio::join!(protected, work);
    let mut failure = protected.err();
    for done in done {
        match done {
            Done::There(namespace) => outcome.there.push(namespace),
            Done::Made(namespace) => {
                outcome.there.push(namespace);
                rest.unseen = true;
            }
            Done::Terminating(nad) => outcome.terminating.push(nad),
            Done::Gone => {}
            Done::Problem(problem) => {
                outcome.problems.push(problem.text);
                rest.causes.extend(plan::causes(&problem.nad));
                rest.again = rest.again.or(problem.again);
            }
            Done::Failed(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if plan.release && outcome.problems.is_empty() {
        let newest = hand.stores.cr(key).ok().flatten();
        hand.release(key, newest.as_deref().unwrap_or(cr)).await?;
    }
    Ok((outcome, rest))
}

/// What a refused write means: a problem that people have to hear of, or one that another attempt puts right.
fn failed(nad: &NadKey, source: WriteError, what: &str) -> Done {
    let people =
        matches!(source, WriteError::Forbidden(_) | WriteError::Invalid(_) | WriteError::Server { .. });
    if !people {
        return Done::Failed(NetworkError::Nad { nad: nad.clone(), source });
    }
    let text = format!("{what}: {source}");
    let again = (source.retry() != Retry::Never).then(|| NetworkError::Nad { nad: nad.clone(), source });
    Done::Problem(Problem { text, nad: nad.clone(), again })
}

/// No answer in time, as the client itself would say it.
fn too_late() -> kube::Error {
    kube::Error::Service(Box::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))
}
