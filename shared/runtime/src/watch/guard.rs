//! An object that may be one that cannot be read.
//!
//! A list or a watch goes on when one of its objects means nothing to this version. kube has the same in `DeserializeGuard`,
//! which turns every object into a tree and copies that before it looks at it: most of what a watch would cost.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// An object, or what is known of one that cannot be read.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Invalid>);

/// What is known of an object that cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Invalid {
    /// Why it cannot be read.
    pub error: String,
    /// Its metadata.
    pub metadata: ObjectMeta,
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW, Eyes(PhantomData))
    }
}

/// What serde_json calls a value that is wanted as text (`raw.rs`, `TOKEN`). Its own type for that reads from nothing but
/// text; an event whose object comes before its type is read from what serde keeps of it.
const RAW: &str = "$serde_json::private::RawValue";

/// Reads an object, as text if it can be had as text.
struct Eyes<K>(PhantomData<K>);

impl<'de, K: Resource + DeserializeOwned> Visitor<'de> for Eyes<K> {
    type Value = Guarded<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// The only entry is the text. The server writes the type of an event first (`WatchEvent` in k8s.io/apimachinery
    /// `meta/v1/types.go`), so this is how all of its objects come.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Guarded<K>, A::Error> {
        match map.next_key::<Cow<'_, str>>()? {
            Some(key) if key == RAW => map.next_value_seed(Text(PhantomData)),
            _ => Err(A::Error::custom("an object that is not there as text")),
        }
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Guarded<K>, D::Error> {
        of_tree(&serde_json::Value::deserialize(deserializer)?)
    }
}

/// Reads an object from its text, where that lies.
struct Text<K>(PhantomData<K>);

impl<'de, K: Resource + DeserializeOwned> DeserializeSeed<'de> for Text<K> {
    type Value = Guarded<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Guarded<K>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<K: Resource + DeserializeOwned> Visitor<'_> for Text<K> {
    type Value = Guarded<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of an object")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Guarded<K>, E> {
        if let Ok(object) = serde_json::from_str(text) {
            return Ok(Guarded(Ok(object)));
        }
        // Once more for what is wrong with it: of a tree the error names no line and column, which nobody sees.
        of_tree(&serde_json::from_str(text).map_err(E::custom)?)
    }
}

fn of_tree<K: Resource + DeserializeOwned, E: Error>(tree: &serde_json::Value) -> Result<Guarded<K>, E> {
    let error = match K::deserialize(tree) {
        Ok(object) => return Ok(Guarded(Ok(object))),
        Err(error) => error.to_string(),
    };
    let PartialObjectMeta { metadata, .. } = PartialObjectMeta::<K>::deserialize(tree).map_err(E::custom)?;
    Ok(Guarded(Err(Invalid { error, metadata })))
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    const GOOD: &str = r#"{"metadata":{"name":"a"},"spec":{"containers":[]}}"#;
    const BAD: &str = r#"{"metadata":{"name":"b","uid":"u"},"spec":{"containers":"not-a-list"}}"#;

    #[test]
    fn an_object_that_cannot_be_read_has_its_metadata_and_says_what_is_wrong() {
        for bad in [serde_json::from_str::<Guarded<Pod>>(BAD), serde_json::from_value(json_of(BAD))] {
            let mut bad = bad.unwrap();
            assert_eq!((bad.meta().name.as_deref(), bad.meta().uid.as_deref()), (Some("b"), Some("u")));
            bad.meta_mut().name = None;
            let invalid = bad.0.unwrap_err();
            assert_eq!(invalid.to_string(), "invalid type: string \"not-a-list\", expected a sequence");
            assert_eq!(invalid.metadata.name, None);
        }
    }

    #[test]
    fn one_without_metadata_has_empty_metadata_and_one_that_is_no_object_is_an_error() {
        let bad: Guarded<Pod> = serde_json::from_value(json!({"spec": 1})).unwrap();
        assert_eq!(bad.meta(), &ObjectMeta::default());
        assert!(bad.0.is_err());
        assert!(serde_json::from_str::<Guarded<Pod>>("[1]").is_err());
        assert!(serde_json::from_str::<Guarded<Pod>>("{").is_err());
    }

    #[test]
    fn the_others_of_a_list_and_of_a_watch_are_read() {
        let list =
            format!(r#"{{"apiVersion":"v1","kind":"PodList","metadata":{{}},"items":[{BAD},{GOOD}]}}"#);
        let list: ObjectList<Guarded<Pod>> = serde_json::from_str(&list).unwrap();
        let names: Vec<_> =
            list.items.iter().map(|pod| (pod.meta().name.as_deref(), pod.0.is_ok())).collect();
        assert_eq!(names, [(Some("b"), false), (Some("a"), true)]);
        for (type_, object, is_read) in [("ADDED", GOOD, true), ("MODIFIED", BAD, false)] {
            let forms = [
                format!(r#"{{"type":"{type_}","object":{object}}}"#),
                format!(r#"{{"object":{object},"type":"{type_}"}}"#),
            ];
            for event in forms {
                let event: WatchEvent<Guarded<Pod>> = serde_json::from_str(&event).unwrap();
                let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { panic!("{type_}") };
                assert_eq!(pod.0.is_ok(), is_read);
            }
        }
    }

    fn json_of(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }
}
