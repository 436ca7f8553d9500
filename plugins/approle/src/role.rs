//! A role of the mount: required proofs of a login, and token parameters.

use crate::{networks, uuid};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::wire::login as bounds;
use bulkhead_sdk::{Call, Failure, FailureKind, Host, TokenParams, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Fields of a role, without the token parameters.
pub(crate) const FIELDS: &[Field] = &[
    Field::flag("bind_secret_id", "a login needs a secret id").or_flag(true),
    Field::words("secret_id_bound_cidrs", "accepted networks of logins"),
    Field::words("bound_cidr_list", "old name of secret_id_bound_cidrs")
        .old_name_of("secret_id_bound_cidrs"),
    Field::whole("secret_id_num_uses", "logins with each secret id; 0: without limit"),
    Field::seconds("secret_id_ttl", "lifetime of secret ids; 0: without end"),
    Field::flag("local_secret_ids", "kept, and without effect: nothing is replicated")
        .aliases(&["enable_local_secret_ids"]),
    Field::text("role_id", "the role id; default: a random id"),
];

/// Older names of token parameters that clients of roles send.
pub(crate) const OLD_FIELDS: &[Field] = &[
    Field::words("policies", "old name of token_policies").old_name_of("token_policies"),
    Field::seconds("period", "old name of token_period").old_name_of("token_period"),
];

/// A role, as stored.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Random id that distinguishes the role from a later role with the same name. Never shown.
    pub(crate) id: String,
    /// The id in logins.
    pub(crate) role_id: String,
    pub(crate) bind_secret_id: bool,
    pub(crate) secret_id_bound_cidrs: Vec<String>,
    pub(crate) secret_id_num_uses: u64,
    /// Seconds; 0 means without end.
    pub(crate) secret_id_ttl: u64,
    pub(crate) local_secret_ids: bool,
    #[serde(flatten)]
    pub(crate) token: TokenParams,
}

stored!(Role, "role", reads_stored_roles);

impl Role {
    /// Returns a role with the default settings and a random role id.
    pub(crate) fn new(host: &dyn Host) -> Self {
        Self {
            id: hexadecimal::text(&host.random().bytes(16)),
            role_id: uuid::random(host),
            ..Self::unset()
        }
    }

    /// Returns a role with the default settings and without ids.
    fn unset() -> Self {
        Self {
            id: String::new(),
            role_id: String::new(),
            bind_secret_id: true,
            secret_id_bound_cidrs: Vec::new(),
            secret_id_num_uses: 0,
            secret_id_ttl: 0,
            local_secret_ids: false,
            token: TokenParams::default(),
        }
    }

    /// Returns the default of a setting, as [`shown`](Self::shown) shows the setting.
    pub(crate) fn default_of(setting: &str) -> Value {
        Self::unset().shown().remove(setting).unwrap_or_default()
    }

    /// Returns the role with this name, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&key(name))
    }

    /// Returns the name and the role in the path of an operator's request.
    ///
    /// # Errors
    /// Not found if there is no such role; as [`name_in_path`].
    pub(crate) fn named<'a>(host: &dyn Host, call: &'a Call) -> Result<(&'a str, Self), Failure> {
        let name = name_in_path(call)?;
        let unknown = || {
            let message = format!("there is no role {}; create the role first", quoted(name));
            Failure::new(FailureKind::NotFound, message)
        };
        Ok((name, Self::find(host, name)?.ok_or_else(unknown)?))
    }

    /// Returns the name and the role with this role id, if any.
    pub(crate) fn with_role_id(
        host: &dyn Host,
        role_id: &str,
    ) -> Result<Option<(String, Self)>, Failure> {
        let Some(name) = host.storage().get_plain::<String>(&index(host, role_id)?)? else {
            return Ok(None);
        };
        Ok(Self::find(host, &name)?.map(|role| (name, role)))
    }

    /// Applies the fields of the call, and keeps the rest.
    ///
    /// # Errors
    /// Invalid request with the setting and the value.
    pub(crate) fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("bind_secret_id", &mut self.bind_secret_id)?;
        if call.is_given("secret_id_bound_cidrs") {
            self.secret_id_bound_cidrs = networks::given(call, "secret_id_bound_cidrs")?;
        } else if call.is_given("bound_cidr_list") {
            self.secret_id_bound_cidrs = networks::given(call, "bound_cidr_list")?;
        }
        call.merge("secret_id_num_uses", &mut self.secret_id_num_uses)?;
        call.merge("secret_id_ttl", &mut self.secret_id_ttl)?;
        self.token.merge(call)?;
        self.check()
    }

    /// Refuses a role that would let in everybody who knows its role id, which is not secret.
    fn check(&self) -> Result<(), Failure> {
        let is_bound =
            !self.secret_id_bound_cidrs.is_empty() || !self.token.token_bound_cidrs.is_empty();
        match self.bind_secret_id || is_bound {
            true => Ok(()),
            false => Err(Failure::invalid(
                "at least one constraint should be enabled on the role: set bind_secret_id, \
                 secret_id_bound_cidrs or token_bound_cidrs",
            )),
        }
    }

    /// Stores the role, and takes its role id for the mount.
    ///
    /// # Errors
    /// Invalid request if another role has the role id, or if the role id could not be an alias.
    pub(crate) fn store(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        bounds::check_alias(&self.role_id)
            .map_err(|fault| Failure::invalid(format!("role_id: a login would come {fault}")))?;
        let index = index(host, &self.role_id)?;
        let owner = host.storage().get_plain::<String>(&index)?;
        if owner.as_ref().is_some_and(|owner| owner != name) {
            return Err(Failure::invalid(format!(
                "role_id {} is in use by another role; choose another id",
                quoted(&self.role_id)
            )));
        }
        if owner.is_none() {
            host.storage().put_plain(&index, name)?;
        }
        host.storage().put(&key(name), self)
    }

    /// Gives back the role id. Buffered like a write.
    pub(crate) fn release_id(&self, host: &dyn Host) -> Result<(), Failure> {
        host.storage().delete(&index(host, &self.role_id)?)
    }

    /// Returns every setting.
    pub(crate) fn shown(&self) -> Map<String, Value> {
        let mut shown = self.token.show();
        let settings = [
            ("bind_secret_id", json!(self.bind_secret_id)),
            ("local_secret_ids", json!(self.local_secret_ids)),
            ("secret_id_bound_cidrs", json!(self.secret_id_bound_cidrs)),
            ("secret_id_num_uses", json!(self.secret_id_num_uses)),
            ("secret_id_ttl", json!(self.secret_id_ttl)),
        ];
        shown.extend(settings.map(|(name, value)| (name.to_owned(), value)));
        shown
    }
}

/// Returns the storage key of a role.
pub(crate) fn key(name: &str) -> String {
    format!("role/{name}")
}

/// Returns the storage key of a role id, which may have any characters.
fn index(host: &dyn Host, role_id: &str) -> Result<String, Failure> {
    let digest = host.crypto().digest("sha256", role_id.as_bytes())?;
    Ok(format!("role-id/{}", hexadecimal::text(&digest)))
}

/// Returns the role name in the path of an operator's request.
///
/// # Errors
/// As [`Call::lower_case_name`].
pub(crate) fn name_in_path(call: &Call) -> Result<&str, Failure> {
    call.lower_case_name("role_name", "roles")
}
