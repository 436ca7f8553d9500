//! Mounts by their accessors, for the aliases of entities and groups.

use super::builtin::BuiltinMount;
use super::record::{MountPhase, MountRecord};
use super::table::Mounts;
use bulkhead_access::identity::AliasMount;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};

impl Mounts {
    /// Returns the mount with this accessor, for a new alias. The mount's row is read in the unit:
    /// if the mount is disabled meanwhile, the commit conflicts, so no alias is created after the
    /// deletion of the mount's aliases.
    ///
    /// # Errors
    /// 400 if no serving mount has the accessor.
    pub async fn for_alias(&self, unit: &mut Unit, accessor: &str) -> Result<AliasMount, Failure> {
        if let Some(builtin) = self.builtin_with(accessor) {
            return Ok(builtin);
        }
        if let Some(mount) = self.all().iter().find(|mount| mount.record.accessor == accessor) {
            let stored = MountRecord::read(unit, &mount.record.path).await?;
            let serves = |record: &MountRecord| {
                record.accessor == accessor && record.phase == MountPhase::Serving
            };
            if let Some(record) = stored.filter(serves) {
                return Ok(record.for_aliases());
            }
        }
        Err(Failure::invalid(format!(
            "invalid mount accessor {}: no mount has this accessor; sys/auth shows the accessors \
             of auth methods",
            quoted(accessor)
        )))
    }

    /// Returns the current mount of an alias, or the recorded mount if the mount is not in the
    /// table any more.
    pub fn of_alias(&self, mount: &AliasMount) -> AliasMount {
        let now = self.all().into_iter().find(|now| now.record.accessor == mount.accessor);
        let now = now.map(|now| now.record.for_aliases());
        now.or_else(|| self.builtin_with(&mount.accessor)).unwrap_or_else(|| mount.clone())
    }

    fn builtin_with(&self, accessor: &str) -> Option<AliasMount> {
        let mut builtins = BuiltinMount::ALL.into_iter().map(|builtin| self.builtin(builtin));
        let found = builtins.find(|record| record.accessor == accessor)?;
        Some(found.for_aliases())
    }
}
