//! `auth/token/roles`: limits on the tokens that are made by a role (decision H24).

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::policies;
use bulkhead_access::tokens::roles::{self, EXISTENCE, RoleType, TokenRole};
use bulkhead_core::Core;
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::is_name;
use serde_json::{Map, Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = "auth/token/roles/{role_name}";
    let name = || [field("role_name", FieldKind::Name, "name of the role")];
    vec![
        row::list("auth/token/roles", "names of all token roles").handled_by(list),
        row::read(one, "a token role").fields(name()).handled_by(read),
        row::write(one, "write a token role")
            .fields(name())
            .fields(settings())
            .existence(EXISTENCE)
            .handled_by(write),
        row::delete(one, "delete a token role").fields(name()).handled_by(delete),
    ]
}

fn settings() -> Vec<Field> {
    let renewable =
        field("renewable", FieldKind::Bool, "whether tokens of the role can be renewed");
    vec![
        field("allowed_policies", FieldKind::CommaList, "policies allowed for tokens of the role"),
        field(
            "disallowed_policies",
            FieldKind::CommaList,
            "policies refused for tokens of the role",
        ),
        field(
            "allowed_policies_glob",
            FieldKind::CommaList,
            "patterns of policies allowed for tokens of the role",
        ),
        field(
            "disallowed_policies_glob",
            FieldKind::CommaList,
            "patterns of policies refused for tokens of the role",
        ),
        field(
            "allowed_entity_aliases",
            FieldKind::CommaList,
            "aliases of entities allowed for tokens; * at the ends",
        ),
        field("orphan", FieldKind::Bool, "whether tokens of the role have no parent"),
        Field { default: Some(json!(true)), ..renewable },
        field(
            "path_suffix",
            FieldKind::String,
            "follows the role's name in the path of each token",
        ),
        field(
            "token_bound_cidrs",
            FieldKind::CommaList,
            "networks allowed to use tokens of the role",
        ),
        field("token_explicit_max_ttl", FieldKind::Duration, "maximum lifetime over all renewals"),
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
            "maximum requests of each token; 0 is without limit",
        ),
        field("bound_cidrs", FieldKind::CommaList, "old name of token_bound_cidrs")
            .old_name_of("token_bound_cidrs"),
        field("explicit_max_ttl", FieldKind::Duration, "old name of token_explicit_max_ttl")
            .old_name_of("token_explicit_max_ttl"),
        field("period", FieldKind::Duration, "old name of token_period")
            .old_name_of("token_period"),
    ]
}

/// `LIST auth/token/roles`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let names = roles::names(call.unit).await?;
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(ReplyBody::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// `GET auth/token/roles/:role_name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = call.fields.text("role_name");
    let role = roles::read(call.unit, name).await?.ok_or_else(Failure::absent)?;
    Ok(ReplyBody::Data(show(name, &role)).into())
}

/// `POST auth/token/roles/:role_name`. Fields that are not sent keep their values (decision A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("role_name");
    let mut role = roles::read(unit, name).await?.unwrap_or_default();
    set_policies(&mut role, fields)?;
    set_shape(&mut role, fields)?;
    set_limits(&mut role, fields)?;
    role.check()?;
    roles::put(unit, name, &role)?;
    Ok(Reply::from(ReplyBody::Nothing).with_warnings(warn_of_long_period(core, &role)))
}

/// `DELETE auth/token/roles/:role_name`.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    roles::delete(call.unit, call.fields.text("role_name"));
    Ok(ReplyBody::Nothing.into())
}

fn set_policies(role: &mut TokenRole, sent: RequestFields<'_>) -> Result<(), Failure> {
    let lists = [
        ("allowed_policies", &mut role.allowed_policies),
        ("disallowed_policies", &mut role.disallowed_policies),
        ("allowed_policies_glob", &mut role.allowed_policies_glob),
        ("disallowed_policies_glob", &mut role.disallowed_policies_glob),
    ];
    for (field, list) in lists.into_iter().filter(|(field, _)| sent.has(field)) {
        let names = sent.list(field).into_iter().map(|name| policies::canonical_name(&name));
        let mut names = names
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| Failure::invalid(format!("{field}: {why}")))?;
        names.sort_unstable();
        names.dedup();
        *list = names;
    }
    Ok(())
}

fn set_shape(role: &mut TokenRole, sent: RequestFields<'_>) -> Result<(), Failure> {
    role.orphan = sent.flag("orphan", role.orphan);
    role.renewable = sent.flag("renewable", role.renewable);
    role.no_default_policy = sent.flag("token_no_default_policy", role.no_default_policy);
    if sent.has("allowed_entity_aliases") {
        role.allowed_entity_aliases = sent.list("allowed_entity_aliases");
    }
    if sent.has("token_type") {
        role.token_type = RoleType::parse(sent.text("token_type"))?;
    }
    if sent.has("path_suffix") {
        let suffix = sent.text("path_suffix");
        if !suffix.is_empty() && !is_name(suffix) {
            return Err(Failure::invalid(format!(
                "path_suffix {} is not a name: give letters, digits and \"_\", with \"-\" and \
                 \".\" only inside",
                quoted(suffix)
            )));
        }
        suffix.clone_into(&mut role.path_suffix);
    }
    Ok(())
}

fn set_limits(role: &mut TokenRole, sent: RequestFields<'_>) -> Result<(), Failure> {
    if let Some(name) = name_sent(role, sent, "token_bound_cidrs", "bound_cidrs") {
        let cidrs = sent.list(name).into_iter().map(|text| Cidr::parse(&text));
        role.bound_cidrs = cidrs.collect::<Result<_, _>>().map_err(Failure::invalid)?;
    }
    if let Some(name) = name_sent(role, sent, "token_explicit_max_ttl", "explicit_max_ttl") {
        role.explicit_max_ttl = sent.seconds(name);
    }
    if let Some(name) = name_sent(role, sent, "token_period", "period") {
        role.period = sent.seconds(name);
    }
    if let Some(uses) = sent.integer("token_num_uses") {
        role.num_uses = u64::try_from(uses).map_err(|_| {
            Failure::invalid(format!(
                "token_num_uses {uses} is negative; give a number of requests, or 0 for no limit"
            ))
        })?;
    }
    Ok(())
}

/// Returns the name under which the caller sent a field that also has a deprecated name; the new
/// name wins. The use of the old name is remembered, because reads then show the old name as well.
fn name_sent<'a>(
    role: &mut TokenRole,
    sent: RequestFields<'_>,
    new: &'a str,
    old: &'a str,
) -> Option<&'a str> {
    let (by_new, by_old) = (sent.has(new), sent.has(old));
    if by_old {
        role.old_names.insert(old.to_owned());
    } else if by_new {
        role.old_names.remove(old);
    }
    if by_new { Some(new) } else { by_old.then_some(old) }
}

fn warn_of_long_period(core: &Core, role: &TokenRole) -> Option<String> {
    let max = core.token_lifetimes().max;
    (role.period > max).then(|| {
        let (period, max) = (duration::show(role.period), duration::show(max));
        format!(
            "token_period of {period} is longer than the mount's maximum of {max}; tokens of the \
             role get the maximum"
        )
    })
}

/// Shows every field, so that clients which compare the answer with their own settings see no
/// difference.
fn show(name: &str, role: &TokenRole) -> Map<String, Value> {
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
