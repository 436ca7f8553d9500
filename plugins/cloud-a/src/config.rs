//! `config`: the trusted tenant, and the credential for requests to the cloud.
//!
//! A write sends no request to the cloud, except before the write replaces a secret that a rotation
//! made.

use crate::cloud::NationalCloud;
use crate::configuration::{Config, DUE, KEY, rfc3339};
use crate::delay::RetryDelay;
use crate::kept_secrets;
use crate::root_records::{self, RetiredPasswords};
use crate::secret_trial::{self, KeptClientSecret};
use crate::settings::EffectiveSettings;
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::only_copy;
use bulkhead_sdk::rotation::RotationBounds;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};

/// Fields of a configuration, without the rotation settings.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("tenant_id", "GUID or domain of the directory for accepted tokens"),
    Field::text("resource", "the required audience of tokens"),
    Field::text("environment", "the national cloud; default CloudAPublicCloud"),
    Field::text("client_id", "the application for requests to the cloud"),
    Field::text("client_secret", "a secret of the application").secret(),
    Field::text("identity_token_audience", "in place of a secret: audience of identity tokens"),
    Field::seconds("identity_token_ttl", "lifetime of identity tokens, in seconds").or_whole(3_600),
    Field::seconds("root_password_ttl", "lifetime of a rotated client secret, in seconds")
        .or_whole(15_768_000),
    Field::whole("max_retries", "retries of a failed request; 0: none").or_whole(3),
    Field::text("retry_delay", "the first pause before a further try").or_text("4s"),
    Field::text("max_retry_delay", "the longest pause; below zero is without limit").or_text("60s"),
    Field::flag("force", "replace the secret made by rotate-root, even if no other secret works"),
];

impl Config {
    fn merge(&mut self, host: &dyn Host, call: &Call) -> Result<(), Failure> {
        let before = self.clone();
        call.merge("tenant_id", &mut self.tenant_id)?;
        call.merge("resource", &mut self.resource)?;
        call.merge("environment", &mut self.environment)?;
        call.merge("client_id", &mut self.client_id)?;
        call.merge("client_secret", &mut self.client_secret)?;
        call.merge("identity_token_audience", &mut self.identity_token_audience)?;
        call.merge("identity_token_ttl", &mut self.identity_token_ttl)?;
        call.merge("root_password_ttl", &mut self.root_password_ttl)?;
        call.merge("max_retries", &mut self.max_retries)?;
        for (field, delay) in
            [("retry_delay", &mut self.retry_delay), ("max_retry_delay", &mut self.max_retry_delay)]
        {
            // An empty text means that the duration is not given (decision A6).
            if !call.text(field).is_empty() {
                *delay = RetryDelay::read(field, call.text(field))?;
            }
        }
        if self.rotation.merge(call, RotationBounds::CONFIG)? {
            self.times = self.rotation.changed_at(&self.times, host.clock().now())?;
        }
        if self.is_another_credential_than(&before) {
            self.generation = self.generation.saturating_add(1);
        }
        // The same secret for another application still is one that no read may show.
        if self.client_secret != before.client_secret {
            self.clear_rotation();
        }
        Ok(())
    }

    /// Tells if `self` and `other` name different applications or different secrets.
    fn is_another_credential_than(&self, other: &Self) -> bool {
        let credential = |config: &Self| {
            let Self { tenant_id, environment, client_id, client_secret, .. } = config.clone();
            (tenant_id, environment, client_id, client_secret)
        };
        credential(self) != credential(other)
    }

    /// # Errors
    /// Invalid request for contradictory or missing settings; the host's refusal of an identity
    /// token.
    fn check(&self, host: &dyn Host) -> Result<EffectiveSettings, Failure> {
        let is_federated = !self.identity_token_audience.is_empty();
        if is_federated && !self.client_secret.is_empty() {
            return Err(Failure::invalid(
                "only one of 'client_secret' or 'identity_token_audience' can be set: write the \
                 other as an empty text in the same request",
            ));
        }
        let settings = EffectiveSettings::of(host, self.clone())?;
        if is_federated {
            // A federation that cannot work is reported now instead of at the first login.
            host.identity().token(&self.identity_token_audience, self.identity_token_ttl)?;
        }
        let rotates = self.rotation.has_time() && !self.rotation.is_disabled;
        if rotates && (settings.client_secret(host)?.is_empty() || settings.client_id.is_empty()) {
            return Err(Failure::invalid(
                "a rotation needs client_id and client_secret; set both, or leave rotation_period \
                 and rotation_schedule out",
            ));
        }
        Ok(settings)
    }

    fn shown(&self, call: &Call) -> Map<String, Value> {
        let in_nanoseconds = call.mount.kind == "azure";
        let fields = [
            ("tenant_id", json!(self.tenant_id)),
            ("resource", json!(self.resource)),
            ("environment", json!(self.environment)),
            ("client_id", json!(self.client_id)),
            ("identity_token_audience", json!(self.identity_token_audience)),
            ("identity_token_ttl", json!(self.identity_token_ttl)),
            ("root_password_ttl", json!(self.root_password_ttl)),
            ("max_retries", json!(self.max_retries)),
            ("retry_delay", self.retry_delay.show(in_nanoseconds)),
            ("max_retry_delay", self.max_retry_delay.show(in_nanoseconds)),
        ];
        let mut shown: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        shown.extend(self.rotation.show());
        if let Some(expires) = self.secret_expires.and_then(rfc3339) {
            shown.insert("root_password_expiration_date".to_owned(), json!(expires));
        }
        // Decisions A2 and A18: no read shows a secret made by a rotation.
        if call.caller.is_sudo() && self.secret_key_id.is_empty() {
            shown.insert("client_secret".to_owned(), json!(self.client_secret));
        }
        shown
    }
}

/// Writes the configuration; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let before = Config::find(host)?.unwrap_or_default();
    let mut config = before.clone();
    config.merge(host, call)?;
    let settings = config.check(host)?;
    config.writes = config.writes.saturating_add(1);
    let cloud = |config: &Config| NationalCloud::named(&config.environment).ok();
    let places = [DestinationField::of("environment", cloud(&config) != cloud(&before))];
    destination::check(
        call,
        &places,
        &[CredentialField::of("client_secret", &before.client_secret)],
    )?;
    let kept_secret = secret_trial::check_replacement(host, call, (&before, &settings))?;
    config.store(host)?;
    if !matches!(kept_secret, KeptClientSecret::ForLaterWrites(_)) {
        kept_secrets::try_soon(host, &settings.place())?;
    }
    RetiredPasswords::resume(host, &settings.place())?;
    let lost_window = config.rotation.lost_window(&before.rotation);
    Ok(Answer::nothing().warn(kept_secret.warnings()).warn(lost_window))
}

/// Shows the configuration.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::find(host)?.ok_or_else(Failure::absent)?;
    Answer::data(&config.shown(call))
}

/// Removes the configuration, its credentials and the records of an unfinished rotation.
pub(crate) fn delete(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let rotated = Config::find(host)?.filter(|config| !config.secret_key_id.is_empty());
    let left = rotated.map(|config| {
        let key_id = config.secret_key_id;
        format!(
            "client secret {key_id} was made by a rotation, and is stored nowhere any more; remove \
             the secret from the application"
        )
    });
    host.storage().delete(KEY)?;
    only_copy::set_note(host, KEY, None)?;
    host.clock().cancel(DUE)?;
    Ok(Answer::nothing().warn(left).warn(root_records::forget(host)?))
}

#[cfg(test)]
mod tests;
