//! Checks whether the engine's own account has the rights needed for a role, by asking the API
//! server.
//!
//! The operator learns of a missing right when writing the role, not at the first use or at the
//! first revocation. The check leaves out `bind` and `escalate`: an account with the rights of the
//! role needs neither.

use crate::api_server::ApiServer;
use crate::namespaces::ALL;
use crate::objects::RBAC;
use crate::target::{ApiServerTarget, Config};
use bulkhead_sdk::wire::call_limits::CallLimits;
use bulkhead_sdk::{Failure, Host};
use serde_json::{Value, json};

/// Maximum number of namespaces checked per role.
const MOST: usize = 4;
/// Maximum number of rights checked per role. Each right costs a request, and the write of a role
/// may need a few requests besides.
const MOST_REVIEWS: usize = 16;

const _: () = assert!(MOST_REVIEWS < CallLimits::DEFAULT.http_calls as usize);

/// Resource of roles that belong to no namespace.
const CLUSTER_ROLES: &str = "clusterroles";
/// Verbs for objects of a lease. `get` finds objects left by a crash.
const ALL_VERBS: &[&str] = &["create", "get", "delete"];

/// A right.
struct AccessRight {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// Empty for all objects of the resource.
    name: String,
    verb: &'static str,
}

impl AccessRight {
    fn review(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": namespace, "verb": self.verb, "group": self.group,
                "resource": self.resource, "subresource": self.subresource, "name": self.name,
            }},
        })
    }

    /// Describes the right: `create serviceaccounts/token in namespace apps`.
    fn describe(&self, namespace: &str) -> String {
        let Self { resource, subresource, name, verb, .. } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        let place = match namespace {
            "" => "in all namespaces".to_owned(),
            namespace => format!("in namespace {namespace}"),
        };
        format!("{verb} {resource}{slash}{subresource}{name} {place}")
    }
}

/// The objects a role creates, as far as rights depend on the objects.
pub(crate) enum CreatedObjects<'a> {
    /// A token of an existing service account.
    Token(&'a str),
    /// A service account with its binding.
    Account,
    /// A service account with its binding, and a role.
    AccountAndRole {
        /// The role belongs to no namespace.
        is_cluster_wide: bool,
    },
}

/// Returns a warning about rights the engine lacks to create `objects` in `namespaces`. Returns no
/// warning if there is no configuration or the API server does not answer.
///
/// # Errors
/// A failure of the storage.
pub(crate) fn warning(
    host: &dyn Host,
    namespaces: &[String],
    objects: &CreatedObjects<'_>,
) -> Result<Option<String>, Failure> {
    let Some(config) = Config::stored(host)? else { return Ok(None) };
    let Ok(target) = ApiServerTarget::of(host, &config) else { return Ok(None) };
    let api = ApiServer::new(host, &target);
    let mut lacked: Vec<String> = Vec::new();
    for RightQuestion { told: right, asked: review } in reviews(namespaces, &needed(objects)) {
        match api.is_permitted(&review) {
            Ok(true) => {}
            Ok(false) => lacked.push(right),
            Err(_) => return Ok(None),
        }
    }
    Ok((!lacked.is_empty()).then(|| {
        let lacked = lacked.join(", ");
        format!(
            "the service account of the configuration may not {lacked}; grant these rights, or the \
             cluster refuses tokens of this role or their revocation"
        )
    }))
}

/// A question about a right in a namespace.
struct RightQuestion {
    /// The right in words.
    told: String,
    asked: Value,
}

/// Returns the questions about `rights` in the first namespaces, each once.
fn reviews(namespaces: &[String], rights: &[AccessRight]) -> Vec<RightQuestion> {
    let mut reviews: Vec<RightQuestion> = Vec::new();
    for namespace in namespaces.iter().take(MOST) {
        for right in rights {
            let is_of_all = namespace == ALL || right.resource == CLUSTER_ROLES;
            let namespace = if is_of_all { "" } else { namespace };
            let description = right.describe(namespace);
            if reviews.iter().all(|review| review.told != description) {
                reviews.push(RightQuestion { told: description, asked: right.review(namespace) });
            }
        }
    }
    reviews.truncate(MOST_REVIEWS);
    reviews
}

fn needed(role_objects: &CreatedObjects<'_>) -> Vec<AccessRight> {
    let token = |name: &str| AccessRight {
        group: "",
        resource: "serviceaccounts",
        subresource: "token",
        name: name.to_owned(),
        verb: "create",
    };
    let objects = |group: &'static str, resource: &'static str| {
        let right = move |verb: &&'static str| AccessRight {
            group,
            resource,
            subresource: "",
            name: String::new(),
            verb,
        };
        ALL_VERBS.iter().map(right)
    };
    let account = || {
        let accounts = objects("", "serviceaccounts").chain([token("")]);
        accounts.chain(objects(RBAC, "rolebindings"))
    };
    match role_objects {
        CreatedObjects::Token(of) => vec![token(of)],
        CreatedObjects::Account => account().collect(),
        CreatedObjects::AccountAndRole { is_cluster_wide } => {
            let roles = if *is_cluster_wide { CLUSTER_ROLES } else { "roles" };
            account().chain(objects(RBAC, roles)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_many_namespaces_are_asked_once() {
        let namespaces: Vec<String> = (0..1_000).map(|number| format!("n-{number}")).collect();
        let one = reviews(&namespaces, &needed(&CreatedObjects::Token("bot")));
        assert_eq!(one.len(), MOST);
        let of_all = CreatedObjects::AccountAndRole { is_cluster_wide: true };
        assert_eq!(reviews(&[ALL.to_owned()], &needed(&of_all)).len(), 10);
        assert_eq!(reviews(&namespaces, &needed(&of_all)).len(), MOST_REVIEWS);
    }
}
