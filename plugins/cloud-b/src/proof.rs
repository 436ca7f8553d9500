//! What a login's token proves: which key signed it, and so what of it is believed.
//!
//! The attacks this file stops: a service account that signs the claims of an instance (CVE-2020-
//! 16251: only a token that the provider signed speaks of instances); a token for another role, or
//! for none; one that the provider made for another purpose; and one that lives for long.

use crate::account::{is_email, is_unique_id};
use crate::certificates;
use crate::cloud::Cloud;
use crate::role::Role;
use bulkhead_sdk::jwt::{Claims, Expected, Fault, Token};
use bulkhead_sdk::wire::duration;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};

/// Who the provider says it is in a token of its own.
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
/// Seconds that any token may live from now.
const LONGEST: u64 = 3_660;

/// By whose key a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer {
    /// The provider's: an identity token.
    Provider,
    /// That of the service account which the token is about.
    Account,
}

/// A token that was proven.
pub(crate) struct Proof {
    pub(crate) signer: Signer,
    /// The account, by address or number.
    pub(crate) subject: String,
    pub(crate) claims: Claims,
}

/// A login's token without proof. Its times and audience were checked, so that a token that cannot
/// pass costs no request.
pub(crate) struct Unproven<'a> {
    token: Token<'a>,
    key_id: String,
    subject: String,
}

impl<'a> Unproven<'a> {
    /// Reads a token for the role of that canonical name.
    ///
    /// # Errors
    /// Invalid request that says what is wrong and repeats no claim.
    pub(crate) fn read(host: &dyn Host, name: &str, jwt: &'a str) -> Result<Self, Failure> {
        let token = Token::read(jwt, &["RS256"]).map_err(unread)?;
        let Some(key_id) = token.key_id().map(str::to_owned) else {
            return Err(Failure::invalid(
                "unable to parse signed JWT: it has no kid, which names the key it is signed by",
            ));
        };
        // The subject must be sound under any key: it is looked up.
        let subject = token.unproven().subject().unwrap_or_default().to_owned();
        check_subject(&subject)?;
        check_claims(token.unproven(), host, name)?;
        Ok(Self { token, key_id, subject })
    }

    /// The signer that a sound token with this issuer has: tokens of the provider name the provider
    /// as their issuer, and tokens of accounts never do.
    pub(crate) fn signer(&self) -> Signer {
        match ISSUERS.contains(&self.claims().issuer().unwrap_or_default()) {
            true => Signer::Provider,
            false => Signer::Account,
        }
    }

    /// Refuses a token that names another issuer than the provider.
    ///
    /// # Errors
    /// Invalid request that does not repeat the issuer.
    pub(crate) fn check_of_provider(&self) -> Result<(), Failure> {
        match self.signer() {
            Signer::Provider => Ok(()),
            Signer::Account => Err(Failure::invalid(
                "a role of instances admits tokens of the provider, and the token says that its \
                 issuer is none of https://accounts.google.com and accounts.google.com",
            )),
        }
    }

    /// The claims, of which none is proven.
    pub(crate) fn claims(&self) -> &Claims {
        self.token.unproven()
    }

    /// Proves the token by its signer's key.
    ///
    /// # Errors
    /// Invalid request that says what is wrong with the token; why its key cannot be fetched.
    pub(crate) fn prove(self, cloud: &Cloud<'_>, role: &Role) -> Result<Proof, Failure> {
        let (signer, certificate) = key_of(cloud, role, &self.subject, &self.key_id)?;
        let claims = self.token.prove(cloud.host(), &certificate).map_err(unread)?;
        let proof = Proof { signer, subject: self.subject, claims };
        proof.check_issuer()?;
        Ok(proof)
    }
}

/// The key is looked for among the provider's first. Where it is found is what it may say.
fn key_of(
    cloud: &Cloud<'_>,
    role: &Role,
    subject: &str,
    id: &str,
) -> Result<(Signer, String), Failure> {
    if let Some(found) = certificates::of_provider(cloud, id)? {
        return Ok((Signer::Provider, found));
    }
    // Neither key nor subject is repeated: nothing is proven yet.
    if !role.is_of_accounts() {
        return Err(Failure::invalid(
            "unable to get public key for signed JWT: no Google OAuth2 provider key found for GCE \
             role",
        ));
    }
    if let Some(found) = certificates::of_account(cloud, subject, id)? {
        return Ok((Signer::Account, found));
    }
    Err(Failure::invalid(
        "unable to get public key for signed JWT: the account that is its subject has no such key",
    ))
}

fn check_subject(subject: &str) -> Result<(), Failure> {
    if is_email(subject) || is_unique_id(subject) {
        return Ok(());
    }
    Err(Failure::invalid("expected JWT to have 'sub' claim with service account id or email"))
}

/// The reader's words, behind those that clients know.
fn unread(fault: Fault) -> Failure {
    match fault {
        Fault::Refused(why) => why,
        Fault::Expired(_) => Failure::invalid("JWT is expired or does not have proper 'exp' claim"),
        other => Failure::invalid(format!("unable to parse signed JWT: {other}")),
    }
}

/// Checks times and audience for the role of that name.
fn check_claims(claims: &Claims, host: &dyn Host, name: &str) -> Result<(), Failure> {
    claims.check(host.clock().now(), &Expected::default()).map_err(unread)?;
    let left = seconds_left(claims, host);
    if left > LONGEST {
        let left = duration::show(left);
        return Err(Failure::invalid(format!("JWT must expire in 60 minutes, expires in {left}")));
    }
    check_audience(claims, name)
}

/// Seconds until a token's end; 0 where that was.
pub(crate) fn seconds_left(claims: &Claims, host: &dyn Host) -> u64 {
    claims.expires().saturating_sub(host.clock().now() / 1_000)
}

/// Each audience is the role's: `vault/<role>`, as a whole or behind a slash.
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
        "at least one of the JWT claim 'aud' must end in \"{wanted}\", and none may be for \
         another: ask for a token whose only audience is {wanted}"
    )))
}

impl Proof {
    /// The provider names itself; what an account signs is checked once the account is known.
    fn check_issuer(&self) -> Result<(), Failure> {
        let issuer = self.claims.issuer().unwrap_or_default();
        if self.signer == Signer::Account || ISSUERS.contains(&issuer) {
            return Ok(());
        }
        let issuer = quoted(issuer);
        Err(Failure::invalid(format!(
            "the token is signed by the provider, and its issuer {issuer} is none of \
             https://accounts.google.com and accounts.google.com"
        )))
    }
}
