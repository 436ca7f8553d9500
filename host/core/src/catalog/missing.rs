//! Plugins without compiled code, in the order of their compilation.

use super::plugin::Plugin;
use bulkhead_wire::sync;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use tokio::sync::Notify;

/// Plugins without compiled code.
#[derive(Default)]
pub(super) struct MissingCode {
    /// Held while code is loaded: first calls that come together read the code once.
    pub(super) turn: tokio::sync::Mutex<()>,
    plugins: Mutex<CompileQueue>,
    arrived: Notify,
}

#[derive(Default)]
struct CompileQueue {
    queue: VecDeque<Plugin>,
    /// Digests of the queue, and of the plugin that is being compiled.
    digests: BTreeSet<String>,
}

impl MissingCode {
    /// Adds a plugin, and reports whether the plugin was not there.
    pub(super) fn ask(&self, plugin: &Plugin) -> bool {
        let mut plugins = sync::lock(&self.plugins);
        let is_new = plugins.digests.insert(plugin.identity().digest.clone());
        if is_new {
            plugins.queue.push_back(plugin.clone());
            self.arrived.notify_one();
        }
        is_new
    }

    /// Reports whether the code of the plugin is to be compiled, or is being compiled.
    pub(super) fn has(&self, plugin: &Plugin) -> bool {
        sync::lock(&self.plugins).digests.contains(&plugin.identity().digest)
    }

    /// Waits for the next plugin to compile.
    pub(super) async fn next_plugin(&self) -> Plugin {
        loop {
            let next = sync::lock(&self.plugins).queue.pop_front();
            match next {
                Some(plugin) => return plugin,
                None => self.arrived.notified().await,
            }
        }
    }

    /// Puts the plugins for which `is_first` holds before all others.
    pub(super) fn put_first(&self, is_first: impl Fn(&Plugin) -> bool) {
        let mut plugins = sync::lock(&self.plugins);
        plugins.queue.make_contiguous().sort_by_key(|plugin| !is_first(plugin));
    }

    /// Removes a plugin whose compilation ended.
    pub(super) fn end(&self, plugin: &Plugin) {
        sync::lock(&self.plugins).digests.remove(&plugin.identity().digest);
    }
}
