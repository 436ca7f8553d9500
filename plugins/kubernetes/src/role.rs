//! `role/{name}`: the service accounts that may log in, and the parameters of their tokens.

use crate::bounds;
use crate::namespace;
use crate::token::{ServiceAccount, TokenClaims};
use bulkhead_sdk::kubernetes::LabelSelector;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::wire::name::is_name;
use bulkhead_sdk::{Answer, Call, Failure, Host, TokenParams, stored};
use serde::{Deserialize, Serialize};
use serde_json::json;

const NAMES: &str = "bound_service_account_names";
const NAMESPACES: &str = "bound_service_account_namespaces";
const SELECTOR: &str = "bound_service_account_namespace_selector";

/// Maximum length of an audience, in bytes.
const LONGEST_AUDIENCE: usize = 1_024;

/// Maximum length of a selector, in bytes: the token of each login keeps the selector.
const LONGEST_SELECTOR: usize = 4_096;

/// Fields of a role, without the token parameters.
pub(crate) const FIELDS: &[Field] = &[
    Field::words(NAMES, "admitted accounts; patterns such as dev-*, or * alone for all"),
    Field::words(NAMESPACES, "namespaces of the accounts; patterns, or * alone for all"),
    Field::text(SELECTOR, "labels of further namespaces, as a label selector in JSON or YAML"),
    Field::text("audience", "required audience of tokens; empty: the API server's default"),
    Field::text("alias_name_source", "serviceaccount_uid (by default) or serviceaccount_name"),
];

/// The name of an account's alias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AliasNameSource {
    /// The uid, which no later account has.
    #[default]
    #[serde(rename = "serviceaccount_uid")]
    Uid,
    /// `namespace/name`, which a later account of the name also has.
    #[serde(rename = "serviceaccount_name")]
    Name,
}

impl AliasNameSource {
    fn read(word: &str) -> Result<Self, Failure> {
        match word {
            "" | "serviceaccount_uid" => Ok(Self::Uid),
            "serviceaccount_name" => Ok(Self::Name),
            other => Err(Failure::invalid(format!(
                "alias_name_source {} is neither serviceaccount_uid nor serviceaccount_name",
                quoted(other)
            ))),
        }
    }

    /// Returns the alias of an account.
    pub(crate) fn alias(self, account: &ServiceAccount) -> String {
        match self {
            Self::Uid => account.uid.clone(),
            Self::Name => format!("{}/{}", account.namespace, account.name),
        }
    }
}

/// A role of the mount.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Random id that distinguishes the role from a later role with the same name. Never shown.
    pub(crate) id: String,
    pub(crate) bound_service_account_names: Vec<String>,
    pub(crate) bound_service_account_namespaces: Vec<String>,
    /// Label selector of further namespaces; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) bound_service_account_namespace_selector: String,
    /// Empty for any audience of the API server.
    pub(crate) audience: String,
    pub(crate) alias_name_source: AliasNameSource,
    #[serde(flatten)]
    pub(crate) token: TokenParams,
}

stored!(Role, "role", reads_stored_roles);

/// The rule of a role that decides about the namespace of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceRule<'a> {
    /// The list, which has the namespace.
    List,
    /// The text of the selector. The namespace is admitted if its labels match.
    Selector(&'a str),
}

impl NamespaceRule<'_> {
    /// Returns the text of the selector; empty for the list.
    pub(crate) fn selector(self) -> String {
        match self {
            Self::List => String::new(),
            Self::Selector(text) => text.to_owned(),
        }
    }
}

impl Role {
    /// Returns the role with this name, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&key(name))
    }

    /// Returns the name and the role of a login, which may spell the name in any case.
    ///
    /// # Errors
    /// Invalid request if there is no such role.
    pub(crate) fn of_login(host: &dyn Host, written: &str) -> Result<(String, Self), Failure> {
        let unknown = || Failure::invalid(format!("invalid role name {}", quoted(written)));
        let name = written.to_ascii_lowercase();
        // A name that no role can have is not a valid storage key.
        let role = if is_name(&name) { Self::find(host, &name)? } else { None };
        Ok((name, role.ok_or_else(unknown)?))
    }

    /// Checks that the account may log in by this role, as far as its names tell. Returns the rule
    /// for its namespace.
    ///
    /// # Errors
    /// Permission denied, with the constraint.
    pub(crate) fn admit(&self, account: &ServiceAccount) -> Result<NamespaceRule<'_>, Failure> {
        let selector = self.bound_service_account_namespace_selector.as_str();
        let is_listed = bounds::admits(&self.bound_service_account_namespaces, &account.namespace);
        let rule = match (is_listed, selector) {
            (true, _) => NamespaceRule::List,
            (false, "") => return Err(namespace::not_authorized()),
            (false, text) => NamespaceRule::Selector(text),
        };
        match bounds::admits(&self.bound_service_account_names, &account.name) {
            true => Ok(rule),
            false => Err(Failure::denied("service account name not authorized")),
        }
    }

    /// Checks the stated audience, before the API server is asked.
    ///
    /// # Errors
    /// Permission denied.
    pub(crate) fn admit_audience(&self, claims: &TokenClaims) -> Result<(), Failure> {
        match self.audience.is_empty() || claims.audiences.contains(&self.audience) {
            true => Ok(()),
            false => Err(Failure::denied("the token is not for the audience of the role")),
        }
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge(NAMES, &mut self.bound_service_account_names)?;
        call.merge(NAMESPACES, &mut self.bound_service_account_namespaces)?;
        call.merge(SELECTOR, &mut self.bound_service_account_namespace_selector)?;
        call.merge("audience", &mut self.audience)?;
        if call.is_given("alias_name_source") {
            self.alias_name_source = AliasNameSource::read(call.text("alias_name_source"))?;
        }
        self.token.merge(call)
    }

    fn check(&self) -> Result<(), Failure> {
        bounds::check(NAMES, &self.bound_service_account_names)?;
        let selector = self.bound_service_account_namespace_selector.as_str();
        if !selector.is_empty() {
            selector_of(selector)?;
        }
        if selector.is_empty() || !self.bound_service_account_namespaces.is_empty() {
            bounds::check(NAMESPACES, &self.bound_service_account_namespaces)?;
        }
        let is_printable = !self.audience.contains(char::is_control);
        match self.audience.len() <= LONGEST_AUDIENCE && is_printable {
            true => Ok(()),
            false => {
                Err(Failure::invalid("audience has more than 1,024 bytes, or control characters"))
            }
        }
    }

    fn warnings(&self, call: &Call) -> Vec<String> {
        let mut warnings = self.token.warnings(&call.mount);
        let is_open = bounds::is_open(&self.bound_service_account_names)
            && bounds::is_open(&self.bound_service_account_namespaces);
        if is_open {
            warnings
                .push("every service account of the cluster may log in by this role".to_owned());
        }
        if !self.bound_service_account_namespace_selector.is_empty() {
            warnings.push(format!(
                "everybody with permission to label a namespace can admit the namespace's accounts \
                 by {SELECTOR}"
            ));
        }
        if self.audience.is_empty() {
            warnings.push(
                "audience is not set: a pod's token for the API server logs in, and any service \
                 with such a token can log in as the pod; set an audience for this service"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Parses a selector.
///
/// # Errors
/// Invalid request with the field and the mistake.
pub(crate) fn selector_of(text: &str) -> Result<LabelSelector, Failure> {
    let unfit = |why: String| Failure::invalid(format!("{SELECTOR}: {why}"));
    if text.len() > LONGEST_SELECTOR {
        return Err(unfit(format!("it is longer than {LONGEST_SELECTOR} bytes")));
    }
    LabelSelector::parse(text).map_err(unfit)
}

fn key(name: &str) -> String {
    format!("role/{name}")
}

/// Returns the role name in the path of an operator's request.
///
/// # Errors
/// As [`Call::lower_case_name`].
fn name_in_path(call: &Call) -> Result<&str, Failure> {
    call.lower_case_name("name", "roles")
}

/// Creates or changes a role; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let new = || Role { id: hexadecimal::text(&host.random().bytes(16)), ..Role::default() };
    let mut role = Role::find(host, name)?.unwrap_or_else(new);
    role.merge(call)?;
    role.check()?;
    host.storage().put(&key(name), &role)?;
    Ok(Answer::nothing().warn(role.warnings(call)))
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, name_in_path(call)?)?.ok_or_else(Failure::absent)?;
    let mut shown = role.token.show();
    let settings = [
        (NAMES, json!(role.bound_service_account_names)),
        (NAMESPACES, json!(role.bound_service_account_namespaces)),
        (SELECTOR, json!(role.bound_service_account_namespace_selector)),
        ("alias_name_source", json!(role.alias_name_source)),
    ];
    shown.extend(settings.map(|(name, value)| (name.to_owned(), value)));
    if !role.audience.is_empty() {
        shown.insert("audience".to_owned(), json!(role.audience));
    }
    Answer::data(&shown)
}

/// Removes a role.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&key(name_in_path(call)?))?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;
