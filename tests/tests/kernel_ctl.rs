//! What `causewayctl check` says about a card, on a kernel that has one: netdevsim in both modes of its eswitch.

#![allow(clippy::indexing_slicing, reason = "an absent member of a JSON value is null")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};
use serde_json::Value;

/// How long the job in the kernel may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(
            &shared,
            Level::Kernel,
            "check_knows_the_mode_of_an_eswitch_and_whether_the_switch_offloads",
            card,
        )
        .run()
}

/// Each step is looked at by a run of its own. No agent runs and no definition is installed: that makes every run end
/// with 1, and is not what is looked at.
const SCRIPT: &str = r#"
set -e
look() { /causeway/bin/causewayctl check --local always -o json > /causeway/out/$1 || [ $? = 1 ]; }
look bare
mkdir -p /run/openvswitch /etc/openvswitch
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --detach --no-chdir --pidfile
ovs-vsctl --no-wait init
echo "1 1" > /sys/bus/netdevsim/new_device
echo 2 > /sys/bus/netdevsim/devices/netdevsim1/sriov_numvfs
look legacy
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev
look switchdev
ovs-vsctl --no-wait set Open_vSwitch . other_config:hw-offload=true
look offload
devlink dev eswitch set netdevsim/netdevsim1 mode legacy
look legacy-offload
"#;

async fn card(rig: Arc<Rig>) -> anyhow::Result<()> {
    let kernel = rig.uml("ctl").command(["bash", "-c", SCRIPT]).boot().await?;
    let output = kernel.finish(DEADLINE).await?;
    ensure!(output.status == 0, "status {}:\n{}", output.status, output.console);
    let local = |name: &str| -> anyhow::Result<Vec<String>> {
        let text = std::fs::read_to_string(kernel.out().join(name)).with_context(|| name.to_owned())?;
        let report: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        let all = report["findings"].as_array().context("findings")?;
        let local = all.iter().filter(|finding| finding["area"] == "local");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(local
            .map(|one| format!("{} {}: {}", word(&one["level"]), word(&one["subject"]), word(&one["found"])))
            .collect())
    };
    let expected: &[(&str, &[&str])] = &[
        ("bare", &["problem Open vSwitch database: ", "good eswitch: no device with an eswitch here"]),
        (
            "legacy",
            &[
                "good Open vSwitch database: ",
                "note eswitch of netdevsim/netdevsim1: mode legacy",
                "good hw-offload: off",
            ],
        ),
        (
            "switchdev",
            &[
                "good eswitch of netdevsim/netdevsim1: mode switchdev",
                "problem hw-offload: off, although a card",
            ],
        ),
        ("offload", &["good eswitch of netdevsim/netdevsim1: mode switchdev", "good hw-offload: on"]),
        ("legacy-offload", &["problem eswitch of netdevsim/netdevsim1: mode legacy, although"]),
    ];
    for (name, wanted) in expected {
        let found = local(name)?;
        for want in *wanted {
            ensure!(found.iter().any(|line| line.starts_with(want)), "{name}: no {want:?} in {found:#?}");
        }
    }
    // The ports of the switch are asked for their features, whatever netdevsim answers.
    let found = local("switchdev")?;
    let features = |line: &String| line.contains("interface features: ") && line.contains("3 switch port(s)");
    ensure!(found.iter().any(features), "{found:#?}");
    Ok(())
}
