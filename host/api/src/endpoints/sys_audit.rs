//! `sys/audit` and `sys/audit-hash`: the audit devices, and the hash under which a device shows a
//! value (decision H19).

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field, required};
use bulkhead_audit::{AuditChange, AuditDevice, DeviceOrigin, StoredDevice};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// The only type of audit device.
const FILE: &str = "file";

/// Returns the rows of this file. All rows need `sudo` (decision H12).
pub(super) fn rows() -> Vec<Endpoint> {
    let path = || field("path", FieldKind::Name, "name of the device");
    let device = [
        path(),
        required("type", FieldKind::String, "file"),
        field("description", FieldKind::String, "one sentence for people"),
        field(
            "options",
            FieldKind::Map,
            "file_path, mode, log_raw, hmac_accessor, elide_list_responses, sync",
        )
        .with_members(bulkhead_audit::option_fields()),
        field("local", FieldKind::Bool, "kept, without effect: nothing is replicated"),
    ];
    let value = required("input", FieldKind::String, "the value to look for in the device's lines")
        .secret();
    vec![
        row::read("sys/audit", "all audit devices").needs_sudo().handled_by(list),
        row::write("sys/audit/{path}", "make an audit device")
            .needs_sudo()
            .fields(device)
            .handled_by(enable),
        row::delete("sys/audit/{path}", "remove an audit device")
            .needs_sudo()
            .fields([path()])
            .handled_by(disable),
        row::write("sys/audit-hash/{path}", "the hash of a value")
            .needs_sudo()
            .fields([path(), value])
            .handled_by(hash),
    ]
}

/// `GET sys/audit`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let devices = call.core.audit.devices();
    let member = |device: &AuditDevice| (format!("{}/", device.settings.name), show(device));
    Ok(ReplyBody::Copied(devices.iter().map(|device| member(device)).collect()).into())
}

/// Shows a device. A device of the configuration is shown with the options that would create it.
fn show(device: &AuditDevice) -> Value {
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
        DeviceOrigin::Configuration => ("declared in the configuration", false, of_settings()),
        DeviceOrigin::Api(stored) => {
            (stored.description.as_str(), stored.local, stored.options.clone())
        }
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
async fn enable(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, request, fields, .. } = call;
    if fields.text("type") != FILE {
        let message = format!(
            "audit devices of type {} are not supported; use file",
            quoted(fields.text("type"))
        );
        return Err(Failure::invalid(message));
    }
    let stored_device = StoredDevice {
        name: fields.text("path").to_owned(),
        description: fields.text("description").to_owned(),
        local: fields.flag("local", false),
        options: fields.object("options").cloned().unwrap_or_default(),
    };
    let device = core.audit.enable(&core.store, unit, stored_device, &request.id).await?;
    let change = AfterCommit::Audit(AuditChange::Made(device));
    Ok(Reply::from(ReplyBody::Nothing).after_commit(change))
}

/// `DELETE sys/audit/:path`. Succeeds even if there is no such device.
async fn disable(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = call.fields.text("path");
    call.core.audit.disable(call.unit, name)?;
    let removed = AfterCommit::Audit(AuditChange::Removed(name.to_owned()));
    Ok(Reply::from(ReplyBody::Nothing).after_commit(removed))
}

/// `POST sys/audit-hash/:path`.
async fn hash(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = call.fields.text("path");
    let device = call.core.audit.find(name);
    let device = device.ok_or_else(|| {
        Failure::invalid(format!(
            "unknown audit backend: there is no audit device at {name}/; see sys/audit"
        ))
    })?;
    let hash = device.hashing.hash(call.fields.text("input"));
    Ok(ReplyBody::Copied(Map::from_iter([("hash".to_owned(), json!(hash))])).into())
}
