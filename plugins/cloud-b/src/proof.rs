//! Verification of a login token: identifies the signing key, which decides the trusted claims.
//!
//! This file prevents these attacks: a service account signs the claims of an instance
//! (CVE-2020-16251; only provider-signed tokens are trusted about instances); a token for another
//! role or for no role; a token that the provider issued for another purpose; a token with a long
//! lifetime.

use crate::account::{is_email, is_unique_id};
use crate::certificates;
use crate::cloud::CloudClient;
use crate::role::Role;
use bulkhead_sdk::jwt::{Claims, ExpectedClaims, JwtFault, ParsedToken};
use bulkhead_sdk::wire::duration;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host, unproven_requests};
use std::cell::Cell;

/// Issuers in the provider's own tokens.
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
/// Maximum remaining lifetime of any token, in seconds.
const MAX_TOKEN_TTL_SECS: u64 = 3_660;

/// Owner of the key that signed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSigner {
    /// The provider: the token is an identity token.
    Provider,
    /// The service account that is the token's subject.
    Account,
}

/// A verified token.
pub(crate) struct ProvenToken {
    pub(crate) signer: TokenSigner,
    /// Address or number of the account.
    pub(crate) subject: String,
    pub(crate) claims: Claims,
}

/// An unverified login token. Its times and audience were checked, so that a token that cannot pass
/// causes no request.
pub(crate) struct UnprovenToken<'a> {
    token: ParsedToken<'a>,
    key_id: String,
    subject: String,
}

impl<'a> UnprovenToken<'a> {
    /// Parses a token for the role with the canonical name `name`.
    ///
    /// # Errors
    /// Invalid request that names the fault and repeats no claim.
    pub(crate) fn read(host: &dyn Host, name: &str, jwt: &'a str) -> Result<Self, Failure> {
        let token = ParsedToken::read(jwt, &["RS256"]).map_err(unread)?;
        let Some(key_id) = token.key_id().map(str::to_owned) else {
            return Err(Failure::invalid(
                "unable to parse signed JWT: the JWT has no kid, the id of the signing key",
            ));
        };
        // The subject goes into a URL, so it is checked before any key is known.
        let subject = token.unverified_claims().subject().unwrap_or_default().to_owned();
        check_subject(&subject)?;
        check_claims(token.unverified_claims(), host, name)?;
        Ok(Self { token, key_id, subject })
    }

    /// Returns the signer implied by the issuer: provider-signed tokens name the provider as the
    /// issuer, and account-signed tokens never do.
    pub(crate) fn signer(&self) -> TokenSigner {
        match ISSUERS.contains(&self.claims().issuer().unwrap_or_default()) {
            true => TokenSigner::Provider,
            false => TokenSigner::Account,
        }
    }

    /// Refuses a token with another issuer than the provider.
    ///
    /// # Errors
    /// Invalid request that does not repeat the issuer.
    pub(crate) fn check_of_provider(&self) -> Result<(), Failure> {
        match self.signer() {
            TokenSigner::Provider => Ok(()),
            TokenSigner::Account => Err(Failure::invalid(
                "a role of instances accepts only tokens of the provider, and the token's issuer \
                 is neither https://accounts.google.com nor accounts.google.com",
            )),
        }
    }

    /// Returns the claims, which are unproven.
    pub(crate) fn claims(&self) -> &Claims {
        self.token.unverified_claims()
    }

    /// Verifies the token with its signer's key.
    ///
    /// # Errors
    /// Invalid request that names the fault of the token; rate limited for a caller whose client
    /// asked for the keys of too many accounts; the failure to fetch the key.
    pub(crate) fn prove(
        self,
        cloud: &CloudClient<'_>,
        role: &Role,
        call: &Call,
    ) -> Result<ProvenToken, Failure> {
        let is_counted = Cell::new(false);
        let admit = || {
            unproven_requests::admit(cloud.host(), call)?;
            is_counted.set(true);
            Ok(())
        };
        let found = key_of(cloud, role, (&self.subject, &self.key_id), admit);
        let proven = found.and_then(|(signer, certificate)| {
            Ok((signer, self.token.prove(cloud.host(), &certificate).map_err(unread)?))
        });
        if is_counted.get() {
            unproven_requests::settle(cloud.host(), call, &proven)?;
        }
        let (signer, claims) = proven?;
        let proof = ProvenToken { signer, subject: self.subject, claims };
        proof.check_issuer()?;
        Ok(proof)
    }
}

/// Returns the token's key and its owner, looking among the provider's keys first. The owner
/// decides the trusted claims.
fn key_of(
    cloud: &CloudClient<'_>,
    role: &Role,
    (subject, id): (&str, &str),
    admit: impl Fn() -> Result<(), Failure>,
) -> Result<(TokenSigner, String), Failure> {
    if let Some(found) = certificates::of_provider(cloud, id)? {
        return Ok((TokenSigner::Provider, found));
    }
    // The messages omit key and subject, because nothing is proven yet.
    if !role.is_of_accounts() {
        return Err(Failure::invalid(
            "unable to get public key for signed JWT: no Google OAuth2 provider key found for GCE \
             role",
        ));
    }
    if let Some(found) = certificates::of_account(cloud, (subject, id), admit)? {
        return Ok((TokenSigner::Account, found));
    }
    Err(Failure::invalid(
        "unable to get public key for signed JWT: the JWT's subject has no such key",
    ))
}

fn check_subject(subject: &str) -> Result<(), Failure> {
    if is_email(subject) || is_unique_id(subject) {
        return Ok(());
    }
    Err(Failure::invalid("expected JWT to have 'sub' claim with service account id or email"))
}

/// Puts the reader's message behind the wording that clients know.
fn unread(fault: JwtFault) -> Failure {
    match fault {
        JwtFault::Refused(why) => why,
        JwtFault::Expired(_) => {
            Failure::invalid("JWT is expired or does not have proper 'exp' claim")
        }
        other => Failure::invalid(format!("unable to parse signed JWT: {other}")),
    }
}

/// Checks the times, and the audience for the role `name`.
fn check_claims(claims: &Claims, host: &dyn Host, name: &str) -> Result<(), Failure> {
    claims.check(host.clock().now(), &ExpectedClaims::default()).map_err(unread)?;
    let left = seconds_left(claims, host);
    if left > MAX_TOKEN_TTL_SECS {
        let left = duration::show(left);
        return Err(Failure::invalid(format!("JWT must expire in 60 minutes, expires in {left}")));
    }
    check_audience(claims, name)
}

/// Returns the seconds until a token's expiry, 0 after the expiry.
pub(crate) fn seconds_left(claims: &Claims, host: &dyn Host) -> u64 {
    claims.expires().unwrap_or(u64::MAX).saturating_sub(host.clock().now() / 1_000)
}

/// Checks that every audience is the role's: `vault/<role>`, complete or after a slash.
fn check_audience(claims: &Claims, name: &str) -> Result<(), Failure> {
    let wanted = format!("vault/{name}");
    let is_wanted = |audience: &String| {
        let lowered = audience.to_ascii_lowercase();
        let before = lowered.strip_suffix(&wanted);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let audiences = claims.audiences();
    if !audiences.is_empty() && audiences.iter().all(is_wanted) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "at least one of the JWT claim 'aud' must end in \"{wanted}\", and no other audience is \
         allowed: ask for a token with the single audience {wanted}"
    )))
}

impl ProvenToken {
    /// Checks that a provider-signed token names the provider as the issuer. The issuer of an
    /// account-signed token is checked once the account is known.
    fn check_issuer(&self) -> Result<(), Failure> {
        let issuer = self.claims.issuer().unwrap_or_default();
        if self.signer == TokenSigner::Account || ISSUERS.contains(&issuer) {
            return Ok(());
        }
        let issuer = quoted(issuer);
        Err(Failure::invalid(format!(
            "the token is signed by the provider, and its issuer {issuer} is neither \
             https://accounts.google.com nor accounts.google.com"
        )))
    }
}
