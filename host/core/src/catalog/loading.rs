//! Machine code of uploaded plugins: loaded before the first call, and compiled in the background
//! if this build has not compiled the component.
//!
//! This file prevents a start that waits for a compiler, and memory for plugins that nobody calls.
//! Code that is not authentic is never loaded but made again from the component, whose digest is
//! checked.

use super::bytes::{self, StoredCode};
use super::entry::{self, PluginRecord};
use super::plugin::{Plugin, PluginLoader};
use super::table::Catalog;
use bulkhead_access::log::cause;
use bulkhead_sandbox::CodeSource;
use bulkhead_sandbox::compiled::AuthenticCode;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Milliseconds after which a caller may ask again for a plugin that is being compiled.
const RETRY_AFTER: u64 = 2_000;

/// The outcome of a compilation in the background.
pub(crate) enum CompilationOutcome {
    /// The code is stored.
    Done,
    /// The plugin cannot be used, for this reason.
    LeftOut(Failure),
    /// The plugin was removed from the catalog meanwhile.
    Removed,
}

impl Catalog {
    /// Loads the code of a plugin, unless the code is loaded. Code that is missing is compiled in
    /// the background.
    ///
    /// # Errors
    /// 503 while the code is being compiled, or if the store cannot be read.
    pub(crate) async fn load_code(
        &self,
        loader: PluginLoader<'_>,
        plugin: &Plugin,
    ) -> Result<(), Failure> {
        if plugin.is_linked() {
            return Ok(());
        }
        if self.missing.has(plugin) {
            return Err(being_compiled(plugin));
        }
        let _turn = self.missing.turn.lock().await;
        if plugin.is_linked() {
            return Ok(());
        }
        let event = match bytes::code_of(loader.store, &plugin.identity().digest).await? {
            StoredCode::Authentic(code) => match link(loader, plugin, code, Plugin::link).await {
                Ok(()) => {
                    loader.sandbox.code_loads.note(CodeSource::Stored);
                    loader.log.line(LogLevel::Info, "plugin-loaded", &name_pairs(plugin));
                    return Ok(());
                }
                // Perhaps made on another processor.
                Err(_) => "compiled-code-incompatible",
            },
            StoredCode::Absent => "compiled-code-of-another-build",
            StoredCode::NotAuthentic => "compiled-code-not-authentic",
        };
        self.ask_for_code(loader, plugin, event);
        Err(being_compiled(plugin))
    }

    /// Lets the code of a plugin be compiled in the background, once.
    pub(super) fn ask_for_code(&self, loader: PluginLoader<'_>, plugin: &Plugin, event: &str) {
        if self.missing.ask(plugin) {
            loader.log.line(LogLevel::Warn, event, &name_pairs(plugin));
        }
    }

    /// Lets the plugins for which `is_first` holds be compiled before all others.
    pub(crate) fn compile_first(&self, is_first: impl Fn(&Plugin) -> bool) {
        self.missing.put_first(is_first);
    }

    /// Waits for a plugin whose code is to be compiled.
    pub(crate) async fn next_missing(&self) -> Plugin {
        self.missing.next_plugin().await
    }

    /// Notes that the compilation of a plugin ended: its next call loads the code.
    pub(crate) fn end_compilation(&self, plugin: &Plugin) {
        self.missing.end(plugin);
    }

    /// Compiles the stored component of a plugin and stores the code. Leaves a plugin out whose
    /// component is damaged or does not compile.
    ///
    /// # Errors
    /// 503 if the store or the compiler is not available: another attempt may succeed.
    pub(crate) async fn compile_stored(
        &self,
        loader: PluginLoader<'_>,
        plugin: &Plugin,
    ) -> Result<CompilationOutcome, Failure> {
        let Some(entry) = entry_of(loader, plugin).await? else {
            return Ok(CompilationOutcome::Removed);
        };
        match compile(loader, plugin, &entry).await {
            Ok(()) => Ok(CompilationOutcome::Done),
            Err(failure) if failure.kind == FailureKind::Unavailable => Err(failure),
            Err(failure) => {
                self.remove(entry.kind, &entry.name, &entry.version);
                self.leave_out(entry, failure.message.clone());
                Ok(CompilationOutcome::LeftOut(failure))
            }
        }
    }
}

/// Returns the entry of the plugin; `None` if the catalog has no such version any more.
async fn entry_of(
    loader: PluginLoader<'_>,
    plugin: &Plugin,
) -> Result<Option<PluginRecord>, Failure> {
    let identity = plugin.identity();
    let address = entry::address(plugin.kind(), &identity.name, &identity.version);
    let row = loader.store.begin().get_undamaged(&address).await?;
    let entry = row.and_then(|row| PluginRecord::parse(&row).ok());
    Ok(entry.filter(|entry| entry.digest == identity.digest))
}

async fn compile(
    loader: PluginLoader<'_>,
    plugin: &Plugin,
    entry: &PluginRecord,
) -> Result<(), Failure> {
    let wasm = bytes::wasm_of(loader.store, &entry.digest, entry.bytes).await?;
    let missing =
        "the stored bytes of the component are not the registered bytes; register it again";
    let wasm = wasm.ok_or_else(|| Failure::internal(missing))?;
    let code = loader.compiler.compile_stored(Arc::new(wasm)).await?.code;
    loader.sandbox.code_loads.note(CodeSource::Compiled);
    if let Err(failure) = bytes::put_code(loader.store, &entry.digest, &code).await {
        // It is compiled again at the next start.
        let pairs = [("plugin", entry.name.clone()), cause(&failure)];
        loader.log.line(LogLevel::Warn, "compiled-code-not-stored", &pairs);
        return link(loader, plugin, code, Plugin::link).await.map_err(unloadable_failure);
    }
    link(loader, plugin, code, Plugin::check_code).await.map_err(unloadable_failure)
}

/// Links or checks code in a thread that may wait: reading it in takes long.
async fn link(
    loader: PluginLoader<'_>,
    plugin: &Plugin,
    code: AuthenticCode,
    act: fn(&Plugin, &bulkhead_sandbox::Sandbox, &AuthenticCode) -> Result<(), String>,
) -> Result<(), String> {
    let (plugin, sandbox) = (plugin.clone(), Arc::clone(loader.sandbox));
    let linking = tokio::task::spawn_blocking(move || act(&plugin, &sandbox, &code));
    linking.await.unwrap_or_else(|_| Err("the plugin's code cannot be read".to_owned()))
}

fn name_pairs(plugin: &Plugin) -> [(&'static str, String); 2] {
    let identity = plugin.identity();
    [("plugin", identity.name.clone()), ("sha256", identity.digest.clone())]
}

/// Returns the failure of a plugin whose names, digests or structure do not fit together.
pub(super) fn unloadable_failure(why: String) -> Failure {
    Failure::internal(why).recordable()
}

fn being_compiled(plugin: &Plugin) -> Failure {
    let message = format!("{} is being compiled; try again", plugin.identity().title());
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(FailureKind::Unavailable, message) }
}
