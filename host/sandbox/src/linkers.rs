//! Linkers for components: one for each world, with the world's imports and the few WASI
//! interfaces.

use crate::bindings::{auth_method, database_plugin, seal_plugin, secrets_engine};
use crate::state::{CallState, CallStateData};
use crate::wasi;
use wasmtime::Engine;
use wasmtime::component::Linker;

/// The linker of each world.
pub(crate) struct Linkers {
    pub(crate) secrets_engines: Linker<CallState>,
    pub(crate) auth_methods: Linker<CallState>,
    pub(crate) database_plugins: Linker<CallState>,
    pub(crate) seal_plugins: Linker<CallState>,
}

impl Linkers {
    pub(crate) fn new(engine: &Engine) -> wasmtime::Result<Self> {
        let mut secrets_engines = Linker::new(engine);
        wasi::add_to_linker(&mut secrets_engines)?;
        secrets_engine::SecretsEngine::add_to_linker::<_, CallStateData>(
            &mut secrets_engines,
            |state| state,
        )?;
        let mut auth_methods = Linker::new(engine);
        wasi::add_to_linker(&mut auth_methods)?;
        auth_method::AuthMethod::add_to_linker::<_, CallStateData>(&mut auth_methods, |state| {
            state
        })?;
        let mut database_plugins = Linker::new(engine);
        wasi::add_to_linker(&mut database_plugins)?;
        database_plugin::DatabasePlugin::add_to_linker::<_, CallStateData>(
            &mut database_plugins,
            |state| state,
        )?;
        let mut seal_plugins = Linker::new(engine);
        wasi::add_to_linker(&mut seal_plugins)?;
        seal_plugin::SealPlugin::add_to_linker::<_, CallStateData>(&mut seal_plugins, |state| {
            state
        })?;
        Ok(Self { secrets_engines, auth_methods, database_plugins, seal_plugins })
    }
}
