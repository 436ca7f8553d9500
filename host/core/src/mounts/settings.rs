//! Tunable settings of a mount, and the lifetimes of its leases.

use super::version::{ProbationSettings, VersionSelection};
use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_access::lockouts::LockoutPolicy;
use bulkhead_sandbox::Grant;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The settings of a mount. Lifetimes are in seconds; 0 means the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountSettings {
    /// Free text for the listings of mounts.
    pub description: String,
    /// Options for the component.
    pub options: BTreeMap<String, String>,
    /// Lifetime of leases and login tokens that ask for none.
    pub default_ttl: u64,
    /// Maximum lifetime of leases and login tokens; may exceed the system's.
    pub max_ttl: u64,
    /// Stored and shown, without effect.
    pub force_no_cache: bool,
    /// Keys of requests that audit devices log unhashed.
    pub audit_non_hmac_request_keys: Vec<String>,
    /// Keys of responses that audit devices log unhashed.
    pub audit_non_hmac_response_keys: Vec<String>,
    /// Callers that see the mount in the listing for user interfaces.
    pub listing_visibility: ListingVisibility,
    /// Stored and shown, without effect.
    pub passthrough_request_headers: Vec<String>,
    /// Stored and shown, without effect.
    pub allowed_response_headers: Vec<String>,
    /// Type of the tokens that logins create; auth methods only.
    pub token_type: LoginTokenType,
    /// The OIDC key that signs the mount's identity tokens; empty: the default key.
    pub identity_token_key: String,
    /// Stored and shown, without effect.
    pub delegated_auth_accessors: Vec<String>,
    /// Version of the plugin chosen by the operator, if any.
    #[serde(flatten)]
    pub selection: VersionSelection,
    /// Length of the probation of a new version, and the reaction to its crashes.
    #[serde(flatten)]
    pub probation: ProbationSettings,
    /// Grants of the mount's plugin; `None` if the operator set none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<Grant>>,
    /// Lockout policy for names; auth methods only. `None`: the default policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_lockout: Option<LockoutPolicy>,
}

/// The callers that see the mount in `sys/internal/ui/mounts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListingVisibility {
    /// Callers with a token that may do something below the mount.
    #[default]
    Usual,
    /// The same callers as [`ListingVisibility::Usual`], set explicitly.
    Hidden,
    /// Every caller, even without a token.
    Unauth,
}

impl ListingVisibility {
    /// Returns the word in the API; empty for [`ListingVisibility::Usual`].
    pub fn word(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Hidden => "hidden",
            Self::Unauth => "unauth",
        }
    }

    /// Parses a word of the API.
    ///
    /// # Errors
    /// 400 that names the valid words.
    pub fn of_word(word: &str) -> Result<Self, Failure> {
        let all = [Self::Usual, Self::Hidden, Self::Unauth];
        all.into_iter().find(|one| one.word() == word).ok_or_else(|| {
            let word = quoted(word);
            Failure::invalid(format!(
                "listing_visibility {word} is unknown: give \"hidden\", \"unauth\" or \"\""
            ))
        })
    }
}

/// Type of the tokens that logins at the mount create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoginTokenType {
    /// Service tokens, unless the role asks for batch tokens.
    #[default]
    DefaultService,
    /// Batch tokens, unless the role asks for service tokens.
    DefaultBatch,
    /// Service tokens, regardless of the role.
    Service,
    /// Batch tokens, regardless of the role.
    Batch,
}

impl LoginTokenType {
    /// Returns the word in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::DefaultService => "default-service",
            Self::DefaultBatch => "default-batch",
            Self::Service => "service",
            Self::Batch => "batch",
        }
    }

    /// Parses a word of the API; an empty word means the default type.
    ///
    /// # Errors
    /// 400 that names the valid words.
    pub fn of_word(word: &str) -> Result<Self, Failure> {
        if word.is_empty() {
            return Ok(Self::default());
        }
        let all = [Self::DefaultService, Self::DefaultBatch, Self::Service, Self::Batch];
        all.into_iter().find(|one| one.word() == word).ok_or_else(|| {
            let words = all.map(Self::word).join(", ");
            Failure::invalid(format!("token_type {} is unknown: give one of {words}", quoted(word)))
        })
    }
}

impl MountSettings {
    /// Returns the effective lifetimes: the mount's own, or the system's if the mount has none.
    pub fn lifetimes(&self, system: Lifetimes) -> Lifetimes {
        let or = |own: u64, system: u64| if own == 0 { system } else { own };
        let max = or(self.max_ttl, system.max);
        Lifetimes { default: or(self.default_ttl, system.default).min(max), max }
    }

    /// Refuses a default lifetime above the maximum (decision H6). A mount's own maximum may exceed
    /// the system's; its default alone may not.
    ///
    /// # Errors
    /// 400 with both lifetimes.
    pub fn check(&self, system: Lifetimes) -> Result<(), Failure> {
        let (longest, bound) = match self.max_ttl {
            0 => (system.max, "the system's maximum"),
            own => (own, "the mount's max_lease_ttl"),
        };
        if self.default_ttl <= longest {
            return Ok(());
        }
        let (default, longest) = (duration::show(self.default_ttl), duration::show(longest));
        Err(Failure::invalid(format!(
            "default_lease_ttl {default} is longer than {bound} of {longest}; lower \
             default_lease_ttl or raise max_lease_ttl"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: Lifetimes = Lifetimes { default: 100, max: 200 };

    fn settings(default_ttl: u64, max_ttl: u64) -> MountSettings {
        MountSettings { default_ttl, max_ttl, ..MountSettings::default() }
    }

    #[test]
    fn a_mounts_own_lifetimes_come_before_the_systems() {
        for (default, max, expected) in [
            (0, 0, (100, 200)),
            (50, 0, (50, 200)),
            (0, 50, (50, 50)),
            (0, 900, (100, 900)),
            (300, 900, (300, 900)),
        ] {
            let lifetimes = settings(default, max).lifetimes(SYSTEM);
            assert_eq!((lifetimes.default, lifetimes.max), expected, "{default} {max}");
        }
    }

    #[test]
    fn a_default_is_never_longer_than_the_longest() {
        for (default, max) in [(0, 0), (200, 0), (300, 300), (300, 900), (0, 50)] {
            assert!(settings(default, max).check(SYSTEM).is_ok(), "{default} {max}");
        }
        let why = settings(201, 0).check(SYSTEM).unwrap_err().message;
        assert!(why.contains("3m21s") && why.contains("system's maximum of 3m20s"), "{why}");
        let why = settings(51, 50).check(SYSTEM).unwrap_err().message;
        assert!(why.contains("mount's max_lease_ttl of 50s"), "{why}");
    }

    #[test]
    fn words_are_read_back_and_others_refused() {
        for one in [ListingVisibility::Usual, ListingVisibility::Hidden, ListingVisibility::Unauth]
        {
            assert_eq!(ListingVisibility::of_word(one.word()), Ok(one));
        }
        for one in [
            LoginTokenType::DefaultService,
            LoginTokenType::DefaultBatch,
            LoginTokenType::Service,
            LoginTokenType::Batch,
        ] {
            assert_eq!(LoginTokenType::of_word(one.word()), Ok(one));
        }
        assert_eq!(LoginTokenType::of_word(""), Ok(LoginTokenType::DefaultService));
        assert!(ListingVisibility::of_word("public").unwrap_err().message.contains("\"public\""));
        assert!(LoginTokenType::of_word("default").unwrap_err().message.contains("default-batch"));
    }

    #[test]
    fn records_of_an_earlier_version_are_read() {
        let stored = r#"{"description":"d","options":{},"default_ttl":5,"max_ttl":9,"uuid":"u"}"#;
        let expected = MountSettings { description: "d".to_owned(), ..settings(5, 9) };
        assert_eq!(serde_json::from_str::<MountSettings>(stored).unwrap(), expected);
    }
}
