//! Several requests at a time, but not all of them.

use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

/// Requests that run at a time: enough to hide the way to the API server, few enough to leave room for others.
const WIDTH: usize = 8;

/// Runs `work` on every item, up to [`WIDTH`] at a time. After the first error no further item is begun; what has begun is
/// finished.
///
/// # Errors
/// The first one.
pub(crate) async fn side_by_side<T, E, F: Future<Output = Result<(), E>>>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> F,
) -> Result<(), E> {
    let mut items = items.into_iter();
    let mut running = FuturesUnordered::new();
    let mut result = Ok(());
    loop {
        while result.is_ok() && running.len() < WIDTH {
            let Some(item) = items.next() else { break };
            running.push(work(item));
        }
        match running.next().await {
            Some(ended) => result = result.and(ended),
            None => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::task::yield_now;

    use super::*;

    /// Runs 20 items, of which some fail; returns the result, how many were begun, ended, and most at a time.
    async fn run(fails: impl Fn(u32) -> bool) -> (Result<(), u32>, [u32; 3]) {
        let [begun, ended, most] = [Cell::new(0), Cell::new(0), Cell::new(0)];
        let result = side_by_side(0..20, |item| {
            let (begun, ended, most, failed) = (&begun, &ended, &most, fails(item));
            async move {
                begun.set(begun.get() + 1);
                most.set(most.get().max(begun.get() - ended.get()));
                yield_now().await;
                ended.set(ended.get() + 1);
                if failed { Err(item) } else { Ok(()) }
            }
        });
        let result = result.await;
        (result, [begun.get(), ended.get(), most.get()])
    }

    #[tokio::test]
    async fn eight_at_a_time_are_worked_on() {
        assert_eq!(run(|_| false).await, (Ok(()), [20, 20, 8]));
    }

    #[tokio::test]
    async fn after_an_error_nothing_is_begun_and_what_has_begun_is_finished() {
        let (result, [begun, ended, _]) = run(|item| item == 3).await;
        assert_eq!(result, Err(3));
        assert!(begun < 20 && begun == ended, "{begun} begun, {ended} ended");
    }
}
