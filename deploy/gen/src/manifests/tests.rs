use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(line: &[&str]) -> Options {
    Line::parse_from(std::iter::once(&"gen").chain(line)).options
}

fn pod(component: Component, options: &Options) -> Value {
    let files = files(options);
    let file =
        files.iter().find(|file| file.name == format!("{}.yaml", component.program())).expect("a file");
    file.objects[0]["spec"]["template"]["spec"].clone()
}

#[test]
fn only_agents_are_root_and_only_those_on_hosts_are_privileged() {
    for component in Component::ALL {
        let pod = pod(component, &options(&[]));
        let holds_bridge = matches!(component, Component::DpuAgent | Component::NodeAgent);
        let on_host = matches!(component, Component::HostAgent | Component::NodeAgent);
        let is_agent = component != Component::ClusterManager;
        assert_eq!(pod["securityContext"]["runAsUser"] == 0, is_agent, "{component:?}");
        assert_eq!(pod["hostPID"], on_host, "{component:?}");
        assert_eq!(pod["volumes"].to_string().contains("openvswitch"), holds_bridge, "{component:?}");
        let rights = &pod["containers"][0]["securityContext"];
        assert_eq!(rights["privileged"] == true, on_host, "{component:?}");
        assert_eq!(rights["capabilities"] == json!({"drop": ["ALL"]}), !on_host, "{component:?}");
        let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("mounts");
        let written = mounts.iter().filter(|mount| mount["readOnly"] != true);
        assert!(written.into_iter().all(|mount| mount["name"] == "introspection"), "{component:?}");
    }
}

#[test]
fn a_card_agent_gets_no_token_of_the_cluster_that_its_pod_runs_in() {
    let pod = pod(Component::DpuAgent, &options(&["--api-server", "https://api.example.com"]));
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert!(!pod.to_string().contains("serviceaccount/token"), "{pod}");
}

#[test]
fn options_for_hosts_reach_the_agents_on_hosts_alone() {
    let options = options(&["--systemd-socket", "--kubelet-cgroup-path", "podruntime/kubelet"]);
    for component in Component::ALL {
        let text = pod(component, &options).to_string();
        let on_host = matches!(component, Component::HostAgent | Component::NodeAgent);
        assert_eq!(text.contains("/run/systemd/private"), on_host, "{component:?}");
        assert_eq!(text.contains("--kubelet-cgroup-path=podruntime/kubelet"), on_host, "{component:?}");
    }
    assert!(!pod(Component::HostAgent, &super::tests::options(&[])).to_string().contains("systemd"));
}

#[test]
fn the_group_of_open_vswitch_and_the_address_of_the_api_server_can_be_given() {
    let options = options(&["--ovs-group", "985", "--api-server", "https://api.example.com:6443"]);
    let pod = pod(Component::NodeAgent, &options);
    assert_eq!(pod["securityContext"]["supplementalGroups"], json!([985]));
    let environment = pod["containers"][0]["env"].to_string();
    assert!(environment.contains("https://api.example.com:6443"), "{environment}");
}
