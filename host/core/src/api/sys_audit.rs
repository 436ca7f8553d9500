//! `sys/audit` and `sys/audit-hash`: the audit devices, and the hash under which one of them shows
//! a value (decision H19).

use super::row::{field, required, sudo};
use super::{Body, Handler, HostCall, Reply, Then};
use crate::audit::{AuditChange, Device, Origin, StoredDevice};
use crate::core::Core;
use bulkhead_store::Unit;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// The only type of device there is.
const FILE: &str = "file";

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    List,
    Enable,
    Disable,
    Hash,
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let path = || field("path", FieldKind::Name, "name of the device");
    let device = vec![
        path(),
        required("type", FieldKind::String, "file"),
        field("description", FieldKind::String, "one sentence for people"),
        field(
            "options",
            FieldKind::Map,
            "file_path, mode, log_raw, hmac_accessor, elide_list_responses, sync",
        ),
        field("local", FieldKind::Bool, "kept, without effect: nothing is replicated"),
    ];
    let value = required("input", FieldKind::String, "the value to look for in the device's lines")
        .secret();
    let rows = [
        (Act::List, sudo(Verb::Read, "sys/audit", "all audit devices", vec![])),
        (Act::Enable, sudo(Verb::Write, "sys/audit/{path}", "make an audit device", device)),
        (
            Act::Disable,
            sudo(Verb::Delete, "sys/audit/{path}", "remove an audit device", vec![path()]),
        ),
        (
            Act::Hash,
            sudo(Verb::Write, "sys/audit-hash/{path}", "the hash of a value", vec![path(), value]),
        ),
    ];
    rows.into_iter().map(|(act, route)| (Handler::Audit(act), route)).collect()
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match act {
        Act::List => Ok(list(core).into()),
        Act::Enable => enable(core, unit, call).await,
        Act::Disable => disable(core, unit, call),
        Act::Hash => hash(core, call),
    }
}

/// `GET sys/audit`.
fn list(core: &Core) -> Body {
    let devices = core.audit.devices();
    let shown = |device: &Device| (format!("{}/", device.settings.name), shown(device));
    Body::Copied(devices.iter().map(|device| shown(device)).collect())
}

/// A device of the configuration is shown with the options that would make it.
fn shown(device: &Device) -> Value {
    let settings = &device.settings;
    let of_settings = || {
        let options = [
            ("file_path", settings.file.display().to_string()),
            ("mode", format!("{:04o}", settings.mode)),
            ("log_raw", settings.log_raw.to_string()),
            ("hmac_accessor", settings.hmac_accessor.to_string()),
            ("elide_list_responses", settings.elide_list_responses.to_string()),
            ("sync", settings.sync.to_string()),
        ];
        options
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect::<Map<String, Value>>()
    };
    let (description, local, options) = match &device.origin {
        Origin::Configuration => ("declared in the configuration", false, of_settings()),
        Origin::Api(stored) => (stored.description.as_str(), stored.local, stored.options.clone()),
    };
    json!({
        "type": FILE,
        "description": description,
        "options": options,
        "local": local,
        "path": format!("{}/", settings.name),
    })
}

/// `POST sys/audit/:path`.
async fn enable(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    if call.text("type") != FILE {
        let message = format!(
            "there are no audit devices of type {}; file is what there is",
            quoted(call.text("type"))
        );
        return Err(Failure::invalid(message));
    }
    let asked = StoredDevice {
        name: call.text("path").to_owned(),
        description: call.text("description").to_owned(),
        local: call.flag("local", false),
        options: call.values.get("options").and_then(Value::as_object).cloned().unwrap_or_default(),
    };
    let device = core.audit.enable(&core.store, unit, asked, &call.request.id).await?;
    Ok(Reply { then: Then::Audit(AuditChange::Made(device)), ..Reply::from(Body::Nothing) })
}

/// `DELETE sys/audit/:path`. What is not there is removed already.
fn disable(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let name = call.text("path");
    core.audit.disable(unit, name)?;
    Ok(Reply {
        then: Then::Audit(AuditChange::Removed(name.to_owned())),
        ..Reply::from(Body::Nothing)
    })
}

/// `POST sys/audit-hash/:path`.
fn hash(core: &Core, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let name = call.text("path");
    let device = core.audit.find(name);
    let device = device.ok_or_else(|| {
        Failure::invalid(format!("there is no audit device at {name}/; see sys/audit"))
    })?;
    let hash = device.hashing.hash(call.text("input"));
    Ok(Body::Copied(Map::from_iter([("hash".to_owned(), json!(hash))])).into())
}
