//! `login`: verifies the token, checks the role's constraints, and returns only verified data.
//!
//! The order: first checks without requests (the caller's address and the token's unproven claims),
//! then the proof, and only then requests to the provider under the method's identity.

use crate::admitted_caller::AdmittedCaller;
use crate::cloud::CloudClient;
use crate::group_aliases;
use crate::instance::{self, Instance};
use crate::instance_identity::InstanceIdentity;
use crate::proof::{ProvenToken, TokenSigner, UnprovenToken, seconds_left};
use crate::role::{Role, canonical, name_in_path};
use crate::service_account::{self, ServiceAccount};
use crate::settings::{Config, ROLE_ID};
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::jwt::Claims;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::name::is_name;
use bulkhead_sdk::{Answer, Call, Failure, Host, Login};
use std::collections::BTreeMap;

/// Fields of a login.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("role", "the role for the login"),
    Field::text("jwt", "the signed token of the caller").secret(),
];

/// The verified data of a login.
pub(crate) struct VerifiedLogin {
    /// Display name.
    name: String,
    alias: String,
    project: String,
    /// Metadata that may be shown.
    known: BTreeMap<&'static str, String>,
    /// Names of the metadata to show.
    shown: Vec<String>,
    held: AdmittedCaller,
}

/// A login or its explanation.
struct LoginCheck<'a> {
    cloud: &'a CloudClient<'a>,
    call: &'a Call,
    name: &'a str,
    role: &'a Role,
}

/// Logs in.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = canonical(call.text("role"));
    if name.is_empty() {
        return Err(Failure::invalid("role is required"));
    }
    let unknown = || Failure::invalid(format!("role {} not found", quoted(&name)));
    let role = is_name(&name).then(|| Role::find(host, &name)).transpose()?.flatten();
    let role = role.ok_or_else(unknown)?;
    let config = Config::find(host)?;
    let cloud = CloudClient::new(host, &config, call.deadline);
    let attempt = LoginCheck { cloud: &cloud, call, name: &name, role: &role };
    let token = attempt.check_unproven()?;
    let verified = attempt.verify(Ok(token), &mut LoginConstraints::for_login())?;
    let verified =
        verified.ok_or_else(|| Failure::internal("an accepted login has no identity"))?;
    Ok(Answer::login(verified.login(&cloud, &role)?))
}

/// Tells for each constraint if the given login meets the constraint (decision B2).
pub(crate) fn explain(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    call.demand_sudo()?;
    let name = name_in_path(call)?;
    let role = Role::named(host, name)?;
    let config = Config::find(host)?;
    let cloud = CloudClient::new(host, &config, call.deadline);
    let mut constraints = LoginConstraints::for_explanation();
    let attempt = LoginCheck { cloud: &cloud, call, name, role: &role };
    attempt.verify(attempt.read(), &mut constraints)?;
    constraints.answer()
}

impl LoginCheck<'_> {
    /// Refuses a login that no signature could save, before any request to the provider.
    /// [`verify`](Self::verify) repeats the same checks, with the same messages, on proven claims.
    fn check_unproven(&self) -> Result<UnprovenToken<'_>, Failure> {
        self.role.token.admit_address(self.call)?;
        let token = self.read()?;
        if self.role.is_of_accounts() {
            self.inference(token.signer())?;
            self.expiry(token.signer(), token.claims())?;
        } else {
            let now = self.cloud.host().clock().now();
            InstanceIdentity::claimed(token.claims(), now)?;
            token.check_of_provider()?;
        }
        Ok(token)
    }

    fn read(&self) -> Result<UnprovenToken<'_>, Failure> {
        match self.call.text("jwt") {
            "" => Err(Failure::invalid("jwt argument is required")),
            jwt => UnprovenToken::read(self.cloud.host(), self.name, jwt),
        }
    }

    fn verify(
        &self,
        token: Result<UnprovenToken<'_>, Failure>,
        constraints: &mut LoginConstraints,
    ) -> Result<Option<VerifiedLogin>, Failure> {
        let proof = token.and_then(|token| self.proof(token));
        let Some(proof) = constraints.record("jwt", proof)? else {
            constraints.record_unchecked(self.resting_on_proof(), "jwt");
            return Ok(None);
        };
        if self.role.is_of_accounts() {
            constraints.record("allow_gce_inference", self.inference(proof.signer))?;
            let expiry = self.expiry(proof.signer, &proof.claims);
            constraints.record("max_jwt_exp", expiry)?;
        }
        constraints.record("token_bound_cidrs", self.role.token.admit_address(self.call))?;
        match self.role.is_of_accounts() {
            true => self.verify_account(constraints, &proof),
            false => self.verify_instance(constraints, &proof),
        }
    }

    fn resting_on_proof(&self) -> &'static [&'static str] {
        match self.role.is_of_accounts() {
            true => &["service_account", "bound_projects", "bound_service_accounts"],
            false => &["instance", "bound_projects", "bound_service_accounts"],
        }
    }

    fn proof(&self, token: UnprovenToken<'_>) -> Result<(ProvenToken, String), Failure> {
        let proof = token.prove(self.cloud, self.role, self.call)?;
        let why = match proof.signer {
            TokenSigner::Provider => "the token is signed by the provider",
            TokenSigner::Account => "the token is signed by a key of the service account",
        };
        Ok((proof, why.to_owned()))
    }

    /// Checks the signer. Every provider-signed token counts as a token of an instance (decision
    /// B1).
    fn inference(&self, signer: TokenSigner) -> Result<((), String), Failure> {
        match signer {
            TokenSigner::Account => Ok(((), "the account signed the token itself".to_owned())),
            TokenSigner::Provider if self.role.allow_gce_inference => {
                Ok(((), "the role admits tokens signed by the provider".to_owned()))
            }
            TokenSigner::Provider => Err(Failure::invalid(format!(
                "Got GCE token but IAM role {} does not allow GCE inference",
                quoted(self.name)
            ))),
        }
    }

    /// Checks the expiry. Only an account that signs its own token can choose the expiry, so the
    /// limit does not apply to provider-signed tokens.
    fn expiry(&self, signer: TokenSigner, claims: &Claims) -> Result<((), String), Failure> {
        let (left, most) = (seconds_left(claims, self.cloud.host()), self.role.max_jwt_exp);
        if signer == TokenSigner::Provider || left <= most {
            return Ok(((), format!("the token ends in {left} seconds")));
        }
        Err(Failure::invalid(format!(
            "role requires that service account JWTs expire within {most} seconds: the JWT ends in \
             {left}, ask for a JWT with a shorter exp"
        )))
    }

    fn account(&self, proof: &ProvenToken) -> Result<(ServiceAccount, String), Failure> {
        let account = ServiceAccount::find(self.cloud, &proof.subject)?;
        account.check_claims(proof)?;
        account.check_enabled()?;
        let why = format!("the token is of {} (id: {})", account.email, account.unique_id);
        Ok((account, why))
    }

    fn verify_account(
        &self,
        constraints: &mut LoginConstraints,
        proof: &ProvenToken,
    ) -> Result<Option<VerifiedLogin>, Failure> {
        let Some(account) = constraints.record("service_account", self.account(proof))? else {
            constraints
                .record_unchecked(&["bound_projects", "bound_service_accounts"], "service_account");
            return Ok(None);
        };
        service_account::admit(constraints, self.role, &account)?;
        let config = self.cloud.config;
        let own = config.iam_alias() != ROLE_ID;
        let alias = if own { account.unique_id.clone() } else { self.role.role_id.clone() };
        Ok(Some(VerifiedLogin {
            name: account.email.clone(),
            alias,
            project: account.project_id.clone(),
            known: self.describe_account(&account, &account.project_id),
            shown: config.iam_metadata(),
            held: self.describe_caller(&account, proof, None),
        }))
    }

    fn verify_instance(
        &self,
        constraints: &mut LoginConstraints,
        proof: &ProvenToken,
    ) -> Result<Option<VerifiedLogin>, Failure> {
        let now = self.cloud.host().clock().now();
        let identity = InstanceIdentity::of(proof, now)
            .map(|found| (found, "the token names an instance".to_owned()));
        let Some(identity) = constraints.record("gce_metadata", identity)? else {
            constraints.record_unchecked(self.resting_on_proof(), "gce_metadata");
            return Ok(None);
        };
        constraints.record("bound_projects", instance::in_project(self.role, &identity))?;
        let found = Instance::find(self.cloud, &identity)
            .map(|found| (found, "the instance of the token exists".to_owned()));
        let instance = constraints.record("instance", found)?;
        if let Some(instance) = &instance {
            instance::admit(constraints, self.cloud, self.role, &identity, instance)?;
        }
        let account = constraints.record("service_account", self.account(proof))?;
        let (Some(instance), Some(account)) = (instance, account) else { return Ok(None) };
        let runs = instance.check_account(&account).map(|()| ((), account.email.clone()));
        constraints.record("instance_account", runs)?;
        constraints.record("bound_service_accounts", bound(self.role, &account))?;
        Ok(Some(self.verified_instance(identity, &account, proof)))
    }

    fn verified_instance(
        &self,
        identity: InstanceIdentity,
        account: &ServiceAccount,
        proof: &ProvenToken,
    ) -> VerifiedLogin {
        let config = self.cloud.config;
        let mut metadata = self.describe_account(account, &identity.project_id);
        let creation_time = identity.instance_creation_timestamp.to_string();
        metadata.insert("instance_creation_timestamp", creation_time);
        metadata.insert("instance_id", identity.instance_id.clone());
        metadata.insert("instance_name", identity.instance_name.clone());
        metadata.insert("project_number", identity.project_number.to_string());
        metadata.insert("zone", identity.zone.clone());
        let alias = match config.gce_alias() {
            ROLE_ID => self.role.role_id.clone(),
            _ => format!("gce-{}", identity.instance_id),
        };
        VerifiedLogin {
            name: identity.instance_name.clone(),
            alias,
            project: identity.project_id.clone(),
            known: metadata,
            shown: config.gce_metadata(),
            held: self.describe_caller(account, proof, Some(identity)),
        }
    }

    fn describe_account(
        &self,
        account: &ServiceAccount,
        project: &str,
    ) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("role", self.name.to_owned()),
            ("project_id", project.to_owned()),
            ("service_account_email", account.email.clone()),
            ("service_account_id", account.unique_id.clone()),
        ])
    }

    fn describe_caller(
        &self,
        account: &ServiceAccount,
        proof: &ProvenToken,
        instance: Option<InstanceIdentity>,
    ) -> AdmittedCaller {
        AdmittedCaller {
            role: self.name.to_owned(),
            role_id: self.role.role_id.clone(),
            account: account.unique_id.clone(),
            is_inferred: proof.signer == TokenSigner::Provider,
            instance,
        }
    }
}

/// Checks that a role for instances admits the account of an instance.
pub(crate) fn bound(role: &Role, account: &ServiceAccount) -> Result<((), String), Failure> {
    let accounts = &role.bound_service_accounts;
    if accounts.is_empty() || role.admits_all_accounts() || account.is_among(accounts) {
        return Ok(((), format!("the role admits instances of {}", account.email)));
    }
    let (email, id) = (quoted(&account.email), quoted(&account.unique_id));
    Err(Failure::invalid(format!(
        "service account {email} ({id}) is not in bound service accounts"
    )))
}

impl VerifiedLogin {
    fn login(self, cloud: &CloudClient<'_>, role: &Role) -> Result<Login, Failure> {
        let groups = group_aliases::of_login(cloud, role, &self.project)?;
        let login = Login::of(self.alias, &role.token).named(self.name).in_groups(groups);
        let shown =
            self.known.into_iter().filter(|(name, _)| self.shown.iter().any(|it| it == name));
        let login = shown.fold(login, |login, (name, value)| login.with(name, value));
        login.with_internal(&self.held)
    }
}

#[cfg(test)]
mod tests;
