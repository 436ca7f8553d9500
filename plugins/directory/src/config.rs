//! The endpoint `config`: address of the directory, the engine's login, and the rules for
//! passwords.
//!
//! A write does not contact the directory, except with `verify`, which stores nothing, and before
//! the write replaces a password that the engine made.

mod verify;

use crate::kept_bindpass::{KeptBindpass, LoginPlace};
use crate::rotation::LANE;
use crate::settings::{AD, Config, OPENLDAP, servers};
use crate::{figures, kept_bindpass, passwords, rotate_root, times};
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::trusted_certificates;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, Mount};
use serde_json::{Map, Value, json};

/// Key prefix of intents: the changes under way.
const CHANGES: &str = "intent/";
const VERSIONS: [&str; 2] = ["tls12", "tls13"];
/// Fields of the configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("url", "ldap:// or ldaps:// URLs, separated by commas, tried in order"),
    Field::text("binddn", "the engine's login name: a DN, or a user of upndomain"),
    Field::text("bindpass", "the password of binddn").secret(),
    Field::text("userdn", "base DN of the accounts; empty: the server's choice"),
    Field::text("upndomain", "the domain of binddn's user principal name"),
    Field::text("schema", "ad, or openldap: how a password is changed"),
    Field::flag(
        "self_rotation",
        "accounts change their own passwords with their current passwords",
    ),
    Field::seconds("ttl", "seconds between rotations of a password; 0: the mount's default"),
    Field::seconds("max_ttl", "maximum ttl of a role in seconds; 0: the mount's maximum"),
    Field::seconds(
        "last_rotation_tolerance",
        "tolerated lead of the directory's clock, in seconds, before a change counts as external",
    ),
    Field::text("password_policy", "the policy for passwords, instead of length and formatter"),
    Field::whole("length", "deprecated: characters of a password, 14 or more"),
    Field::text("formatter", "deprecated: a text with the placeholder {{PASSWORD}}"),
    Field::seconds("connection_timeout", "seconds to connect in, before the next URL is tried"),
    Field::seconds("request_timeout", "seconds for each answer"),
    Field::flag("starttls", "TLS before anything else is said, for ldap://"),
    Field::flag("insecure_tls", "accept any certificate"),
    Field::text("certificate", "trusted authorities of the server's certificate, in PEM"),
    Field::text("tls_min_version", "tls12 or tls13"),
    Field::text("tls_max_version", "tls12 or tls13"),
    Field::flag(
        "force",
        "replace the password made by rotate-root, although no other password works",
    ),
    Field::flag("verify", "try these settings at the directory, and store nothing"),
];

/// Fields of a removal.
pub(crate) const REMOVAL: &[Field] = &[Field::flag(
    "force",
    "remove the configuration although accounts are lent, or only the engine knows bindpass",
)];

impl Config {
    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        let bindpass = self.bindpass.clone();
        call.merge("url", &mut self.url)?;
        call.merge("binddn", &mut self.binddn)?;
        call.merge("bindpass", &mut self.bindpass)?;
        call.merge("userdn", &mut self.userdn)?;
        call.merge("upndomain", &mut self.upndomain)?;
        call.merge("schema", &mut self.schema)?;
        call.merge("self_rotation", &mut self.self_rotation)?;
        call.merge("ttl", &mut self.ttl)?;
        call.merge("max_ttl", &mut self.max_ttl)?;
        call.merge("last_rotation_tolerance", &mut self.last_rotation_tolerance)?;
        call.merge("connection_timeout", &mut self.connection_timeout)?;
        call.merge("request_timeout", &mut self.request_timeout)?;
        self.has_default_request_timeout &= !call.is_given("request_timeout");
        call.merge("starttls", &mut self.starttls)?;
        call.merge("insecure_tls", &mut self.insecure_tls)?;
        call.merge("certificate", &mut self.certificate)?;
        call.merge("tls_min_version", &mut self.tls_min_version)?;
        call.merge("tls_max_version", &mut self.tls_max_version)?;
        self.merge_passwords(call)?;
        if self.bindpass != bindpass {
            (self.previous_bindpass, self.bindpass_rotated) = (String::new(), None);
        }
        self.fill_in_empty();
        Ok(())
    }

    /// Merges the password rules. Giving a policy resets length and formatter; giving length or
    /// formatter resets the policy.
    fn merge_passwords(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("password_policy", &mut self.password_policy)?;
        let (mut length, mut formatter) = (self.length, self.formatter.clone());
        call.merge("length", &mut length)?;
        call.merge("formatter", &mut formatter)?;
        (self.length, self.formatter) = (length, formatter);
        if !call.text("password_policy").is_empty() {
            (self.length, self.formatter) = (0, String::new());
        } else if call.seconds("length") > 0 || !call.text("formatter").is_empty() {
            self.password_policy = String::new();
        }
        Ok(())
    }

    /// Replaces empty values of required settings with their defaults.
    fn fill_in_empty(&mut self) {
        let usual = Self::default();
        for (text, usual) in [
            (&mut self.url, usual.url),
            (&mut self.schema, usual.schema),
            (&mut self.tls_min_version, usual.tls_min_version),
            (&mut self.tls_max_version, usual.tls_max_version),
        ] {
            if text.trim().is_empty() {
                *text = usual;
            }
        }
        if self.connection_timeout == 0 {
            self.connection_timeout = usual.connection_timeout;
        }
        if self.request_timeout == 0 {
            (self.request_timeout, self.has_default_request_timeout) =
                (usual.request_timeout, true);
        }
    }

    fn check(&self, host: &dyn Host, mount: &Mount) -> Result<(), Failure> {
        servers::check(&self.url)?;
        if ![AD, OPENLDAP].contains(&self.schema.as_str()) {
            let schema = quoted(&self.schema);
            return Err(Failure::invalid(format!("schema {schema} is none of ad and openldap")));
        }
        self.check_login()?;
        self.check_tls(host)?;
        if self.ttl(mount) > self.max_ttl(mount) {
            let (ttl, max) = (show(self.ttl(mount)), show(self.max_ttl(mount)));
            return Err(Failure::invalid(format!(
                "ttl {ttl} is longer than max_ttl {max}; lower ttl or raise max_ttl"
            )));
        }
        passwords::check(&self.password_rules())
    }

    fn check_login(&self) -> Result<(), Failure> {
        let missing = match (self.binddn.trim().is_empty(), self.bindpass.is_empty()) {
            (false, false) => return Ok(()),
            (true, true) if self.self_rotation => return Ok(()),
            (true, _) => "binddn",
            (_, true) => "bindpass",
        };
        Err(Failure::invalid(format!(
            "{missing} is required: the engine logs in by binddn and bindpass, unless \
             self_rotation is on and neither is given"
        )))
    }

    fn check_tls(&self, host: &dyn Host) -> Result<(), Failure> {
        for (name, version) in
            [("tls_min_version", &self.tls_min_version), ("tls_max_version", &self.tls_max_version)]
        {
            if !VERSIONS.contains(&version.as_str()) {
                let version = quoted(version);
                return Err(Failure::invalid(format!(
                    "{name} {version} is none of tls12 and tls13: TLS before 1.2 is broken"
                )));
            }
        }
        if self.tls_min_version > self.tls_max_version {
            return Err(Failure::invalid("tls_min_version is above tls_max_version"));
        }
        // A password that was kept for a certificate that ended since must stay within reach.
        match LoginPlace::of(self).kept(host)?.list_secrets()?.is_empty() {
            true => trusted_certificates::check(host, "certificate", &self.certificate),
            false => Ok(()),
        }
    }

    /// Returns the settings that decide to which servers passwords are sent and how the servers
    /// prove their identity. The order of the URLs counts, too: an unencrypted server after a TLS
    /// server is never asked. The TLS versions do not count: each supported version authenticates
    /// the server equally well.
    fn places(&self, before: &Self) -> [DestinationField<'static>; 4] {
        let is_elsewhere = !servers::of(&before.url).eq(servers::of(&self.url));
        [
            DestinationField::of("url", is_elsewhere),
            DestinationField::of("starttls", self.starttls != before.starttls),
            DestinationField::of("insecure_tls", self.insecure_tls != before.insecure_tls),
            DestinationField::of("certificate", self.certificate != before.certificate),
        ]
    }

    /// Returns warnings for the operator about insecure or ineffective settings.
    fn warnings(&self) -> Vec<String> {
        let insecure = self.insecure_tls.then(|| {
            "insecure_tls is on: any server at the address is trusted with passwords".to_owned()
        });
        let clear = (!self.starttls).then(|| servers::in_clear(&self.url)).flatten().map(|url| {
            let url = quoted(url);
            format!("passwords pass the network in clear to {url}; use ldaps:// or starttls")
        });
        let unasked = (!self.starttls).then(|| servers::never_asked(&self.url)).flatten();
        let unasked = unasked.map(|url| {
            let url = quoted(url);
            format!(
                "{url} is never asked: a server in clear does not replace a server with TLS; use \
                 ldaps:// or starttls"
            )
        });
        insecure.into_iter().chain(clear).chain(unasked).collect()
    }

    /// Returns the reasons not to remove the configuration: work that depends on the configuration,
    /// secrets that would be lost, and the remedy for each.
    fn needs(&self, host: &dyn Host) -> Result<Vec<String>, Failure> {
        let lent = host.leases().count(LANE)?;
        let lent = (lent > 0)
            .then(|| format!("lent accounts to be returned: {lent}; check the accounts in first"));
        let open = !host.storage().keys(CHANGES, "", 1)?.is_empty();
        let open =
            open.then(|| "a password change is in progress; try again in a minute".to_owned());
        let rotated = self.bindpass_rotated.is_some().then(|| {
            "only the engine knows bindpass since rotate-root; give binddn another password in the \
             directory, and write the password as bindpass first"
                .to_owned()
        });
        Ok([lent, open, rotated].into_iter().flatten().collect())
    }

    fn shown(&self, mount: &Mount) -> Map<String, Value> {
        let has_policy = !self.password_policy.is_empty();
        let shown = json!({
            "url": self.url,
            "binddn": self.binddn,
            "userdn": self.userdn,
            "upndomain": self.upndomain,
            "schema": self.schema,
            "self_rotation": self.self_rotation,
            "ttl": self.ttl(mount),
            "max_ttl": self.max_ttl(mount),
            "last_rotation_tolerance": self.last_rotation_tolerance,
            "password_policy": self.password_policy,
            "length": if has_policy { 0 } else { self.length() },
            "formatter": self.formatter,
            "connection_timeout": self.connection_timeout,
            "starttls": self.starttls,
            "insecure_tls": self.insecure_tls,
            "certificate": self.certificate,
            "tls_min_version": self.tls_min_version,
            "tls_max_version": self.tls_max_version,
        });
        let mut shown = match shown {
            Value::Object(shown) => shown,
            _ => Map::new(),
        };
        if !self.has_default_request_timeout {
            shown.insert("request_timeout".to_owned(), json!(self.request_timeout));
        }
        if let Some(rotated) = self.bindpass_rotated.and_then(times::show) {
            shown.insert("last_bind_password_rotation".to_owned(), json!(rotated));
        }
        shown
    }
}

/// Creates or changes the configuration.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let before = Config::find(host)?.unwrap_or_default();
    let mut config = before.clone();
    config.merge(call)?;
    config.check(host, &call.mount)?;
    destination::check(
        call,
        &config.places(&before),
        &[CredentialField::of("bindpass", &before.bindpass)],
    )?;
    // Closes the login's idle sessions and clears the pause after a refused login, so that the
    // directory is asked at once with the new settings.
    host.ldap().close(&config.target());
    if call.flag("verify") {
        return Ok(verify::try_out(host, &config)?.warn(config.warnings()));
    }
    let replacement = kept_bindpass::check_replacement(host, call, (&before, &config))?;
    config.store(host)?;
    figures::begin(host)?;
    if !matches!(replacement, KeptBindpass::ForLaterWrites(_)) {
        rotate_root::try_kept(host, &config)?;
    }
    Ok(Answer::nothing().warn(config.warnings()).warn(replacement.warning()))
}

/// Shows the configuration without `bindpass`.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::find(host)?.ok_or_else(Failure::absent)?;
    Answer::data(&config.shown(&call.mount))
}

/// Removes the configuration, unless something still needs it. Roles, sets and loans stay, and work
/// again when a new configuration is written.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let Some(config) = Config::find(host)? else { return Ok(Answer::nothing()) };
    let needs = config.needs(host)?;
    if !needs.is_empty() && !call.flag("force") {
        return Err(Failure::invalid(format!(
            "the configuration is still needed: {}; or use force=true",
            needs.join("; ")
        )));
    }
    Config::remove(host)?;
    figures::end(host)?;
    host.ldap().close(&config.target());
    let lost = needs.into_iter().map(|need| format!("removed although needed: {need}"));
    Ok(Answer::nothing().warn(lost))
}

#[cfg(test)]
mod tests;
