//! What programs ask of the API server, counted by the API server itself: its audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use causeway_rig::{Mark, RigOptions, whole_lines};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

/// Everything but what an administrator asks, which is the bench itself. Source: kubernetes.io, Auditing.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: [\"system:masters\"]
- level: Metadata
";

/// The same, with what was sent in each write: so that somebody else can send it again.
const POLICY_WITH_WRITES: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: [\"system:masters\"]
- level: None
  resources: [{group: coordination.k8s.io}, {group: events.k8s.io}]
- level: Request
  verbs: [create, update, patch, delete]
- level: Metadata
";

/// The log of a rig's API server. Its folder goes with it.
pub struct Audit {
    folder: TempDir,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// What for, as `list` or `patch`.
    pub verb: String,
    /// Kind in the plural, with its subresource: `uplinks/status`.
    pub resource: String,
    /// Name of the object; empty for a list.
    pub name: String,
    /// When it came.
    pub received: Timestamp,
}

/// A write that was carried out, as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// `create`, `patch`, `update` or `delete`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// What was sent.
    pub body: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID", default)]
    id: String,
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    request_received_timestamp: Timestamp,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    request_object: Option<Value>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    name: String,
}

impl Audit {
    /// A log to be, and how to start a rig that keeps it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(options: RigOptions) -> anyhow::Result<(Self, RigOptions)> {
        Self::by(POLICY, options)
    }

    /// The same, for a log that also holds what was written.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn with_writes(options: RigOptions) -> anyhow::Result<(Self, RigOptions)> {
        Self::by(POLICY_WITH_WRITES, options)
    }

    fn by(rules: &str, options: RigOptions) -> anyhow::Result<(Self, RigOptions)> {
        let this = Self { folder: tempfile::tempdir().context("a folder for the audit log")? };
        let policy = this.folder.path().join("policy.yaml");
        std::fs::write(&policy, rules).context("writing the audit policy")?;
        let mut options = options;
        options.api_flags.extend([
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", this.path().display()),
        ]);
        Ok((this, options))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// The place where the last whole line of the log ends now.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn mark(&self) -> anyhow::Result<Mark> {
        Mark::of(&self.path()).context("the audit log")
    }

    /// Requests that were noted after `mark`. The API server notes a request before it answers, and a watch when it begins.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn since(&self, mark: Mark) -> anyhow::Result<Vec<Request>> {
        parse(&self.text_since(mark)?)
    }

    /// How many watches of each kind a user had open at a time, after `mark`. The API server ends a watch of a definition that
    /// is new to it, and whoever watched begins again: such a one counts once.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn watches_since(&self, mark: Mark, user: &str) -> anyhow::Result<BTreeMap<String, usize>> {
        watches(&self.text_since(mark)?, user)
    }

    /// Writes of a log [`Audit::with_writes`] after `mark` that were carried out, in the order of their answers.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn writes_since(&self, mark: Mark) -> anyhow::Result<Vec<Write>> {
        let mut writes = Vec::new();
        for event in events(&self.text_since(mark)?) {
            let event = event?;
            let done = event.response_status.and_then(|status| status.code).is_some_and(|code| code < 300);
            if let Some(body) = event.request_object.filter(|_| done) {
                writes.push(Write { verb: event.verb, uri: event.request_uri, body });
            }
        }
        Ok(writes)
    }

    fn text_since(&self, mark: Mark) -> anyhow::Result<String> {
        mark.read(&self.path()).context("the audit log")
    }
}

/// A line that is still being written has no end, and is left for later.
fn events(text: &str) -> impl Iterator<Item = anyhow::Result<Event>> {
    whole_lines(text).map(|line| serde_json::from_str(line).with_context(|| format!("audit line {line}")))
}

fn watches(text: &str, user: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let (mut open, mut most) = (BTreeMap::<String, BTreeSet<String>>::new(), BTreeMap::new());
    for event in events(text) {
        let event = event?;
        if event.verb != "watch" || event.user.username != user {
            continue;
        }
        let resource = event.object_ref.unwrap_or_default().resource;
        let now = open.entry(resource.clone()).or_default();
        if event.stage == "ResponseStarted" {
            now.insert(event.id);
            let before: &mut usize = most.entry(resource).or_default();
            *before = (*before).max(now.len());
        } else {
            // One that began before may end now: it is none of these.
            now.remove(&event.id);
        }
    }
    Ok(most)
}

fn parse(text: &str) -> anyhow::Result<Vec<Request>> {
    let mut requests = Vec::new();
    for event in events(text) {
        let event = event?;
        let begins = event.stage == "ResponseStarted";
        // A watch is noted at its beginning and at its end.
        if (event.verb == "watch") != begins {
            continue;
        }
        let ObjectRef { resource, subresource, name } = event.object_ref.unwrap_or_default();
        let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        requests.push(Request {
            user: event.user.username,
            verb: event.verb,
            resource,
            name,
            received: event.request_received_timestamp,
        });
    }
    Ok(requests)
}

impl Request {
    /// Whether it changes something. Leases and Events are not counted, as with the incumbent.
    #[must_use]
    pub fn is_write(&self) -> bool {
        let writes =
            ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str());
        writes && !["leases", "events"].contains(&self.resource.as_str())
    }

    /// Whether it is what a program at rest may ask for: a watch, or the leader's lease.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.verb == "watch" || self.resource == "leases"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, verb: &str, object: &str) -> String {
        line_of("1", stage, verb, object)
    }

    fn line_of(id: &str, stage: &str, verb: &str, object: &str) -> String {
        format!(
            "{{\"kind\":\"Event\",\"auditID\":\"{id}\",\"stage\":\"{stage}\",\"verb\":\"{verb}\",\"user\":{{\"username\":\"a\",\"groups\":[]}},\
             \"objectRef\":{object},\"requestReceivedTimestamp\":\"2026-11-29T10:00:00.000001Z\"}}\n"
        )
    }

    #[test]
    fn each_request_counts_once_and_an_unfinished_line_not_yet() {
        let uplink = r#"{"resource":"uplinks","name":"u","subresource":"status","apiGroup":"k8s.ovn.org"}"#;
        let text = [
            line("ResponseStarted", "watch", r#"{"resource":"nodes"}"#),
            line("ResponseComplete", "watch", r#"{"resource":"nodes"}"#),
            line("ResponseComplete", "patch", uplink),
            line("ResponseComplete", "get", "null"),
            line("ResponseComplete", "patch", uplink).trim_end().to_owned(),
        ];
        let found = parse(&text.concat()).unwrap();
        let told: Vec<_> =
            found.iter().map(|r| (r.verb.as_str(), r.resource.as_str(), r.name.as_str())).collect();
        assert_eq!(told, [("watch", "nodes", ""), ("patch", "uplinks/status", "u"), ("get", "", "")]);
        assert!(parse("nonsense\n").is_err());
    }

    #[test]
    fn a_watch_that_ended_and_began_again_counts_once_and_two_at_a_time_count_twice() {
        let of = |id: &str, stage: &str, kind: &str| {
            line_of(id, stage, "watch", &format!("{{\"resource\":\"{kind}\"}}"))
        };
        let (begins, ends) = ("ResponseStarted", "ResponseComplete");
        let text = [
            of("n1", begins, "nodes"),
            of("n1", ends, "nodes"),
            of("n2", begins, "nodes"),
            of("p1", begins, "pods"),
            // They began before.
            of("p0", ends, "pods"),
            of("u0", ends, "uplinks"),
            of("p2", begins, "pods"),
            of("p1", ends, "pods"),
            line("ResponseComplete", "list", r#"{"resource":"uplinks"}"#),
        ];
        let want = BTreeMap::from([("nodes".to_owned(), 1), ("pods".to_owned(), 2)]);
        assert_eq!(watches(&text.concat(), "a").unwrap(), want);
        assert_eq!(watches(&text.concat(), "b").unwrap(), BTreeMap::new());
    }

    #[test]
    fn writes_and_what_a_program_at_rest_may_ask_are_told_apart() {
        let rows = [
            ("watch", "uplinks", false, true),
            ("list", "uplinks", false, false),
            ("patch", "uplinks/status", true, false),
            ("patch", "leases", false, true),
            ("create", "events", false, false),
            ("delete", "uplinkstates", true, false),
        ];
        for (verb, resource, is_write, is_idle) in rows {
            let request = Request {
                user: "a".into(),
                verb: verb.into(),
                resource: resource.into(),
                name: String::new(),
                received: Timestamp::UNIX_EPOCH,
            };
            assert_eq!((request.is_write(), request.is_idle()), (is_write, is_idle), "{verb} {resource}");
        }
    }
}
