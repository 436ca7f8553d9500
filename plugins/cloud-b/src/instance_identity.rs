//! Claims of an identity token about the instance that requested the token. Only provider-signed
//! tokens are trusted about instances.

use crate::proof::{ProvenToken, TokenSigner};
use bulkhead_sdk::Failure;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::jwt::Claims;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length of a name, in bytes.
const LONGEST: usize = 128;
/// Tolerated difference between the clocks of the provider and this server, in seconds.
const CLOCK_TOLERANCE_SECS: i64 = 60;

/// An instance as named by the claims `google.compute_engine`. Part of stored records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceIdentity {
    pub(crate) project_id: String,
    #[serde(default)]
    pub(crate) project_number: u64,
    pub(crate) zone: String,
    /// A number in digits.
    pub(crate) instance_id: String,
    pub(crate) instance_name: String,
    /// Seconds since 1970.
    pub(crate) instance_creation_timestamp: i64,
}

impl InstanceIdentity {
    /// Returns the instance of a proof.
    ///
    /// # Errors
    /// As [`claimed`](Self::claimed), and for a token that the provider did not sign.
    pub(crate) fn of(proof: &ProvenToken, now: StoreTime) -> Result<Self, Failure> {
        match proof.signer {
            TokenSigner::Provider => Self::claimed(&proof.claims, now),
            TokenSigner::Account => Err(missing()),
        }
    }

    /// Returns the instance in claims, proven or not.
    ///
    /// # Errors
    /// Invalid request if the claims name no instance, differ from the provider's form, or name an
    /// instance of the future.
    pub(crate) fn claimed(claims: &Claims, now: StoreTime) -> Result<Self, Failure> {
        let claims = claims.all().get("google").and_then(|all| all.get("compute_engine"));
        let claims = claims.filter(|claims| **claims != Value::Null).ok_or_else(missing)?;
        let unfit =
            || Failure::invalid("the GCE metadata of the JWT is not in the provider's format");
        let read = Self::deserialize(claims).map_err(|_| unfit())?;
        if !read.is_sound() {
            return Err(unfit());
        }
        let latest =
            i64::try_from(now / 1_000).unwrap_or(i64::MAX).saturating_add(CLOCK_TOLERANCE_SECS);
        match read.instance_creation_timestamp > latest {
            true => Err(Failure::invalid(
                "the GCE metadata of the JWT gives an instance made in the future: compare the \
                 clock of this server with the provider's",
            )),
            false => Ok(read),
        }
    }

    /// Tells if all names are well-formed, because they go into URLs.
    fn is_sound(&self) -> bool {
        let is_name = |name: &str, marks: &[u8]| {
            (1..=LONGEST).contains(&name.len())
                && name.starts_with(|first: char| first.is_ascii_alphanumeric())
                && name.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || marks.contains(&byte)
                })
        };
        is_name(&self.project_id, b"-.:")
            && is_name(&self.zone, b"-")
            && is_name(&self.instance_name, b"-")
            && is_name(&self.instance_id, b"")
            && self.instance_id.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Returns the region of the zone: `us-east1` for `us-east1-b`.
    pub(crate) fn region(&self) -> &str {
        self.zone.rsplit_once('-').map_or("", |(region, _)| region)
    }

    /// Returns the instance's path: `projects/p/zones/z/instances/n`.
    pub(crate) fn place(&self) -> String {
        let Self { project_id, zone, instance_name, .. } = self;
        format!("projects/{project_id}/zones/{zone}/instances/{instance_name}")
    }
}

fn missing() -> Failure {
    Failure::invalid(
        "expected JWT to have claims with GCE metadata: ask the metadata server for an identity \
         token with format=full",
    )
}

/// Returns the instance's path from a link to an instance on any server.
pub(crate) fn place_of(link: &str) -> Option<String> {
    let parts: Vec<&str> = link.rsplitn(7, '/').collect();
    match parts.as_slice() {
        [name, "instances", zone, "zones", project, "projects", ..] => {
            Some(format!("projects/{project}/zones/{zone}/instances/{name}"))
        }
        _ => None,
    }
}
