//! Compiles uploaded plugins whose code is missing, while the service is open: after a change of
//! the build, and after damage to the stored code.
//!
//! This file prevents a start that waits for a compiler. Requests of a mount get 503 until the code
//! of its plugin is stored.

use super::ending::outside_of_request;
use super::revive::revive_all;
use crate::catalog::{CompilationOutcome, Plugin, PluginType};
use crate::core::Core;
use crate::mounts::Mount;
use bulkhead_access::log::cause;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two attempts, if the store or the compiler was not available.
const COMPILE_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Compiles missing code until the service is sealed, that of plugins in use before all other.
pub(super) fn begin(core: &Arc<Core>) {
    let in_use: BTreeSet<String> = core.mounts.all().iter().map(|mount| digest_of(mount)).collect();
    core.catalog.compile_first(|plugin| {
        plugin.kind() == PluginType::Database || in_use.contains(&plugin.identity().digest)
    });
    let owner = Arc::clone(core);
    let work = async move {
        tokio::select! {
            () = owner.sealing.wait_for_seal() => {}
            () = compile_all(&owner) => {}
        }
    };
    // The service is being sealed already if this fails.
    drop(outside_of_request(core, work));
}

async fn compile_all(core: &Arc<Core>) {
    loop {
        let plugin = core.catalog.next_missing().await;
        let compilation = compile(core, &plugin).await;
        core.catalog.end_compilation(&plugin);
        match compilation {
            CompilationOutcome::Done if plugin.kind() == PluginType::Database => {}
            CompilationOutcome::Done => {
                revive_all(core, plugin.kind(), &plugin.identity().name).await
            }
            CompilationOutcome::LeftOut(why) => leave_mounts_waiting(core, &plugin, &why),
            CompilationOutcome::Removed => {}
        }
    }
}

/// Compiles the plugin, again if the store or the compiler was not available.
async fn compile(core: &Arc<Core>, plugin: &Plugin) -> CompilationOutcome {
    loop {
        let why = match core.catalog.compile_stored(core.loader(), plugin).await {
            Ok(compilation) => {
                if matches!(compilation, CompilationOutcome::Done) {
                    core.log.line(LogLevel::Info, "plugin-compiled", &name_pairs(plugin));
                }
                return compilation;
            }
            Err(why) => why,
        };
        let [name, version] = name_pairs(plugin);
        core.log.line(LogLevel::Warn, "plugin-not-compiled", &[name, version, cause(&why)]);
        tokio::time::sleep(COMPILE_RETRY_PAUSE).await;
    }
}

/// Marks the mounts of a plugin that cannot be used as unavailable.
fn leave_mounts_waiting(core: &Arc<Core>, plugin: &Plugin, why: &Failure) {
    let [name, version] = name_pairs(plugin);
    core.log.line(LogLevel::Error, "plugin-not-loaded", &[name, version, cause(why)]);
    let identity = plugin.identity();
    for mount in core.mounts.of_plugin(plugin.kind(), &identity.name) {
        if mount.plugin.identity().version == identity.version {
            let pairs = [("mount", mount.record.path.to_string()), cause(why)];
            core.log.line(LogLevel::Error, "mount-without-plugin", &pairs);
            core.mounts.set_unavailable(mount.record.clone(), why.message.clone());
        }
    }
}

fn digest_of(mount: &Mount) -> String {
    mount.plugin.identity().digest.clone()
}

fn name_pairs(plugin: &Plugin) -> [(&'static str, String); 2] {
    let identity = plugin.identity();
    [("plugin", identity.name.clone()), ("version", identity.version.clone())]
}
