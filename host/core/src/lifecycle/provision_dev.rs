//! Provisioning of dev mode: a root token, and every plugin of this binary at its default path.

use crate::catalog::PluginType;
use crate::core::Core;
use crate::mounts::{MountMarks, MountSettings, NewMount, api_version};
use bulkhead_access::log::cause;
use bulkhead_access::tokens;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::name::MountPath;
use bulkhead_wire::secret::Secret;
use std::collections::BTreeMap;

/// Stores the token `root_token`, and mounts all plugins that are not mounted yet.
///
/// # Errors
/// 400 if `root_token` was revoked before; the store's failure.
pub(crate) async fn provision_dev(core: &Core, root_token: &Secret) -> Result<(), Failure> {
    tokens::ensure_root(&core.store, root_token).await?;
    for (kind, name) in core.catalog.official_mountable() {
        let path = match kind {
            PluginType::Auth => MountPath::below_auth(&name),
            _ => MountPath::new(default_path(&name)),
        };
        mount_default(core, &name, path.map_err(Failure::internal)?).await?;
    }
    Ok(())
}

/// Returns the default path of an engine: the engine's name, unless clients expect another path.
fn default_path(name: &str) -> &str {
    match name {
        "scheduler" => "acl",
        "kv" => "secret",
        name => name,
    }
}

/// Returns the options of the default mount: clients expect version 2 of `kv` at `secret/`.
fn default_options(name: &str) -> BTreeMap<String, String> {
    let version = (name == "kv").then(|| (api_version::OPTION.to_owned(), "2".to_owned()));
    version.into_iter().collect()
}

/// Mounts a plugin at its default path in the API.
async fn mount_default(core: &Core, kind: &str, path: MountPath) -> Result<(), Failure> {
    if core.mounts.route(path.as_str().trim_end_matches('/')).is_some() {
        return Ok(());
    }
    let settings = MountSettings {
        description: "default mount of dev mode".to_owned(),
        options: default_options(kind),
        ..MountSettings::default()
    };
    let mut unit = core.store.begin();
    let new = NewMount { path, kind: kind.to_owned(), marks: MountMarks::default(), settings };
    let record = match core.mounts.enable(&mut unit, &core.catalog, new).await {
        Err(taken) if taken.kind == FailureKind::InvalidRequest => {
            // The path is taken by a mount whose record cannot be opened. The other mounts are
            // still served.
            core.log.line("warn", "default-mount-skipped", &[cause(&taken)]);
            return Ok(());
        }
        record => record?,
    };
    unit.commit().await?;
    core.mounts.serve(record, &core.catalog)
}
