//! Enabling of a mount: a path belongs to at most one mount.
//!
//! This file prevents two mounts with overlapping paths, because a request would reach the mount
//! that was enabled first.

use super::api_version;
use super::builtin::BuiltinMount;
use super::class::MountClass;
use super::record::{self, MountMarks, MountPhase, MountRecord};
use super::settings::MountSettings;
use super::table::Mounts;
use crate::catalog::Catalog;
use bulkhead_access::random;
use bulkhead_access::tokens;
use bulkhead_store::{Address, Space, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;

/// Input for a new mount.
pub struct NewMount {
    /// Path of the mount; must not overlap the path of any other mount.
    pub path: MountPath,
    /// Name of the plugin, recorded as the mount's type.
    pub kind: String,
    /// Marks of the request, stored without effect.
    pub marks: MountMarks,
    /// Initial settings, including the choice of the plugin's version.
    pub settings: MountSettings,
}

impl Mounts {
    /// Writes a new mount into the unit.
    ///
    /// # Errors
    /// 400 if the path is taken, is above or below another mount, or if the plugin does not exist.
    pub async fn enable(
        &self,
        unit: &mut Unit,
        catalog: &Catalog,
        new: NewMount,
    ) -> Result<MountRecord, Failure> {
        let kind = MountClass::of(&new.path).plugin_type();
        let choice = new.settings.selection.choice();
        let plugin = catalog.choose_for(unit, (kind, &new.kind), choice).await?;
        api_version::check(&new.settings.options, plugin.description())?;
        self.check_free(unit, &new.path).await?;
        let of_class = if new.path.is_auth() { "auth_" } else { "" };
        let mut record = MountRecord {
            uuid: random::uuid()?,
            accessor: format!("{of_class}{}_{}", new.kind, random::random_hex::<4>()?),
            kind: new.kind,
            marks: new.marks,
            settings: new.settings,
            version: plugin.recorded_version(),
            schema: plugin.description().schema,
            migration: None,
            before_swap: None,
            rollback: None,
            phase: MountPhase::Serving,
            path: new.path,
            revision: 0,
        };
        record.put(unit)?;
        if record.path.is_auth() {
            tokens::begin_serving(unit, &record.uuid);
        }
        Ok(record)
    }

    /// Refuses a path that overlaps a mount, or the target path of a moving mount.
    ///
    /// # Errors
    /// 400 that names the path in use.
    pub(crate) async fn check_free(
        &self,
        unit: &mut Unit,
        path: &MountPath,
    ) -> Result<(), Failure> {
        if let Some(other) =
            BuiltinMount::ALL.into_iter().map(BuiltinMount::path).find(|other| other.overlaps(path))
        {
            return Err(path_in_use(&other, None));
        }
        if let Some(mount) = find_overlapping(unit, record::PREFIX, path).await? {
            let why = self.at(&mount).and_then(|mount| mount.record.phase.hindrance());
            let why = why.map(|why| format!("the mount {why}"));
            return Err(path_in_use(&mount, why.as_deref()));
        }
        if let Some(target) = find_overlapping(unit, record::TARGET, path).await? {
            return Err(path_in_use(&target, Some("the path waits for a mount during a move")));
        }
        Ok(())
    }
}

/// Returns a path among the keys below `prefix` that is above, at or below `path`. The unit of work
/// records only the keys that were read. If two requests want the same path at once, the later
/// request therefore conflicts, runs again and sees the earlier mount, even if that mount does not
/// serve yet. Requests for different paths do not conflict, however many mounts exist.
async fn find_overlapping(
    unit: &mut Unit,
    prefix: &str,
    path: &MountPath,
) -> Result<Option<MountPath>, Failure> {
    let above = path.as_str().match_indices('/').map(|(slash, _)| &path.as_str()[..=slash]);
    for one in above {
        let key = format!("{prefix}{one}");
        match unit.get(&Address::new(Space::Core, key)).await {
            Ok(None) => {}
            // A damaged row still occupies the path.
            Ok(Some(_)) | Err(StoreFault::Damaged(_)) => return parse_stored(one).map(Some),
            Err(fault) => return Err(fault.into()),
        }
    }
    let below = unit.keys(Space::Core, &format!("{prefix}{path}"), "", 1).await?;
    let below = below.first().and_then(|key| key.strip_prefix(prefix));
    below.map(parse_stored).transpose()
}

fn parse_stored(path: &str) -> Result<MountPath, Failure> {
    MountPath::parse_full(path)
        .map_err(|wrong| Failure::internal(format!("a stored mount: {wrong}")))
}

fn path_in_use(path: &MountPath, why: Option<&str>) -> Failure {
    let remedy = why.map_or("choose another path".to_owned(), |why| {
        format!("{why}; wait, or choose another path")
    });
    Failure::invalid(format!("path is already in use at {path}; {remedy}"))
}
