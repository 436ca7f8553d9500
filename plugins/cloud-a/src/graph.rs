//! Client of the directory API, which manages the mount's application and its passwords.

use crate::cloud::NationalCloud;
use bulkhead_sdk::access_token::ProviderAccess;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{Provider, ProviderRefusal, ProviderUrl, nonsense};
use bulkhead_sdk::{Failure, Host};
use serde::Deserialize;
use serde_json::json;

/// The directory of a cloud, with the mount's access.
pub(crate) struct GraphClient<'a> {
    provider: Provider<'a>,
    cloud: &'static NationalCloud,
    access: ProviderAccess<'a>,
}

/// The part of an application that rotations need.
#[derive(Deserialize)]
pub(crate) struct Application {
    id: String,
    #[serde(rename = "appId")]
    app_id: String,
    #[serde(rename = "passwordCredentials", default)]
    pub(crate) passwords: Vec<PasswordCredential>,
}

/// A password of an application, without its secret.
#[derive(Clone, Deserialize)]
pub(crate) struct PasswordCredential {
    #[serde(rename = "keyId")]
    pub(crate) key_id: String,
    #[serde(rename = "displayName")]
    pub(crate) name: Option<String>,
    /// The secret's first letters; missing for old passwords.
    hint: Option<String>,
}

/// A new password. No `Debug`, because it contains a secret.
#[derive(Deserialize)]
pub(crate) struct AddedPassword {
    #[serde(rename = "keyId")]
    pub(crate) key_id: String,
    #[serde(rename = "secretText")]
    pub(crate) secret: String,
}

#[derive(Deserialize)]
struct ApplicationList {
    value: Vec<Application>,
}

impl Application {
    /// Returns the password that belongs to `secret` if there is no doubt: the password with the id
    /// `key_id`, the only password with a matching hint, or the only password.
    pub(crate) fn password_of(&self, secret: &str, key_id: &str) -> Option<&PasswordCredential> {
        if let Some(password) = self.passwords.iter().find(|one| one.key_id == key_id) {
            return Some(password);
        }
        let may_be = |one: &&PasswordCredential| match one.hint.as_deref() {
            Some(hint) if !hint.is_empty() => secret.starts_with(hint),
            _ => true,
        };
        let mut possible = self.passwords.iter().filter(may_be);
        match (possible.next(), possible.next()) {
            (Some(sole), None) => Some(sole),
            _ => None,
        }
    }
}

impl<'a> GraphClient<'a> {
    /// Creates a client for the directory of `cloud`.
    pub(crate) fn new(
        provider: Provider<'a>,
        cloud: &'static NationalCloud,
        access: ProviderAccess<'a>,
    ) -> Self {
        Self { provider, cloud, access }
    }

    /// Returns the application with this client id.
    ///
    /// # Errors
    /// Invalid request if no application, or more than 1, matches; the provider's refusal.
    pub(crate) fn application(&self, client_id: &str) -> Result<Application, Failure> {
        let filter = format!("appId eq '{client_id}'");
        let url = ProviderUrl::of(self.cloud.graph).path(&["v1.0", "applications"])?;
        let url = url.query("$filter", &filter);
        let request = Request::get(url.text());
        let reply = self.access.send(|token| self.provider.json(&request.clone().bearer(token)));
        let found: ApplicationList = reply.map_err(|why| why.about("find the application"))?;
        let mut found = found.value.into_iter();
        match (found.next(), found.next()) {
            (Some(sole), None) if sole.app_id.eq_ignore_ascii_case(client_id) => Ok(sole),
            (Some(_), None) => Err(nonsense("the answer is about another application")),
            (None, _) => Err(Failure::invalid("no application found: check client_id")),
            _ => Err(Failure::invalid("multiple applications found: check client_id")),
        }
    }

    /// Creates a password with this name that expires at `end`, an RFC 3339 time.
    pub(crate) fn add(
        &self,
        application: &Application,
        name: &str,
        end: &str,
    ) -> Result<AddedPassword, ProviderRefusal> {
        let body = json!({"passwordCredential": {"displayName": name, "endDateTime": end}});
        let request =
            self.post(application, "addPassword", &body).map_err(ProviderRefusal::Unasked)?;
        let sent = self.access.send(|token| self.provider.json(&request.clone().bearer(token)));
        let added: AddedPassword = sent?;
        match added.secret.is_empty() || added.key_id.is_empty() {
            true => Err(ProviderRefusal::Nonsense(nonsense("a new password has no secret"))),
            false => Ok(added),
        }
    }

    /// Removes a password. A missing password counts as removed.
    pub(crate) fn remove(&self, application: &Application, key_id: &str) -> Result<(), Failure> {
        let request = self.post(application, "removePassword", &json!({"keyId": key_id}))?;
        match self.access.send(|token| self.provider.ask(&request.clone().bearer(token))) {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.is(404) => Ok(()),
            Err(refusal) => Err(refusal.about("remove a password of the application")),
        }
    }

    fn post(
        &self,
        application: &Application,
        act: &'static str,
        body: &serde_json::Value,
    ) -> Result<Request, Failure> {
        let url = ProviderUrl::of(self.cloud.graph);
        let url = url.path(&["v1.0", "applications", &application.id, act])?;
        Request::post(url.text()).json(body)
    }

    /// Returns the host of this client's requests.
    pub(crate) fn host(&self) -> &'a dyn Host {
        self.provider.host()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(passwords: &serde_json::Value) -> Application {
        let body = json!({"id": "o", "appId": "a", "passwordCredentials": passwords});
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn secret_password_is_identified_only_if_unambiguous() {
        let of = |passwords: serde_json::Value, key_id: &str| {
            let found = application(&passwords);
            found.password_of("abc-secret", key_id).map(|one| one.key_id.clone())
        };
        let (ours, other) =
            (json!({"keyId": "1", "hint": "abc"}), json!({"keyId": "2", "hint": "x"}));
        let unhinted = json!({"keyId": "3", "hint": null, "displayName": null});
        assert_eq!(of(json!([ours, other]), "").as_deref(), Some("1"));
        assert_eq!(of(json!([unhinted]), "").as_deref(), Some("3"));
        assert_eq!(of(json!([ours, unhinted]), ""), None);
        assert_eq!(of(json!([ours, unhinted]), "3").as_deref(), Some("3"));
        assert_eq!(of(json!([ours, {"keyId": "4", "hint": "abc"}]), ""), None);
        assert_eq!(of(json!([other]), ""), None);
        assert_eq!(of(json!([]), "1"), None);
    }
}
