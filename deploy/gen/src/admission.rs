//! Admission policies that follow from who owns which label or annotation: one table, several policies.
//!
//! In: nothing. Out: the files of `deploy/admission` that say so in their first line; the others there are written by
//! hand. [`frozen`] keeps what may not change after an object was made, [`owned`] who writes which annotation.

mod frozen;
mod owned;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::output::File;

/// All files.
pub(crate) fn files() -> Vec<File> {
    vec![frozen::namespace_label(), frozen::default_network(), owned::nodes(), owned::pods()]
}

/// A policy that refuses, without its binding.
struct Policy {
    name: &'static str,
    /// The version of the core group's kinds, their names with subresources, and the operations.
    resources: &'static [&'static str],
    operations: &'static [&'static str],
    conditions: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, String)>,
    validations: Vec<Validation>,
}

/// What has to hold, and what is said where it does not.
struct Validation {
    expression: String,
    /// A fixed sentence, or an expression that makes one.
    message: Message,
}

enum Message {
    /// Of a request that makes no sense.
    Text(&'static str),
    /// Of one that its sender has no right to.
    Forbidden(String),
    /// The same, made by an expression. The API server evaluates it for each request that it looks at, refused or not.
    /// Source: `apiserver/pkg/admission/plugin/policy/validating/validator.go`.
    Expression(String),
}

impl Validation {
    fn text(expression: impl Into<String>, message: &'static str) -> Self {
        Self { expression: expression.into(), message: Message::Text(message) }
    }

    fn forbids(expression: impl Into<String>, message: impl Into<String>) -> Self {
        Self { expression: expression.into(), message: Message::Forbidden(message.into()) }
    }

    fn computed(expression: impl Into<String>, message: impl Into<String>) -> Self {
        Self { expression: expression.into(), message: Message::Expression(message.into()) }
    }
}

impl Policy {
    /// The policy and its binding, which denies.
    fn objects(&self, binding: &str) -> [Value; 2] {
        let named = |(name, expression): &(&str, String)| json!({"name": name, "expression": expression});
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": self.operations,
                "resources": self.resources,
            }]},
            "validations": self.validations.iter().map(Validation::object).collect::<Vec<_>>(),
        });
        let bound = json!({"policyName": self.name, "validationActions": ["Deny"]});
        if let Some(spec) = spec.as_object_mut() {
            for (field, list) in [("matchConditions", &self.conditions), ("variables", &self.variables)] {
                if !list.is_empty() {
                    spec.insert(field.to_owned(), list.iter().map(named).collect());
                }
            }
        }
        let object = |kind: &str, name: &str, spec: &Value| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            })
        };
        [
            object("ValidatingAdmissionPolicy", self.name, &spec),
            object("ValidatingAdmissionPolicyBinding", binding, &bound),
        ]
    }
}

impl Validation {
    fn object(&self) -> Value {
        match &self.message {
            Message::Text(text) => json!({"expression": self.expression, "message": text}),
            Message::Forbidden(text) => {
                json!({"expression": self.expression, "reason": "Forbidden", "message": text})
            }
            Message::Expression(text) => {
                json!({"expression": self.expression, "reason": "Forbidden", "messageExpression": text})
            }
        }
    }
}
