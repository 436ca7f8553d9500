//! Client of the resource manager.
//!
//! This file prevents two attacks: an answer about another resource than the requested resource,
//! and a list that never ends or continues on another server. Every requested id was parsed part by
//! part by [`ArmId`].

use crate::arm_id::ArmId;
use crate::cloud::NationalCloud;
use bulkhead_sdk::Failure;
use bulkhead_sdk::access_token::ProviderAccess;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{Provider, ProviderRefusal, ProviderUrl, nonsense};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Version of the API for each kind of request.
const COMPUTE: &str = "2023-07-01";
const IDENTITIES: &str = "2023-01-31";
const PROVIDERS: &str = "2021-04-01";
/// API version for resource types without a usable version.
const UNKNOWN_TYPE: &str = "2022-03-01";
/// Seconds for which the API version of a resource type is cached.
const VERSION_TTL: u32 = 86_400;
/// Maximum number of pages of a list, and maximum length of a link to the next page in bytes.
const PAGES: u32 = 20;
const LINK_BYTES: usize = 4_096;

/// The resource manager of a cloud, with the mount's access.
pub(crate) struct ResourceManager<'a> {
    provider: Provider<'a>,
    cloud: &'static NationalCloud,
    access: ProviderAccess<'a>,
}

/// The part of a resource that logins need.
#[derive(Debug, Deserialize)]
pub(crate) struct ArmResource {
    id: String,
    #[serde(default)]
    pub(crate) location: Option<String>,
    pub(crate) identity: Option<ResourceIdentity>,
}

/// A virtual machine.
#[derive(Debug, Deserialize)]
pub(crate) struct VirtualMachine {
    #[serde(flatten)]
    pub(crate) resource: ArmResource,
    properties: Option<MachineProperties>,
}

#[derive(Debug, Deserialize)]
struct MachineProperties {
    #[serde(rename = "virtualMachineScaleSet")]
    scale_set: Option<ResourceReference>,
}

#[derive(Debug, Deserialize)]
struct ResourceReference {
    id: String,
}

/// The identities of a resource.
#[derive(Debug, Deserialize)]
pub(crate) struct ResourceIdentity {
    /// Principal of the system-assigned identity.
    #[serde(rename = "principalId")]
    pub(crate) principal_id: Option<String>,
    /// User-assigned identities, by id.
    #[serde(rename = "userAssignedIdentities", default)]
    pub(crate) given: Option<BTreeMap<String, Option<GivenIdentity>>>,
}

/// A user-assigned identity. Flexible scale sets leave the value empty.
#[derive(Debug, Deserialize)]
pub(crate) struct GivenIdentity {
    #[serde(rename = "principalId")]
    pub(crate) principal_id: Option<String>,
}

/// A user-assigned identity as a separate resource.
#[derive(Debug, Deserialize)]
pub(crate) struct UserAssignedIdentity {
    id: String,
    properties: Option<IdentityProperties>,
}

#[derive(Debug, Deserialize)]
struct IdentityProperties {
    #[serde(rename = "principalId")]
    principal_id: Option<String>,
    #[serde(rename = "clientId")]
    client_id: Option<String>,
}

#[derive(Deserialize)]
struct IdentityPage {
    value: Vec<UserAssignedIdentity>,
    #[serde(rename = "nextLink")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct ResourceProvider {
    #[serde(rename = "resourceTypes", default)]
    types: Vec<ResourceType>,
}

#[derive(Deserialize)]
struct ResourceType {
    #[serde(rename = "resourceType")]
    name: String,
    #[serde(rename = "apiVersions", default)]
    versions: Vec<String>,
}

/// An answer that contains the id of its resource.
trait IdentifiedAnswer {
    fn id(&self) -> &str;
}

impl IdentifiedAnswer for ArmResource {
    fn id(&self) -> &str {
        &self.id
    }
}

impl IdentifiedAnswer for VirtualMachine {
    fn id(&self) -> &str {
        &self.resource.id
    }
}

impl IdentifiedAnswer for UserAssignedIdentity {
    fn id(&self) -> &str {
        &self.id
    }
}

impl VirtualMachine {
    /// Returns the scale set that the machine belongs to.
    pub(crate) fn scale_set(&self) -> Option<ArmId> {
        ArmId::parse(&self.properties.as_ref()?.scale_set.as_ref()?.id)
    }
}

impl UserAssignedIdentity {
    /// Returns the identity's id as spelled by the manager.
    pub(crate) fn arm_id(&self) -> Option<ArmId> {
        ArmId::parse(&self.id)
    }

    /// Returns the object id of the identity's principal.
    pub(crate) fn principal_id(&self) -> Option<&str> {
        self.properties.as_ref()?.principal_id.as_deref()
    }

    /// Returns the client id of the identity's application.
    pub(crate) fn client_id(&self) -> Option<&str> {
        self.properties.as_ref()?.client_id.as_deref()
    }
}

impl<'a> ResourceManager<'a> {
    /// Creates a client for the manager of `cloud`.
    pub(crate) fn new(
        provider: Provider<'a>,
        cloud: &'static NationalCloud,
        access: ProviderAccess<'a>,
    ) -> Self {
        Self { provider, cloud, access }
    }

    /// Fetches a virtual machine.
    pub(crate) fn machine(&self, id: &ArmId) -> Result<VirtualMachine, ProviderRefusal> {
        self.get(id, COMPUTE)
    }

    /// Fetches a scale set.
    pub(crate) fn scale_set(&self, id: &ArmId) -> Result<ArmResource, ProviderRefusal> {
        self.get(id, COMPUTE)
    }

    /// Fetches an identity.
    pub(crate) fn identity(&self, id: &ArmId) -> Result<UserAssignedIdentity, ProviderRefusal> {
        self.get(id, IDENTITIES)
    }

    /// Fetches a resource of any type.
    pub(crate) fn resource(&self, id: &ArmId) -> Result<ArmResource, ProviderRefusal> {
        self.get(id, &self.version(id)?)
    }

    /// Returns the first identity of a resource group that satisfies `is_wanted`.
    pub(crate) fn find_identity(
        &self,
        subscription: &str,
        group: &str,
        is_wanted: impl Fn(&UserAssignedIdentity) -> bool,
    ) -> Result<Option<UserAssignedIdentity>, ProviderRefusal> {
        let first = self.url(&[
            "subscriptions",
            subscription,
            "resourceGroups",
            group,
            "providers",
            "Microsoft.ManagedIdentity",
            "userAssignedIdentities",
        ])?;
        let mut next = first.query("api-version", IDENTITIES).text().to_owned();
        for _ in 0..PAGES {
            let page: IdentityPage = self.ask(&next)?;
            if let Some(found) = page.value.into_iter().find(&is_wanted) {
                return Ok(Some(found));
            }
            match page.next {
                Some(link) if !link.is_empty() => next = self.own_link(link)?,
                _ => return Ok(None),
            }
        }
        Err(ProviderRefusal::Nonsense(nonsense("a list of identities has more than 20 pages")))
    }

    /// Accepts a link to the next page only if the link stays on the manager's own server.
    fn own_link(&self, link: String) -> Result<String, ProviderRefusal> {
        let path = link.strip_prefix(self.cloud.manager).unwrap_or_default();
        let is_own = path.starts_with("/subscriptions/") && link.len() <= LINK_BYTES;
        match is_own && link.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            true => Ok(link),
            false => Err(ProviderRefusal::Nonsense(nonsense("a list goes on at another server"))),
        }
    }

    fn get<T: DeserializeOwned + IdentifiedAnswer>(
        &self,
        id: &ArmId,
        version: &str,
    ) -> Result<T, ProviderRefusal> {
        let url = self.url(&id.segments())?.query("api-version", version);
        let found: T = self.ask(url.text())?;
        match ArmId::parse(found.id()).as_ref() == Some(id) {
            true => Ok(found),
            false => {
                Err(ProviderRefusal::Nonsense(nonsense("the answer is about another resource")))
            }
        }
    }

    /// Returns the API version for the type of `id`: the first version that is not a preview.
    fn version(&self, id: &ArmId) -> Result<String, ProviderRefusal> {
        let (wanted, namespace) = (id.type_below(), id.namespace());
        let key = format!(
            "api-version/{}/{}/{namespace}/{wanted}",
            self.cloud.manager,
            id.subscription()
        );
        let cache = self.provider.host().cache();
        let hashed = self.provider.host().crypto().digest("sha256", key.as_bytes());
        let hashed = hashed.map_err(ProviderRefusal::Unasked)?;
        let key = format!("api-version/{}", bulkhead_sdk::wire::hexadecimal::text(&hashed));
        if let Some(bytes) = cache.get(&key).map_err(ProviderRefusal::Unasked)? {
            return Ok(String::from_utf8(bytes).unwrap_or_else(|_| UNKNOWN_TYPE.to_owned()));
        }
        let url = self.url(&["subscriptions", id.subscription(), "providers", id.namespace()])?;
        let url = url.query("api-version", PROVIDERS);
        let found: ResourceProvider = self.ask(url.text())?;
        let of_type = found.types.into_iter().find(|of| of.name.eq_ignore_ascii_case(&wanted));
        let is_version = |version: &String| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !version.contains("preview") && version.len() <= 32 && version.bytes().all(is_plain)
        };
        let version = of_type.and_then(|of| of.versions.into_iter().find(is_version));
        let version = version.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
        cache.put(&key, version.as_bytes(), VERSION_TTL).map_err(ProviderRefusal::Unasked)?;
        Ok(version)
    }

    fn ask<T: DeserializeOwned>(&self, url: &str) -> Result<T, ProviderRefusal> {
        self.access.send(|token| self.provider.json(&Request::get(url).bearer(token)))
    }

    fn url(&self, segments: &[&str]) -> Result<ProviderUrl, ProviderRefusal> {
        ProviderUrl::of(self.cloud.manager).path(segments).map_err(ProviderRefusal::Unasked)
    }

    /// Logs that a machine of a scale set could not be read. The documented permissions for scale
    /// sets do not include reading the machine.
    pub(crate) fn note_unread_machine(&self, id: &ArmId) {
        let host = self.provider.host();
        let id = id.to_string();
        host.log().write(
            bulkhead_sdk::host::LogLevel::Info,
            "scale-set-by-name",
            &[("machine", id.as_str())],
        );
    }
}

/// Turns a refusal about a resource into a failure for the caller.
pub(crate) fn about(refusal: ProviderRefusal, id: &ArmId, what: &str) -> Failure {
    refusal.about(&format!("retrieve the {what} {:?}", id.name()))
}
