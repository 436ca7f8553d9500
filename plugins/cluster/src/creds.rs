//! `creds/{name}`: issues a token for a role.
//!
//! Every object is recorded in the lease before its creation is requested, so a crash or refusal
//! leaves no object without a lease that ends it (see [`Reservation`]).

use crate::api_server::ApiServer;
use crate::lease::{LeaseData, LeasedObject};
use crate::lifetime::LeaseLifetime;
use crate::names::make;
use crate::namespaces::{ALL, selector};
use crate::objects::{BoundRole, ObjectPlan};
use crate::roles::{Role, RoleMode};
use crate::target::{ApiServerTarget, Config};
use crate::token;
use bulkhead_sdk::answer::Secret;
use bulkhead_sdk::kubernetes::is_label;
use bulkhead_sdk::reservation::{CreationFailure, CreationProof, Reservation};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::template::TemplateNames;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use k8s_openapi::api::authentication::v1::TokenRequestStatus;
use serde_json::{Value, json};

/// Length of a lease's mark, in bytes.
const MARK_BYTES: u32 = 16;

/// The fields of a caller's request.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("cluster_namespace", "the namespace of the token's service account")
        .aliases(&["kubernetes_namespace"]),
    Field::flag("cluster_role_binding", "bind the role in all namespaces"),
    Field::seconds("ttl", "lifetime of the token, in seconds; 0: the role's lifetime"),
    Field::words("audiences", "audiences of the token; none: the role's audiences"),
];

/// A request for a token, with all inputs.
struct TokenDemand<'a> {
    host: &'a dyn Host,
    call: &'a Call,
    role: Role,
    target: ApiServerTarget,
    namespace: String,
    lifetime: LeaseLifetime,
}

/// Issues a token.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let demand = TokenDemand::new(host, call)?;
    match demand.role.mode()? {
        RoleMode::Existing(account) => {
            let account = account.to_owned();
            demand.of_existing(&account)
        }
        RoleMode::Bound(role) => {
            let role = BoundRole {
                is_cluster_wide: demand.role.refers_to_cluster()?,
                name: role.to_owned(),
            };
            demand.of_new(Some(role))
        }
        RoleMode::Generated => demand.of_new(None),
    }
}

impl<'a> TokenDemand<'a> {
    fn new(host: &'a dyn Host, call: &'a Call) -> Result<Self, Failure> {
        let (name, mount) = (call.text("name"), &call.mount.path);
        let unknown = || {
            let shown = quoted(name);
            Failure::invalid(format!(
                "role {shown} does not exist; write {mount}roles/{name} first"
            ))
        };
        let role = Role::find(host, name)?.ok_or_else(unknown)?;
        if call.flag("cluster_role_binding") && !role.binds_cluster_wide()? {
            return Err(Failure::invalid(
                "cluster_role_binding: a ClusterRoleBinding cannot refer to a Role; the role's \
                 cluster_role_type must be ClusterRole",
            ));
        }
        let target = ApiServerTarget::of(host, &Config::needed(host, mount)?)?;
        let namespace = namespace(host, call, &role, &target)?;
        let lifetime = LeaseLifetime::of(&role, call)?;
        Ok(Self { host, call, role, target, namespace, lifetime })
    }

    /// Mode 1: issues only a token, which no revocation ends.
    fn of_existing(self, account: &str) -> Result<Answer, Failure> {
        let status = self.token(account).map_err(Failure::from)?;
        let lifetime = self.live(&status, false)?;
        let data = self.data(account, &status);
        let mut secret = Secret::without_undo(&data, lifetime.ttl, 0, &LeaseData::default())?;
        secret.renewable = false;
        Ok(Answer::secret(secret).warn(lifetime.warnings))
    }

    /// Modes 2 and 3: creates an account bound to `role`, or to a new role with the same name.
    fn of_new(self, role: Option<BoundRole>) -> Result<Answer, Failure> {
        let plan = self.plan(role)?;
        let mut lease_data = LeaseData {
            server: self.target.url.clone(),
            namespace: self.namespace.clone(),
            name: plan.name.clone(),
            mark: plan.mark.clone(),
            objects: Vec::new(),
        };
        let proof = self.make(&plan, &mut lease_data)?;
        let mut status = None;
        let proof = proof.make_next(self.host, &lease_data, || {
            // The objects already exist, even if the token is refused.
            let token =
                self.token(&plan.name).map_err(|why| CreationFailure::Perhaps(why.into()))?;
            status = Some(token);
            Ok(())
        })?;
        let status = status.ok_or_else(|| Failure::internal("a token was made and not kept"))?;
        let lifetime = self.live(&status, true)?;
        let answer = proof.fixed_secret(&self.data(&plan.name, &status), lifetime.ttl)?;
        Ok(answer.warn(lifetime.warnings))
    }

    fn plan(&self, role: Option<BoundRole>) -> Result<ObjectPlan, Failure> {
        let names = TemplateNames {
            display_name: &self.call.caller.display_name,
            role_name: self.call.text("name"),
        };
        let name = make(self.host, &self.role.name_template, &names)?;
        let (role, rules) = match role {
            Some(role) => (role, None),
            None => {
                let is_cluster_wide = self.role.is_cluster_wide()?;
                (BoundRole { is_cluster_wide, name: name.clone() }, Some(self.role.rules()?))
            }
        };
        let mark = self.host.random().bytes(MARK_BYTES);
        Ok(ObjectPlan {
            name,
            namespace: self.namespace.clone(),
            mark: mark.iter().map(|byte| format!("{byte:02x}")).collect(),
            mount: self.call.mount.accessor.clone(),
            labels: self.role.extra_labels.clone(),
            annotations: self.role.extra_annotations.clone(),
            role,
            rules,
            binds_cluster_wide: self.call.flag("cluster_role_binding"),
        })
    }

    /// Creates the objects of `plan`, one after the other. `lease_data` records all known facts
    /// about an object before the next object is requested.
    fn make(
        &self,
        plan: &ObjectPlan,
        lease_data: &mut LeaseData,
    ) -> Result<CreationProof, Failure> {
        let api = ApiServer::new(self.host, &self.target);
        let (mut proof, mut owner): (Option<CreationProof>, Option<(_, String)>) = (None, None);
        for kind in plan.kinds() {
            let owned_by = owner.as_ref().map(|(kind, uid)| (*kind, uid.as_str()));
            let object = plan.object(kind, owned_by);
            let object =
                object.map_err(|_| Failure::internal("an object cannot be written as JSON"))?;
            let tried = format!("create {} {}/{}", kind.word(), plan.namespace, plan.name);
            let mut uid = String::new();
            let create = || {
                let created = api.create(kind, &plan.namespace, &plan.name, object);
                uid = created.map_err(|refusal| refusal.unmade(&tried))?;
                Ok(())
            };
            lease_data.objects.push(LeasedObject {
                kind,
                uid: None,
                asked: self.host.clock().now(),
            });
            let next = match proof {
                None => Reservation::new(&plan.name, &lease_data.server, lease_data)?
                    .make(self.host, create)?,
                Some(proof) => proof.make_next(self.host, lease_data, create)?,
            };
            if let Some(leased_object) = lease_data.objects.last_mut() {
                leased_object.uid = Some(uid.clone());
            }
            proof = Some(next.settle(self.host, lease_data)?);
            owner = owner.or(Some((kind, uid)));
        }
        proof.ok_or_else(|| Failure::internal("a plan makes nothing"))
    }

    fn token(&self, account: &str) -> Result<TokenRequestStatus, CreationFailure> {
        let call_audiences = self.call.list("audiences");
        let audiences = if call_audiences.is_empty() {
            self.role.token_default_audiences.clone()
        } else {
            call_audiences
        };
        let api = ApiServer::new(self.host, &self.target);
        let tried = format!("create a token of service account {}/{account}", self.namespace);
        api.token(&self.namespace, account, audiences, self.lifetime.asked())
            .map_err(|refusal| refusal.unmade(&tried))
    }

    /// Returns the lease's lifetime, given the token's actual lifetime.
    fn live(
        &self,
        status: &TokenRequestStatus,
        ends_with_lease: bool,
    ) -> Result<LeaseLifetime, Failure> {
        let unread = || {
            Failure::new(
                FailureKind::Unreachable,
                "the answer is not in the format of an API server: the token's lifetime is missing",
            )
        };
        let seconds = token::lifetime(status, self.host.clock().now()).ok_or_else(unread)?;
        let lifetime = self.lifetime.clone();
        Ok(lifetime.of_token(seconds, ends_with_lease))
    }

    fn data(&self, account: &str, status: &TokenRequestStatus) -> Value {
        json!({
            "service_account_name": account,
            "service_account_namespace": self.namespace,
            "service_account_token": status.token,
        })
    }
}

/// Returns the requested namespace, if the role permits that namespace. The name is validated
/// before use in a path.
fn namespace(
    host: &dyn Host,
    call: &Call,
    role: &Role,
    target: &ApiServerTarget,
) -> Result<String, Failure> {
    let namespace = call.text("cluster_namespace");
    let allowed = &role.allowed_cluster_namespaces;
    if namespace.is_empty() {
        return match allowed.as_slice() {
            [only] if only != ALL => Ok(only.clone()),
            _ => Err(Failure::invalid(
                "cluster_namespace is required, unless the role has exactly one namespace",
            )),
        };
    }
    let shown = quoted(namespace);
    if !is_label(namespace) {
        return Err(Failure::invalid(format!(
            "cluster_namespace: {shown} is not a name of a namespace"
        )));
    }
    if allowed.iter().any(|name| name == ALL || name == namespace) {
        return Ok(namespace.to_owned());
    }
    let selected = match role.allowed_cluster_namespace_selector.as_str() {
        "" => false,
        text => {
            let labels = ApiServer::new(host, target).namespace_labels(namespace);
            let tried = format!("verify namespace {namespace}");
            selector(text)?.matches(&labels.map_err(|refusal| refusal.about(&tried))?)
        }
    };
    if selected {
        return Ok(namespace.to_owned());
    }
    Err(Failure::invalid(format!(
        "cluster_namespace: {shown} is not in the role's allowed_cluster_namespaces, and does not \
         match allowed_cluster_namespace_selector"
    )))
}

#[cfg(test)]
mod tests;
