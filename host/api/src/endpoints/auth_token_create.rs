//! `auth/token/create`, `create-orphan` and `create/:role_name`: tokens made by tokens.
//!
//! This file decides which parameters need `sudo`, by the caller's capabilities on the very path of
//! the request.

use super::after_commit::AfterCommit;
use super::auth_token::auth;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, write};
use bulkhead_access::identity::{self, ProvenAlias, SignedInEntity};
use bulkhead_access::policies::{self, ROOT, stored};
use bulkhead_access::tokens::roles::{self, RoleType, TokenRole};
use bulkhead_access::tokens::selection::{self, RequestedPolicies};
use bulkhead_access::tokens::{self, NewToken, TokenType};
use bulkhead_core::mounts::BuiltinMount;
use bulkhead_store::Unit;
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::secret::Secret;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let role = field("role_name", FieldKind::Name, "name of the token role");
    vec![
        write("auth/token/create", "make a child token")
            .fields(creation_fields())
            .handled_by(create),
        write("auth/token/create-orphan", "make a token without a parent")
            .fields(creation_fields())
            .handled_by(create_orphan),
        write("auth/token/create/{role_name}", "make a token of a role")
            .fields([role])
            .fields(creation_fields())
            .handled_by(create_by_role),
    ]
}

/// Returns the fields of a token's creation. Restrictions that cannot be given here are listed to
/// be refused: ignoring a restriction would widen access.
fn creation_fields() -> Vec<Field> {
    let renewable = field("renewable", FieldKind::Bool, "whether the token can be renewed");
    vec![
        field(
            "policies",
            FieldKind::CommaList,
            "policies of the token; none means the policies of the role or parent",
        ),
        field("meta", FieldKind::Map, "names and values kept with the token"),
        field("no_default_policy", FieldKind::Bool, "leave the policy default out"),
        Field { default: Some(json!(true)), ..renewable },
        Field {
            aliases: vec!["lease".to_owned()],
            ..field("ttl", FieldKind::Duration, "its lifetime")
        },
        field("explicit_max_ttl", FieldKind::Duration, "maximum lifetime over all renewals"),
        field(
            "period",
            FieldKind::Duration,
            "lifetime after each renewal, without a maximum; needs sudo",
        ),
        field("display_name", FieldKind::String, "name for people"),
        field("num_uses", FieldKind::Int, "maximum requests of the token; 0 is without limit"),
        field("type", FieldKind::String, "service, or batch for a token without storage"),
        field("no_parent", FieldKind::Bool, "make an orphan; needs sudo"),
        field("id", FieldKind::String, "a chosen token instead of a random token; needs sudo")
            .secret(),
        field(
            "entity_alias",
            FieldKind::String,
            "alias at auth/token of the token's entity, as the role allows",
        ),
        field("bound_cidrs", FieldKind::CommaList, "refused: token roles bind tokens to addresses"),
    ]
}

/// `POST auth/token/create`: creates a child of the caller, or with sudo an orphan.
async fn create(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    refuse_unavailable(&call)?;
    make(call, ParentChoice::AsAsked, None).await
}

/// `POST auth/token/create-orphan`.
async fn create_orphan(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    refuse_unavailable(&call)?;
    make(call, ParentChoice::None, None).await
}

/// `POST auth/token/create/:role_name`.
async fn create_by_role(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    refuse_unavailable(&call)?;
    let name = call.fields.text("role_name");
    let role = roles::read(call.unit, name).await?.ok_or_else(|| {
        Failure::invalid(format!(
            "unknown role {}: write auth/token/roles/<name> first",
            quoted(name)
        ))
    })?;
    make(call, ParentChoice::AsAsked, Some((name.to_owned(), role))).await
}

/// Parent of the new token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParentChoice {
    /// The caller, unless `no_parent` or the role asks for an orphan.
    AsAsked,
    /// None: the token is an orphan.
    None,
}

/// Creates the token described by the fields, by the named role if a role is named.
async fn make(
    mut call: PermittedCall<'_>,
    parent: ParentChoice,
    role: Option<(String, TokenRole)>,
) -> Result<Reply, Failure> {
    let (new, mut warnings) = new_token(&mut call, parent, role).await?;
    if new.id.is_some() {
        warnings.push("the token is only as hard to guess as the chosen id".to_owned());
    }
    let PermittedCall { core, unit, caller, .. } = call;
    let new_token = core.tokens.create(unit, caller, new, core.token_lifetimes()).await?;
    warnings.extend(new_token.warning);
    let entity_context = tokens::read_token_context(unit, &new_token.caller.record).await?;
    let count = AfterCommit::CountToken(new_token.caller.kind);
    let body = ReplyBody::Auth(Box::new(auth(new_token.token, &new_token.caller, &entity_context)));
    Ok(Reply::from(body).with_warnings(warnings).after_commit(count))
}

/// Describes the new token, with warnings.
async fn new_token(
    call: &mut PermittedCall<'_>,
    parent: ParentChoice,
    role: Option<(String, TokenRole)>,
) -> Result<(NewToken, Vec<String>), Failure> {
    let of_role = role.as_ref().map(|(_, role)| role);
    let signed_in = signed_in(call, of_role).await?;
    let policies = selection::select(&asked_policies(call, of_role)?)?;
    let warnings = warn_of_unknown(call.unit, &policies).await?;
    let is_orphan = is_orphan(call, parent, of_role)?;
    let fields = call.fields;
    let new = NewToken {
        kind: kind(call, of_role)?,
        id: chosen_id(call)?,
        policies,
        display_name: display_name(fields.text("display_name"))?,
        meta: meta(call),
        path: shown_path(call, role.as_ref()),
        is_orphan,
        signed_in,
        bound_cidrs: bound_cidrs(call, is_orphan, of_role),
        ttl: fields.seconds("ttl"),
        explicit_max_ttl: fields.seconds("explicit_max_ttl"),
        period: period(call)?,
        num_uses: num_uses(call)?,
        renewable: fields.flag("renewable", true) && of_role.is_none_or(|role| role.renewable),
        role,
    };
    Ok((new, warnings))
}

/// Returns the entity that `entity_alias` names at this mount, and creates a missing entity.
async fn signed_in(
    call: &mut PermittedCall<'_>,
    role: Option<&TokenRole>,
) -> Result<Option<SignedInEntity>, Failure> {
    let alias = call.fields.text("entity_alias");
    if alias.is_empty() {
        return Ok(None);
    }
    if !role.is_some_and(|role| role.allows_alias(alias)) {
        return Err(Failure::invalid(format!(
            "entity_alias {} is not allowed: use auth/token/create/<role> with a role whose \
             allowed_entity_aliases name the alias",
            quoted(alias)
        )));
    }
    let mount = call.core.mounts.builtin(BuiltinMount::Token);
    let proven = ProvenAlias {
        mount: mount.for_aliases(),
        alias: alias.to_owned(),
        metadata: BTreeMap::new(),
        group_aliases: None,
    };
    let signed_in = identity::sign_in(call.unit, call.core.store.now(), &proven).await?;
    let disabled = || Failure::denied("the entity of this entity_alias is disabled");
    signed_in.ok_or_else(disabled).map(Some)
}

/// Refuses parameters that cannot be honoured here.
fn refuse_unavailable(call: &PermittedCall<'_>) -> Result<(), Failure> {
    if !call.fields.list("bound_cidrs").is_empty() {
        return Err(Failure::invalid(
            "bound_cidrs was given, which is not a parameter of a token: write token_bound_cidrs \
             of a token role and use auth/token/create/<role>",
        ));
    }
    Ok(())
}

fn asked_policies<'a>(
    call: &PermittedCall<'a>,
    role: Option<&'a TokenRole>,
) -> Result<RequestedPolicies<'a>, Failure> {
    let names =
        call.fields.list("policies").into_iter().map(|name| policies::canonical_name(&name));
    Ok(RequestedPolicies {
        policies: names.collect::<Result<BTreeSet<_>, _>>().map_err(Failure::invalid)?,
        no_default_policy: call.fields.flag("no_default_policy", false),
        parent: &call.caller.record,
        has_sudo: call.has_sudo(),
        role,
    })
}

/// Warns of missing policies. A token may be given policies that are still to be written.
async fn warn_of_unknown(unit: &mut Unit, policies: &[String]) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for name in policies {
        if name != ROOT && stored::read_policy_text(unit, name).await?.is_none() {
            warnings.push(format!("Policy {} does not exist", quoted(name)));
        }
    }
    Ok(warnings)
}

fn is_orphan(
    call: &PermittedCall<'_>,
    parent: ParentChoice,
    role: Option<&TokenRole>,
) -> Result<bool, Failure> {
    if parent == ParentChoice::None || role.is_some_and(|role| role.orphan) {
        return Ok(true);
    }
    let no_parent = call.fields.flag("no_parent", false);
    if no_parent {
        require_sudo(call, "no_parent")?;
    }
    Ok(no_parent)
}

fn require_sudo(call: &PermittedCall<'_>, property: &str) -> Result<(), Failure> {
    if call.has_sudo() {
        return Ok(());
    }
    let path = &call.request.path;
    Err(Failure::invalid(format!(
        "{property} needs a root token, or the capability sudo on {path}; leave {property} out"
    )))
}

fn kind(call: &PermittedCall<'_>, role: Option<&TokenRole>) -> Result<TokenType, Failure> {
    let requested_type = match call.fields.text("type") {
        "" | "default" => None,
        "service" => Some(TokenType::Service),
        "batch" => Some(TokenType::Batch),
        other => {
            return Err(Failure::invalid(format!(
                "type {} is neither service nor batch",
                quoted(other)
            )));
        }
    };
    role.map_or(RoleType::DefaultService, |role| role.token_type).choose(requested_type)
}

fn chosen_id(call: &PermittedCall<'_>) -> Result<Option<Secret>, Failure> {
    if call.fields.text("id").is_empty() {
        return Ok(None);
    }
    require_sudo(call, "id")?;
    tokens::keys::check_chosen(call.fields.text("id")).map(Some)
}

fn period(call: &PermittedCall<'_>) -> Result<u64, Failure> {
    let period = call.fields.seconds("period");
    if period > 0 {
        require_sudo(call, "period")?;
    }
    Ok(period)
}

fn num_uses(call: &PermittedCall<'_>) -> Result<u64, Failure> {
    let number = call.fields.integer("num_uses").unwrap_or_default();
    u64::try_from(number).map_err(|_| {
        Failure::invalid(format!(
            "num_uses {number} is negative; give the number of requests, or 0 for no limit"
        ))
    })
}

/// Maximum length of a display name, in bytes.
const LONGEST_NAME: usize = 256;

/// Returns `token`, or `token-` and the requested name with everything but ASCII letters, digits
/// and dashes replaced.
fn display_name(name: &str) -> Result<String, Failure> {
    if name.len() > LONGEST_NAME {
        return Err(Failure::invalid(format!(
            "display_name has {} bytes; use at most {LONGEST_NAME}",
            name.len()
        )));
    }
    if name.is_empty() {
        return Ok("token".to_owned());
    }
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    Ok(format!("token-{}", name.chars().map(safe).collect::<String>()))
}

fn meta(call: &PermittedCall<'_>) -> BTreeMap<String, String> {
    let pairs = call.fields.object("meta").into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Returns the path that the token is shown with.
fn shown_path(call: &PermittedCall<'_>, role: Option<&(String, TokenRole)>) -> String {
    match role {
        Some((_, role)) if !role.path_suffix.is_empty() => {
            format!("{}/{}", call.request.path, role.path_suffix)
        }
        _ => call.request.path.clone(),
    }
}

/// Returns the networks of the role. A child without a role gets the networks of the parent, so
/// that a child is not a way around the parent's restriction.
fn bound_cidrs(call: &PermittedCall<'_>, is_orphan: bool, role: Option<&TokenRole>) -> Vec<Cidr> {
    match role {
        Some(role) => role.bound_cidrs.clone(),
        None if is_orphan => Vec::new(),
        None => call.caller.record.bound_cidrs.clone(),
    }
}
