//! `causewayctl topology` on real databases: what it draws, and how it fails.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Node, OvnZone, Program, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::topology::CapturedRun;
use ovsdb::{Client, Options, Remote};

const DATABASE: &str = "OVN_Northbound";

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    let level = Level::Switch;
    Suite::new()
        .test_in(&shared, level, "a_real_database_is_drawn_as_its_capture_is", drawn)
        .test_in(&shared, level, "pods_and_broken_links_of_a_real_database_are_seen", changed)
        .test_in(&shared, level, "what_cannot_be_drawn_is_told_by_text_and_exit_code", refused)
        .test_in(&shared, level, "an_older_schema_is_drawn_without_what_it_lacks", older)
        .run()
}

/// What a run of the program gave.
#[derive(Debug)]
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

async fn ctl(node: &Node, arguments: &[&str]) -> anyhow::Result<Run> {
    let program = format!("{}/causewayctl", causeway_rig::PROGRAMS);
    ensure!(node.path(&program).exists(), "causewayctl is not there: build it first (cargo build)");
    let output = node.output([program.as_str(), "topology"].iter().chain(arguments)).await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Run {
        code: output.status.code().context("ended by a signal")?,
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}

/// A node with a zone that holds what upstream wrote in a captured run.
async fn filled(rig: &Rig, name: &str, run: &str) -> anyhow::Result<(Node, OvnZone)> {
    let node = rig.node(name).unregistered().start().await?;
    let ovs = node.ovs().await?;
    let zone = node.ovn_zone(&ovs).await?;
    fill(&Remote::Unix(zone.northbound_socket().to_owned()), run).await?;
    Ok((node, zone))
}

async fn fill(remote: &Remote, run: &str) -> anyhow::Result<()> {
    let mut client = Client::connect(remote, Options::default()).await?;
    let schema = client.schema(DATABASE).await?;
    client.transact(DATABASE, &CapturedRun::load(run)?.fill(&schema)?).await?;
    Ok(())
}

/// The expected text, which the unit tests of the program have too; with the version of this server's schema.
fn golden(name: &str, version: &str) -> anyhow::Result<String> {
    let path = format!("{}/../ctl/src/topology/goldens/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).context(path)?;
    Ok(text.replacen("(schema 7.11.0)", &format!("(schema {version})"), 1))
}

async fn version(node: &Node) -> anyhow::Result<String> {
    let schema = "/usr/share/ovn/ovn-nb.ovsschema";
    Ok(node.exec(["ovsdb-tool", "schema-version", schema]).await?.trim().to_owned())
}

async fn drawn(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, _zone) = filled(&rig, "drawn", "14-before").await?;
    let version = version(&node).await?;
    for (arguments, want) in [
        (&[][..], "two-primaries.txt"),
        (&["--network", "blue", "--wide"], "layer3-wide.txt"),
        (&["--network", "cluster_udn_green", "--wide"], "layer2-wide.txt"),
    ] {
        let run = ctl(&node, arguments).await?;
        ensure!(run.code == 0 && run.stdout == golden(want, &version)?, "{arguments:?}: {run:?}");
    }
    let run = ctl(&node, &["-o", "json", "--network", "blue"]).await?;
    let json: serde_json::Value = serde_json::from_str(&run.stdout).with_context(|| format!("{run:?}"))?;
    let routes = json.pointer("/networks/0/devices/3/routes").and_then(serde_json::Value::as_array);
    ensure!(routes.is_some_and(|routes| routes.len() == 7), "JSON has routes without --wide: {json}");

    let (node, _zone) = filled(&rig, "drawn-too", "06-secondary").await?;
    let run = ctl(&node, &["-o", "svg", "--network", "sec3"]).await?;
    let want = golden("layer3-secondary.svg", &version)?;
    ensure!(run.code == 0 && run.stdout == want, "{run:?}");
    Ok(())
}

async fn changed(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, zone) = filled(&rig, "changed", "14-before").await?;
    let blue = ["--network", "blue"];
    zone.nbctl(["lsp-add", "cluster_udn_blue_node1", "blue_ns_pod"]).await?;
    let run = ctl(&node, &blue).await?;
    ensure!(run.code == 0 && run.stdout.contains("\n    1 pod\n"), "{run:?}");
    zone.nbctl(["lrp-del", "rtos-cluster_udn_blue_node1"]).await?;
    let run = ctl(&node, &blue).await?;
    let told = "Problem: port stor-cluster_udn_blue_node1 of cluster_udn_blue_node1 leads to \
                rtos-cluster_udn_blue_node1, which is not there";
    ensure!(run.code == 1 && run.stdout.contains(told), "{run:?}");
    // Another network is none the worse.
    let run = ctl(&node, &["--network", "green"]).await?;
    ensure!(run.code == 0, "{run:?}");
    Ok(())
}

async fn refused(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (node, _zone) = filled(&rig, "refused", "14-before").await?;
    let southbound = "unix:/run/ovn/ovnsb_db.sock";
    for (arguments, code, told) in [
        (&["--network", "pink"][..], 3, "there are: default, cluster_udn_blue, cluster_udn_green"),
        (&["--nb-address", southbound], 7, "has no database OVN_Northbound; it has: "),
        (&["--db", "unix:/run/nobody.sock"], 7, "socket /run/nobody.sock does not exist"),
        (&["--db", "tcp:127.0.0.1:6641"], 7, "no server listens there"),
        (&["--db", "/run/ovn/ovnnb_db.sock"], 2, "does not start with unix:, tcp: or ssl:"),
        (&["--db", "ssl:127.0.0.1:6641", "--nb-client-cert", "/x"], 2, "--nb-client-privkey"),
    ] {
        let run = ctl(&node, arguments).await?;
        ensure!(run.code == code && run.stderr.contains(told), "{arguments:?}: {run:?}");
        ensure!(run.stdout.is_empty(), "{arguments:?}: {run:?}");
    }
    // Of several the first that answers.
    let several = "unix:/run/nobody.sock,unix:/run/ovn/ovnnb_db.sock";
    let run = ctl(&node, &["--nb-address", several]).await?;
    ensure!(run.code == 0 && run.stdout.starts_with("Zone node1 "), "{run:?}");
    // Only this command draws.
    let program = format!("{}/causewayctl", causeway_rig::PROGRAMS);
    let output = node.output([program.as_str(), "agent", "-o", "svg"]).await?;
    ensure!(output.status.code() == Some(2), "{output:?}");
    Ok(())
}

/// Makes `/run/NAME.db` with a schema that has a change.
const SERVE: &str = r#"
import json, subprocess, sys
name, change = sys.argv[1:3]
schema = json.load(open("/usr/share/ovn/ovn-nb.ovsschema"))
exec(change)
schema["version"] = "5.16.0"
json.dump(schema, open(f"/run/{name}.ovsschema", "w"))
subprocess.check_call(["ovsdb-tool", "create", f"/run/{name}.db", f"/run/{name}.ovsschema"])
"#;

async fn older(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("older").unregistered().start().await?;
    for (name, change, code, told) in [
        (
            "lacks-some",
            "del schema['tables']['Static_MAC_Binding'], schema['tables']['NAT']['columns']['match']",
            0,
            "Note: this database has no NAT:match (schema 5.16.0): it is not drawn\n\n\
             Note: this database has no Static_MAC_Binding (schema 5.16.0): it is not drawn\n",
        ),
        (
            "lacks-much",
            "schema['tables']['Logical_Switch']['columns'].pop('ports'); \
             schema['tables']['Logical_Switch_Port']['isRoot'] = True",
            7,
            "has schema 5.16.0 without Logical_Switch:ports: it cannot be drawn",
        ),
    ] {
        node.exec(["python3", "-c", SERVE, name, change]).await?;
        let (file, socket) = (format!("/run/{name}.db"), format!("/run/{name}.sock"));
        let server = Program::new("ovsdb-server").named(name).arg(&file).args([
            format!("--remote=punix:{socket}"),
            format!("--unixctl=/run/{name}.ctl"),
            "--no-chdir".to_owned(),
        ]);
        let server = node.spawn(server).await?;
        let remote = Remote::Unix(node.path(&socket));
        rig.wait_for("the server", std::time::Duration::from_secs(15), || async {
            let connected = Client::connect(&remote, Options::default()).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        if code == 0 {
            fill(&remote, "14-before").await?;
        }
        let run = ctl(&node, &["--db", &format!("unix:{socket}")]).await?;
        let text = if code == 0 { &run.stdout } else { &run.stderr };
        ensure!(run.code == code && text.contains(told), "{name}: {run:?}\n{}", server.log_text()?);
    }
    Ok(())
}
