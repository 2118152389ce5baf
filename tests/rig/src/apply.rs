//! Applying YAML, as people do with kubectl.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, ResourceExt};
use serde::Deserialize;

use crate::node::MANAGER;
use crate::observe::wait_object;
use crate::rig::Rig;

/// How long a definition may take to be served.
const ESTABLISH_DEADLINE: Duration = Duration::from_secs(20);

impl Rig {
    /// Applies every document of `yaml` (server-side apply, as field manager `causeway-rig`, conflicts are errors) and
    /// returns the objects as the API server stored them. Custom resource definitions are established when this
    /// returns, and documents after them may use them.
    ///
    /// # Errors
    /// The API server's refusal, with the document's name.
    pub async fn apply(&self, yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
        self.apply_as(MANAGER, yaml).await
    }

    /// Like [`Self::apply`] as another field manager.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub async fn apply_as(&self, manager: &str, yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
        let mut applied = Vec::new();
        for object in documents(yaml)? {
            let what = name_of(&object);
            let stored =
                self.apply_one(manager, &object).await.with_context(|| format!("applying {what}"))?;
            applied.push(stored);
        }
        Ok(applied)
    }

    /// Deletes every object that `yaml` names. One that is not there is fine.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn delete(&self, yaml: &str) -> anyhow::Result<()> {
        for object in documents(yaml)? {
            let api = self.api_of(&object).await?;
            match api.delete(&object.name_any(), &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error).with_context(|| format!("deleting {}", name_of(&object))),
            }
        }
        Ok(())
    }

    async fn apply_one(&self, manager: &str, object: &DynamicObject) -> anyhow::Result<DynamicObject> {
        let api = self.api_of(object).await?;
        let (name, parameters) = (object.name_any(), PatchParams::apply(manager));
        let stored = api.patch(&name, &parameters, &Patch::Apply(object)).await?;
        if object.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition") {
            self.wait_established(&name).await?;
        }
        Ok(stored)
    }

    async fn wait_established(&self, name: &str) -> anyhow::Result<()> {
        let established = |definition: Option<&CustomResourceDefinition>| {
            let conditions = definition.and_then(|one| one.status.as_ref()?.conditions.as_ref());
            conditions
                .is_some_and(|all| all.iter().any(|one| one.type_ == "Established" && one.status == "True"))
        };
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        wait_object(api, name, "condition Established", ESTABLISH_DEADLINE, established).await.map(drop)
    }

    /// The API of an object's kind, from discovery: a definition is served a moment after it is established.
    async fn api_of(&self, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
        let types = object.types.as_ref().context("apiVersion and kind")?;
        let kind = GroupVersionKind::try_from(types).with_context(|| format!("kind {types:?}"))?;
        let client = self.client();
        let look = || pinned_kind(&client, &kind);
        let (resource, capabilities) = self
            .wait_for(&format!("{}/{} to be served", kind.group, kind.kind), ESTABLISH_DEADLINE, look)
            .await?;
        Ok(match (capabilities.scope, object.namespace()) {
            (Scope::Cluster, _) => Api::all_with(client, &resource),
            (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client, &namespace, &resource),
            (Scope::Namespaced, None) => Api::default_namespaced_with(client, &resource),
        })
    }
}

fn documents(yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(yaml) {
        let value = serde_yaml_ng::Value::deserialize(document).context("reading YAML")?;
        if !value.is_null() {
            objects.push(serde_yaml_ng::from_value(value).context("reading an object")?);
        }
    }
    ensure!(!objects.is_empty(), "the YAML holds no object");
    Ok(objects)
}

fn name_of(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
    format!("{kind} {}", object.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_documents_are_skipped_and_an_empty_text_is_refused() {
        let yaml = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n# nothing\n---\n\
                    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: a}\n";
        let names: Vec<String> = documents(yaml).unwrap().iter().map(name_of).collect();
        assert_eq!(names, ["Namespace a", "ConfigMap b"]);
        assert!(documents("# nothing\n").is_err());
    }
}
