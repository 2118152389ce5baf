use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const OWNED: Owned = Owned { table: "t", chains: &["c"], sets: &[] };

/// An nft that is this shell script.
fn nft(script: &str) -> (tempfile::TempDir, Nft) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nft");
    // Written by a process of its own: were the file open here while another test forks, it could not be run.
    let staged = folder.path().join("staged");
    fs::write(&staged, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&staged, fs::Permissions::from_mode(0o755)).unwrap();
    let copied = std::process::Command::new("cp").arg(&staged).arg(&path).status().unwrap();
    assert!(copied.success());
    let nft = Nft::new(&path);
    (folder, nft)
}

fn a_transaction() -> Transaction {
    Transaction { table: "t".into(), commands: vec![crate::Command::AddTable] }
}

#[tokio::test]
async fn a_missing_program_is_named_together_with_what_is_needed() {
    let error = Nft::new("/nowhere/nft").apply(&a_transaction()).await.unwrap_err();
    let text = r#"the program "/nowhere/nft" is not installed; nftables 1.0.1 or newer is needed"#;
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn what_the_kernel_refuses_is_told_in_nfts_words_without_the_input() {
    let script = "cat >&2 <<'E'\n/dev/stdin:1:5-9: Error: Could not process rule: Operation not permitted\nadd \
                  table\n    ^^^^^\nE\ncat >/dev/null; exit 1";
    let (_folder, nft) = nft(script);
    let error = nft.apply(&a_transaction()).await.unwrap_err();
    let text = "nft failed while changing the table: /dev/stdin:1:5-9: Error: Could not process rule: Operation \
                not permitted";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn a_program_that_dies_without_a_word_is_told_by_its_status() {
    let (_folder, nft) = nft("kill -9 $$");
    let error = nft.list(&OWNED).await.unwrap_err().to_string();
    assert!(error.contains("signal: 9"), "{error}");
}

#[tokio::test]
async fn a_program_that_reads_nothing_is_judged_by_how_it_ends() {
    let big = crate::Command::AddSet(crate::Set {
        name: "s".into(),
        kind: crate::SetKind::Address(crate::Family::V4),
        comment: "x".repeat(1 << 20),
    });
    let transaction = Transaction { table: "t".into(), commands: vec![big] };
    let (_folder, ok) = nft("exit 0");
    ok.apply(&transaction).await.unwrap();
    let (_folder, bad) = nft("exit 3");
    assert!(bad.apply(&transaction).await.is_err());
}

#[tokio::test]
async fn a_table_that_is_not_there_has_nothing_of_ours() {
    let (_folder, nft) = nft("echo 'Error: No such file or directory' >&2; exit 1");
    assert_eq!(nft.list(&OWNED).await.unwrap(), Observed::default());
}

#[tokio::test]
async fn a_listing_that_is_cut_off_is_an_error_and_not_an_empty_table() {
    let (_folder, nft) =
        nft(r#"echo '{"nftables": [{"table": {"family": "inet", "name": "t", "handle": 1}}, {'"#);
    let error = nft.list(&OWNED).await.unwrap_err();
    assert!(matches!(error, NftError::Garbled(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_hangs_is_left_behind_after_the_deadline() {
    let (_folder, nft) = nft("exec sleep 1000");
    let error = nft.apply(&a_transaction()).await.unwrap_err().to_string();
    assert_eq!(error, "nft did not end within 30s while changing the table");
}
