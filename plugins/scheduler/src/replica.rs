//! Records of a replica: marks of forwarded writes, and tokens of the authoritative region.

use crate::caller::forget_secret;
use crate::index::RecordTable;
use crate::names::is_uuid;
use crate::query::go_duration;
use crate::token::{Token, TokenType};
use crate::token_records;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Deserializer, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds for which a forwarded write is protected against older listings; longer than any
/// listing takes.
const FORWARD_PROTECTION_MS: u64 = 60_000;

/// Mark of a record that was stored by a forwarded write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForwardedMark {
    /// Index of the write in the authoritative region.
    pub(crate) index: u64,
    /// Store time at which the protection ends. The limit is needed because the authoritative
    /// region may have been restored to an older index.
    pub(crate) until: StoreTime,
}

bulkhead_sdk::stored!(ForwardedMark, "forwarded-write", reads_stored_forwarded_writes);

impl ForwardedMark {
    /// Returns the key prefix of a table's marks.
    #[must_use]
    pub(crate) const fn folder(table: RecordTable) -> &'static str {
        match table {
            RecordTable::Policies => "forwarded/policies/",
            RecordTable::Roles => "forwarded/roles/",
            RecordTable::Tokens => "forwarded/tokens/",
        }
    }

    /// Marks the record `id` as written at `index`.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn mark(
        host: &dyn Host,
        table: RecordTable,
        id: &str,
        index: u64,
    ) -> Result<(), Failure> {
        let until = host.clock().now().saturating_add(FORWARD_PROTECTION_MS);
        host.storage().put(&format!("{}{id}", Self::folder(table)), &Self { index, until })
    }

    /// Returns true if a listing at `index` is older than the write.
    #[must_use]
    pub(crate) fn is_ahead_of(&self, index: u64, now: StoreTime) -> bool {
        self.index > index && now < self.until
    }
}

/// A token as shown by the authoritative region. No `Debug`: it contains the secret.
pub(crate) struct RemoteToken {
    pub(crate) accessor: String,
    pub(crate) token: Token,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceivedToken {
    #[serde(rename = "AccessorID")]
    accessor_id: String,
    #[serde(rename = "SecretID")]
    secret_id: String,
    #[serde(default)]
    name: String,
    r#type: TokenType,
    #[serde(default, deserialize_with = "or_default")]
    policies: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    roles: Vec<ReceivedLink>,
    #[serde(default)]
    global: bool,
    create_time: String,
    expiration_time: Option<String>,
    #[serde(default, rename = "ExpirationTTL")]
    expiration_ttl: String,
}

#[derive(Deserialize)]
struct ReceivedLink {
    #[serde(rename = "ID")]
    id: String,
}

/// Deserializes null as the default value.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl RemoteToken {
    /// Parses the token in an answer's body.
    ///
    /// # Errors
    /// Unreachable for any other body. The body is not quoted, because it contains a secret.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Failure> {
        let unfit = || crate::authority::unfit("the answer is not a token".to_owned());
        let shown: ReceivedToken = serde_json::from_slice(body).map_err(|_| unfit())?;
        let is_known = is_uuid(&shown.accessor_id) && is_uuid(&shown.secret_id);
        let roles: Vec<String> = shown.roles.into_iter().map(|link| link.id).collect();
        if !is_known || !roles.iter().all(|id| is_uuid(id)) {
            return Err(unfit());
        }
        let ttl = go_duration(&shown.expiration_ttl).unwrap_or_default();
        let token = Token {
            secret: shown.secret_id,
            name: shown.name,
            kind: shown.r#type,
            policies: shown.policies,
            roles,
            global: shown.global,
            created: store_time(&shown.create_time).ok_or_else(unfit)?,
            expires: match shown.expiration_time.filter(|text| !text.is_empty()) {
                Some(text) => Some(store_time(&text).ok_or_else(unfit)?),
                None => None,
            },
            ttl_nanoseconds: u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX),
        };
        Ok(Self { accessor: shown.accessor_id, token })
    }
}

/// Parses a time in RFC 3339; `None` for any other text.
pub(crate) fn store_time(text: &str) -> Option<StoreTime> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos().max(0) / 1_000_000).ok()
}

/// Stores a token of the authoritative region in place of `before`, without a commit.
///
/// # Errors
/// Failures of the store.
pub(crate) fn put_token(
    host: &dyn Host,
    remote: &RemoteToken,
    before: Option<&Token>,
) -> Result<(), Failure> {
    if let Some(before) = before.filter(|before| before.secret != remote.token.secret) {
        forget_secret(host, &before.secret)?;
    }
    token_records::place(host, &remote.accessor, &remote.token)
}
