//! The test kernel: what the machine's own kernel lacks is there, and the API server outside is reached.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};

/// How long a small job in the kernel may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(
            &shared,
            Level::Kernel,
            "the_kernel_has_vrfs_switchdev_ports_and_the_datapath_of_ovs",
            features,
        )
        .test_in(&shared, Level::Kernel, "a_program_in_the_kernel_reaches_the_api_server_outside", api)
        .test_in(&shared, Level::Kernel, "the_status_of_a_failed_command_is_reported", status)
        .test_in(&shared, Level::Kernel, "a_kernel_that_is_killed_is_an_error_with_its_console", killed)
        .run()
}

async fn features(rig: Arc<Rig>) -> anyhow::Result<()> {
    let script = r#"
set -e
ip link add blue type vrf table 1007
ip link add eth9 type dummy
ip link set eth9 master blue up
ip -d link show blue | grep -o 'vrf table 1007'
echo "1 1" > /sys/bus/netdevsim/new_device
echo 2 > /sys/bus/netdevsim/devices/netdevsim1/sriov_numvfs
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev
cat /sys/class/net/*/phys_port_name 2>/dev/null | sort > /causeway/out/ports
cat /sys/class/net/*/phys_switch_id 2>/dev/null | sort -u | wc -l > /causeway/out/switches
mkdir -p /run/openvswitch /etc/openvswitch
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --detach --no-chdir --pidfile
ovs-vsctl --no-wait init
ovs-vswitchd --detach --no-chdir --pidfile
ovs-vsctl add-br ovsbr1
ovs-dpctl show > /causeway/out/datapath
"#;
    let kernel = rig.uml("features").command(["bash", "-c", script]).boot().await?;
    let output = kernel.finish(DEADLINE).await?;
    ensure!(output.status == 0, "status {}:\n{}", output.status, output.console);
    ensure!(output.console.contains("vrf table 1007"), "no VRF:\n{}", output.console);
    let read = |name: &str| std::fs::read_to_string(kernel.out().join(name)).with_context(|| name.to_owned());
    let ports = read("ports")?;
    ensure!(ports.lines().eq(["p1", "pf0vf0", "pf0vf1"]), "ports: {ports}");
    ensure!(read("switches")?.trim() == "1", "the ports are not of one switch");
    let datapath = read("datapath")?;
    ensure!(datapath.contains("system@ovs-system") && datapath.contains("ovsbr1"), "datapath: {datapath}");
    Ok(())
}

async fn api(rig: Arc<Rig>) -> anyhow::Result<()> {
    rig.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}, data: {from: outside}}")
        .await?;
    let command = ["kubectl", "get", "configmap", "hello", "-o", "jsonpath={.data.from}"];
    let kernel = rig.uml("reach").command(command).boot().await?;
    let output = kernel.finish(DEADLINE).await?;
    ensure!(output.status == 0 && output.console.contains("outside"), "{output:?}");
    Ok(())
}

async fn status(rig: Arc<Rig>) -> anyhow::Result<()> {
    let folder = rig.folder().join("work");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("fail.sh"), "exit 42\n")?;
    let kernel = rig.uml("fails").work(&folder).command(["sh", "/causeway/work/fail.sh"]).boot().await?;
    ensure!(kernel.finish(DEADLINE).await?.status == 42);
    Ok(())
}

async fn killed(rig: Arc<Rig>) -> anyhow::Result<()> {
    let kernel = rig.uml("killed").command(["sh", "-c", "echo it runs; sleep 600"]).boot().await?;
    let runs = || async {
        let console = std::fs::read_to_string(kernel.console()).unwrap_or_default();
        if console.contains("it runs") { Ok(()) } else { Err(console) }
    };
    rig.wait_for("the command to run", DEADLINE, runs).await?;
    kernel.process().kill().await?;
    let error = kernel.finish(DEADLINE).await.err().context("a killed kernel has a status")?.to_string();
    ensure!(error.contains("it runs"), "{error}");
    Ok(())
}
