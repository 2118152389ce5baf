//! The section `isolation` of what an agent tells about itself.

use causeway_agent::introspect::Section;
use causeway_proto::introspect::{
    DescribeRequest, DescribeResponse, IsolatedPod, IsolationSection, SetElement,
};
use causeway_runtime::settings::Families;
use causeway_runtime::watch::{Lookup, NamespacedName, Snapshot, Store};

use super::plan;
use super::pod::{DefaultNetwork, PodFacts};

/// Tells which pods are isolated.
#[derive(Debug)]
pub struct PodRoom {
    families: Families,
    pods: Store<NamespacedName, PodFacts>,
}

impl PodRoom {
    pub(super) fn new(families: Families, pods: Store<NamespacedName, PodFacts>) -> Self {
        Self { families, pods }
    }
}

impl Section for PodRoom {
    fn name(&self) -> &'static str {
        "isolation"
    }

    fn describe(&self, request: &DescribeRequest, answer: &mut DescribeResponse) {
        let pods = self.pods.snapshot();
        let is_locked = |facts: &PodFacts| matches!(facts.network, DefaultNetwork::Locked { .. });
        answer.isolation = Some(IsolationSection {
            ipv4: self.families.ipv4,
            ipv6: self.families.ipv6,
            pods: pods.iter().filter(|(_, facts)| is_locked(facts)).map(|_| 1).sum(),
            pod: request.pod.as_deref().map(|name| told(name, &pods)),
        });
    }
}

fn told(name: &str, pods: &Snapshot<NamespacedName, PodFacts>) -> IsolatedPod {
    let found = name
        .split_once('/')
        .map(|(namespace, name)| NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() });
    let pod = IsolatedPod { name: name.to_owned(), ..IsolatedPod::default() };
    let stands = |standing: &str, reason: &str| (standing.to_owned(), reason.to_owned());
    let ((standing, reason), network) = match found.as_ref().map(|name| pods.lookup(name)) {
        None | Some(Lookup::Absent) => (stands("absent", ""), None),
        Some(Lookup::Unreadable(error)) => (stands("unreadable", error), None),
        Some(Lookup::Present(facts)) => match &facts.network {
            DefaultNetwork::Unknown => (stands("waiting", ""), None),
            DefaultNetwork::Unreadable(error) => (stands("unreadable", error), None),
            DefaultNetwork::Locked { addresses, ports } => (stands("isolated", ""), Some((addresses, ports))),
        },
    };
    let Some((addresses, ports)) = network else { return IsolatedPod { standing, reason, ..pod } };
    let elements = plan::elements(addresses, ports.as_deref().unwrap_or_default());
    let elements = elements
        .iter()
        .map(|(set, element)| SetElement { set: set.name().to_owned(), element: element.to_string() });
    IsolatedPod {
        standing,
        reason,
        elements: elements.collect(),
        ports_error: ports.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        ..pod
    }
}

#[cfg(test)]
mod tests {
    use super::super::ports::OpenPort;
    use super::*;

    fn name(name: &str) -> NamespacedName {
        NamespacedName { namespace: "blue".to_owned(), name: name.to_owned() }
    }

    fn facts(network: DefaultNetwork) -> PodFacts {
        PodFacts { uid: "1".into(), here: true, network }
    }

    fn locked(ports: Result<Box<[OpenPort]>, Box<str>>) -> PodFacts {
        let addresses = ["10.244.0.6".parse().unwrap(), "fd00:10:244:1::6".parse().unwrap()];
        facts(DefaultNetwork::Locked { addresses: addresses.into(), ports })
    }

    fn room() -> PodRoom {
        let open: Box<[OpenPort]> = [OpenPort::Icmp, OpenPort::Port(causeway_nft::Protocol::TCP, 80)].into();
        let pods = [
            (name("web"), locked(Ok(open))),
            (name("bad"), locked(Err("invalid protocol ppp".into()))),
            (name("new"), facts(DefaultNetwork::Unknown)),
            (name("spoilt"), facts(DefaultNetwork::Unreadable("EOF".into()))),
        ];
        let families = Families { ipv4: true, ipv6: false };
        PodRoom::new(families, Store::fixed("Pod", pods))
    }

    fn ask(pod: Option<&str>) -> IsolationSection {
        let request = DescribeRequest { pod: pod.map(str::to_owned), ..DescribeRequest::default() };
        let mut answer = DescribeResponse::default();
        room().describe(&request, &mut answer);
        answer.isolation.unwrap()
    }

    #[test]
    fn a_pod_is_described_only_when_it_is_asked_for() {
        let section = ask(None);
        assert_eq!((section.ipv4, section.ipv6, section.pods, section.pod), (true, false, 2, None));
    }

    #[test]
    fn what_a_pod_has_in_the_sets_is_told_as_nft_prints_it() {
        let pod = ask(Some("blue/web")).pod.unwrap();
        assert_eq!(pod.standing, "isolated");
        let elements: Vec<String> =
            pod.elements.iter().map(|element| format!("{} {}", element.set, element.element)).collect();
        assert_eq!(
            elements,
            [
                "udn-open-ports-v4 10.244.0.6 . tcp . 80",
                "udn-open-ports-v6 fd00:10:244:1::6 . tcp . 80",
                "udn-open-ports-icmp-v4 10.244.0.6",
                "udn-open-ports-icmp-v6 fd00:10:244:1::6",
                "udn-pod-default-ips-v4 10.244.0.6",
                "udn-pod-default-ips-v6 fd00:10:244:1::6",
            ]
        );
    }

    #[test]
    fn each_standing_is_told_with_its_reason() {
        for (pod, standing, reason, elements, ports_error) in [
            ("blue/bad", "isolated", "", 2, "invalid protocol ppp"),
            ("blue/new", "waiting", "", 0, ""),
            ("blue/spoilt", "unreadable", "EOF", 0, ""),
            ("blue/none", "absent", "", 0, ""),
            ("nonsense", "absent", "", 0, ""),
        ] {
            let told = ask(Some(pod)).pod.unwrap();
            assert_eq!((told.standing.as_str(), told.reason.as_str()), (standing, reason), "{pod}");
            assert_eq!((told.elements.len(), told.ports_error.as_str()), (elements, ports_error), "{pod}");
        }
    }
}
