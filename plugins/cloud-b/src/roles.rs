//! `role/{name}`: the admitted accounts and instances, and the parameters of their tokens.

use crate::labels;
use crate::role::{GCE, IAM, Role, USUAL_JWT_EXP, merge_list, name_in_path, sorted};
use crate::settings::Config;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::duration;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, Mount};
use serde_json::{Map, Value, json};

/// Fields of a role, without the token parameters.
pub(crate) const FIELDS: &[Field] = &[
    Field::name_of("type", "iam for service accounts, gce for compute instances; cannot change"),
    Field::words("bound_service_accounts", "accounts by address or number; * admits all"),
    Field::words("service_accounts", "deprecated: bound_service_accounts")
        .old_name_of("bound_service_accounts"),
    Field::words("bound_projects", "projects by their ids"),
    Field::words("project_id", "deprecated: bound_projects").old_name_of("bound_projects"),
    Field::flag("add_group_aliases", "groups for the project, the folders and the organization"),
    Field::seconds("max_jwt_exp", "iam: maximum remaining lifetime of a token, in seconds"),
    Field::flag("allow_gce_inference", "iam: admit tokens signed by the provider"),
    Field::words("bound_zones", "gce: zones of instances, and of bound_instance_groups"),
    Field::words("bound_zone", "deprecated: bound_zones").old_name_of("bound_zones"),
    Field::words("bound_regions", "gce: regions, unless there are bound_zones"),
    Field::words("bound_region", "deprecated: bound_regions").old_name_of("bound_regions"),
    Field::words("bound_instance_groups", "gce: allowed instance groups"),
    Field::words("bound_instance_group", "deprecated: bound_instance_groups")
        .old_name_of("bound_instance_groups"),
    Field::words("bound_labels", "gce: required labels of instances, as key:value"),
];

/// Fields for roles of a single type.
const OF_ACCOUNTS: [&str; 2] = ["allow_gce_inference", "max_jwt_exp"];
const OF_INSTANCES: [&str; 7] = [
    "bound_instance_group",
    "bound_instance_groups",
    "bound_labels",
    "bound_region",
    "bound_regions",
    "bound_zone",
    "bound_zones",
];
/// Single-value fields of older clients, and the lists that replace them.
const SINGULAR: [(&str, &str); 3] = [
    ("bound_zone", "bound_zones"),
    ("bound_region", "bound_regions"),
    ("bound_instance_group", "bound_instance_groups"),
];

impl Role {
    /// Merges the call's fields, and returns warnings about deprecated fields.
    fn merge(&mut self, call: &Call) -> Result<Vec<String>, Failure> {
        self.refuse_other_fields(call)?;
        let mut warnings = self.merge_accounts_and_projects(call)?;
        call.merge("add_group_aliases", &mut self.add_group_aliases)?;
        call.merge("allow_gce_inference", &mut self.allow_gce_inference)?;
        call.merge("max_jwt_exp", &mut self.max_jwt_exp)?;
        if self.max_jwt_exp == 0 {
            self.max_jwt_exp = USUAL_JWT_EXP;
        }
        warnings.extend(self.merge_places(call)?);
        if call.is_given("bound_labels") {
            self.bound_labels = labels::read(call.list("bound_labels"), "invalid labels given")?;
        }
        self.token.merge(call)?;
        Ok(warnings)
    }

    fn refuse_other_fields(&self, call: &Call) -> Result<(), Failure> {
        let foreign: &[&str] = if self.is_of_accounts() { &OF_INSTANCES } else { &OF_ACCOUNTS };
        let given: Vec<&str> =
            foreign.iter().filter(|field| call.is_given(field)).copied().collect();
        if given.is_empty() {
            return Ok(());
        }
        let (kind, given) = (&self.kind, given.join(","));
        Err(Failure::invalid(format!("invalid args found for role of type {kind}: {given}")))
    }

    fn merge_accounts_and_projects(&mut self, call: &Call) -> Result<Vec<String>, Failure> {
        let mut warnings = Vec::new();
        if call.is_given("bound_service_accounts") {
            merge_list(call, "bound_service_accounts", &mut self.bound_service_accounts);
        } else if call.is_given("service_accounts") {
            merge_list(call, "service_accounts", &mut self.bound_service_accounts);
            warnings.push(deprecated("service_accounts", "bound_service_accounts"));
        }
        let old = sorted(call.list("project_id"));
        match (call.is_given("bound_projects"), old.is_empty()) {
            (_, true) => merge_list(call, "bound_projects", &mut self.bound_projects),
            (true, false) => {
                return Err(Failure::invalid(
                    "only one of 'bound_projects' or 'project_id' can be given",
                ));
            }
            (false, false) => {
                self.bound_projects = old;
                warnings.push(deprecated("project_id", "bound_projects"));
            }
        }
        Ok(warnings)
    }

    fn merge_places(&mut self, call: &Call) -> Result<Vec<String>, Failure> {
        let lists =
            [&mut self.bound_zones, &mut self.bound_regions, &mut self.bound_instance_groups];
        let mut warnings = Vec::new();
        for ((old, new), list) in SINGULAR.into_iter().zip(lists) {
            let words = call.list(old);
            if words.is_empty() {
                merge_list(call, new, list);
                continue;
            }
            if call.is_given(new) {
                return Err(Failure::invalid(format!(
                    "cannot specify both \"{old}\" and \"{new}\": give the second"
                )));
            }
            *list = sorted(list.drain(..).chain(words));
            warnings.push(deprecated(old, new));
        }
        Ok(warnings)
    }

    fn check_period(&self, mount: &Mount) -> Result<(), Failure> {
        let (period, most) = (self.token.token_period, mount.max_ttl);
        if period <= most {
            return Ok(());
        }
        let (period, most) = (duration::show(period), duration::show(most));
        Err(Failure::invalid(format!(
            "'token_period' of '{period}' is greater than the backend's maximum lease TTL of \
             '{most}'"
        )))
    }

    /// Returns the shown fields, with the names that older clients expect (decision B1).
    fn shown(&self, config: &Config) -> Map<String, Value> {
        let mut shown = self.token.show();
        let mut add = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
        add("role_id", json!(self.role_id));
        add("type", json!(self.kind));
        add("bound_service_accounts", json!(self.bound_service_accounts));
        add("bound_projects", json!(self.bound_projects));
        add("add_group_aliases", json!(self.add_group_aliases));
        add("policies", json!(self.token.token_policies));
        add("ttl", json!(self.token.token_ttl));
        add("max_ttl", json!(self.token.token_max_ttl));
        let only = match self.bound_projects.as_slice() {
            [only] => only.as_str(),
            _ => "",
        };
        add("project_id", json!(only));
        if self.is_of_accounts() {
            add("max_jwt_exp", json!(self.max_jwt_exp));
            add("allow_gce_inference", json!(self.allow_gce_inference));
            return shown;
        }
        add("gce_alias", json!(config.gce_alias()));
        add("bound_zones", json!(self.bound_zones));
        add("bound_regions", json!(self.bound_regions));
        add("bound_instance_groups", json!(self.bound_instance_groups));
        add("bound_labels", json!(self.bound_labels));
        shown
    }
}

fn deprecated(old: &str, new: &str) -> String {
    format!("\"{old}\" is deprecated; use \"{new}\"")
}

/// Returns the role's type, which is given at creation and cannot change.
fn kind_of(call: &Call, stored: Option<&Role>) -> Result<String, Failure> {
    let given = call.text("type").to_lowercase();
    match stored {
        Some(role) if given.is_empty() || given == role.kind => Ok(role.kind.clone()),
        Some(role) => Err(Failure::invalid(format!(
            "role type cannot be changed for an existing role: the type is '{}'",
            role.kind
        ))),
        None if given.is_empty() => {
            Err(Failure::invalid("role type cannot be empty: give iam or gce"))
        }
        None if [IAM, GCE].contains(&given.as_str()) => Ok(given),
        None => Err(Failure::invalid(format!(
            "role type {} is invalid: give iam or gce",
            quoted(&given)
        ))),
    }
}

/// Creates or changes a role.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let stored = Role::find(host, name)?;
    let kind = kind_of(call, stored.as_ref())?;
    let mut role = stored.unwrap_or_else(|| Role::new(host, &kind));
    let deprecated = role.merge(call)?;
    role.check_period(&call.mount)?;
    role.store(host, name)?;
    let warnings = deprecated.into_iter().chain(role.warnings(&Config::find(host)?));
    Ok(Answer::nothing().warn(warnings.chain(role.token.warnings(&call.mount))))
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, name_in_path(call)?)?.ok_or_else(Failure::absent)?;
    Answer::data(&role.shown(&Config::find(host)?))
}

/// Removes a role. Its tokens can no longer be renewed.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Role::remove(host, name_in_path(call)?)?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;
