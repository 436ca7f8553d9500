//! `sys/plugins/pins`: the version of a plugin for every mount that does not override the pin. A
//! pin changes running mounts at their next reload (decision H44).

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field, required};
use super::sys_plugins_catalog::plugin_type;
use bulkhead_core::catalog::{CatalogChange, Pin};
use bulkhead_sandbox::Publisher;
use bulkhead_store::Unit;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = "sys/plugins/pins/{type}/{name}";
    let named = || {
        [
            field("type", FieldKind::String, "secret, auth or database"),
            field("name", FieldKind::String, "name of the plugin"),
        ]
    };
    let version = required("version", FieldKind::String, "a version from the catalog, e.g. 1.2.0");
    vec![
        row::read("sys/plugins/pins", "every pinned version").needs_sudo().handled_by(list),
        row::read(one, "the pinned version of a plugin")
            .needs_sudo()
            .fields(named())
            .handled_by(read),
        row::write(one, "pin a version of a plugin")
            .needs_sudo()
            .fields(named())
            .fields([version])
            .handled_by(write),
        row::delete(one, "remove the pin of a plugin")
            .needs_sudo()
            .fields(named())
            .handled_by(delete),
    ]
}

/// `GET sys/plugins/pins`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let pins: Value = call.core.catalog.pins().iter().map(describe_pin).collect();
    Ok(ReplyBody::Data(Map::from_iter([("pinned_versions".to_owned(), pins)])).into())
}

/// `GET sys/plugins/pins/:type/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { unit, fields, .. } = call;
    let pin = Pin::read(unit, plugin_type(fields)?, fields.text("name")).await?;
    let pin = pin.ok_or_else(Failure::absent)?;
    let Value::Object(data) = describe_pin(&pin) else {
        return Err(Failure::internal("a pin is shown as an object"));
    };
    Ok(ReplyBody::Data(data).into())
}

fn describe_pin(pin: &Pin) -> Value {
    json!({ "name": pin.name, "type": pin.kind.word(), "version": pin.shown_version() })
}

/// `POST sys/plugins/pins/:type/:name`.
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let (kind, name) = (plugin_type(fields)?, fields.text("name"));
    let written = fields.text("version");
    let version = written.trim_start_matches('v');
    let versions = core.catalog.versions(kind, name);
    let numbers: Vec<&str> = versions.iter().map(|plugin| plugin.version.as_str()).collect();
    if numbers.is_empty() {
        return Err(Failure::invalid(format!(
            "the catalog has no {} {}: register the plugin before you pin a version",
            kind.title(),
            quoted(name)
        )));
    }
    let Some(found) = versions.iter().find(|plugin| plugin.version == version) else {
        return Err(Failure::invalid(format!(
            "version {} of the {} {name} is not in the catalog; there is {}",
            quoted(version),
            kind.title(),
            numbers.join(", ")
        )));
    };
    if found.maker == Publisher::Official {
        return Err(Failure::invalid(format!(
            "the {} {name} is built in and has a single version: built-in plugins cannot be pinned",
            kind.title()
        )));
    }
    if let Some(why) = &found.hindrance {
        return Err(Failure::invalid(format!(
            "version {version} of the {} {name} cannot be used, so it cannot be pinned: {why}",
            kind.title()
        )));
    }
    let [name, version, written] = [name, version, written].map(str::to_owned);
    let pin = Pin { kind, name, version, written };
    assert_registered(unit, &pin).await?;
    pin.put(unit)?;
    Ok(Reply::from(ReplyBody::Nothing)
        .after_commit(AfterCommit::Catalog(CatalogChange::Pinned(pin))))
}

/// Makes the removal of the pinned version meanwhile a conflict of the unit.
async fn assert_registered(unit: &mut Unit, pin: &Pin) -> Result<(), Failure> {
    let row = bulkhead_core::catalog::address(pin.kind, &pin.name, &pin.version);
    match unit.get(&row).await? {
        Some(_) => Ok(()),
        None => Err(Failure::invalid(format!(
            "version {} of {} is being removed from the catalog",
            pin.version, pin.name
        ))),
    }
}

/// `DELETE sys/plugins/pins/:type/:name`.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { unit, fields, .. } = call;
    let (kind, name) = (plugin_type(fields)?, fields.text("name"));
    Pin::delete(unit, kind, name);
    let change = CatalogChange::Unpinned(kind, name.to_owned());
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::Catalog(change)))
}
