use std::fs;

use tempfile::TempDir;

use super::super::simulated::write_program;
use super::*;

fn path(text: &str) -> CgroupPath {
    text.parse().unwrap()
}

#[test]
fn the_match_counts_components_and_quotes_the_path() {
    for (text, want) in [
        ("kubelet", "socket cgroupv2 level 1 \"kubelet\""),
        ("kubelet.slice/kubelet.service", "socket cgroupv2 level 2 \"kubelet.slice/kubelet.service\""),
        ("a/b/k@1.service", "socket cgroupv2 level 3 \"a/b/k@1.service\""),
        ("a\\x2db.slice/k.service", "socket cgroupv2 level 2 \"a\\x2db.slice/k.service\""),
    ] {
        assert_eq!(expression(&path(text)).unwrap(), want);
    }
    // nft has no way to write it.
    assert!(matches!(expression(&path("a/q\"k")), Err(Refusal::Path(_))));
}

#[test]
fn the_transaction_leaves_nothing_behind() {
    let script = script(Some(&expression(&path("kubelet.slice/kubelet.service")).unwrap()));
    let want = "add table inet ovn-kubernetes\n\
        add chain inet ovn-kubernetes udn-isolation-socket-probe { type filter hook output priority 0; comment \"Transient chain, checks kernel support for the socket cgroupv2 match\"; }\n\
        add rule inet ovn-kubernetes udn-isolation-socket-probe socket cgroupv2 level 2 \"kubelet.slice/kubelet.service\" accept\n\
        delete chain inet ovn-kubernetes udn-isolation-socket-probe\n";
    assert_eq!(script, want);
}

#[test]
fn of_what_nft_says_the_first_error_counts_without_its_place() {
    for (said, want) in [
        (
            "/dev/stdin:3:59-74: Error: Could not process rule: No such file or directory\nadd rule inet x\n   ^^^\n",
            Some("Could not process rule: No such file or directory"),
        ),
        ("Warning: odd\nError: syntax error\n", Some("syntax error")),
        (
            "netlink: Error: cache initialization failed: Operation not permitted\n",
            Some("cache initialization failed: Operation not permitted"),
        ),
        ("Killed\n", Some("Killed")),
        ("", None),
    ] {
        assert_eq!(first_error(said).as_deref(), want, "{said:?}");
    }
}

/// A program in the place of `nft`: keeps its input in the file `asked` beside it.
fn nft(body: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("nft");
    let asked = folder.path().join("asked");
    let text =
        format!("#!/bin/sh\nscript=$(cat)\nprintf '%s\\n' \"$script\" >>{}\n{body}\n", asked.display());
    write_program(&program, &text);
    (folder, program)
}

const NO_MATCH: &str = r#"
case $script in
*"cgroupv2 level"*) echo '/dev/stdin:3:1-9: Error: Could not process rule: No such file or directory' >&2; exit 1 ;;
esac"#;

#[tokio::test]
async fn a_kernel_that_takes_the_match_is_asked_once() {
    let (folder, program) = nft("");
    assert!(check(&program, &path("a/k")).await.is_ok());
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked.trim_end(), script(Some(&expression(&path("a/k")).unwrap())).trim_end());
}

#[tokio::test]
async fn each_refusal_blames_what_is_at_fault() {
    for (body, want) in [
        (
            NO_MATCH,
            "the kernel does not support the nftables socket cgroupv2 match: Could not process rule: No such file or directory",
        ),
        (
            "echo 'Error: Could not process rule: Operation not permitted' >&2; exit 1",
            "nftables cannot be used: Could not process rule: Operation not permitted",
        ),
    ] {
        let (_folder, program) = nft(body);
        let refusal = check(&program, &path("a/k")).await.unwrap_err();
        assert_eq!(refusal.to_string(), want);
    }
    let absent = Path::new("/nowhere/nft");
    assert_eq!(
        check(absent, &path("a/k")).await.unwrap_err().to_string(),
        "the program /nowhere/nft cannot be run: No such file or directory (os error 2)"
    );
}
