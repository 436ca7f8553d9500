//! The built-in mounts: `sys/`, `auth/token/`, `identity/` and `cubbyhole/`.
//!
//! Built-in mounts can be tuned, but not disabled, moved or replaced. Their uuid and accessor are
//! derived from the cluster's key, so that they stay the same without being stored.

use super::class::MountClass;
use super::mount::RunningPlugin;
use super::record::{MountMarks, MountPhase, MountRecord};
use super::settings::MountSettings;
use bulkhead_access::random;
use bulkhead_store::{Address, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A part of the server that clients see as a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuiltinMount {
    /// `sys/`.
    System,
    /// `auth/token/`.
    Token,
    /// `identity/`.
    Identity,
    /// `cubbyhole/`.
    Cubbyhole,
}

/// The stored part of a built-in mount: the tuned settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct BuiltinRecord {
    #[serde(flatten)]
    settings: MountSettings,
    revision: u64,
}

stored!(BuiltinRecord, "builtin-mount", reads_stored_settings_of_builtins);

impl BuiltinMount {
    /// Every built-in mount; the path of a new mount must not overlap any of these.
    pub const ALL: [Self; 4] = [Self::System, Self::Token, Self::Identity, Self::Cubbyhole];

    /// Returns the built-in mount at `path`, which ends with a slash and has no `auth/`.
    pub fn at(class: MountClass, path: &str) -> Option<Self> {
        match (class, path) {
            (MountClass::Secret, "sys/") => Some(Self::System),
            (MountClass::Auth, "token/") => Some(Self::Token),
            (MountClass::Secret, "identity/") => Some(Self::Identity),
            (MountClass::Secret, "cubbyhole/") => Some(Self::Cubbyhole),
            _ => None,
        }
    }

    /// Returns the built-in mount that serves the request path `path`.
    pub fn serving(path: &str) -> Option<Self> {
        let serves = |one: &Self| path.strip_prefix(one.name());
        Self::ALL
            .into_iter()
            .find(|one| serves(one).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// Returns the path without the slash at the end.
    fn name(self) -> &'static str {
        match self {
            Self::System => "sys",
            Self::Token => "auth/token",
            Self::Identity => "identity",
            Self::Cubbyhole => "cubbyhole",
        }
    }

    /// Returns the full path, with `auth/` for `auth/token/`.
    pub fn path(self) -> MountPath {
        match self {
            Self::System => MountPath::system(),
            Self::Token => MountPath::token(),
            Self::Identity => MountPath::identity(),
            Self::Cubbyhole => MountPath::cubbyhole(),
        }
    }

    /// Returns the mount type.
    pub fn kind(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Token => "token",
            Self::Identity => "identity",
            Self::Cubbyhole => "cubbyhole",
        }
    }

    /// Returns the description before any tuning.
    fn description(self) -> &'static str {
        match self {
            Self::System => "the server's own endpoints",
            Self::Token => "tokens: identity and lifetime of each caller",
            Self::Identity => "people and machines, and their groups",
            Self::Cubbyhole => "values of a token, kept until the end of the token",
        }
    }

    /// Describes the server itself as the running plugin.
    pub fn running() -> RunningPlugin<'static> {
        RunningPlugin {
            version: env!("CARGO_PKG_VERSION"),
            digest: "",
            is_official: true,
            usual: &[],
            ceiling: None,
        }
    }

    fn address(self) -> Address {
        Address::new(Space::Core, format!("builtin-mount/{}", self.path()))
    }

    /// Reads the stored settings, or the defaults if nothing is stored.
    ///
    /// # Errors
    /// 500 for a row that is damaged or does not parse, 503 if the store cannot be read.
    pub async fn read(self, store: &Store, unit: &mut Unit) -> Result<MountRecord, Failure> {
        let tuned = match unit.get(&self.address()).await? {
            Some(record) => BuiltinRecord::from_bytes(&record.body).map_err(|_| {
                Failure::internal(format!("the settings of {} do not parse", self.path()))
            })?,
            None => {
                let settings = MountSettings {
                    description: self.description().to_owned(),
                    ..MountSettings::default()
                };
                BuiltinRecord { settings, revision: 0 }
            }
        };
        Ok(self.record(store, tuned))
    }

    /// Writes the tuned settings into the unit, with the next revision.
    pub fn put(self, unit: &mut Unit, record: &mut MountRecord) -> Result<(), Failure> {
        record.revision += 1;
        let tuned = BuiltinRecord { settings: record.settings.clone(), revision: record.revision };
        unit.put(self.address(), tuned.to_bytes()?, IndexColumns::default());
        Ok(())
    }

    fn record(self, store: &Store, tuned: BuiltinRecord) -> MountRecord {
        let hash =
            |what: &str| store.keyed_hash("mount", format!("{what} of {}", self.path()).as_bytes());
        let short: String = hash("accessor").chars().take(8).collect();
        let prefix = if self.path().is_auth() { "auth_" } else { "" };
        MountRecord {
            path: self.path(),
            uuid: random::uuid_from(&hash("uuid")),
            accessor: format!("{prefix}{}_{short}", self.kind()),
            kind: self.kind().to_owned(),
            marks: MountMarks::default(),
            settings: tuned.settings,
            version: String::new(),
            schema: 0,
            migration: None,
            before_swap: None,
            rollback: None,
            phase: MountPhase::Serving,
            revision: tuned.revision,
        }
    }

    /// Reads all built-in mounts, in the order of [`BuiltinMount::ALL`].
    pub(super) async fn load(store: &Arc<Store>) -> Result<[Arc<MountRecord>; 4], Failure> {
        let [first, second, third, fourth] = Self::ALL;
        let mut unit = store.begin();
        Ok([
            Arc::new(first.read(store, &mut unit).await?),
            Arc::new(second.read(store, &mut unit).await?),
            Arc::new(third.read(store, &mut unit).await?),
            Arc::new(fourth.read(store, &mut unit).await?),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_paths_are_distinguished_from_mount_paths() {
        for (path, expected) in [
            ("sys", Some(BuiltinMount::System)),
            ("sys/mounts", Some(BuiltinMount::System)),
            ("auth/token", Some(BuiltinMount::Token)),
            ("auth/token/create", Some(BuiltinMount::Token)),
            ("system/x", None),
            ("auth/tokens/x", None),
            ("identity/entity", Some(BuiltinMount::Identity)),
            ("identities/entity", None),
            ("cubbyhole/a/b", Some(BuiltinMount::Cubbyhole)),
            ("auth", None),
            ("x/sys", None),
        ] {
            assert_eq!(BuiltinMount::serving(path), expected, "{path}");
        }
        assert_eq!(BuiltinMount::at(MountClass::Auth, "token/"), Some(BuiltinMount::Token));
        assert_eq!(
            BuiltinMount::at(MountClass::Secret, "token/"),
            None,
            "a secrets engine may be called so"
        );
    }
}
