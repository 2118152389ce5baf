//! In which order a network that is being made is written about.

use causeway_api::nad::GatewayMode;
use causeway_runtime::engine::EngineMetrics;

use super::*;

/// Long enough for everything that waits for no time.
const A_MOMENT: Duration = Duration::from_millis(1);

/// The rooms of Nodes and statuses at work, over a cluster whose network has no definition yet as far as the ledger knows.
fn running() -> Rig {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    rig.book.rebuild(&Seen { nads: Vec::new(), ..blue() }.stores(GatewayMode::Shared));
    let metrics = EngineMetrics::register(&mut Registry::default());
    let (nodes, statuses, wake) = (rig.nodes.clone(), rig.statuses.clone(), rig.book.wake.clone());
    // They end with the test's runtime.
    tokio::spawn(async move {
        let limits = Limits::default();
        let over = CancellationToken::new();
        tokio::join!(
            engine::run(nodes, wake.nodes, limits, &metrics, over.clone()),
            engine::run(statuses, wake.statuses, limits, &metrics, over.clone()),
        )
    });
    rig
}

fn paths(rig: &Rig) -> Vec<String> {
    rig.asked().into_iter().map(|(path, _)| path).collect()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_annotated_after_the_first_word_about_a_network_and_then_it_is_told_how_it_fares() {
    let rig = running();
    let at_work = rig.book.at_work(&"blue_net".into());
    rig.nads.reconcile(&key()).await.unwrap();
    tokio::time::sleep(turns::FIRST_WORD.saturating_sub(A_MOMENT)).await;
    assert_eq!(paths(&rig), [NAD]);
    drop(at_work);
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(paths(&rig), [NODE, UDN]);
    tokio::time::sleep(turns::FIRST_WORD).await;
    assert!(paths(&rig).is_empty(), "nothing is done twice");
}

#[tokio::test(start_paused = true)]
async fn nodes_do_not_wait_longer_for_a_network_of_which_nobody_can_be_told() {
    let rig = running();
    let at_work = rig.book.at_work(&"blue_net".into());
    rig.nads.reconcile(&key()).await.unwrap();
    tokio::time::sleep(turns::FIRST_WORD + A_MOMENT).await;
    assert_eq!(paths(&rig), [NAD, NODE]);
    drop(at_work);
    tokio::time::sleep(A_MOMENT + NODE_INTERVAL).await;
    assert_eq!(paths(&rig), [UDN]);
}

#[tokio::test(start_paused = true)]
async fn nodes_wait_for_nobody_where_no_network_object_is_at_work() {
    let rig = running();
    rig.nads.reconcile(&key()).await.unwrap();
    tokio::time::sleep(A_MOMENT).await;
    let mut asked = paths(&rig);
    asked.sort_unstable();
    let mut want = [NAD, NODE, UDN];
    want.sort_unstable();
    assert_eq!(asked, want);
}
