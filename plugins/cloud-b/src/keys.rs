//! Keys of a service account at the provider: listing, creation and removal.

use crate::cloud::CloudClient;
use crate::credentials::ServiceAccountKey;
use crate::endpoints::CloudService;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bulkhead_sdk::Failure;
use bulkhead_sdk::access_token::ProviderAccess;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{ProviderRefusal, nonsense};
use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A key in a list of keys.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedKey {
    /// `projects/p/serviceAccounts/e/keys/id`.
    name: String,
    #[serde(default)]
    valid_after_time: String,
}

#[derive(Deserialize)]
struct KeyList {
    #[serde(default)]
    keys: Vec<ListedKey>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedKey {
    /// The key file, in base64.
    private_key_data: String,
}

impl ListedKey {
    /// Returns the key id in tokens signed with this key.
    pub(crate) fn id(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(_, id)| id)
    }

    /// Returns the time of creation, if the provider states the time.
    pub(crate) fn creation_time(&self) -> Option<StoreTime> {
        let time = OffsetDateTime::parse(&self.valid_after_time, &Rfc3339).ok()?;
        u64::try_from(time.unix_timestamp()).ok().map(|seconds| seconds.saturating_mul(1_000))
    }
}

/// Lists the user-managed keys of an account; the provider's own keys are left out.
pub(crate) fn list(
    cloud: &CloudClient<'_>,
    account: &str,
) -> Result<Result<Vec<ListedKey>, ProviderRefusal>, Failure> {
    let path = ["v1", "projects", "-", "serviceAccounts", account, "keys"];
    let url = cloud.url(CloudService::Iam, &path)?.query("keyTypes", "USER_MANAGED");
    Ok(cloud.get::<KeyList>(&url)?.map(|list| list.keys))
}

/// Creates another key of an account. This is an effect, and the only answer that contains the key.
pub(crate) fn make(
    cloud: &CloudClient<'_>,
    account: &str,
) -> Result<Result<ServiceAccountKey, ProviderRefusal>, Failure> {
    let path = ["v1", "projects", "-", "serviceAccounts", account, "keys"];
    let url = cloud.url(CloudService::Iam, &path)?;
    let wanted = json!({
        "keyAlgorithm": "KEY_ALG_RSA_2048",
        "privateKeyType": "TYPE_GOOGLE_CREDENTIALS_FILE",
    });
    let request = Request::post(url.text()).json(&wanted)?;
    let access = cloud.access()?;
    let reply = access.send(|token| cloud.provider.json(&request.clone().bearer(token)));
    let created_key: CreatedKey = match reply {
        Ok(key) => key,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let file = BASE64_STANDARD.decode(&created_key.private_key_data).ok();
    let file = file.and_then(|file| String::from_utf8(file).ok());
    let file = file.ok_or_else(|| nonsense("failed to decode credentials of the new key"))?;
    let key = ServiceAccountKey::read(cloud.host(), &file)
        .map_err(|_| nonsense("api returned invalid credentials"))?;
    match key.client_email == account {
        true => Ok(Ok(key)),
        false => Err(nonsense("the new key is of another service account")),
    }
}

/// Removes a key of an account. A missing key counts as removed.
pub(crate) fn remove(
    cloud: &CloudClient<'_>,
    access: &ProviderAccess<'_>,
    account: &str,
    id: &str,
) -> Result<Result<(), ProviderRefusal>, Failure> {
    let path = ["v1", "projects", "-", "serviceAccounts", account, "keys", id];
    let request = Request::new("DELETE", cloud.url(CloudService::Iam, &path)?.text());
    match access.send(|token| cloud.provider.ask(&request.clone().bearer(token))) {
        Ok(_) => Ok(Ok(())),
        Err(refusal) if refusal.is(404) => Ok(Ok(())),
        Err(refusal) => Ok(Err(refusal)),
    }
}
