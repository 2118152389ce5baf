//! Whether a virtual machine is moving from one pod to another. Pure.
//!
//! In: the pods of one machine. Out: where the move stands. KubeVirt marks the pod that a machine has arrived in; that it
//! moves follows from there being two pods that live.
//! Source: KubeVirt's labels and annotations of pods, and upstream's `kubevirt.DiscoverLiveMigrationStatus`.

use crate::observed::pod::Machine;

/// Where a move stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Two pods, and the machine is in the older one.
    InProgress,
    /// The machine has arrived.
    Arrived,
    /// The pod that it was to go to has come to its end.
    Failed,
}

/// More pods live than a move needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} pods of one virtual machine live")]
pub(super) struct TooMany(usize);

/// Where the move stands of the machine that these pods, by name, are all the pods of; none if it does not move.
///
/// # Errors
/// More than two of them live.
pub(super) fn state<'m>(
    pods: impl IntoIterator<Item = (&'m str, &'m Machine)>,
) -> Result<Option<Move>, TooMany> {
    let mut pods: Vec<(&str, &Machine)> = pods.into_iter().collect();
    // Times of creation have seconds only; names make an order where they are the same.
    pods.sort_unstable_by_key(|(name, pod)| (pod.created, *name));
    let Some((&(_, target), earlier)) = pods.split_last() else { return Ok(None) };
    if earlier.is_empty() {
        return Ok(target.is_target_ready.then_some(Move::Arrived));
    }
    let living: Vec<&Machine> = pods.iter().map(|(_, pod)| *pod).filter(|pod| !pod.is_completed).collect();
    match living.as_slice() {
        [] => Ok(None),
        _ if target.is_completed => Ok(Some(Move::Failed)),
        // The newest one lives, so it is the one.
        [one] => Ok(one.is_target_ready.then_some(Move::Arrived)),
        [_, target] if target.is_target_ready => Ok(Some(Move::Arrived)),
        [_, _] => Ok(Some(Move::InProgress)),
        more => Err(TooMany(more.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(created: i64, is_completed: bool, is_target_ready: bool) -> Machine {
        Machine { domain: Some("vm".to_owned()), created, is_completed, is_target_ready }
    }

    /// What the pods are, the pods, and the state.
    type Row<'p> = (&'static str, &'p [Machine], Result<Option<Move>, TooMany>);

    #[test]
    fn each_set_of_pods_has_its_state() {
        const LIVES: bool = false;
        const ENDED: bool = true;
        let rows: [Row<'_>; 13] = [
            ("no pod", &[], Ok(None)),
            ("one pod", &[pod(1, LIVES, false)], Ok(None)),
            ("one pod that was a target", &[pod(1, LIVES, true)], Ok(Some(Move::Arrived))),
            ("none lives", &[pod(1, ENDED, false), pod(2, ENDED, true)], Ok(None)),
            ("target ended", &[pod(1, LIVES, false), pod(2, ENDED, false)], Ok(Some(Move::Failed))),
            (
                "target ended after it was ready",
                &[pod(1, LIVES, false), pod(2, ENDED, true)],
                Ok(Some(Move::Failed)),
            ),
            (
                "source ended, target ready",
                &[pod(1, ENDED, false), pod(2, LIVES, true)],
                Ok(Some(Move::Arrived)),
            ),
            ("source ended, target not ready", &[pod(1, ENDED, false), pod(2, LIVES, false)], Ok(None)),
            ("both live", &[pod(1, LIVES, false), pod(2, LIVES, false)], Ok(Some(Move::InProgress))),
            (
                "both live, target ready",
                &[pod(1, LIVES, false), pod(2, LIVES, true)],
                Ok(Some(Move::Arrived)),
            ),
            (
                "a source that was a target once",
                &[pod(1, LIVES, true), pod(2, LIVES, false)],
                Ok(Some(Move::InProgress)),
            ),
            (
                "an old one ended, two live",
                &[pod(1, ENDED, false), pod(2, LIVES, false), pod(3, LIVES, true)],
                Ok(Some(Move::Arrived)),
            ),
            (
                "three live",
                &[pod(1, LIVES, false), pod(2, LIVES, false), pod(3, LIVES, false)],
                Err(TooMany(3)),
            ),
        ];
        for (what, pods, want) in rows {
            let of_machine = ["a", "b", "c"].into_iter().zip(pods);
            assert_eq!(state(of_machine.clone()), want, "{what}");
            assert_eq!(state(of_machine.rev()), want, "{what}, seen in another order");
        }
    }
}
