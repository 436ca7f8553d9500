//! The trait that secrets engines and auth methods have in common.

use crate::answer::Answer;
use crate::call::{Call, Context};
use crate::host::Host;
use crate::metric::Metric;
use crate::table::{self, Row};
use bulkhead_wire::description::ComponentDescription;
use bulkhead_wire::failure::Failure;

/// A plugin that can be mounted: its name and version, its table, its migration and its timers.
///
/// The plugin is also a [`SecretsEngine`](crate::SecretsEngine) or an
/// [`AuthMethod`](crate::AuthMethod). The plugin must keep nothing between calls: each call runs in
/// a fresh component instance, or in an instance that served other calls of the same mount
/// (decision T4). Lasting data goes through [`Host::storage`].
pub trait MountedPlugin {
    /// Canonical name, also a mount type.
    const NAME: &'static str;
    /// Further mount types, named as clients of the field name the plugin. Only for components that
    /// are part of the server.
    const ALIASES: &'static [&'static str] = &[];
    /// Semantic version; most plugins use `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Version of the stored data's shape. A change needs [`migrate`](Self::migrate).
    const SCHEMA: u32;
    /// Newest schema of stored data that this version reads, if later versions change the data in a
    /// way that this version tolerates. A mount can go back to this version from such a version.
    const READS_SCHEMA_UP_TO: Option<u32> = None;
    /// One sentence for people.
    const ABOUT: &'static str;
    /// Grants that the plugin needs beyond its own mount, each with a target
    /// (`http:https://login.example.com:443`) or as an act alone (`http`, for every target that the
    /// operator grants). The plugin never gets a grant that is not in this list.
    const ASKS: &'static [&'static str] = &[];
    /// Metrics that the plugin reports by [`Host::metrics`].
    const METRICS: &'static [Metric] = &[];
    /// The routes of the API.
    const TABLE: &'static [Row];
    /// True if every commit gets the next index of the mount, and every record the indexes of its
    /// creation and last change ([`Entry`](crate::host::Entry)). Each write then costs a little
    /// more.
    const INDEXED: bool = false;

    /// Serves a request to a route of the table.
    ///
    /// # Errors
    /// The failure of the row's handler. An auth method refuses a caller without a valid proof with
    /// permission denied or invalid request, never with internal.
    fn handle(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        table::dispatch(Self::TABLE, host, call)
    }

    /// Migrates the mount's stored data from schema `from` to [`SCHEMA`](Self::SCHEMA), in one
    /// commit, or in several with [`MigrationSteps`](crate::migration::MigrationSteps). Runs again
    /// after a crash.
    ///
    /// # Errors
    /// Internal by default, for any schema other than [`SCHEMA`](Self::SCHEMA).
    fn migrate(_host: &dyn Host, _context: &Context, from: u32) -> Result<(), Failure> {
        if from == Self::SCHEMA {
            return Ok(());
        }
        let (name, version, schema) = (Self::NAME, Self::VERSION, Self::SCHEMA);
        Err(Failure::internal(format!(
            "{name} {version} stores data of schema {schema} and cannot read schema {from}; mount \
             a version for this schema"
        )))
    }

    /// Runs the timer `key`, or finishes the work of a call that set the guard `key` and ended
    /// without cancelling it ([`intent::key_of`](crate::intent::key_of) tells the two apart). Runs
    /// at least once; `attempt` starts at 1.
    ///
    /// # Errors
    /// Any failure leads to another attempt later. Internal by default.
    fn wake(_host: &dyn Host, _context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        Err(Failure::internal(format!(
            "{} was woken for {key:?}, but schedules nothing",
            Self::NAME
        )))
    }
}

/// Returns the description of a plugin of the kind `kind`, without the fields that only an engine
/// sets.
pub(crate) fn description<P: MountedPlugin + ?Sized>(kind: &str) -> ComponentDescription {
    ComponentDescription {
        kind: kind.to_owned(),
        name: P::NAME.to_owned(),
        aliases: P::ALIASES.iter().map(|name| (*name).to_owned()).collect(),
        version: P::VERSION.to_owned(),
        schema: P::SCHEMA,
        reads_schema_up_to: P::READS_SCHEMA_UP_TO,
        indexed: P::INDEXED,
        upgrades_api: false,
        asks: P::ASKS.iter().map(|line| (*line).to_owned()).collect(),
        metrics: P::METRICS.iter().map(Metric::described).collect(),
        about: P::ABOUT.to_owned(),
        routes: P::TABLE.iter().map(Row::route).collect(),
        raw: None,
    }
}

#[cfg(test)]
mod tests {
    use super::MountedPlugin;
    use crate::call::Context;
    use crate::table::Row;
    use crate::testbed::TestHost;

    struct BarePlugin;

    impl MountedPlugin for BarePlugin {
        const NAME: &'static str = "bare";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 2;
        const ABOUT: &'static str = "Does nothing.";
        const TABLE: &'static [Row] = &[];
    }

    #[test]
    fn plugin_without_timers_or_schemas_explains_refusal() {
        let (host, context) = (TestHost::default(), Context::default());
        let woken = BarePlugin::wake(&host, &context, "rotate/a", 1).err().unwrap();
        assert!(woken.message.contains("\"rotate/a\""));
        assert!(BarePlugin::migrate(&host, &context, 2).is_ok());
        assert!(
            BarePlugin::migrate(&host, &context, 1).err().unwrap().message.contains("schema 1")
        );
    }
}
