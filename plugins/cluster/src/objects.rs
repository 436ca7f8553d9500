//! Objects created in the cluster for a lease, in the cluster's own types.
//!
//! All objects of a lease share a name, and a mark that distinguishes these objects from others of
//! the same name. The first object owns the others, so the cluster removes the rest even if
//! Bulkhead and the cluster crash together.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::Resource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The API group of roles and bindings.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// Labels of every object; a role cannot override these.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "bulkhead");
const CREATED_BY: (&str, &str) = ("app.kubernetes.io/created-by", "bulkhead-cluster");

/// Label for the lease's mark.
pub(crate) const MARK: &str = "bulkhead/lease";

/// Label for the mount's accessor.
const MOUNT: &str = "bulkhead/mount";

/// The kinds of objects, in the order of removal. Rights come first, because rights end at once,
/// while a token in use is accepted for ten more seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ObjectKind {
    /// Grants rights in a single namespace.
    RoleBinding,
    /// Grants rights in all namespaces.
    ClusterRoleBinding,
    /// The identity of the token.
    ServiceAccount,
    /// Rights in a namespace.
    Role,
    /// Rights in the cluster.
    ClusterRole,
}

impl ObjectKind {
    /// Returns the name of the kind in the cluster.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
        }
    }

    /// Returns whether objects of this kind belong to no namespace.
    fn is_cluster_wide(self) -> bool {
        matches!(self, Self::ClusterRole | Self::ClusterRoleBinding)
    }

    /// Returns the path of objects of this kind. The caller must have validated `namespace`.
    pub(crate) fn path(self, namespace: &str) -> String {
        let within = (!self.is_cluster_wide()).then_some(namespace);
        match self {
            Self::RoleBinding => RoleBinding::url_path(&(), within),
            Self::ClusterRoleBinding => ClusterRoleBinding::url_path(&(), within),
            Self::ServiceAccount => ServiceAccount::url_path(&(), within),
            Self::Role => Role::url_path(&(), within),
            Self::ClusterRole => ClusterRole::url_path(&(), within),
        }
    }
}

/// A role named by a binding, existing or generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundRole {
    pub(crate) is_cluster_wide: bool,
    pub(crate) name: String,
}

/// The common data of all objects of a lease.
pub(crate) struct ObjectPlan {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) mark: String,
    pub(crate) mount: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The role bound to the account.
    pub(crate) role: BoundRole,
    /// Rules of the role; `None` if the role already exists.
    pub(crate) rules: Option<Vec<PolicyRule>>,
    pub(crate) binds_cluster_wide: bool,
}

impl ObjectPlan {
    /// Returns the kinds to create, in order of creation.
    pub(crate) fn kinds(&self) -> Vec<ObjectKind> {
        let role =
            if self.role.is_cluster_wide { ObjectKind::ClusterRole } else { ObjectKind::Role };
        let binding = if self.binds_cluster_wide {
            ObjectKind::ClusterRoleBinding
        } else {
            ObjectKind::RoleBinding
        };
        let role = self.rules.is_some().then_some(role);
        role.into_iter().chain([binding, ObjectKind::ServiceAccount]).collect()
    }

    /// Returns the JSON of the object of this kind.
    pub(crate) fn object(
        &self,
        kind: ObjectKind,
        owner: Option<(ObjectKind, &str)>,
    ) -> serde_json::Result<Vec<u8>> {
        let metadata = self.metadata(kind, owner);
        let rules = || Some(self.rules.clone().unwrap_or_default());
        match kind {
            ObjectKind::ServiceAccount => {
                serde_json::to_vec(&ServiceAccount { metadata, ..ServiceAccount::default() })
            }
            ObjectKind::Role => serde_json::to_vec(&Role { metadata, rules: rules() }),
            ObjectKind::ClusterRole => serde_json::to_vec(&ClusterRole {
                metadata,
                rules: rules(),
                ..ClusterRole::default()
            }),
            ObjectKind::RoleBinding => serde_json::to_vec(&RoleBinding {
                metadata,
                role_ref: self.role_ref(),
                subjects: Some(self.subjects()),
            }),
            ObjectKind::ClusterRoleBinding => serde_json::to_vec(&ClusterRoleBinding {
                metadata,
                role_ref: self.role_ref(),
                subjects: Some(self.subjects()),
            }),
        }
    }

    fn metadata(&self, kind: ObjectKind, owner: Option<(ObjectKind, &str)>) -> ObjectMeta {
        let ours = [MANAGED_BY, CREATED_BY, (MARK, &self.mark), (MOUNT, &self.mount)];
        let mut labels = self.labels.clone();
        labels.extend(ours.map(|(key, value)| (key.to_owned(), value.to_owned())));
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: (!kind.is_cluster_wide()).then(|| self.namespace.clone()),
            labels: Some(labels),
            annotations: (!self.annotations.is_empty()).then(|| self.annotations.clone()),
            owner_references: owner.map(|(kind, uid)| vec![self.owned_by(kind, uid)]),
            ..ObjectMeta::default()
        }
    }

    fn owned_by(&self, owner: ObjectKind, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: format!("{RBAC}/v1"),
            kind: owner.word().to_owned(),
            name: self.name.clone(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }
    }

    fn role_ref(&self) -> RoleRef {
        let kind =
            if self.role.is_cluster_wide { ObjectKind::ClusterRole } else { ObjectKind::Role };
        RoleRef {
            api_group: RBAC.to_owned(),
            kind: kind.word().to_owned(),
            name: self.role.name.clone(),
        }
    }

    fn subjects(&self) -> Vec<Subject> {
        vec![Subject {
            kind: ObjectKind::ServiceAccount.word().to_owned(),
            name: self.name.clone(),
            namespace: Some(self.namespace.clone()),
            ..Subject::default()
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plan() -> ObjectPlan {
        ObjectPlan {
            name: "v-1".to_owned(),
            namespace: "apps".to_owned(),
            mark: "m".to_owned(),
            mount: "cluster_1".to_owned(),
            labels: BTreeMap::from([
                ("made".to_owned(), "here".to_owned()),
                ("app.kubernetes.io/managed-by".to_owned(), "someone-else".to_owned()),
                (MARK.to_owned(), "forged".to_owned()),
            ]),
            annotations: BTreeMap::from([("why".to_owned(), "test".to_owned())]),
            role: BoundRole { is_cluster_wide: false, name: "pods".to_owned() },
            rules: None,
            binds_cluster_wide: false,
        }
    }

    fn sent(plan: &ObjectPlan, kind: ObjectKind, owner: Option<(ObjectKind, &str)>) -> Value {
        serde_json::from_slice(&plan.object(kind, owner).unwrap()).unwrap()
    }

    #[test]
    fn binding_names_account_role_and_fixed_labels() {
        assert_eq!(
            sent(&plan(), ObjectKind::RoleBinding, None),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {
                    "name": "v-1",
                    "namespace": "apps",
                    "annotations": {"why": "test"},
                    "labels": {
                        "made": "here",
                        "app.kubernetes.io/managed-by": "bulkhead",
                        "app.kubernetes.io/created-by": "bulkhead-cluster",
                        "bulkhead/lease": "m",
                        "bulkhead/mount": "cluster_1",
                    },
                },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "v-1", "namespace": "apps"}],
            })
        );
    }

    #[test]
    fn the_first_object_owns_the_others() {
        let account =
            sent(&plan(), ObjectKind::ServiceAccount, Some((ObjectKind::RoleBinding, "u-1")));
        let owner = json!([{
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "name": "v-1",
            "uid": "u-1",
        }]);
        assert_eq!(account["metadata"]["ownerReferences"], owner);
        assert_eq!(account["kind"], "ServiceAccount");
    }

    #[test]
    fn objects_of_the_cluster_have_no_namespace() {
        let mut wide = plan();
        wide.role.is_cluster_wide = true;
        wide.binds_cluster_wide = true;
        wide.rules =
            Some(vec![PolicyRule { verbs: vec!["get".to_owned()], ..PolicyRule::default() }]);
        assert_eq!(
            wide.kinds(),
            [ObjectKind::ClusterRole, ObjectKind::ClusterRoleBinding, ObjectKind::ServiceAccount]
        );
        for kind in [ObjectKind::ClusterRole, ObjectKind::ClusterRoleBinding] {
            assert_eq!(sent(&wide, kind, None)["metadata"]["namespace"], Value::Null);
        }
        assert_eq!(
            sent(&wide, ObjectKind::ClusterRoleBinding, None)["roleRef"]["kind"],
            "ClusterRole"
        );
        assert_eq!(
            sent(&wide, ObjectKind::ClusterRole, None)["rules"],
            json!([{"verbs": ["get"]}])
        );
        assert_eq!(
            ObjectKind::ClusterRole.path("apps"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        );
        assert_eq!(
            ObjectKind::ServiceAccount.path("apps"),
            "/api/v1/namespaces/apps/serviceaccounts"
        );
    }

    #[test]
    fn rights_end_first() {
        let mut kinds = [ObjectKind::Role, ObjectKind::ServiceAccount, ObjectKind::RoleBinding];
        kinds.sort();
        assert_eq!(kinds, [ObjectKind::RoleBinding, ObjectKind::ServiceAccount, ObjectKind::Role]);
    }
}
