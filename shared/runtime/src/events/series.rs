//! Which happenings become an Event, which only count in one, and which are too many. Pure: no clock, no I/O.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Happening, MAX_NAME, Severity};

/// A happening that repeats within this time counts in the Event of the last. Source: client-go, `tools/events`,
/// `finishTime`.
const SERIES_TIME: Duration = Duration::from_mins(6);

/// Shortest time between two writes of one Event.
const UPDATE_INTERVAL: Duration = Duration::from_secs(10);

/// Different Events of one object that may come at once. Source: client-go, `tools/record`, `defaultSpamBurst`.
const BURST: u32 = 25;

/// After this time one more may come.
const REFILL: Duration = Duration::from_secs(30);

/// Objects and series that are remembered; the oldest are forgotten.
const MEMORY: usize = 1000;

/// What tells one happening from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    object: ObjectKey,
    related: Option<String>,
    warning: bool,
    reason: String,
    note: String,
}

/// What tells one object from another: its uid, and for those without one kind, namespace and name.
type ObjectKey = [String; 4];

/// One Event that exists.
#[derive(Debug)]
struct Series {
    name: String,
    happening: Happening,
    count: i32,
    /// By the wall clock and by the monotonic one.
    last: (Timestamp, Instant),
    written: Instant,
    unwritten: bool,
}

/// What may still come of one object.
#[derive(Debug)]
struct Bucket {
    left: u32,
    filled: Instant,
}

/// The memory of a publisher.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    series: HashMap<Key, Series>,
    buckets: HashMap<ObjectKey, Bucket>,
    /// Which counts have to be written, and when.
    due: BTreeSet<(Instant, Key)>,
}

/// What has to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Todo {
    /// Nothing.
    Nothing,
    /// Nothing yet: the happening is counted and will be written with others of its kind.
    Count,
    /// Nothing: its object has had too many.
    Limit,
    /// Make an Event of this name.
    Create {
        /// Its name.
        name: String,
        /// What it tells.
        happening: Happening,
        /// When that was.
        at: Timestamp,
    },
    /// Write the count of the Event of this name.
    Update {
        /// Its name.
        name: String,
        /// What it tells.
        happening: Happening,
        /// How often that was.
        count: i32,
        /// When it last was.
        at: Timestamp,
    },
}

impl Key {
    fn of(happening: &Happening) -> Self {
        Self {
            object: object_key(happening),
            related: happening.related.as_ref().and_then(|related| related.name.clone()),
            warning: happening.severity == Severity::Warning,
            reason: happening.reason.clone(),
            note: happening.note.clone(),
        }
    }
}

fn object_key(happening: &Happening) -> ObjectKey {
    let object = &happening.regarding;
    [&object.uid, &object.kind, &object.namespace, &object.name].map(|part| part.clone().unwrap_or_default())
}

impl Ledger {
    /// Takes in a happening.
    pub(super) fn take_in(&mut self, happening: Happening, now: Instant, wall: Timestamp) -> Todo {
        let key = Key::of(&happening);
        if let Some(series) = self.series.get_mut(&key)
            && now.saturating_duration_since(series.last.1) < SERIES_TIME
        {
            series.count = series.count.saturating_add(1);
            series.last = (wall, now);
            if !series.unwritten {
                series.unwritten = true;
                self.due.insert((series.written + UPDATE_INTERVAL, key));
            }
            return Todo::Count;
        }
        if !self.admit(&key.object, now) {
            return Todo::Limit;
        }
        self.forget(&happening);
        self.make_room(now);
        let name = event_name(&happening, wall);
        let series = Series {
            name: name.clone(),
            happening: happening.clone(),
            count: 1,
            last: (wall, now),
            written: now,
            unwritten: false,
        };
        self.series.insert(key, series);
        Todo::Create { name, happening, at: wall }
    }

    /// When the next count has to be written.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next count that has to be written by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Todo {
        if self.next_due().is_none_or(|at| at > now) {
            return Todo::Nothing;
        }
        let series = self.due.pop_first().and_then(|(_, key)| self.series.get_mut(&key));
        let Some(series) = series else { return Todo::Nothing };
        series.unwritten = false;
        series.written = now;
        let (name, happening) = (series.name.clone(), series.happening.clone());
        Todo::Update { name, happening, count: series.count, at: series.last.0 }
    }

    /// Forgets the Event that tells `happening`: the next one of its kind makes another.
    pub(super) fn forget(&mut self, happening: &Happening) {
        let key = Key::of(happening);
        if let Some(series) = self.series.remove(&key) {
            self.due.remove(&(series.written + UPDATE_INTERVAL, key));
        }
    }

    /// How many series and objects are remembered.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.series.len(), self.buckets.len())
    }

    /// Whether one more Event of an object may be made.
    fn admit(&mut self, object: &ObjectKey, now: Instant) -> bool {
        if self.buckets.len() >= MEMORY && !self.buckets.contains_key(object) {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            let oldest =
                self.buckets.iter().min_by_key(|(_, bucket)| bucket.filled).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| self.buckets.len() >= MEMORY) {
                self.buckets.remove(&oldest);
            }
        }
        let bucket = self.buckets.entry(object.clone()).or_insert(Bucket { left: BURST, filled: now });
        bucket.refill(now);
        let admitted = bucket.left > 0;
        bucket.left = bucket.left.saturating_sub(1);
        admitted
    }

    /// Makes room for one more series.
    fn make_room(&mut self, now: Instant) {
        if self.series.len() < MEMORY {
            return;
        }
        self.series.retain(|_, series| {
            series.unwritten || now.saturating_duration_since(series.last.1) < SERIES_TIME
        });
        let oldest = self.series.values().min_by_key(|series| series.last.1).map(|s| s.happening.clone());
        if let Some(oldest) = oldest.filter(|_| self.series.len() >= MEMORY) {
            self.forget(&oldest);
        }
    }
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        while self.left < BURST && now.saturating_duration_since(self.filled) >= REFILL {
            self.left += 1;
            self.filled += REFILL;
        }
        if self.left == BURST {
            self.filled = now;
        }
    }

    fn is_full(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.filled) >= REFILL * (BURST - self.left)
    }
}

/// Name of an Event: the object's, and the time, as client-go does it.
fn event_name(happening: &Happening, wall: Timestamp) -> String {
    let object = happening.regarding.name.as_deref().unwrap_or("event");
    let object = object.get(..object.floor_char_boundary(MAX_NAME)).unwrap_or_default();
    format!("{}.{:x}", object.trim_end_matches(['.', '-']), wall.as_nanosecond())
}
