//! `sys/plugins/catalog`: which plugins there are, and bringing one along (decision H14).

use super::mount_grants::MOST;
use super::row::{field, row, sudo};
use super::{Body, Handler, HostCall, Reply, Then};
use crate::catalog::{self, Listed, PluginType, Registered, Upload};
use crate::core::Core;
use bulkhead_sandbox::{Ask, Maker};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    ListAll,
    List,
    Read,
    Register,
    Deregister,
}

impl Act {
    /// A component is compiled outside of this process, and its bytes are stored before its row: a
    /// conflict is for the caller to try again.
    pub(super) fn reaches_outside(self) -> bool {
        self == Self::Register
    }
}

/// Longest component: what the listener takes.
const COMPONENT_BYTES: u64 = 32 << 20;

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let kind = || field("type", FieldKind::String, "secret or database");
    let name = || field("name", FieldKind::String, "name of the plugin");
    let version = |about| field("version", FieldKind::String, about);
    let sha256 = Field {
        aliases: vec!["sha_256".to_owned()],
        ..field(
            "sha256",
            FieldKind::String,
            "the digest that the component must have, 64 hexadecimal digits",
        )
    };
    let one = "sys/plugins/catalog/{type}/{name}";
    let here =
        || vec![kind(), name(), version("the version that is meant; empty for the one there is")];
    let grants =
        field("grants", FieldKind::TextList, "what its mounts may be granted at most, a line each");
    let sent =
        vec![kind(), name(), version("the version that the component must have"), sha256, grants];
    let register = Route {
        raw: true,
        body_limit: COMPONENT_BYTES,
        ..sudo(Verb::Write, one, "register the component in the body as a plugin", sent)
    };
    [
        (Act::ListAll, row(Verb::Read, "sys/plugins/catalog", "every plugin", vec![])),
        (
            Act::List,
            row(
                Verb::List,
                "sys/plugins/catalog/{type}",
                "names of the plugins of a type",
                vec![kind()],
            ),
        ),
        (Act::Read, row(Verb::Read, one, "a plugin", here())),
        (Act::Register, register),
        (Act::Deregister, sudo(Verb::Delete, one, "remove a plugin that was registered", here())),
    ]
    .into_iter()
    .map(|(act, route)| (Handler::PluginsCatalog(act), route))
    .collect()
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match act {
        Act::ListAll => Ok(list_all(core).into()),
        Act::List => list(core, call),
        Act::Read => read(core, call),
        Act::Register => register(core, unit, call).await,
        Act::Deregister => deregister(core, unit, call).await,
    }
}

/// The type in the path; `None` for that of auth methods, of which there are none.
fn kind(call: &HostCall<'_>) -> Result<Option<PluginType>, Failure> {
    match call.text("type") {
        "secret" => Ok(Some(PluginType::Secret)),
        "database" => Ok(Some(PluginType::Database)),
        "auth" => Ok(None),
        other => {
            let other = quoted(other);
            Err(Failure::invalid(format!(
                "{other} is no type of plugin; the types are secret, database and auth"
            )))
        }
    }
}

fn list_all(core: &Core) -> Body {
    let listed = core.catalog.listed();
    let names = |kind: PluginType| -> Vec<&str> {
        listed
            .iter()
            .filter(|plugin| plugin.kind == kind)
            .map(|plugin| plugin.name.as_str())
            .collect()
    };
    let members = [
        ("auth", json!([])),
        ("database", json!(names(PluginType::Database))),
        ("secret", json!(names(PluginType::Secret))),
        ("detailed", listed.iter().map(|plugin| Value::Object(brief(plugin))).collect()),
    ];
    Body::Data(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn list(core: &Core, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let kind = kind(call)?;
    let listed = core.catalog.listed();
    let names: Vec<&str> = listed
        .iter()
        .filter(|plugin| Some(plugin.kind) == kind)
        .map(|plugin| plugin.name.as_str())
        .collect();
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(Body::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// What listings and reads both show.
fn brief(plugin: &Listed) -> Map<String, Value> {
    let status = if plugin.hindrance.is_some() { "unavailable" } else { "supported" };
    let members = [
        ("type", json!(plugin.kind.word())),
        ("name", json!(plugin.name)),
        ("version", json!(plugin.version)),
        ("builtin", json!(plugin.maker == Maker::Official)),
        ("sha256", json!(plugin.digest)),
        ("deprecation_status", json!(status)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn read(core: &Core, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let (kind, name) = (kind(call)?, call.text("name"));
    let version = call.text("version").trim_start_matches('v');
    let found = core
        .catalog
        .listed()
        .into_iter()
        .find(|plugin| Some(plugin.kind) == kind && plugin.name == name);
    let found = found
        .filter(|plugin| version.is_empty() || plugin.version == version)
        .ok_or_else(Failure::absent)?;
    let mut data = brief(&found);
    let grants = ("grants", json!(found.grants));
    let more = [("args", json!([])), ("command", json!("")), ("asks", json!(found.asks)), grants];
    data.extend(more.map(|(name, value)| (name.to_owned(), value)));
    let warnings =
        found.hindrance.map(|why| format!("it cannot be used: {why}")).into_iter().collect();
    Ok(Reply { body: Body::Data(data), warnings, then: Then::Nothing })
}

async fn register(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let kind = kind(call)?.ok_or_else(|| {
        Failure::invalid("this version has no world for auth methods: register a component of type secret or database")
    })?;
    let raw = call
        .request
        .raw
        .as_ref()
        .ok_or_else(|| Failure::internal("a component came without its bytes"))?;
    let upload = Upload {
        kind,
        name: call.text("name"),
        version: call.text("version"),
        sha256: call.text("sha256"),
        ceiling: ceiling(call)?,
        wasm: raw.bytes(),
    };
    let Registered { change, warnings } = catalog::register(core, unit, upload).await?;
    Ok(Reply { warnings, ..changed(change) })
}

/// The lines of `grants`; `None` where the field is left out, which says nothing.
fn ceiling(call: &HostCall<'_>) -> Result<Option<Vec<Ask>>, Failure> {
    if !call.values.contains_key("grants") {
        return Ok(None);
    }
    let mut lines: Vec<Ask> = Vec::new();
    for text in call.list("grants") {
        let line: Ask = text.parse().map_err(|why| Failure::invalid(format!("grants: {why}")))?;
        let is_of_same_limit = |other: &&Ask| {
            let pair = other.grant().zip(line.grant());
            **other != line && pair.is_some_and(|(one, other)| one.is_of_same_limit(other))
        };
        if let Some(other) = lines.iter().find(is_of_same_limit) {
            return Err(Failure::invalid(format!(
                "grants: {other} and {line} are one limit; give one of them"
            )));
        }
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.len() {
        0..=MOST => Ok(Some(lines)),
        many => {
            Err(Failure::invalid(format!("grants: {many} lines; a ceiling has at most {MOST}")))
        }
    }
}

async fn deregister(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let Some(kind) = kind(call)? else { return Ok(Body::Nothing.into()) };
    let (name, version) = (call.text("name"), call.text("version").trim_start_matches('v'));
    let there_is =
        core.catalog.listed().into_iter().find(|plugin| plugin.kind == kind && plugin.name == name);
    if let Some(other) = there_is.filter(|plugin| !version.is_empty() && plugin.version != version)
    {
        let (version, there_is) = (quoted(version), other.version);
        return Err(Failure::invalid(format!(
            "{name} has no version {version}; there is {there_is}"
        )));
    }
    Ok(changed(catalog::deregister(core, unit, kind, name).await?))
}

fn changed(change: Option<catalog::Change>) -> Reply {
    let then = change.map_or(Then::Nothing, Then::Catalog);
    Reply { body: Body::Nothing, warnings: Vec::new(), then }
}
