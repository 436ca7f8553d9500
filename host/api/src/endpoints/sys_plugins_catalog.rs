//! `sys/plugins/catalog`: lists, registers and removes plugins (decision H14).

mod source;

use super::after_commit::AfterCommit;
use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use super::sys_mounts::grants::{MAX_GRANTS, check_deadline};
use bulkhead_core::catalog::{self, ComponentUpload, ListedPlugin, PluginType, RegistrationResult};
use bulkhead_core::lifecycle::{self, DependentTreatment, PluginRemoval, RemovalOutcome};
use bulkhead_sandbox::{GrantPattern, Publisher};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::distinct::first_of_each;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// The rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let kind = || field("type", FieldKind::String, "secret, auth or database");
    let name = || field("name", FieldKind::String, "name of the plugin");
    let version = |about| field("version", FieldKind::String, about);
    let sha256 = Field {
        aliases: vec!["sha_256".to_owned()],
        ..field(
            "sha256",
            FieldKind::String,
            "sha256 digest of the component, 64 hexadecimal digits",
        )
    };
    let force =
        field("force", FieldKind::Bool, "remove the plugin despite connections or live leases");
    let one = "sys/plugins/catalog/{type}/{name}";
    let here =
        || [kind(), name(), version("a version from the catalog; empty for the newest version")];
    let grants = field(
        "grants",
        FieldKind::TextList,
        "maximum grants of the plugin's mounts, one line each",
    );
    let sent = [kind(), name(), version("version of the component"), sha256, grants];
    let text = |name, about| field(name, FieldKind::String, about);
    let named = [
        text("command", "the file in the plugin directory; instead of a body of bytes"),
        text("oci_image", "the image layout in the plugin directory; instead of command"),
        text("signature", "the signature of the component, as `bulkhead plugin sign` prints it"),
        field("args", FieldKind::TextList, "must be empty: a component is not a process"),
        field("env", FieldKind::TextList, "must be empty: a component is not a process").secret(),
        text("runtime", "must be empty: a component has no container"),
    ];
    vec![
        row::read("sys/plugins/catalog", "every plugin").needs_sudo().handled_by(list_all),
        row::list("sys/plugins/catalog/{type}", "names of the plugins of a type")
            .needs_sudo()
            .fields([kind()])
            .handled_by(list),
        row::read(one, "a plugin").needs_sudo().fields(here()).handled_by(read),
        // Effectful: a component is compiled outside of this process, and the bytes are stored
        // before the row.
        row::write(one, "register the component in the body or the plugin directory")
            .needs_sudo()
            .with_effect()
            .takes_bytes(source::COMPONENT_BYTES)
            .fields(sent)
            .fields(named)
            .handled_by(register),
        row::delete(one, "remove a registered plugin")
            .needs_sudo()
            .fields(here())
            .fields([force])
            .handled_by(deregister),
    ]
}

/// Returns the type in the path.
///
/// # Errors
/// 400 that names the types.
pub(super) fn plugin_type(fields: RequestFields<'_>) -> Result<PluginType, Failure> {
    let word = fields.text("type");
    PluginType::ALL.into_iter().find(|kind| kind.word() == word).ok_or_else(|| {
        Failure::invalid(format!(
            "{} is not a type of plugin; the types are secret, database and auth",
            quoted(word)
        ))
    })
}

/// `GET sys/plugins/catalog`.
async fn list_all(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let listed = call.core.catalog.list();
    let members = [
        ("auth", json!(names(&listed, PluginType::Auth))),
        ("database", json!(names(&listed, PluginType::Database))),
        ("secret", json!(names(&listed, PluginType::Secret))),
        ("detailed", listed.iter().map(|plugin| Value::Object(common_members(plugin))).collect()),
    ];
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(ReplyBody::Data(members.collect()).into())
}

/// `LIST sys/plugins/catalog/:type`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let kind = plugin_type(call.fields)?;
    let listed = call.core.catalog.list();
    let names = names(&listed, kind);
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(ReplyBody::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// Returns the names of the plugins of a type, each name once.
fn names(listed: &[ListedPlugin], kind: PluginType) -> Vec<&str> {
    let of_kind = listed.iter().filter(|plugin| plugin.kind == kind);
    let mut names: Vec<&str> = of_kind.map(|plugin| plugin.name.as_str()).collect();
    names.dedup();
    names
}

/// Returns the members that listings and reads both show.
fn common_members(plugin: &ListedPlugin) -> Map<String, Value> {
    let status = if plugin.hindrance.is_some() { "unavailable" } else { "supported" };
    let members = [
        ("type", json!(plugin.kind.word())),
        ("name", json!(plugin.name)),
        ("version", json!(plugin.version)),
        ("builtin", json!(plugin.maker == Publisher::Official)),
        ("sha256", json!(plugin.digest)),
        ("deprecation_status", json!(status)),
    ];
    let image = &plugin.origin.oci_image;
    let image = Some(("oci_image", json!(image))).filter(|_| !image.is_empty());
    members.into_iter().chain(image).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `GET sys/plugins/catalog/:type/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let (kind, name) = (plugin_type(fields)?, fields.text("name"));
    let version = fields.text("version").trim_start_matches('v');
    let is_asked = |plugin: &ListedPlugin| version.is_empty() || plugin.version == version;
    let found = core.catalog.versions(kind, name).into_iter().rfind(is_asked);
    let found = found.ok_or_else(Failure::absent)?;
    let mut data = common_members(&found);
    let grants = ("grants", json!(found.grants));
    let command = ("command", json!(found.origin.command));
    let signed_by = ("signed_by", json!(found.origin.signed_by));
    let more = [("args", json!([])), command, ("asks", json!(found.asks)), grants, signed_by];
    data.extend(more.map(|(name, value)| (name.to_owned(), value)));
    let warning = found.hindrance.map(|why| format!("it cannot be used: {why}"));
    Ok(Reply::from(ReplyBody::Data(data)).with_warnings(warning))
}

/// `POST sys/plugins/catalog/:type/:name`.
async fn register(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, request, fields, .. } = call;
    let kind = plugin_type(fields)?;
    let (wasm, origin) = source::read(core, request, fields).await?;
    let upload = ComponentUpload {
        kind,
        name: fields.text("name"),
        version: fields.text("version"),
        sha256: fields.text("sha256"),
        ceiling: read_ceiling(fields)?,
        wasm: &wasm,
        origin,
    };
    let RegistrationResult { change, warnings } =
        core.catalog.register(core.loader(), unit, upload).await?;
    Ok(change_reply(Some(change)).with_warnings(warnings))
}

/// Returns the lines of `grants`, or `None` if the request does not have the field.
fn read_ceiling(fields: RequestFields<'_>) -> Result<Option<Vec<GrantPattern>>, Failure> {
    if !fields.has("grants") {
        return Ok(None);
    }
    let texts = first_of_each(fields.list("grants"));
    if texts.len() > MAX_GRANTS {
        let many = texts.len();
        return Err(Failure::invalid(format!(
            "grants: {many} lines; a ceiling has at most {MAX_GRANTS}"
        )));
    }
    let mut lines: Vec<GrantPattern> = Vec::new();
    for text in texts {
        let line: GrantPattern =
            text.parse().map_err(|why| Failure::invalid(format!("grants: {why}")))?;
        let is_of_same_limit = |other: &&GrantPattern| {
            let pair = other.grant().zip(line.grant());
            **other != line && pair.is_some_and(|(one, other)| one.is_of_same_limit(other))
        };
        if let Some(other) = lines.iter().find(is_of_same_limit) {
            return Err(Failure::invalid(format!(
                "grants: {other} and {line} are one limit; give only one line"
            )));
        }
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    check_deadline(
        lines.iter().filter_map(GrantPattern::grant),
        lines.iter().any(GrantPattern::reaches_outside),
    )?;
    Ok(Some(lines))
}

/// `DELETE sys/plugins/catalog/:type/:name`.
async fn deregister(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let kind = plugin_type(fields)?;
    let name = fields.text("name");
    let Some(version) = version_to_remove(&core.catalog.versions(kind, name), fields)? else {
        return Ok(change_reply(None));
    };
    let needed = if fields.flag("force", false) {
        DependentTreatment::Abandoned
    } else {
        DependentTreatment::Kept
    };
    let removal = PluginRemoval { kind, name, version: &version, needed };
    let RemovalOutcome { change, warning } = lifecycle::deregister(core, unit, removal).await?;
    Ok(change_reply(change).with_warnings(warning))
}

/// Returns the version that a removal means, or `None` if the catalog has no such version.
///
/// # Errors
/// 400 if the request names no version of several.
fn version_to_remove(
    versions: &[ListedPlugin],
    fields: RequestFields<'_>,
) -> Result<Option<String>, Failure> {
    let version = fields.text("version").trim_start_matches('v');
    let numbers: Vec<&str> = versions.iter().map(|plugin| plugin.version.as_str()).collect();
    match numbers.as_slice() {
        [one] if version.is_empty() => Ok(Some((*one).to_owned())),
        [_, _, ..] if version.is_empty() => Err(Failure::invalid(format!(
            "{} has several versions: {}; give version",
            fields.text("name"),
            numbers.join(", ")
        ))),
        all => Ok(all.contains(&version).then(|| version.to_owned())),
    }
}

/// Returns the reply to a change of the catalog. `None`: the catalog is unchanged.
fn change_reply(change: Option<catalog::CatalogChange>) -> Reply {
    let after_commit = change.map_or(AfterCommit::Nothing, AfterCommit::Catalog);
    Reply::from(ReplyBody::Nothing).after_commit(after_commit)
}
