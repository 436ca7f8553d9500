//! `auth/token/roles`: what tokens that are made by a role may be given (decision H24).

use super::row::{field, row};
use super::{Body, Handler, HostCall, Reply};
use crate::core::Core;
use crate::policies;
use crate::tokens::cidr::Cidr;
use crate::tokens::roles::{self, EXISTENCE, RoleType, TokenRole};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::is_name;
use serde_json::{Map, Value, json};

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    List,
    Read,
    Write,
    Delete,
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let name = || field("role_name", FieldKind::Name, "name of the role");
    let write =
        row(Verb::Write, "auth/token/roles/{role_name}", "write a token role", settings(name()));
    let rows = [
        (Act::List, row(Verb::List, "auth/token/roles", "names of all token roles", vec![])),
        (Act::Read, row(Verb::Read, "auth/token/roles/{role_name}", "a token role", vec![name()])),
        (Act::Write, Route { existence: Some(EXISTENCE.to_owned()), ..write }),
        (
            Act::Delete,
            row(Verb::Delete, "auth/token/roles/{role_name}", "delete a token role", vec![name()]),
        ),
    ];
    rows.into_iter().map(|(act, route)| (Handler::TokenRoles(act), route)).collect()
}

fn settings(name: Field) -> Vec<Field> {
    let renewable = field("renewable", FieldKind::Bool, "whether its tokens can be renewed");
    vec![
        name,
        field("allowed_policies", FieldKind::CommaList, "policies that its tokens may have"),
        field("disallowed_policies", FieldKind::CommaList, "policies that its tokens may not have"),
        field(
            "allowed_policies_glob",
            FieldKind::CommaList,
            "patterns of policies that its tokens may have",
        ),
        field(
            "disallowed_policies_glob",
            FieldKind::CommaList,
            "patterns of policies that its tokens may not have",
        ),
        field("allowed_entity_aliases", FieldKind::CommaList, "kept for when there are entities"),
        field("orphan", FieldKind::Bool, "whether its tokens have no parent"),
        Field { default: Some(json!(true)), ..renewable },
        field(
            "path_suffix",
            FieldKind::String,
            "follows the role's name in the path of its tokens",
        ),
        field(
            "token_bound_cidrs",
            FieldKind::CommaList,
            "networks from which its tokens may be used",
        ),
        field("token_explicit_max_ttl", FieldKind::Duration, "the most that renewals add up to"),
        field(
            "token_period",
            FieldKind::Duration,
            "lifetime after each renewal, without a maximum",
        ),
        field("token_type", FieldKind::String, "service, batch, default-service or default-batch"),
        field("token_no_default_policy", FieldKind::Bool, "leave the policy default out"),
        field(
            "token_num_uses",
            FieldKind::Int,
            "requests that can be made with each token; 0 is without limit",
        ),
        field("bound_cidrs", FieldKind::CommaList, "old name of token_bound_cidrs"),
        field("explicit_max_ttl", FieldKind::Duration, "old name of token_explicit_max_ttl"),
        field("period", FieldKind::Duration, "old name of token_period"),
    ]
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    let name = call.text("role_name");
    match act {
        Act::List => list(unit).await,
        Act::Read => {
            let role = roles::read(unit, name).await?.ok_or_else(Failure::absent)?;
            Ok(Body::Data(shown(name, &role)).into())
        }
        Act::Write => write(core, unit, call).await,
        Act::Delete => {
            roles::delete(unit, name);
            Ok(Body::Nothing.into())
        }
    }
}

/// `LIST auth/token/roles`.
pub(super) async fn list(unit: &mut Unit) -> Result<Reply, Failure> {
    let names = roles::names(unit).await?;
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(Body::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// `POST auth/token/roles/:role_name`. Keeps what is not sent (decision A6).
pub(super) async fn write(
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    let name = call.text("role_name");
    let mut role = roles::read(unit, name).await?.unwrap_or_default();
    set_policies(&mut role, call)?;
    set_shape(&mut role, call)?;
    set_limits(&mut role, call)?;
    role.check()?;
    roles::put(unit, name, &role)?;
    Ok(Reply {
        warnings: long_period(core, &role).into_iter().collect(),
        ..Reply::from(Body::Nothing)
    })
}

fn set_policies(role: &mut TokenRole, call: &HostCall<'_>) -> Result<(), Failure> {
    let lists = [
        ("allowed_policies", &mut role.allowed_policies),
        ("disallowed_policies", &mut role.disallowed_policies),
        ("allowed_policies_glob", &mut role.allowed_policies_glob),
        ("disallowed_policies_glob", &mut role.disallowed_policies_glob),
    ];
    for (field, list) in lists.into_iter().filter(|(field, _)| call.has(field)) {
        let names = call.list(field).into_iter().map(|name| policies::canonical_name(&name));
        let mut names = names
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| Failure::invalid(format!("{field}: {why}")))?;
        names.sort_unstable();
        names.dedup();
        *list = names;
    }
    Ok(())
}

fn set_shape(role: &mut TokenRole, call: &HostCall<'_>) -> Result<(), Failure> {
    role.orphan = call.flag("orphan", role.orphan);
    role.renewable = call.flag("renewable", role.renewable);
    role.no_default_policy = call.flag("token_no_default_policy", role.no_default_policy);
    if call.has("allowed_entity_aliases") {
        role.allowed_entity_aliases = call.list("allowed_entity_aliases");
    }
    if call.has("token_type") {
        role.token_type = RoleType::parse(call.text("token_type"))?;
    }
    if call.has("path_suffix") {
        let suffix = call.text("path_suffix");
        if !suffix.is_empty() && !is_name(suffix) {
            return Err(Failure::invalid(format!(
                "path_suffix {} is no name: give letters, digits and \"_\", with \"-\" and \".\" only inside",
                quoted(suffix)
            )));
        }
        suffix.clone_into(&mut role.path_suffix);
    }
    Ok(())
}

fn set_limits(role: &mut TokenRole, call: &HostCall<'_>) -> Result<(), Failure> {
    if let Some(sent) = sent_as(role, call, "token_bound_cidrs", "bound_cidrs") {
        let cidrs = call.list(sent).into_iter().map(|text| Cidr::parse(&text));
        role.bound_cidrs = cidrs.collect::<Result<_, _>>().map_err(Failure::invalid)?;
    }
    if let Some(sent) = sent_as(role, call, "token_explicit_max_ttl", "explicit_max_ttl") {
        role.explicit_max_ttl = call.number(sent);
    }
    if let Some(sent) = sent_as(role, call, "token_period", "period") {
        role.period = call.number(sent);
    }
    if let Some(uses) = call.values.get("token_num_uses").and_then(Value::as_i64) {
        role.num_uses = u64::try_from(uses).map_err(|_| {
            Failure::invalid(format!(
                "token_num_uses {uses} is negative; give a number of requests, or 0 for no limit"
            ))
        })?;
    }
    Ok(())
}

/// The name under which a field was sent that has a deprecated one, too: the new one wins. That the
/// old one was used is remembered, because reads then show it as well.
fn sent_as<'a>(
    role: &mut TokenRole,
    call: &HostCall<'_>,
    new: &'a str,
    old: &'a str,
) -> Option<&'a str> {
    let (by_new, by_old) = (call.has(new), call.has(old));
    if by_old {
        role.old_names.insert(old.to_owned());
    } else if by_new {
        role.old_names.remove(old);
    }
    if by_new { Some(new) } else { by_old.then_some(old) }
}

fn long_period(core: &Core, role: &TokenRole) -> Option<String> {
    let max = core.token_lifetimes().max;
    (role.period > max).then(|| {
        let (period, max) = (duration::show(role.period), duration::show(max));
        format!("token_period of {period} is longer than the mount's maximum of {max}, which is what its tokens get")
    })
}

/// Every field, so that clients that compare it with what they wrote see no difference.
fn shown(name: &str, role: &TokenRole) -> Map<String, Value> {
    let by_old_name = |old: &str, value: u64| if role.old_names.contains(old) { value } else { 0 };
    let fields = [
        ("name", json!(name)),
        ("allowed_policies", json!(role.allowed_policies)),
        ("disallowed_policies", json!(role.disallowed_policies)),
        ("allowed_policies_glob", json!(role.allowed_policies_glob)),
        ("disallowed_policies_glob", json!(role.disallowed_policies_glob)),
        ("allowed_entity_aliases", json!(role.allowed_entity_aliases)),
        ("orphan", json!(role.orphan)),
        ("renewable", json!(role.renewable)),
        ("path_suffix", json!(role.path_suffix)),
        ("token_bound_cidrs", json!(role.bound_cidrs)),
        ("token_explicit_max_ttl", json!(role.explicit_max_ttl)),
        ("token_period", json!(role.period)),
        ("token_type", json!(role.token_type.word())),
        ("token_no_default_policy", json!(role.no_default_policy)),
        ("token_num_uses", json!(role.num_uses)),
        ("explicit_max_ttl", json!(by_old_name("explicit_max_ttl", role.explicit_max_ttl))),
        ("period", json!(by_old_name("period", role.period))),
    ];
    let mut data: Map<String, Value> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if role.old_names.contains("bound_cidrs") {
        data.insert("bound_cidrs".to_owned(), json!(role.bound_cidrs));
    }
    data
}
