//! `config`: the method's identity at the provider. A read never shows the private key.
//!
//! A write sends no request to the provider, except before the write replaces a key that a rotation
//! made. The configuration can be changed but not removed.

use crate::account::is_email;
use crate::credentials::ServiceAccountKey;
use crate::endpoints;
use crate::kept_keys;
use crate::key_trial::{self, KeptRootKey};
use crate::metadata::{self, OF_ACCOUNTS, OF_INSTANCES};
use crate::settings::{Config, ROLE_ID};
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::rotation::RotationBounds;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, Mount};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum length of a key file, in bytes.
const LONGEST_CREDENTIALS: usize = 64 << 10;
/// Maximum length of an audience, in bytes.
const LONGEST_AUDIENCE: usize = 1_024;

/// Fields of the configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("credentials", "the JSON of a service account's key; empty for none").secret(),
    Field::text(
        "service_account_email",
        "service account to impersonate with identity_token_audience",
    ),
    Field::text("identity_token_audience", "the workload identity provider, for a federation"),
    Field::seconds("identity_token_ttl", "lifetime of identity tokens, in seconds"),
    Field::text("iam_alias", "name of accounts' aliases: role_id or unique_id"),
    Field::text("gce_alias", "name of instances' aliases: role_id or instance_id"),
    Field::words("iam_metadata", "metadata of an account; default: all"),
    Field::words("gce_metadata", "metadata of an instance; default: all"),
    Field::map("custom_endpoint", "other places of the services api, iam, crm and compute"),
    Field::text("google_certs_endpoint", "deprecated: without effect"),
    Field::flag("force", "replace the key made by rotate-root, even if no other key works"),
];

impl Config {
    /// Merges the call's fields, and tells if they may change the time of the next rotation.
    fn merge(&mut self, host: &dyn Host, call: &Call) -> Result<bool, Failure> {
        let is_new_key = self.merge_credentials(host, call)?;
        call.merge("service_account_email", &mut self.service_account_email)?;
        call.merge("identity_token_audience", &mut self.identity_token_audience)?;
        call.merge("identity_token_ttl", &mut self.identity_token_ttl)?;
        call.merge("iam_alias", &mut self.iam_alias)?;
        call.merge("gce_alias", &mut self.gce_alias)?;
        metadata::merge(call, "iam_metadata", OF_ACCOUNTS, &mut self.iam_metadata)?;
        metadata::merge(call, "gce_metadata", OF_INSTANCES, &mut self.gce_metadata)?;
        let mut given = BTreeMap::new();
        call.merge("custom_endpoint", &mut given)?;
        endpoints::merge(&given, &mut self.custom_endpoint)?;
        Ok(self.rotation.merge(call, RotationBounds::CONFIG)? || is_new_key)
    }

    /// Merges the credentials. A new key restarts the time until its rotation.
    fn merge_credentials(&mut self, host: &dyn Host, call: &Call) -> Result<bool, Failure> {
        if !call.is_given("credentials") {
            return Ok(false);
        }
        let text = call.text("credentials").trim();
        if text.len() > LONGEST_CREDENTIALS {
            return Err(Failure::invalid("credentials have more than 64 KiB"));
        }
        let given = match text.is_empty() {
            true => None,
            false => Some(ServiceAccountKey::read(host, text)?),
        };
        let is_new = given != self.credentials;
        if is_new {
            (self.credentials, self.times.last) = (given, None);
            self.replaced_key_id = String::new();
        }
        Ok(is_new)
    }

    fn check(&self) -> Result<(), Failure> {
        let audience = &self.identity_token_audience;
        if !audience.is_empty() {
            if self.credentials.is_some() {
                return Err(Failure::invalid(
                    "only one of 'credentials' or 'identity_token_audience' can be set; set the \
                     other to an empty text in the same request",
                ));
            }
            if self.service_account_email.is_empty() {
                return Err(Failure::invalid(
                    "missing required 'service_account_email' when 'identity_token_audience' is \
                     set",
                ));
            }
        }
        if audience.len() > LONGEST_AUDIENCE {
            return Err(Failure::invalid("identity_token_audience has more than 1024 bytes"));
        }
        let email = &self.service_account_email;
        if !email.is_empty() && !is_email(email) {
            return Err(Failure::invalid(format!(
                "service_account_email {} is not a service account's address",
                quoted(email)
            )));
        }
        check_alias("iam_alias", "IAM", &self.iam_alias, "unique_id")?;
        check_alias("gce_alias", "GCE", &self.gce_alias, "instance_id")
    }

    /// Checks that the server can issue identity tokens, so that a fault shows before a login does.
    fn check_identity(&self, host: &dyn Host, call: &Call) -> Result<(), Failure> {
        if self.identity_token_audience.is_empty() || !call.is_given("identity_token_audience") {
            return Ok(());
        }
        let token = host.identity().token(&self.identity_token_audience, self.identity_token_ttl());
        token.map(drop).map_err(|why| Failure {
            message: format!("identity_token_audience: {}", why.message),
            ..why
        })
    }

    fn warnings(&self, call: &Call) -> Vec<String> {
        let foreign =
            endpoints::foreign(&self.custom_endpoint).filter(|_| self.credentials.is_none());
        let foreign = foreign.map(|service| {
            format!(
                "custom_endpoint {service} is outside googleapis.com: logins with requests to the \
                 provider fail until config has credentials"
            )
        });
        let relic = call.is_given("google_certs_endpoint").then(|| {
            "google_certs_endpoint is deprecated and has no effect; see custom_endpoint".to_owned()
        });
        let is_idle = self.rotation.has_time() && self.credentials.is_none();
        let idle = is_idle.then(|| "nothing is rotated while there are no credentials".to_owned());
        relic.into_iter().chain(idle).chain(foreign).collect()
    }

    fn shown(&self, mount: &Mount) -> Map<String, Value> {
        let mut shown = self.rotation.show();
        let mut add = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
        add("iam_alias", json!(self.iam_alias()));
        add("gce_alias", json!(self.gce_alias()));
        add("iam_metadata", json!(self.iam_metadata()));
        add("gce_metadata", json!(self.gce_metadata()));
        add("service_account_email", json!(self.service_account_email));
        add("identity_token_audience", json!(self.identity_token_audience));
        // Terraform takes a setting that was never written for a change to undo.
        if !self.custom_endpoint.is_empty() {
            add("custom_endpoint", json!(self.custom_endpoint));
        }
        if let Some(ttl) = self.identity_token_ttl {
            add("identity_token_ttl", json!(ttl));
        }
        match &self.credentials {
            Some(key) => {
                add("client_email", json!(key.client_email));
                add("client_id", json!(key.client_id));
                add("private_key_id", json!(key.private_key_id));
                add("project_id", json!(key.project_id));
            }
            None => {
                add("ttl", json!(mount.default_ttl));
                add("max_ttl", json!(mount.max_ttl));
            }
        }
        shown
    }
}

fn check_alias(field: &str, kind: &str, given: &str, other: &str) -> Result<(), Failure> {
    if given.is_empty() || given == ROLE_ID || given == other {
        return Ok(());
    }
    let mut names = [ROLE_ID, other];
    names.sort_unstable();
    let (given, names) = (quoted(given), names.join(", "));
    Err(Failure::invalid(format!(
        "{field} {given}: invalid {kind} alias type: must be one of: {names}"
    )))
}

/// Changes the configuration.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut config = Config::find(host)?;
    let before = config.clone();
    let is_rescheduled = config.merge(host, call)?;
    config.check()?;
    let key = before.credentials.as_ref().map(|key| key.private_key_id.as_str());
    let places =
        [DestinationField::of("custom_endpoint", config.custom_endpoint != before.custom_endpoint)];
    destination::check(
        call,
        &places,
        &[CredentialField::of("credentials", key.unwrap_or_default())],
    )?;
    config.check_identity(host, call)?;
    if is_rescheduled {
        config.times = config.rotation.changed_at(&config.times, host.clock().now())?;
    }
    let warnings = config.warnings(call);
    let kept_key = key_trial::check_replacement(host, call, (&before, &config))?;
    let lost_window = config.rotation.lost_window(&before.rotation);
    let place = config.place();
    config.store(host)?;
    if !matches!(kept_key, KeptRootKey::ForLaterWrites(_)) {
        kept_keys::try_soon(host, place.as_ref())?;
    }
    Ok(Answer::nothing().warn(warnings).warn(kept_key.warnings()).warn(lost_window))
}

/// Shows the configuration without the private key; default values if there is none.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Answer::data(&Config::find(host)?.shown(&call.mount))
}

#[cfg(test)]
mod tests;
