//! `role/{name}`: the principals and places that may log in, and the parameters of their tokens.

use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Answer, Call, Failure, Host, TokenParams, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum number of words in a list.
const MOST: usize = 1_000;

/// Fields of a role, without the token parameters.
pub(crate) const FIELDS: &[Field] = &[
    Field::words("bound_service_principal_ids", "allowed object ids; *: any"),
    Field::words("bound_group_ids", "allowed groups of a login; *: any"),
    Field::words("bound_locations", "allowed locations of the machine"),
    Field::words("bound_subscription_ids", "allowed subscriptions of the machine"),
    Field::words("bound_resource_groups", "allowed resource groups of the machine"),
    Field::words("bound_scale_sets", "allowed scale sets of the machine"),
    Field::text("max_jwt_exp", "kept, and without effect"),
];

/// A role of the mount.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) bound_service_principal_ids: Vec<String>,
    pub(crate) bound_group_ids: Vec<String>,
    pub(crate) bound_locations: Vec<String>,
    pub(crate) bound_subscription_ids: Vec<String>,
    pub(crate) bound_resource_groups: Vec<String>,
    pub(crate) bound_scale_sets: Vec<String>,
    /// Stored as written, without effect.
    pub(crate) max_jwt_exp: String,
    #[serde(flatten)]
    pub(crate) token: TokenParams,
    /// Random id that distinguishes the role from a later role with the same name. Empty in roles
    /// of earlier releases.
    #[serde(default)]
    pub(crate) id: String,
}

stored!(Role, "role", reads_stored_roles);

impl Role {
    fn key(name: &str) -> String {
        format!("role/{name}")
    }

    /// Returns the role with this name, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Tells if the role restricts the location of the machine.
    pub(crate) fn binds_place(&self) -> bool {
        let lists = [
            &self.bound_locations,
            &self.bound_subscription_ids,
            &self.bound_resource_groups,
            &self.bound_scale_sets,
        ];
        lists.iter().any(|list| !list.is_empty())
    }

    /// Tells if the role restricts the principal. A lone `*` restricts nothing.
    pub(crate) fn binds_principal(&self) -> bool {
        [&self.bound_service_principal_ids, &self.bound_group_ids]
            .iter()
            .any(|list| !list.is_empty() && !is_open(list))
    }

    fn lists(&self) -> [(&'static str, &Vec<String>); 6] {
        [
            ("bound_service_principal_ids", &self.bound_service_principal_ids),
            ("bound_group_ids", &self.bound_group_ids),
            ("bound_locations", &self.bound_locations),
            ("bound_subscription_ids", &self.bound_subscription_ids),
            ("bound_resource_groups", &self.bound_resource_groups),
            ("bound_scale_sets", &self.bound_scale_sets),
        ]
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("bound_service_principal_ids", &mut self.bound_service_principal_ids)?;
        call.merge("bound_group_ids", &mut self.bound_group_ids)?;
        call.merge("bound_locations", &mut self.bound_locations)?;
        call.merge("bound_subscription_ids", &mut self.bound_subscription_ids)?;
        call.merge("bound_resource_groups", &mut self.bound_resource_groups)?;
        call.merge("bound_scale_sets", &mut self.bound_scale_sets)?;
        call.merge("max_jwt_exp", &mut self.max_jwt_exp)?;
        self.token.merge(call)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.lists().iter().all(|(_, list)| list.is_empty()) {
            return Err(Failure::invalid(
                "must have at least one bound constraint when creating/updating a role",
            ));
        }
        match self.lists().iter().find(|(_, list)| list.len() > MOST) {
            Some((name, _)) => {
                Err(Failure::invalid(format!("{name}: there may be at most {MOST}")))
            }
            None => Ok(()),
        }
    }

    fn warnings(&self, call: &Call) -> Vec<String> {
        let mut warnings = self.token.warnings(&call.mount);
        if call.is_given("max_jwt_exp") {
            warnings
                .push("max_jwt_exp is kept, and has no effect on roles of this kind".to_owned());
        }
        if !self.binds_principal() && !self.binds_place() {
            warnings.push(
                "no login can meet this role: bound_service_principal_ids and bound_group_ids \
                 accept every principal, and nothing else is bound"
                    .to_owned(),
            );
        }
        warnings
    }

    fn shown(&self) -> Map<String, Value> {
        let mut shown = self.token.show();
        for (name, list) in self.lists() {
            shown.insert(name.to_owned(), json!(list));
        }
        if !self.max_jwt_exp.is_empty() {
            shown.insert("max_jwt_exp".to_owned(), json!(self.max_jwt_exp));
        }
        shown
    }
}

/// Tells if the list contains only a `*`.
pub(crate) fn is_open(list: &[String]) -> bool {
    matches!(list, [sole] if sole == "*")
}

/// Creates or changes a role; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let new = || Role { id: hexadecimal::text(&host.random().bytes(16)), ..Role::default() };
    let mut role = Role::find(host, name)?.unwrap_or_else(new);
    role.merge(call)?;
    role.check()?;
    host.storage().put(&Role::key(name), &role)?;
    Ok(Answer::nothing().warn(role.warnings(call)))
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, call.text("name"))?.ok_or_else(Failure::absent)?;
    Answer::data(&role.shown())
}

/// Removes a role.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&Role::key(call.text("name")))?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;
