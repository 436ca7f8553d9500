//! Enabling a mount: one path, one mount.
//!
//! The fault this file stops: two mounts of which one covers the other, so that a request reaches
//! whichever was there first.

use super::builtin::Builtin;
use super::record::{self, Marks, MountRecord, Phase};
use super::settings::Settings;
use super::table::Mounts;
use crate::catalog::Catalog;
use crate::random;
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::MountPath;

/// What enabling a mount takes.
pub(crate) struct NewMount {
    pub(crate) path: MountPath,
    pub(crate) kind: String,
    pub(crate) marks: Marks,
    pub(crate) settings: Settings,
}

impl Mounts {
    /// Writes a new mount into the unit.
    ///
    /// # Errors
    /// 400 when the path is taken, is above or below another mount, or there is no such plugin.
    pub(crate) async fn enable(
        &self,
        unit: &mut Unit,
        catalog: &Catalog,
        new: NewMount,
    ) -> Result<MountRecord, Failure> {
        if new.path.is_auth() {
            return Err(no_auth_method(catalog, &new.kind));
        }
        let plugin = catalog.engine_to_mount(unit, &new.kind).await?;
        self.check_free(unit, &new.path).await?;
        let mut record = MountRecord {
            uuid: random::uuid()?,
            accessor: format!("{}_{}", new.kind, random::hex::<4>()?),
            kind: new.kind,
            marks: new.marks,
            settings: new.settings,
            schema: plugin.engine.description().schema,
            phase: Phase::Serving,
            path: new.path,
            revision: 0,
        };
        record.put(unit)?;
        Ok(record)
    }

    /// Refuses a path that is above, at or below a mount, or at the end of a mount's way.
    ///
    /// # Errors
    /// 400 that names the path in use.
    pub(crate) async fn check_free(
        &self,
        unit: &mut Unit,
        path: &MountPath,
    ) -> Result<(), Failure> {
        if let Some(mount) = self.all().into_iter().find(|mount| mount.record.path.overlaps(path)) {
            let why = mount.record.phase.hindrance();
            return Err(path_in_use(&mount.record.path, why.as_deref()));
        }
        if let Some(other) =
            Builtin::ALL.into_iter().map(Builtin::path).find(|other| other.overlaps(path))
        {
            return Err(path_in_use(&other, None));
        }
        // Remembered by the unit: of two who want one path at once, the later one runs again and
        // sees the earlier, also when that does not serve yet.
        for (prefix, why) in [
            (record::PREFIX, None),
            (record::TARGET, Some("waits for a mount that is being moved")),
        ] {
            let stored = unit.keys(Space::Core, prefix, "", u32::MAX).await?;
            let mut stored = stored.iter().filter_map(|key| key.strip_prefix(prefix));
            let other = stored.find_map(|other| {
                MountPath::of_either(other).ok().filter(|other| other.overlaps(path))
            });
            if let Some(other) = other {
                return Err(path_in_use(&other, why));
            }
        }
        Ok(())
    }
}

fn path_in_use(path: &MountPath, why: Option<&str>) -> Failure {
    let remedy = why.map_or("choose another path".to_owned(), |why| {
        format!("it {why}; wait, or choose another path")
    });
    Failure::invalid(format!("path is already in use at {path}; {remedy}"))
}

/// The catalog of this version knows no auth method, and says what it knows.
fn no_auth_method(catalog: &Catalog, kind: &str) -> Failure {
    Failure::invalid(format!(
        "plugin not found in the catalog: there is no auth method {}; the catalog has none, and \
         these secrets engines: {}",
        quoted(kind),
        catalog.engines().join(", ")
    ))
}
