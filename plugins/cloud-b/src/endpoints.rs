//! Endpoints of the provider's services: public names, or the values of `custom_endpoint`.
//!
//! This file prevents a configuration from sending access tokens or key requests to an address that
//! only this machine can reach.

use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Grants requested by this method. A login to a role that is bound to instance groups asks for
/// several pages of each group.
pub(crate) const ASKS: &[&str] = &[
    "http",
    "identity:token",
    "ambient:cloud-token",
    "crypto:sign",
    "limit:http-calls=200",
    "limit:http-bytes=64MiB",
];

/// Domain of the provider's services, including private service connections.
const PROVIDER: &str = "googleapis.com";
/// Maximum length of an endpoint, in bytes.
const LONGEST: usize = 512;

/// A service with a configurable endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloudService {
    /// The API with the keys that verify logins.
    Api,
    Iam,
    /// Resource Manager: the ancestors of a project.
    Crm,
    Compute,
}

impl CloudService {
    const ALL: [Self; 4] = [Self::Api, Self::Iam, Self::Crm, Self::Compute];

    fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Iam => "iam",
            Self::Crm => "crm",
            Self::Compute => "compute",
        }
    }

    fn host(self) -> &'static str {
        match self {
            Self::Api => "www.googleapis.com",
            Self::Iam => "iam.googleapis.com",
            Self::Crm => "cloudresourcemanager.googleapis.com",
            Self::Compute => "compute.googleapis.com",
        }
    }

    /// Returns the prefix of the service's paths.
    fn path(self) -> &'static str {
        match self {
            Self::Compute => "/compute/v1",
            Self::Api | Self::Iam | Self::Crm => "",
        }
    }

    /// Returns the service's base URL without a trailing slash.
    ///
    /// # Errors
    /// The fault of the configured endpoint.
    pub(crate) fn base(self, custom: &BTreeMap<String, String>) -> Result<String, Failure> {
        match custom.get(self.word()) {
            None => Ok(format!("https://{}{}", self.host(), self.path())),
            Some(text) => read(self, text),
        }
    }
}

/// Merges the given endpoints into the configured endpoints key by key; an empty value removes its
/// key.
///
/// # Errors
/// The fault of an endpoint.
pub(crate) fn merge(
    given: &BTreeMap<String, String>,
    into: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    for (word, text) in given {
        let Some(service) = CloudService::ALL.into_iter().find(|service| service.word() == word)
        else {
            let word = quoted(word);
            return Err(Failure::invalid(format!(
                "invalid custom endpoint type {word}. Available types are: 'api', 'iam', 'crm', \
                 'compute'"
            )));
        };
        if text.is_empty() {
            into.remove(word);
            continue;
        }
        read(service, text)?;
        into.insert(word.clone(), text.clone());
    }
    Ok(())
}

/// Returns the first service whose configured endpoint is outside the provider's domain.
///
/// Such an endpoint receives access tokens only by `credentials` of the same write. With a token of
/// this machine, or of the account that trusts this machine, the caller who writes the endpoint
/// could act as the machine.
pub(crate) fn foreign(custom: &BTreeMap<String, String>) -> Option<&str> {
    let is_own = |text: &str| {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default().to_ascii_lowercase();
        host_of(&authority)
            .is_some_and(|host| host == PROVIDER || host.ends_with(&format!(".{PROVIDER}")))
    };
    custom.iter().find(|(_, text)| !is_own(text)).map(|(word, _)| word.as_str())
}

/// Parses an endpoint `scheme://host:port/path`; only the host is required. Without a path, the
/// service keeps its default path.
fn read(service: CloudService, text: &str) -> Result<String, Failure> {
    let unfit = |why: &str| {
        let (word, text) = (service.word(), quoted(text));
        Failure::invalid(format!("custom_endpoint {word}: {text} {why}"))
    };
    if text.len() > LONGEST {
        return Err(unfit("is longer than 512 bytes"));
    }
    let rest = match text.split_once("://") {
        None => text,
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => rest,
        Some(_) => {
            return Err(unfit("does not begin with https://: access tokens go there"));
        }
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    if !path.bytes().all(is_plain)
        || path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(unfit("has an invalid path; give names joined by slashes"));
    }
    let path = if path.is_empty() { service.path() } else { path };
    let authority = authority.to_ascii_lowercase();
    let host = host_of(&authority).ok_or_else(|| unfit("has no host, or a bad port"))?;
    if !is_reachable(host) {
        return Err(unfit("is private, loopback, link-local or reserved; use a public name"));
    }
    Ok(format!("https://{authority}{path}"))
}

/// Returns the host of an authority with a valid or no port; an IPv6 address keeps its brackets.
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')?.checked_add(2)?,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end)?;
    let is_sound = match port.strip_prefix(':') {
        Some(digits) => {
            digits.bytes().all(|byte| byte.is_ascii_digit())
                && digits.parse::<u16>().is_ok_and(|port| port > 0)
        }
        None => port.is_empty(),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_host = host.starts_with('[') || host.split('.').all(is_label);
    (is_sound && is_host).then_some(host)
}

/// Tells if a host is a name or a public address. The sandbox checks the addresses of a name.
fn is_reachable(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse().is_ok_and(is_public_v6);
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    // Some URL parsers read `127.1`, `0x7f000001` and `2130706433` as addresses.
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    match is_number {
        true => host.parse().is_ok_and(is_public_v4),
        false => last != "localhost" && host != "metadata" && host != "metadata.google.internal",
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // 2000::/3, except addresses that embed an IPv4 address (6to4, Teredo).
    first & 0xe000 == 0x2000 && first != 0x2002 && (first, second) != (0x2001, 0)
}

#[cfg(test)]
mod tests;
