//! `sys/mounts`: which engine serves which path.

use super::{Body, HostCall, Reply, Then};
use crate::core::Core;
use crate::mounts::{Mount, NewMount};
use bulkhead_store::Unit;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::MountPath;
use serde_json::{Map, Value, json};

/// `GET sys/mounts`.
pub(super) fn list(core: &Core) -> Body {
    let mounts = core.mounts.all();
    Body::Copied(mounts.iter().map(|mount| (mount.record.path.to_string(), shown(mount))).collect())
}

/// `GET sys/mounts/:path`.
pub(super) fn read(core: &Core, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let path = mount_path(call)?;
    let mounts = core.mounts.all();
    let mount = mounts.iter().find(|mount| mount.record.path == path);
    let mount = mount.ok_or_else(|| Failure::invalid(format!("No secret engine mount at {path}")))?;
    match shown(mount) {
        Value::Object(data) => Ok(Body::Data(data).into()),
        _ => Err(Failure::internal("a mount is not shown as an object")),
    }
}

/// `POST sys/mounts/:path`.
pub(super) async fn enable(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let config = config(call)?;
    let new = NewMount {
        path: mount_path(call)?,
        kind: call.text("type").to_owned(),
        description: call.text("description").to_owned(),
        default_ttl: lifetime(config, "default_lease_ttl")?,
        max_ttl: lifetime(config, "max_lease_ttl")?,
    };
    let longest = if new.max_ttl == 0 { core.lifetimes.max } else { new.max_ttl };
    if new.default_ttl > longest {
        let (default, longest) = (duration::show(new.default_ttl), duration::show(longest));
        return Err(Failure::invalid(format!(
            "default_lease_ttl {default} is longer than the mount's maximum of {longest}; lower it or raise max_lease_ttl"
        )));
    }
    let record = core.mounts.enable(unit, &core.catalog, new).await?;
    Ok(Reply { body: Body::Nothing, warnings: Vec::new(), then: Then::Serve(Box::new(record)) })
}

fn mount_path(call: &HostCall<'_>) -> Result<MountPath, Failure> {
    MountPath::new(call.text("path")).map_err(Failure::invalid)
}

/// Keys of `config` that this version knows; clients send the others with empty values.
fn config<'a>(call: &HostCall<'a>) -> Result<Option<&'a Map<String, Value>>, Failure> {
    let config = match call.values.get("config") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(config)) => config,
        Some(_) => return Err(Failure::invalid("config must be an object, e.g. {\"max_lease_ttl\": \"24h\"}")),
    };
    let known = |name: &str| matches!(name, "default_lease_ttl" | "max_lease_ttl" | "force_no_cache");
    let empty = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || value.as_str() == Some("");
    match config.iter().find(|(name, value)| !known(name) && !empty(value)) {
        Some((name, _)) => {
            Err(Failure::invalid(format!("config.{} is not available in this version; leave it out", quoted(name))))
        }
        None => Ok(Some(config)),
    }
}

fn lifetime(config: Option<&Map<String, Value>>, name: &str) -> Result<u64, Failure> {
    match config.and_then(|config| config.get(name)) {
        None | Some(Value::Null) => Ok(0),
        Some(Value::String(word)) if word == "system" => Ok(0),
        Some(value) => duration::seconds(value).map_err(|why| Failure::invalid(format!("config.{name}: {why}"))),
    }
}

fn shown(mount: &Mount) -> Value {
    let record = &mount.record;
    let identity = mount.plugin.engine.identity();
    json!({
        "type": record.kind,
        "description": record.description,
        "accessor": record.accessor,
        "uuid": record.uuid,
        "local": false,
        "seal_wrap": false,
        "external_entropy_access": false,
        "options": record.options,
        "plugin_version": "",
        "running_plugin_version": identity.version,
        "running_sha256": identity.digest,
        "config": {
            "default_lease_ttl": record.default_ttl,
            "max_lease_ttl": record.max_ttl,
            "force_no_cache": false,
        },
    })
}
