//! Mounts by their accessors, for the aliases of entities and groups.

use super::builtin::Builtin;
use super::record::{MountRecord, Phase};
use super::table::Mounts;
use crate::identity::AliasMount;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};

impl Mounts {
    /// The mount with that accessor, for a new alias. Read in the unit: a mount that is disabled
    /// meanwhile takes all its aliases along, and none comes behind it.
    ///
    /// # Errors
    /// 400 where no mount that serves has it.
    pub(crate) async fn for_alias(
        &self,
        unit: &mut Unit,
        accessor: &str,
    ) -> Result<AliasMount, Failure> {
        if let Some(builtin) = self.builtin_with(accessor) {
            return Ok(builtin);
        }
        if let Some(mount) = self.all().iter().find(|mount| mount.record.accessor == accessor) {
            let stored = MountRecord::read(unit, &mount.record.path).await?;
            let serves = |record: &MountRecord| {
                record.accessor == accessor && record.phase == Phase::Serving
            };
            if let Some(record) = stored.filter(serves) {
                return Ok(record.for_aliases());
            }
        }
        Err(Failure::invalid(format!(
            "invalid mount accessor {}: no mount has it; sys/auth shows those of auth methods",
            quoted(accessor)
        )))
    }

    /// The mount of an alias, as it is now; as it was then, where it does not serve.
    pub(crate) fn of_alias(&self, mount: &AliasMount) -> AliasMount {
        let now = self.all().into_iter().find(|now| now.record.accessor == mount.accessor);
        let now = now.map(|now| now.record.for_aliases());
        now.or_else(|| self.builtin_with(&mount.accessor)).unwrap_or_else(|| mount.clone())
    }

    fn builtin_with(&self, accessor: &str) -> Option<AliasMount> {
        let mut builtins = Builtin::ALL.into_iter().map(|builtin| self.builtin(builtin));
        let found = builtins.find(|record| record.accessor == accessor)?;
        Some(found.for_aliases())
    }
}
