//! The made trees follow the fixture table of the reference, one test per case.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A sysfs tree made for one test.
struct Tree {
    root: TempDir,
}

impl Tree {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn file(self, path: &str, content: &str) -> Self {
        let path = self.parent_of(path);
        std::fs::write(path, content).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        let path = self.parent_of(path);
        symlink(target, path).unwrap();
        self
    }

    fn dir(self, path: &str) -> Self {
        std::fs::create_dir_all(self.root.path().join(path)).unwrap();
        self
    }

    fn parent_of(&self, path: &str) -> PathBuf {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::new(self.root.path())
    }

    /// VF `ens1f0v7` of PF `0000:03:00.0`.
    fn with_vf(self) -> Self {
        self.link("class/net/ens1f0v7/device", "../../../0000:03:01.1")
            .dir("bus/pci/devices/0000:03:00.0")
            .link("bus/pci/devices/0000:03:01.1/physfn", "../0000:03:00.0")
            .link("bus/pci/devices/0000:03:00.0/virtfn7", "../0000:03:01.1")
            .link("bus/pci/devices/0000:03:00.0/virtfn8", "../0000:03:01.2")
    }
}

fn name(text: &str) -> InterfaceName {
    text.parse().unwrap()
}

fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

#[test]
fn a_plain_bridge_has_no_device_and_no_switch() {
    let tree = Tree::new().dir("class/net/br0");
    let sysfs = tree.sysfs();
    assert_eq!(sysfs.device_of(&name("br0")).unwrap(), None);
    assert!(!sysfs.is_switchdev(&name("br0")).unwrap());
    assert_eq!(sysfs.phys_port_name(&name("br0")).unwrap(), None);
    assert_eq!(sysfs.device_of(&name("missing")).unwrap(), None);
}

#[test]
fn a_vf_leads_to_its_pf_and_its_number_on_it() {
    let tree = Tree::new().with_vf();
    let sysfs = tree.sysfs();
    let vf = sysfs.pci_device_of(&name("ens1f0v7")).unwrap().unwrap();
    assert_eq!(vf, pci("0000:03:01.1"));
    let pf = sysfs.pf_of(vf).unwrap().unwrap();
    assert_eq!((pf, pf.function()), (pci("0000:03:00.0"), 0));
    assert_eq!(sysfs.vf_index_of(vf).unwrap(), Some(7));
    assert_eq!(sysfs.pf_of(pf).unwrap(), None);
    assert_eq!(sysfs.vf_index_of(pf).unwrap(), None);
}

#[test]
fn a_pf_is_told_by_sriov_totalvfs_whatever_it_says() {
    let tree = Tree::new()
        .link("class/net/enp4s0f1/device", "../../../0000:03:00.1")
        .file("bus/pci/devices/0000:03:00.1/sriov_totalvfs", "");
    let sysfs = tree.sysfs();
    let pf = sysfs.pci_device_of(&name("enp4s0f1")).unwrap().unwrap();
    assert!(sysfs.is_pf_capable(pf).unwrap());
    assert_eq!((sysfs.pf_of(pf).unwrap(), pf.function()), (None, 1));
}

#[test]
fn a_nic_without_sriov_is_a_function_that_is_not_capable() {
    let tree = Tree::new()
        .link("class/net/enp4s0f1/device", "../../../0000:03:00.1")
        .dir("bus/pci/devices/0000:03:00.1");
    let sysfs = tree.sysfs();
    let function = sysfs.pci_device_of(&name("enp4s0f1")).unwrap().unwrap();
    assert!(!sysfs.is_pf_capable(function).unwrap());
}

#[test]
fn a_virtio_nic_has_a_device_that_is_no_pci_function() {
    let tree = Tree::new().link("class/net/eth0/device", "../../../virtio3");
    let sysfs = tree.sysfs();
    assert_eq!(sysfs.device_of(&name("eth0")).unwrap(), Some(DeviceId::Other("virtio3".into())));
    assert_eq!(sysfs.pci_device_of(&name("eth0")).unwrap(), None);
}

#[test]
fn a_smart_nic_lists_its_uplink_and_its_representors() {
    let tree = Tree::new()
        .with_vf()
        .dir("bus/pci/devices/0000:03:00.0/net/ens1f0np0")
        .dir("bus/pci/devices/0000:03:00.0/net/ens1f0_7")
        .file("class/net/ens1f0np0/phys_switch_id", "c0ffee\n")
        .file("class/net/ens1f0np0/phys_port_name", "p0\n")
        .link("class/net/ens1f0np0/device", "../../../0000:03:00.0")
        .file("class/net/ens1f0_7/phys_port_name", " pf0vf7 \n");
    let sysfs = tree.sysfs();
    assert_eq!(sysfs.netdevs_of_pci(pci("0000:03:00.0")).unwrap(), [name("ens1f0_7"), name("ens1f0np0")]);
    assert_eq!(sysfs.phys_switch_id(&name("ens1f0np0")).unwrap().as_deref(), Some("c0ffee"));
    let uplink = sysfs.phys_port_name(&name("ens1f0np0")).unwrap().unwrap();
    assert_eq!(PortName::parse(&uplink), Some(PortName::Physical(0)));
    let representor = sysfs.phys_port_name(&name("ens1f0_7")).unwrap().unwrap();
    assert_eq!(PortName::parse(&representor), Some(PortName::Vf { controller: None, pf: 0, vf: 7 }));
    assert_eq!(sysfs.netdevs_of_pci(pci("0000:04:00.0")).unwrap(), []);
}

#[test]
fn a_subfunction_leads_to_its_number_and_its_pf() {
    let tree = Tree::new()
        .link("class/net/enp3s0f0s1/device", "../../../mlx5_core.sf.3")
        .file("devices/pci0000:00/0000:03:00.0/mlx5_core.sf.3/sfnum", "88\n")
        .link(
            "bus/auxiliary/devices/mlx5_core.sf.3",
            "../../../devices/pci0000:00/0000:03:00.0/mlx5_core.sf.3",
        );
    let sysfs = tree.sysfs();
    let Some(DeviceId::Auxiliary(device)) = sysfs.device_of(&name("enp3s0f0s1")).unwrap() else {
        panic!("not an auxiliary device");
    };
    assert_eq!(sysfs.aux_parent_pci(&device).unwrap(), Some(pci("0000:03:00.0")));
    assert_eq!(sysfs.sf_number(&device).unwrap(), Some(88));
}

#[test]
fn the_walk_up_from_an_auxiliary_device_ends_without_a_pci_function() {
    let tree = Tree::new().link("bus/auxiliary/devices/foo.bar.1", "../../../devices/virtual/foo.bar.1");
    let device: AuxDevice = "foo.bar.1".parse().unwrap();
    assert_eq!(tree.sysfs().aux_parent_pci(&device).unwrap(), None);
    assert_eq!(tree.sysfs().sf_number(&device).unwrap(), None);
    assert_eq!(tree.sysfs().aux_parent_pci(&"foo.bar.2".parse().unwrap()).unwrap(), None);
}

#[test]
fn representors_of_a_card_are_told_by_switch_and_port_name() {
    let vf = |controller| Some(PortName::Vf { controller, pf: 0, vf: 7 });
    let pf = |controller| Some(PortName::Pf { controller, pf: 0 });
    for (port_name, want) in [
        ("c1pf0vf7", vf(Some(1))),
        ("pf0vf7", vf(None)),
        ("c1pf0", pf(Some(1))),
        ("pf0", pf(None)),
        ("p1", Some(PortName::Physical(1))),
    ] {
        let tree = Tree::new()
            .file("class/net/rep/phys_switch_id", "c0ffee\n")
            .file("class/net/rep/phys_port_name", &format!("{port_name}\n"));
        let sysfs = tree.sysfs();
        assert!(sysfs.is_switchdev(&name("rep")).unwrap(), "{port_name}");
        let read = sysfs.phys_port_name(&name("rep")).unwrap().unwrap();
        assert_eq!(PortName::parse(&read), want, "{port_name}");
    }
}

#[test]
fn a_card_without_devlink_reports_the_hosts_mac_beside_the_physical_port() {
    let tree = Tree::new()
        .dir("class/net/pf0hpf/device/net/p0")
        .dir("class/net/pf0hpf/device/net/pf0hpf")
        .file("class/net/p0/phys_switch_id", "c0ffee")
        .file("class/net/p0/phys_port_name", "p0")
        .file(
            "class/net/p0/smart_nic/pf/config",
            "MAC        : 00:73:58:6d:a1:b3\nMaxTxRate  : 0\nState      : Follow\n",
        );
    let sysfs = tree.sysfs();
    assert_eq!(sysfs.netdevs_beside(&name("pf0hpf")).unwrap(), [name("p0"), name("pf0hpf")]);
    let mac = sysfs.smart_nic_pf_mac(&name("p0")).unwrap().unwrap();
    assert_eq!(mac.to_string(), "00:73:58:6d:a1:b3");
    assert_eq!(sysfs.smart_nic_pf_mac(&name("pf0hpf")).unwrap(), None);
}

#[test]
fn an_unusable_mac_in_the_cards_file_counts_as_none() {
    for config in ["MAC : 00:00:00:00:00:00", "MAC : 01:00:5e:00:00:01", "MAC : none", "State : Follow", ""] {
        let tree = Tree::new().file("class/net/p0/smart_nic/pf/config", config);
        assert_eq!(tree.sysfs().smart_nic_pf_mac(&name("p0")).unwrap(), None, "{config}");
    }
}

#[test]
fn an_ordinary_nic_has_an_empty_switch_id() {
    let tree = Tree::new().file("class/net/eth0/phys_switch_id", "\n");
    assert!(!tree.sysfs().is_switchdev(&name("eth0")).unwrap());
}

#[test]
fn all_interfaces_are_listed_by_name() {
    let tree = Tree::new().dir("class/net/lo").dir("class/net/eth0").file("class/net/bad:name", "");
    assert_eq!(tree.sysfs().netdevs().unwrap(), [name("eth0"), name("lo")]);
}

#[test]
fn the_running_kernel_refuses_switch_facts_of_an_ordinary_link_quietly() {
    // EOPNOTSUPP on read, not a missing file: only a real kernel answers so.
    let sysfs = Sysfs::default();
    assert_eq!(sysfs.phys_switch_id(&name("lo")).unwrap(), None);
    assert_eq!(sysfs.phys_port_name(&name("lo")).unwrap(), None);
}

#[test]
fn an_unreadable_file_is_an_error_that_names_it() {
    let tree = Tree::new().dir("class/net/eth0/phys_switch_id");
    let error = tree.sysfs().phys_switch_id(&name("eth0")).unwrap_err();
    assert!(error.to_string().ends_with("class/net/eth0/phys_switch_id"), "{error}");
}
