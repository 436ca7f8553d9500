//! What dev mode promises: a root token, and every engine of this binary at its default path.

use crate::core::Core;
use crate::log::cause;
use crate::mounts::{Marks, NewMount, Settings};
use crate::tokens;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::name::MountPath;
use bulkhead_wire::secret::Secret;

/// Makes `root_token` hold, and mounts what is not mounted yet.
///
/// # Errors
/// The store's failure.
pub(crate) async fn provision_dev(core: &Core, root_token: &Secret) -> Result<(), Failure> {
    tokens::ensure_root(&core.store, root_token).await?;
    for kind in core.catalog.official_engines() {
        mount_default(core, &kind).await?;
    }
    Ok(())
}

/// Mounts an engine at the contract's default path, which is its name.
async fn mount_default(core: &Core, kind: &str) -> Result<(), Failure> {
    if core.mounts.route(kind).is_some() {
        return Ok(());
    }
    let path = MountPath::new(kind).map_err(Failure::internal)?;
    let settings =
        Settings { description: "default mount of dev mode".to_owned(), ..Settings::default() };
    let mut unit = core.store.begin();
    let new = NewMount { path, kind: kind.to_owned(), marks: Marks::default(), settings };
    let record = match core.mounts.enable(&mut unit, &core.catalog, new).await {
        Err(taken) if taken.kind == Kind::InvalidRequest => {
            // By a mount whose record does not open: the other mounts are served all the same.
            core.log.line("warn", "default-mount-left-out", &[cause(&taken)]);
            return Ok(());
        }
        record => record?,
    };
    unit.commit().await?;
    core.mounts.serve(record, &core.catalog)
}
