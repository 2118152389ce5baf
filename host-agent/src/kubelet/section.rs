//! The section `kubelet` of what an agent tells about itself.

use causeway_agent::introspect::Section;
use causeway_proto::introspect::{DescribeRequest, DescribeResponse, KubeletSection, Tracking};
use tokio::sync::watch;

use super::{Account, Kubelet};

/// Tells which cgroup is let through.
#[derive(Debug)]
pub struct KubeletRoom(watch::Receiver<Account>);

impl KubeletRoom {
    pub(super) fn new(account: watch::Receiver<Account>) -> Self {
        Self(account)
    }
}

impl Section for KubeletRoom {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn describe(&self, _request: &DescribeRequest, answer: &mut DescribeResponse) {
        answer.kubelet = Some(told(&self.0.borrow()));
    }
}

fn told(account: &Account) -> KubeletSection {
    let (cgroup, generation, reason) = match &account.kubelet {
        Kubelet::Unknown => (None, 0, String::new()),
        Kubelet::Cgroup { path, generation } => (Some(path.clone()), *generation, String::new()),
        Kubelet::Unsupported { reason } => (None, 0, reason.clone()),
    };
    let unasked = Err("it has not been asked yet".to_owned());
    KubeletSection {
        mode: account.kubelet.mode().to_owned(),
        cgroup,
        generation,
        source: account.source.map(|source| source.as_str().to_owned()).unwrap_or_default(),
        reason,
        systemd: Some(tracking(account.systemd.as_ref().unwrap_or(&unasked))),
        directory: Some(tracking(&account.directories)),
    }
}

fn tracking(means: &Result<(), String>) -> Tracking {
    Tracking { works: means.is_ok(), reason: means.as_ref().err().cloned().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::super::find::Source;
    use super::*;

    fn account(kubelet: Kubelet) -> Account {
        Account { kubelet, source: None, systemd: None, directories: Ok(()) }
    }

    #[test]
    fn each_mode_is_told_with_what_belongs_to_it() {
        let cgroup = Kubelet::Cgroup { path: "a/kubelet.service".to_owned(), generation: 3 };
        let found = Account { source: Some(Source::Process), systemd: Some(Ok(())), ..account(cgroup) };
        let section = told(&found);
        assert_eq!(
            (section.mode.as_str(), section.cgroup.as_deref()),
            ("kubelet", Some("a/kubelet.service"))
        );
        assert_eq!((section.generation, section.source.as_str()), (3, "process"));
        assert_eq!(section.systemd, Some(Tracking { works: true, reason: String::new() }));

        let closed = told(&account(Kubelet::Unsupported { reason: "the node uses cgroup v1".to_owned() }));
        assert_eq!((closed.mode.as_str(), closed.reason.as_str()), ("closed", "the node uses cgroup v1"));
        assert_eq!(closed.cgroup, None);
        assert!(
            closed
                .systemd
                .is_some_and(|tracking| !tracking.works && tracking.reason.contains("not been asked"))
        );
        assert_eq!(told(&account(Kubelet::Unknown)).mode, "looking");
    }
}
