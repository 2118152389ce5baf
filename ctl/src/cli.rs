//! The command line, and one function per command.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use causeway_net::network::name::PodKey;
use causeway_runtime::telemetry::chain;
use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::check::{self, Report};
use crate::cluster::{self, Access};
use crate::error::CtlError;
use crate::exit::Exit;
use crate::explain;
use crate::isolation::ask::{Port, ProcessName};
use crate::isolation::{self, observe::Question};
use crate::output::{Format, print};
use crate::topology;
use crate::{agent, dump, local};

/// Explains, checks, draws and gathers what Causeway does with Uplinks, and with pods of primary networks.
#[derive(Debug, Parser)]
#[command(name = "causewayctl", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Common {
    /// Kubeconfig file (default: KUBECONFIG, ~/.kube/config or the pod's account, as kubectl does).
    #[arg(long, global = true, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Form of the output.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// About Uplinks.
    #[command(subcommand)]
    Uplink(UplinkCommand),
    /// About isolation of pods from the processes of their nodes.
    #[command(subcommand)]
    Isolation(IsolationCommand),
    /// Draws the logical topology of this node: routers, switches, what connects to what, ways out.
    Topology(TopologyArgs),
    /// Tells whether the installation is as this version needs it, and on a node whether the node is.
    Check(CheckArgs),
    /// Gathers what a supporter needs, without secrets.
    Dump(DumpArgs),
    /// Shows what the agent of this machine sees and decided.
    Agent(AgentArgs),
}

#[derive(Debug, Subcommand)]
enum UplinkCommand {
    /// Tells what was asked, what each side found, which rule decided, where it stops and what to do.
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// Name of the Uplink.
    name: String,
    /// Explain this node alone.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    sockets: Sockets,
}

#[derive(Debug, Subcommand)]
enum IsolationCommand {
    /// Tells how the kubelet is let through, which sets a pod is in and why, and what a process may reach.
    Explain(IsolationArgs),
}

#[derive(Debug, Args)]
struct IsolationArgs {
    /// Node whose agent is expected to answer (default: whichever answers).
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Explain this pod.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pod: Option<PodKey>,
    /// Tell what this process may do to the pod: its number on this machine, or the path of a cgroup.
    #[arg(long, value_name = "PID|CGROUP", requires = "pod")]
    process: Option<ProcessName>,
    /// What the process wants to reach: tcp/80, udp/53, sctp/1, icmp (default: a port that is not open).
    #[arg(long, value_name = "PORT", requires = "process")]
    port: Option<Port>,
    /// Socket of the node's agent.
    #[arg(long, value_name = "PATH", default_value = causeway_proto::INTROSPECT_SOCKET)]
    socket: PathBuf,
}

/// Which agents to ask.
#[derive(Debug, Args)]
struct Sockets {
    /// Socket of an agent to ask; may be given several times (default: the usual one, if an agent answers there).
    #[arg(long = "socket", value_name = "PATH")]
    sockets: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct TopologyArgs {
    /// Draw this network alone: its own name (`cluster_udn_blue`, `default`), that of a ClusterUserDefinedNetwork
    /// (`blue`) or of a UserDefinedNetwork (`namespace/name`).
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Show routes, translations, policies, neighbours and ports of other nodes too; JSON always has them.
    #[arg(long)]
    wide: bool,
    /// The Northbound database, as `ovn-nbctl --db` names it; of several the first that answers.
    #[arg(
        long,
        visible_alias = "db",
        env = "OVN_NB_DB",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = topology::observe::NORTHBOUND
    )]
    nb_address: Vec<ovsdb::Remote>,
    #[command(flatten)]
    tls: Tls,
}

/// Credentials for `ssl:` addresses.
#[derive(Clone, Debug, Args)]
struct Tls {
    /// Private key for an `ssl:` address.
    #[arg(long = "nb-client-privkey", value_name = "PATH", requires_all = ["certificate", "ca_certificate"])]
    private_key: Option<PathBuf>,
    /// Certificate for an `ssl:` address.
    #[arg(long = "nb-client-cert", value_name = "PATH", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// Certificate of the authority that has signed that of the server at an `ssl:` address.
    #[arg(long = "nb-client-cacert", value_name = "PATH", requires = "private_key")]
    ca_certificate: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Look at this machine too.
    #[arg(long, value_enum, default_value_t)]
    local: Local,
    /// Socket of this machine's agent.
    #[arg(long, value_name = "PATH", default_value = causeway_proto::INTROSPECT_SOCKET)]
    socket: PathBuf,
    /// Open vSwitch database of this machine.
    #[arg(long, value_name = "ADDRESS", default_value = local::observe::OVSDB)]
    ovsdb_address: String,
}

/// Whether to look at the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Local {
    /// If there is an agent's or a switch's socket.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// Not at all.
    Never,
}

#[derive(Debug, Args)]
struct DumpArgs {
    /// Where to write: a tar file if the name ends with `.tar`, else a folder that does not exist yet.
    target: PathBuf,
    #[command(flatten)]
    sockets: Sockets,
}

#[derive(Debug, Args)]
struct AgentArgs {
    /// Socket of the agent.
    #[arg(long, value_name = "PATH", default_value = causeway_proto::INTROSPECT_SOCKET)]
    socket: PathBuf,
    /// Show this Uplink alone.
    #[arg(long, value_name = "NAME")]
    uplink: Option<String>,
}

/// Runs the program that the process's command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(command(&cli)),
        Err(error) => Err(CtlError::Start(error)),
    };
    let exit = ended.unwrap_or_else(|error| {
        // Nobody is left to tell if stderr is closed.
        drop(writeln!(io::stderr(), "causewayctl: {}", chain(&error)));
        error.exit()
    });
    exit.into()
}

async fn command(cli: &Cli) -> Result<Exit, CtlError> {
    let Common { kubeconfig, context, output } = &cli.common;
    let access = Access { kubeconfig: kubeconfig.clone(), context: context.clone() };
    if *output == Format::Svg && !matches!(cli.command, Command::Topology(_)) {
        // Before any work is done.
        return Err(CtlError::NoPicture);
    }
    match &cli.command {
        Command::Uplink(UplinkCommand::Explain(args)) => explain(&access, args, *output).await,
        Command::Isolation(IsolationCommand::Explain(args)) => {
            explain_isolation(&access, args, *output).await
        }
        Command::Topology(args) => draw(args, *output).await,
        Command::Check(args) => check(&access, args, *output).await,
        Command::Dump(args) => dump(&access, args, *output).await,
        Command::Agent(args) => {
            let view = agent::ask(&args.socket, args.uplink.as_deref()).await?;
            let well = view.stores.iter().all(|store| store.ready);
            print(&view, *output, Timestamp::now())?;
            Ok(if well { Exit::Good } else { Exit::Problem })
        }
    }
}

async fn explain(access: &Access, args: &ExplainArgs, output: Format) -> Result<Exit, CtlError> {
    let client = cluster::connect(access).await?;
    let now = Timestamp::now();
    let node = args.node.as_deref();
    let world = explain::observe::world(&client, &args.name, node, &args.sockets.sockets, now).await?;
    let explanation = explain::plan::explain(&world);
    print(&explanation, output, now)?;
    Ok(if explanation.stops_at.is_none() { Exit::Good } else { Exit::Problem })
}

async fn explain_isolation(access: &Access, args: &IsolationArgs, output: Format) -> Result<Exit, CtlError> {
    // The agent knows all but the pod.
    let client = match &args.pod {
        Some(_) => Some(cluster::connect(access).await?),
        None => None,
    };
    let question = Question {
        node: args.node.clone(),
        socket: args.socket.clone(),
        pod: args.pod.clone(),
        process: args.process.clone(),
        port: args.port,
    };
    let world = isolation::observe::world(client.as_ref(), &question).await?;
    let explanation = isolation::plan::explain(&world);
    print(&explanation, output, Timestamp::now())?;
    Ok(if explanation.problems.is_empty() { Exit::Good } else { Exit::Problem })
}

async fn draw(args: &TopologyArgs, output: Format) -> Result<Exit, CtlError> {
    let options = ovsdb::Options { tls: args.tls.files(), ..ovsdb::Options::default() };
    let database = topology::observe::read(&args.nb_address, &options).await?;
    let mut drawn = topology::plan::draw(&database, args.network.as_deref())?;
    drawn.wide = args.wide;
    print(&drawn, output, Timestamp::now())?;
    Ok(if drawn.problems.is_empty() { Exit::Good } else { Exit::Problem })
}

impl Tls {
    fn files(&self) -> Option<ovsdb::TlsFiles> {
        let Self { private_key, certificate, ca_certificate } = self.clone();
        // clap takes all three or none.
        Some(ovsdb::TlsFiles {
            private_key: private_key?,
            certificate: certificate?,
            ca_certificate: ca_certificate?,
        })
    }
}

async fn check(access: &Access, args: &CheckArgs, output: Format) -> Result<Exit, CtlError> {
    let client = cluster::connect(access).await?;
    let facts = check::observe::facts(&client).await?;
    let mut findings = check::plan::judge(&facts);
    let look = match args.local {
        Local::Auto => local::observe::is_node(&args.socket),
        Local::Always => true,
        Local::Never => false,
    };
    if look {
        let facts = local::observe::facts(&args.socket, &args.ovsdb_address).await;
        findings.extend(local::plan::judge(&facts));
    }
    let report = Report::of(findings);
    print(&report, output, Timestamp::now())?;
    Ok(if report.problems == 0 { Exit::Good } else { Exit::Problem })
}

async fn dump(access: &Access, args: &DumpArgs, output: Format) -> Result<Exit, CtlError> {
    let client = cluster::connect(access).await?;
    let now = Timestamp::now();
    let gathered = dump::observe::gather(&client, &args.sockets.sockets, now).await?;
    let manifest = dump::write::write(&gathered, &args.target, now)?;
    print(&manifest, output, now)?;
    Ok(Exit::Good)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_for_all_commands_may_stand_anywhere() {
        for words in [
            ["causewayctl", "-o", "json", "uplink", "explain", "blue"],
            ["causewayctl", "uplink", "-o", "json", "explain", "blue"],
            ["causewayctl", "uplink", "explain", "blue", "-o", "json"],
        ] {
            assert_eq!(Cli::try_parse_from(words).unwrap().common.output, Format::Json);
        }
    }

    #[test]
    fn credentials_for_a_database_are_three_files_or_none() {
        let parse = |flags: &[&str]| {
            let words = ["causewayctl", "topology", "--nb-address", "ssl:[::1]:6641,ssl:192.0.2.1:6641"];
            let cli = Cli::try_parse_from(words.iter().chain(flags))?;
            let Command::Topology(args) = cli.command else { panic!("{:?}", cli.command) };
            Ok::<_, clap::Error>((args.nb_address.len(), args.tls.files()))
        };
        assert_eq!(parse(&[]).unwrap(), (2, None));
        let all = ["--nb-client-privkey", "k", "--nb-client-cert", "c", "--nb-client-cacert", "ca"];
        assert_eq!(parse(&all).unwrap().1.unwrap().ca_certificate, PathBuf::from("ca"));
        for left in 0..3 {
            let some: Vec<_> = all
                .chunks(2)
                .enumerate()
                .filter(|(at, _)| *at != left)
                .flat_map(|(_, flag)| flag)
                .copied()
                .collect();
            assert!(parse(&some).is_err(), "{some:?}");
        }
    }
}
