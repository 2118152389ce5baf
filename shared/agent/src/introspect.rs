//! What this agent sees and decided, served to people on a unix socket.
//!
//! In: sections of the rooms of this process, checks of its stores. Out: the contract of `causeway-proto`. Looks only at
//! memory, and only when asked. Never stops the agent: where the socket cannot be served, that is a warning.
//!
//! [`ledger`] remembers how the passes of discovery went, [`uplinks`] tells it.

pub(crate) mod ledger;
pub mod uplinks;

use std::sync::Arc;

use causeway_net::role::Role;
use causeway_proto::introspect::introspect_server::{Introspect, IntrospectServer};
use causeway_proto::introspect::{Agent, DescribeRequest, DescribeResponse, Store};
use causeway_runtime::local::LocalServer;
use causeway_runtime::start::Context;
use causeway_runtime::telemetry::chain;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use tonic::{Request, Response, Status};
use tracing::{info, warn};

/// What one room of an agent has to tell.
pub trait Section: Send + Sync + 'static {
    /// Its name in `DescribeResponse.sections`.
    fn name(&self) -> &'static str;

    /// Whether the room's stores are complete, one entry each. Most rooms share theirs and have none of their own.
    fn stores(&self) -> Vec<Store> {
        Vec::new()
    }

    /// Fills the section's own field of the answer, as far as the request asks for it. Quick and synchronous.
    fn describe(&self, request: &DescribeRequest, answer: &mut DescribeResponse);
}

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// All that an agent has to tell.
pub struct Introspection {
    agent: Agent,
    stores: Vec<(&'static str, Check)>,
    sections: Vec<Box<dyn Section>>,
}

impl Introspection {
    /// The agent that does this role for a node, and nothing yet of what it sees.
    #[must_use]
    pub fn new(role: Role, node: &str) -> Self {
        let (program, mode) = match role {
            Role::Full => ("node-agent", "full"),
            Role::DpuHost => ("host-agent", "dpu-host"),
            Role::Dpu => ("dpu-agent", "dpu"),
        };
        let agent = Agent {
            program: program.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: mode.to_owned(),
            node: node.to_owned(),
            pid: std::process::id(),
            started_unix_ms: Timestamp::now().as_millisecond(),
        };
        Self { agent, stores: Vec::new(), sections: Vec::new() }
    }

    /// Tells about a store that rooms share.
    #[must_use]
    pub fn store(
        mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.stores.push((name, Box::new(check)));
        self
    }

    /// Tells about a room.
    #[must_use]
    pub fn section(mut self, section: impl Section) -> Self {
        self.sections.push(Box::new(section));
        self
    }

    /// Tells about several rooms.
    #[must_use]
    pub fn sections(mut self, sections: impl IntoIterator<Item = Box<dyn Section>>) -> Self {
        self.sections.extend(sections);
        self
    }

    /// Serves on the socket that the settings name, as a task of `context`.
    pub fn serve(self, context: &Context) {
        let Some(path) = context.settings.introspect_socket.clone() else { return };
        let stop = context.tasks.stop();
        let service = TowerToHyperService::new(IntrospectServer::new(Service(Arc::new(self))));
        context.tasks.spawn("introspect", async move {
            match LocalServer::bind(&path).await {
                Ok(server) => {
                    info!(socket = %path.display(), "Introspection is served");
                    server.run(service, stop).await;
                }
                Err(error) => {
                    warn!(error = %chain(&error), "Introspection is not served");
                    stop.cancelled().await;
                }
            }
        });
    }

    fn describe(&self, request: &DescribeRequest) -> DescribeResponse {
        let shared = self.stores.iter().map(|(name, check)| store(name, check(), None));
        let mut answer = DescribeResponse {
            agent: Some(self.agent.clone()),
            taken_unix_ms: Timestamp::now().as_millisecond(),
            stores: self.sections.iter().flat_map(|section| section.stores()).chain(shared).collect(),
            sections: self.sections.iter().map(|section| section.name().to_owned()).collect(),
            uplinks: None,
            kubelet: None,
            isolation: None,
            topology: None,
        };
        for section in &self.sections {
            section.describe(request, &mut answer);
        }
        answer
    }
}

/// One entry about a store.
pub(crate) fn store(name: &str, check: Result<(), String>, objects: Option<u64>) -> Store {
    let (ready, reason) = match check {
        Ok(()) => (true, String::new()),
        Err(reason) => (false, reason),
    };
    Store { name: name.to_owned(), ready, reason, objects }
}

/// The gRPC service.
struct Service(Arc<Introspection>);

#[tonic::async_trait]
impl Introspect for Service {
    async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<DescribeResponse>, Status> {
        Ok(Response::new(self.0.describe(request.get_ref())))
    }
}
