//! Conditions as they stand on Uplink and UplinkState, and the one way to change them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::wire::wire_enum;

/// A wire text that no variant of an enum has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} {text:?}")]
pub struct UnknownText {
    /// Name of the enum that was asked for.
    pub kind: &'static str,
    /// The text found.
    pub text: String,
}

wire_enum! {
    /// Status of a condition.
    pub enum ConditionStatus {
        /// The condition holds.
        True = "True",
        /// The condition does not hold.
        False = "False",
        /// Nobody knows.
        Unknown = "Unknown",
    }
}

/// Longest message the API accepts, in bytes. Source: the metav1.Condition schema.
pub const MAX_MESSAGE_BYTES: usize = 32_768;

/// What a writer wants one of its conditions to say. The transition time is not part of the wish: it follows
/// from what the object says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Condition type, for example `Resolved`.
    pub type_: &'static str,
    /// Wanted status.
    pub status: ConditionStatus,
    /// Reason in CamelCase.
    pub reason: &'static str,
    /// Text for people; cut at [`MAX_MESSAGE_BYTES`] on a character boundary.
    pub message: String,
    /// Generation of the spec that was looked at, where the writer reports it.
    pub observed_generation: Option<i64>,
}

impl Wanted {
    /// The condition to write, given the conditions that the object has now.
    ///
    /// `lastTransitionTime` stays while the status stays, otherwise it is `now`, cut to whole seconds as
    /// metav1.Time is.
    #[must_use]
    pub fn against(&self, current: &[Condition], now: Timestamp) -> Condition {
        let kept = find(current, self.type_)
            .filter(|condition| condition.status == self.status.as_str())
            .map(|condition| condition.last_transition_time.clone());
        Condition {
            type_: self.type_.to_owned(),
            status: self.status.as_str().to_owned(),
            reason: self.reason.to_owned(),
            message: cut(&self.message, MAX_MESSAGE_BYTES).to_owned(),
            observed_generation: self.observed_generation,
            last_transition_time: kept.unwrap_or_else(|| Time(whole_seconds(now))),
        }
    }

    /// Whether the object already says exactly this, transition time aside.
    #[must_use]
    pub fn is_met_by(&self, current: &[Condition]) -> bool {
        find(current, self.type_).is_some_and(|condition| {
            condition.status == self.status.as_str()
                && condition.reason == self.reason
                && condition.message == cut(&self.message, MAX_MESSAGE_BYTES)
                && condition.observed_generation == self.observed_generation
        })
    }
}

/// The condition of a type, if the object has it.
#[must_use]
pub fn find<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of a type is present and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

/// The longest prefix of `text` with at most `max` bytes that ends on a character boundary.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// metav1.Time has whole seconds; a finer time would read back different from what was written.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(status: ConditionStatus, reason: &'static str) -> Wanted {
        Wanted { type_: "Resolved", status, reason, message: "m".into(), observed_generation: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn same_status_with_a_new_reason_keeps_the_transition_time() {
        let first = wanted(ConditionStatus::False, "BridgeNotFound").against(&[], at(100));
        let second = wanted(ConditionStatus::False, "BridgeInvalid").against(&[first], at(200));
        assert_eq!((second.reason.as_str(), second.last_transition_time.0), ("BridgeInvalid", at(100)));
    }

    #[test]
    fn a_flipped_status_gets_a_new_transition_time_in_whole_seconds() {
        let first = wanted(ConditionStatus::False, "BridgeNotFound").against(&[], at(100));
        let now = Timestamp::from_millisecond(200_700).unwrap();
        assert_eq!(
            wanted(ConditionStatus::True, "Resolved").against(&[first], now).last_transition_time.0,
            at(200)
        );
    }

    #[test]
    fn an_unchanged_condition_is_met_whatever_its_transition_time() {
        let wish = wanted(ConditionStatus::True, "Resolved");
        let written = wish.against(&[], at(100));
        assert!(wish.is_met_by(std::slice::from_ref(&written)));
        assert!(!wanted(ConditionStatus::True, "Other").is_met_by(&[written]));
    }

    #[test]
    fn a_long_message_is_cut_on_a_character_boundary() {
        let mut wish = wanted(ConditionStatus::False, "BridgeNotFound");
        wish.message = "é".repeat(MAX_MESSAGE_BYTES);
        let written = wish.against(&[], at(1));
        assert_eq!(written.message.len(), MAX_MESSAGE_BYTES);
        assert!(wish.is_met_by(&[written]), "the cut text is what an unchanged wish is compared with");
        assert_eq!(cut("aé", 2), "a");
    }
}
