use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Long enough for any machine; only a failure waits for it.
const DEADLINE: Duration = Duration::from_secs(20);

fn names(names: &[&str]) -> Names {
    Names::These(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn the_way_to_a_cgroup_is_watched_name_by_name() {
    let root = Path::new("/c");
    let way = way_to(root, &"a.slice/b.slice/kubelet.service".parse().unwrap());
    let want = Watched::from([
        ("/c".into(), names(&["a.slice"])),
        ("/c/a.slice".into(), names(&["b.slice"])),
        ("/c/a.slice/b.slice".into(), names(&["kubelet.service"])),
    ]);
    assert_eq!(way, want);
}

#[test]
fn a_new_unit_is_noticed_in_the_upper_part_of_the_tree_and_pods_cost_nothing() {
    let root = tempfile::tempdir().unwrap();
    for path in ["system.slice/a.service/deep/deeper", "kubepods.slice/pod1", "podruntime"] {
        fs::create_dir_all(root.path().join(path)).unwrap();
    }
    let watched: Vec<PathBuf> = upper_part(root.path()).into_keys().collect();
    let want = ["", "podruntime", "system.slice", "system.slice/a.service"];
    assert_eq!(
        watched,
        want.map(|path| if path.is_empty() { root.path().into() } else { root.path().join(path) })
    );
}

#[test]
fn a_directory_of_which_everything_counts_needs_no_names() {
    let (all, some) =
        (Watched::from([("/c".into(), Names::All)]), Watched::from([("/c".into(), names(&["a"]))]));
    let more = Watched::from([("/c".into(), names(&["b"])), ("/d".into(), names(&["c"]))]);
    assert_eq!(joined(all.clone(), some.clone()), all);
    assert_eq!(joined(some.clone(), all.clone()), all);
    let want = Watched::from([("/c".into(), names(&["a", "b"])), ("/d".into(), names(&["c"]))]);
    assert_eq!(joined(some, more), want);
}

/// Eyes on the way to `a/k` below a new folder that has `a`.
fn on_the_way() -> (TempDir, Eyes, Watched) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("a")).unwrap();
    let mut eyes = Eyes::open().unwrap();
    let way = way_to(root.path(), &"a/k".parse().unwrap());
    assert!(eyes.turn_to(way.clone()).unwrap(), "what happened before was not seen");
    assert!(!eyes.turn_to(way.clone()).unwrap(), "nothing new is watched");
    (root, eyes, way)
}

async fn sees(eyes: &mut Eyes) {
    timeout(DEADLINE, eyes.changed()).await.expect("a change is seen").unwrap();
}

#[tokio::test]
async fn a_directory_that_appears_goes_or_is_replaced_is_seen() {
    let (root, mut eyes, way) = on_the_way();
    let (folder, leaf) = (root.path().join("a"), root.path().join("a/k"));
    fs::create_dir(&leaf).unwrap();
    sees(&mut eyes).await;
    fs::remove_dir(&leaf).unwrap();
    sees(&mut eyes).await;
    fs::create_dir(root.path().join("b")).unwrap();
    fs::rename(root.path().join("b"), &leaf).unwrap();
    sees(&mut eyes).await;
    // The directory above goes too, and is made again: the watch was on the old one.
    fs::remove_dir_all(&folder).unwrap();
    sees(&mut eyes).await;
    fs::create_dir(&folder).unwrap();
    sees(&mut eyes).await;
    assert!(eyes.turn_to(way).unwrap(), "the new directory is another one");
    fs::create_dir(&leaf).unwrap();
    sees(&mut eyes).await;
}

#[tokio::test]
async fn names_that_do_not_count_are_passed_over() {
    let (root, mut eyes, _) = on_the_way();
    for number in 0..300 {
        fs::create_dir(root.path().join("a").join(number.to_string())).unwrap();
    }
    // A later change that counts is seen, and only that one: `changed` ends no earlier than with it.
    let mut waiting = Box::pin(eyes.changed());
    assert!(futures::poll!(&mut waiting).is_pending());
    fs::create_dir(root.path().join("a/k")).unwrap();
    timeout(DEADLINE, waiting).await.expect("a change is seen").unwrap();
}

#[tokio::test]
async fn what_is_no_longer_wanted_is_not_seen_any_more() {
    let (root, mut eyes, _) = on_the_way();
    assert!(
        eyes.turn_to(Watched::from([(root.path().into(), Names::All)])).unwrap() || eyes.watches.len() == 1
    );
    fs::create_dir(root.path().join("a/k")).unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let mut waiting = Box::pin(eyes.changed());
    assert!(futures::poll!(&mut waiting).is_pending(), "neither the old place nor a file counts");
    fs::create_dir(root.path().join("x")).unwrap();
    timeout(DEADLINE, waiting).await.expect("a directory counts").unwrap();
}

#[tokio::test]
async fn directories_that_do_not_exist_yet_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    let mut eyes = Eyes::open().unwrap();
    eyes.turn_to(way_to(root.path(), &"a/b/c".parse().unwrap())).unwrap();
    assert_eq!(eyes.watches.keys().collect::<Vec<_>>(), [root.path()]);
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    sees(&mut eyes).await;
    assert!(eyes.turn_to(way_to(root.path(), &"a/b/c".parse().unwrap())).unwrap());
    assert_eq!(eyes.watches.len(), 3);
}
