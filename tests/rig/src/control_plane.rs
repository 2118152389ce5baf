//! etcd, kube-apiserver and, on request, controller manager and scheduler.

use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::ByteString;
use serde_json::json;

use crate::ground::{API_V4, API_V6, Ground};
use crate::pki::Pki;
use crate::process::{Process, Program};
use crate::rig::RigOptions;

/// Port of the API server inside the rig.
pub(crate) const API_PORT: u16 = 6443;
/// Token of the identity `admin` in `system:masters`.
const ADMIN_TOKEN: &str = "rig-admin";
/// Ranges of Service addresses.
const SERVICE_RANGE: &str = "10.96.0.0/16,fd00:10:96::/112";

/// The running control plane.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) api: Process,
    pub(crate) etcd: Process,
    pub(crate) controller_manager: Option<Process>,
    pub(crate) scheduler: Option<Process>,
    pki: Pki,
}

impl ControlPlane {
    /// Starts everything at once; the parts wait for each other by themselves.
    pub(crate) async fn start(ground: &Ground, options: &RigOptions) -> anyhow::Result<Self> {
        let folder = ground.folder.path().join("control-plane");
        let pki = Pki::create(&folder, &server_names())?;
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, format!("{ADMIN_TOKEN},admin,admin,system:masters\n")).context("tokens")?;
        let etcd = ground.outer.spawn(etcd(&ground.settings.rootfs(), &folder)).await?;
        let api = ground.outer.spawn(api_server(ground, options, &pki, &tokens)).await?;
        let mut this = Self { api, etcd, controller_manager: None, scheduler: None, pki };
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, this.admin_kubeconfig(&inside_url())?).context("kubeconfig")?;
        if options.controller_manager {
            let program = controller_manager(ground, &this.pki, &kubeconfig);
            this.controller_manager = Some(ground.outer.spawn(program).await?);
        }
        if options.scheduler {
            let program = Program::new(ground.settings.kube().join("kube-scheduler"))
                .arg(flag("--kubeconfig", &kubeconfig))
                .args(["--leader-elect=false", "--bind-address=127.0.0.1"]);
            this.scheduler = Some(ground.outer.spawn(program).await?);
        }
        Ok(this)
    }

    /// A kubeconfig of the admin for an API server reached at `url`.
    pub(crate) fn admin_kubeconfig(&self, url: &str) -> anyhow::Result<String> {
        self.kubeconfig(url, ADMIN_TOKEN)
    }

    /// A kubeconfig of whoever `token` belongs to.
    pub(crate) fn kubeconfig(&self, url: &str, token: &str) -> anyhow::Result<String> {
        let ca = ByteString(std::fs::read(&self.pki.ca).context("reading the authority's certificate")?);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rig", "cluster": {"server": url, "certificate-authority-data": ca}}],
            "users": [{"name": "rig", "user": {"token": token}}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
            "current-context": "rig",
        });
        serde_yaml_ng::to_string(&config).context("writing a kubeconfig")
    }
}

/// Where the API server is for programs inside the rig.
pub(crate) fn inside_url() -> String {
    format!("https://{API_V4}:{API_PORT}")
}

fn server_names() -> Vec<String> {
    let fixed =
        ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1"];
    let mut names: Vec<String> = fixed.map(str::to_owned).into();
    names.extend([API_V4.to_string(), API_V6.to_string()]);
    names
}

fn etcd(rootfs: &Path, folder: &Path) -> Program {
    Program::new(rootfs.join("usr/bin/etcd"))
        .arg(flag("--data-dir", &folder.join("etcd")))
        .args(["--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379"])
        .args(["--listen-peer-urls=http://127.0.0.1:2380", "--unsafe-no-fsync"])
}

fn api_server(ground: &Ground, options: &RigOptions, pki: &Pki, tokens: &Path) -> Program {
    let mut program = Program::new(ground.settings.kube().join("kube-apiserver"))
        .args(["--etcd-servers=http://127.0.0.1:2379", "--bind-address=::"])
        .arg(format!("--secure-port={API_PORT}"))
        .arg(format!("--advertise-address={API_V4}"))
        .arg(flag("--tls-cert-file", &pki.server))
        .arg(flag("--tls-private-key-file", &pki.server_key))
        .arg(flag("--service-account-key-file", &pki.accounts_public))
        .arg(flag("--service-account-signing-key-file", &pki.accounts_key))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(flag("--token-auth-file", tokens))
        .arg(format!("--service-cluster-ip-range={SERVICE_RANGE}"))
        .args(["--authorization-mode=RBAC", "--allow-privileged=true"])
        .arg("--kubelet-preferred-address-types=InternalIP")
        // A rig lives for minutes; the first wait for a lease of a dead server would be longer than a start.
        .arg("--endpoint-reconciler-type=none");
    if !options.controller_manager {
        // Nobody makes the accounts that this plugin waits for.
        program = program.arg("--disable-admission-plugins=ServiceAccount");
    }
    program.args(&options.api_flags)
}

fn controller_manager(ground: &Ground, pki: &Pki, kubeconfig: &Path) -> Program {
    Program::new(ground.settings.kube().join("kube-controller-manager"))
        .arg(flag("--kubeconfig", kubeconfig))
        .arg(flag("--service-account-private-key-file", &pki.accounts_key))
        .arg(flag("--root-ca-file", &pki.ca))
        .args(["--leader-elect=false", "--bind-address=127.0.0.1", "--use-service-account-credentials=false"])
        .arg(format!("--service-cluster-ip-range={SERVICE_RANGE}"))
}

fn flag(name: &str, value: &Path) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from(name);
    flag.push("=");
    flag.push(PathBuf::from(value));
    flag
}
