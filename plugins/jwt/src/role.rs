//! A role of the mount: constraints on tokens, claims that make the identity, and token parameters.

use crate::bound_claims::{BoundClaims, ClaimComparison};
use crate::claims;
use crate::config::refuse_filled;
use crate::times::{TimeLeeway, TokenLeeways};
use bulkhead_sdk::jwt::Claims;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::wire::login as bounds;
use bulkhead_sdk::{Call, Failure, Host, TokenParams, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of audiences.
const MOST: usize = 1_000;
/// Name of the role in the metadata of a token.
pub(crate) const ROLE: &str = "role";
/// Fields that may only be empty, because they belong to browser logins.
const BROWSER: [&str; 2] = ["oidc_scopes", "max_age"];

/// Fields of a role, without the token parameters.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("role_type", "jwt, which is the default; browser logins (oidc) are not served"),
    Field::words("bound_audiences", "accepted audiences (aud); a token needs at least one"),
    Field::text("bound_subject", "the required subject (sub) of tokens"),
    Field::any("bound_claims", "a value or a list of values for each claim"),
    Field::text("bound_claims_type", "string, or glob for values with *"),
    Field::text("user_claim", "the claim with the name of the identity"),
    Field::flag("user_claim_json_pointer", "user_claim is a JSON pointer such as /user/id"),
    Field::map("claim_mappings", "name in the metadata for each of some claims"),
    Field::text("groups_claim", "the claim with the groups of the identity"),
    Field::text(
        "expiration_leeway",
        "lifetime of tokens without exp, in seconds; 0 is 150, -1 none",
    ),
    Field::text("not_before_leeway", "seconds before exp without nbf and iat; 0 is 150, -1 none"),
    Field::text("clock_skew_leeway", "seconds between the clocks; 0 is 60, -1 none"),
    Field::seconds("max_age", "for browser logins, which are not served; may only be empty"),
    Field::words("oidc_scopes", "for browser logins, which are not served; may only be empty"),
    Field::texts("allowed_redirect_uris", "kept, and without effect: no browser logins"),
    Field::flag("verbose_oidc_logging", "kept, and without effect: no browser logins"),
];

/// A role, as stored.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Random id that distinguishes the role from a later role with the same name. Never shown.
    pub(crate) id: String,
    bound_audiences: Vec<String>,
    bound_subject: String,
    bound_claims: BoundClaims,
    bound_claims_type: ClaimComparison,
    user_claim: String,
    user_claim_json_pointer: bool,
    /// Names in the metadata by claim.
    claim_mappings: BTreeMap<String, String>,
    groups_claim: String,
    expiration_leeway: TimeLeeway,
    not_before_leeway: TimeLeeway,
    clock_skew_leeway: TimeLeeway,
    allowed_redirect_uris: Vec<String>,
    verbose_oidc_logging: bool,
    #[serde(flatten)]
    pub(crate) token: TokenParams,
}

stored!(Role, "role", reads_stored_roles);

/// The claims of a login that its role binds, kept for renewals.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ProvenClaims {
    subject: Option<String>,
    audiences: Vec<String>,
    /// Other claims, each under the name in the role.
    bound: Map<String, Value>,
}

impl Role {
    /// Returns a role with a random id, the default settings and no constraints.
    pub(crate) fn new(host: &dyn Host) -> Self {
        Self { id: hexadecimal::text(&host.random().bytes(16)), ..Self::default() }
    }

    /// Returns the role with this name, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&key(name))
    }

    /// Applies the fields of the call, and keeps the rest.
    ///
    /// # Errors
    /// Invalid request with the setting.
    pub(crate) fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        refuse_filled(call, BROWSER)?;
        check_type(call.text("role_type"))?;
        call.merge("bound_audiences", &mut self.bound_audiences)?;
        call.merge("bound_subject", &mut self.bound_subject)?;
        if call.is_given("bound_claims") {
            self.bound_claims = BoundClaims::read(call)?;
        }
        if call.is_given("bound_claims_type") {
            self.bound_claims_type = ClaimComparison::read(call.text("bound_claims_type"))?;
        }
        call.merge("user_claim", &mut self.user_claim)?;
        call.merge("user_claim_json_pointer", &mut self.user_claim_json_pointer)?;
        call.merge("claim_mappings", &mut self.claim_mappings)?;
        call.merge("groups_claim", &mut self.groups_claim)?;
        self.expiration_leeway.merge(call, "expiration_leeway")?;
        self.not_before_leeway.merge(call, "not_before_leeway")?;
        self.clock_skew_leeway.merge(call, "clock_skew_leeway")?;
        call.merge("allowed_redirect_uris", &mut self.allowed_redirect_uris)?;
        call.merge("verbose_oidc_logging", &mut self.verbose_oidc_logging)?;
        self.token.merge(call)?;
        self.check()
    }

    fn check(&self) -> Result<(), Failure> {
        if self.user_claim.is_empty() {
            return Err(Failure::invalid(
                "user_claim is required: name the claim with the bearer's identity, such as sub",
            ));
        }
        if self.user_claim_json_pointer && !self.user_claim.starts_with('/') {
            return Err(Failure::invalid(format!(
                "user_claim {} is not a JSON pointer, which begins with /; clear \
                 user_claim_json_pointer, or write a pointer such as /user/id",
                quoted(&self.user_claim)
            )));
        }
        let is_bound = !self.bound_audiences.is_empty()
            || !self.bound_subject.is_empty()
            || !self.bound_claims.is_empty()
            || !self.token.token_bound_cidrs.is_empty();
        if !is_bound {
            return Err(Failure::invalid(
                "must have at least one bound constraint when creating/updating a role: set \
                 bound_audiences, bound_subject, bound_claims or token_bound_cidrs",
            ));
        }
        if self.bound_audiences.len() > MOST {
            return Err(Failure::invalid(format!("bound_audiences: there may be at most {MOST}")));
        }
        self.bound_claims.check(self.bound_claims_type)?;
        self.check_mappings()
    }

    /// Refuses two claims for one name, and the name of the role.
    fn check_mappings(&self) -> Result<(), Failure> {
        let mut names = BTreeSet::new();
        for name in self.claim_mappings.values() {
            if name == ROLE {
                return Err(Failure::invalid(
                    "claim_mappings: the name \"role\" is reserved for the name of the role",
                ));
            }
            if !names.insert(name) {
                let name = quoted(name);
                return Err(Failure::invalid(format!(
                    "claim_mappings: two claims are mapped to {name}; choose two names"
                )));
            }
        }
        // The role's name needs a place, too.
        let names = self.claim_mappings.values().map(String::as_str).chain([ROLE]);
        let shown: BTreeMap<String, String> =
            names.map(|name| (name.to_owned(), String::new())).collect();
        bounds::check_metadata("of the token", shown.iter()).map_err(|fault| {
            Failure::invalid(format!("claim_mappings: a login would come {fault}"))
        })
    }

    /// Returns the leeways of the times of a token.
    pub(crate) fn leeways(&self) -> TokenLeeways {
        TokenLeeways {
            expiration: self.expiration_leeway,
            not_before: self.not_before_leeway,
            clock_skew: self.clock_skew_leeway,
        }
    }

    /// Returns the claims of a token that the constraints of the role are about.
    pub(crate) fn bound(&self, claims: &Claims) -> ProvenClaims {
        ProvenClaims {
            subject: claims.subject().map(str::to_owned),
            audiences: claims.audiences().to_vec(),
            bound: self.bound_claims.named(claims.all()),
        }
    }

    /// Checks the constraints of the role against proven claims.
    ///
    /// # Errors
    /// Invalid request that names the first constraint that fails, and shows no claim.
    pub(crate) fn hold(&self, claims: &ProvenClaims) -> Result<(), Failure> {
        if !self.bound_subject.is_empty() && claims.subject.as_ref() != Some(&self.bound_subject) {
            return Err(Failure::invalid(
                "the token's subject (sub) is not the bound_subject of the role",
            ));
        }
        let (bound, found) = (&self.bound_audiences, &claims.audiences);
        if bound.is_empty() && !found.is_empty() {
            return Err(Failure::invalid(
                "audience claim found in JWT but no audiences bound to the role: set \
                 bound_audiences of the role",
            ));
        }
        if !bound.is_empty() && !found.iter().any(|audience| bound.contains(audience)) {
            return Err(Failure::invalid(
                "the token is for another audience (aud) than the bound_audiences of the role",
            ));
        }
        self.bound_claims.hold(self.bound_claims_type, &claims.bound)
    }

    /// Returns the name of the identity, in the spelling of the claim.
    ///
    /// # Errors
    /// Invalid request if the claim is missing, empty or no text.
    pub(crate) fn user(&self, claims: &Claims) -> Result<String, Failure> {
        let claim = match self.user_claim_json_pointer {
            true => claims::find(claims.all(), &self.user_claim),
            false => claims.all().get(&self.user_claim),
        };
        match claim {
            Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
            found => Err(Failure::invalid(format!(
                "the token's claim {}, the user_claim of the role, {}",
                quoted(&self.user_claim),
                if found.is_some() { "is not text, or is empty" } else { "is missing" }
            ))),
        }
    }

    /// Returns the metadata that the claims give. Missing claims are left out.
    ///
    /// # Errors
    /// Invalid request if a claim has no text.
    pub(crate) fn metadata(&self, claims: &Claims) -> Result<BTreeMap<String, String>, Failure> {
        let mut metadata = BTreeMap::new();
        for (name, shown) in &self.claim_mappings {
            let Some(claim) = claims::find(claims.all(), name) else { continue };
            let text = claims::text_of(claim).ok_or_else(|| {
                let name = quoted(name);
                Failure::invalid(format!("the token's claim {name} is not a text, flag or number"))
            })?;
            metadata.insert(shown.clone(), text);
        }
        Ok(metadata)
    }

    /// Returns the groups in the claims; none if the role names no claim.
    ///
    /// # Errors
    /// Invalid request if the claim is missing, or neither a text nor a list of texts.
    pub(crate) fn groups(&self, claims: &Claims) -> Result<Vec<String>, Failure> {
        if self.groups_claim.is_empty() {
            return Ok(Vec::new());
        }
        let wrong = |fault: &str| {
            let name = quoted(&self.groups_claim);
            Failure::invalid(format!(
                "the token's claim {name}, the groups_claim of the role, {fault}"
            ))
        };
        let claim = claims::find(claims.all(), &self.groups_claim);
        let claim = claim.ok_or_else(|| wrong("is missing"))?;
        let names = claims::members(claim).iter().map(Value::as_str);
        let names: Option<Vec<&str>> = names.collect();
        let names = names.ok_or_else(|| wrong("is neither a text nor a list of texts"))?;
        Ok(names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Returns warnings for the writer of the role.
    pub(crate) fn warnings(&self, call: &Call) -> Vec<String> {
        let mut warnings = self.token.warnings(&call.mount);
        if call.is_given("allowed_redirect_uris") && !self.allowed_redirect_uris.is_empty() {
            warnings.push(
                "allowed_redirect_uris is kept, and has no effect: browser logins are not served"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Returns every setting.
    pub(crate) fn shown(&self) -> Map<String, Value> {
        let mut shown = self.token.show();
        let settings = [
            ("role_type", json!("jwt")),
            ("bound_audiences", json!(self.bound_audiences)),
            ("bound_subject", json!(self.bound_subject)),
            ("bound_claims", json!(self.bound_claims.shown())),
            ("bound_claims_type", json!(self.bound_claims_type)),
            ("user_claim", json!(self.user_claim)),
            ("user_claim_json_pointer", json!(self.user_claim_json_pointer)),
            ("claim_mappings", json!(self.claim_mappings)),
            ("groups_claim", json!(self.groups_claim)),
            ("expiration_leeway", json!(self.expiration_leeway)),
            ("not_before_leeway", json!(self.not_before_leeway)),
            ("clock_skew_leeway", json!(self.clock_skew_leeway)),
            ("allowed_redirect_uris", json!(self.allowed_redirect_uris)),
            ("verbose_oidc_logging", json!(self.verbose_oidc_logging)),
            ("oidc_scopes", json!([])),
            ("max_age", json!(0)),
        ];
        shown.extend(settings.map(|(name, value)| (name.to_owned(), value)));
        shown
    }
}

/// Returns the storage key of a role.
pub(crate) fn key(name: &str) -> String {
    format!("role/{name}")
}

fn check_type(kind: &str) -> Result<(), Failure> {
    match kind {
        "" | "jwt" => Ok(()),
        "oidc" => Err(Failure::invalid(
            "role_type oidc is of browser logins, which are not served; give jwt, and log in with \
             a signed token",
        )),
        other => Err(Failure::invalid(format!("role_type {} is not jwt", quoted(other)))),
    }
}
