//! `role/{role_name}/…`: one setting of a role, shown, changed and reset by its own path.

use crate::role::Role;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::Map;

pub(crate) const POLICIES: &[Field] = &[
    Field::words("token_policies", "policies of the role's tokens"),
    Field::words("policies", "old name of token_policies").old_name_of("token_policies"),
];
pub(crate) const BIND_SECRET_ID: &[Field] =
    &[Field::flag("bind_secret_id", "a login needs a secret id")];
pub(crate) const SECRET_ID_BOUND_CIDRS: &[Field] = &[
    Field::words("secret_id_bound_cidrs", "accepted networks of logins"),
    Field::words("bound_cidr_list", "old name of secret_id_bound_cidrs")
        .old_name_of("secret_id_bound_cidrs"),
];
pub(crate) const SECRET_ID_NUM_USES: &[Field] =
    &[Field::whole("secret_id_num_uses", "logins with each secret id; 0: without limit")];
pub(crate) const SECRET_ID_TTL: &[Field] =
    &[Field::seconds("secret_id_ttl", "lifetime of secret ids; 0: without end")];
pub(crate) const TOKEN_BOUND_CIDRS: &[Field] =
    &[Field::words("token_bound_cidrs", "accepted networks of logins and tokens")];
pub(crate) const TOKEN_NUM_USES: &[Field] =
    &[Field::whole("token_num_uses", "requests with each token; 0: without limit")];
pub(crate) const TOKEN_TTL: &[Field] =
    &[Field::seconds("token_ttl", "lifetime of the role's tokens")];
pub(crate) const TOKEN_MAX_TTL: &[Field] =
    &[Field::seconds("token_max_ttl", "maximum lifetime over all renewals")];
pub(crate) const TOKEN_PERIOD: &[Field] = &[
    Field::seconds("token_period", "lifetime after each renewal, without a maximum"),
    Field::seconds("period", "old name of token_period").old_name_of("token_period"),
];

/// A setting with its own path.
struct RoleSetting {
    /// Last segment of the path.
    segment: &'static str,
    /// Name in the settings of a role.
    name: &'static str,
    /// Older name, which a read of the path shows if the last write used that name.
    old: Option<&'static str>,
}

const fn setting(segment: &'static str, name: &'static str) -> RoleSetting {
    RoleSetting { segment, name, old: None }
}

const SETTINGS: &[RoleSetting] = &[
    RoleSetting { old: Some("policies"), ..setting("policies", "token_policies") },
    setting("bind-secret-id", "bind_secret_id"),
    setting("bound-cidr-list", "secret_id_bound_cidrs"),
    setting("secret-id-bound-cidrs", "secret_id_bound_cidrs"),
    setting("secret-id-num-uses", "secret_id_num_uses"),
    setting("secret-id-ttl", "secret_id_ttl"),
    setting("token-bound-cidrs", "token_bound_cidrs"),
    setting("token-num-uses", "token_num_uses"),
    setting("token-ttl", "token_ttl"),
    setting("token-max-ttl", "token_max_ttl"),
    RoleSetting { old: Some("period"), ..setting("token-period", "token_period") },
    RoleSetting { old: Some("period"), ..setting("period", "token_period") },
    setting("local-secret-ids", "local_secret_ids"),
];

impl RoleSetting {
    /// Returns the setting of the called path.
    fn of(call: &Call) -> Result<&'static Self, Failure> {
        let segment = call.route.rsplit('/').next().unwrap_or_default();
        let found = SETTINGS.iter().find(|setting| setting.segment == segment);
        found.ok_or_else(|| Failure::internal(format!("{:?} is not a setting", call.route)))
    }
}

/// Shows the setting.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let setting = RoleSetting::of(call)?;
    let (_, role) = Role::named(host, call)?;
    let settings = role.shown();
    let mut shown = Map::new();
    for name in std::iter::once(setting.name).chain(setting.old) {
        if let Some(value) = settings.get(name) {
            shown.insert(name.to_owned(), value.clone());
        }
    }
    if setting.segment == "bound-cidr-list" {
        let networks = shown.remove(setting.name).unwrap_or_default();
        shown.insert("bound_cidr_list".to_owned(), networks);
    }
    Answer::data(&shown)
}

/// Changes the setting.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let setting = RoleSetting::of(call)?;
    // All fields of the row but the capture are names of the setting.
    if call.fields.keys().all(|name| name == "role_name") {
        return Err(Failure::invalid(format!("{} is required: give a value", setting.name)));
    }
    store(host, call)
}

/// Resets the setting to the default.
pub(crate) fn reset(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let setting = RoleSetting::of(call)?;
    let mut call = call.clone();
    call.fields.insert(setting.name.to_owned(), Role::default_of(setting.name));
    store(host, &call)
}

fn store(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mut role) = Role::named(host, call)?;
    role.merge(call)?;
    role.store(host, name)?;
    Ok(Answer::nothing().warn(role.token.warnings(&call.mount)))
}
