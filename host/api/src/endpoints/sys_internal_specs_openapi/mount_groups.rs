//! Places of the document at which mounts are described.
//!
//! This file prevents a document that grows with the number of mounts: 5,000 mounts of a single
//! plugin made 27 MB (decision H82). Many mounts with equal rows are described once, at a
//! placeholder with a list of their names.

use super::openapi::ServedRoutes;
use bulkhead_core::mounts::Mount;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of separately described mounts with equal rows in the same folder.
const MOUNTS_APART: usize = 8;

/// Maximum number of places, each a mount or a folder of mounts, that a document describes.
const PLACES_MAX: usize = 64;

/// A place of the document: a mount, or a placeholder for mounts with equal rows.
struct MountGroup<'a> {
    /// Path above the rows.
    below: String,
    /// Name of the placeholder; empty for a mount.
    placeholder: String,
    /// Last segments of the paths of the mounts at the placeholder.
    names: Vec<&'a str>,
    mount: &'a Mount,
}

/// The places of all mounts.
pub(super) struct MountGroups<'a> {
    groups: Vec<MountGroup<'a>>,
    /// Number of mounts that the document does not describe.
    omitted: usize,
}

/// The folder of mounts and the plugin that serves the mounts with equal rows.
type GroupKey<'a> = (&'a str, &'a str, &'a str, usize);

impl<'a> MountGroups<'a> {
    /// Groups `mounts`, in the order of their folders and plugins.
    pub(super) fn of(mounts: &[&'a Arc<Mount>]) -> Self {
        let mut alike: BTreeMap<GroupKey<'a>, Vec<&'a Mount>> = BTreeMap::new();
        for mount in mounts.iter().map(|mount| Arc::as_ref(mount)) {
            let (folder, _) = split_path(mount);
            let (kind, digest) = (mount.record.kind.as_str(), mount.running().digest);
            let key = (folder, kind, digest, mount.table.routes().len());
            alike.entry(key).or_default().push(mount);
        }
        let (mut groups, mut omitted) = (Vec::new(), 0);
        let mut placeholders = BTreeSet::new();
        for ((folder, kind, ..), mounts) in alike {
            let is_apart = mounts.len() <= MOUNTS_APART;
            let places = if is_apart { mounts.len() } else { 1 };
            if groups.len() + places > PLACES_MAX {
                omitted += mounts.len();
            } else if is_apart {
                groups.extend(mounts.into_iter().map(MountGroup::of_mount));
            } else {
                let placeholder = unused_name(&mut placeholders, kind);
                groups.extend(MountGroup::of_folder(folder, placeholder, &mounts));
            }
        }
        Self { groups, omitted }
    }

    /// Returns the rows of all places.
    pub(super) fn served(&self) -> impl Iterator<Item = ServedRoutes<'_>> {
        self.groups.iter().map(|group| ServedRoutes {
            placeholder: &group.placeholder,
            names: &group.names,
            ..ServedRoutes::at(&group.below, group.mount.table.routes())
        })
    }

    /// Returns a note about the mounts that the document leaves out, if there are any.
    pub(super) fn note_of_omitted(&self) -> Option<String> {
        let omitted = self.omitted;
        (omitted > 0).then(|| {
            format!(
                "{omitted} mounts are left out; ask for a single mount with the parameter mount, \
                 or for the rows of each plugin with generic_mount_paths."
            )
        })
    }
}

impl<'a> MountGroup<'a> {
    fn of_mount(mount: &'a Mount) -> Self {
        let below = mount.record.path.to_string();
        Self { below, placeholder: String::new(), names: Vec::new(), mount }
    }

    /// Returns the group of all `mounts` of a folder; `None` without a mount.
    fn of_folder(folder: &str, placeholder: String, mounts: &[&'a Mount]) -> Option<Self> {
        let below = format!("{folder}{{{placeholder}}}/");
        let names = mounts.iter().copied().map(|mount| split_path(mount).1).collect();
        Some(Self { below, placeholder, names, mount: mounts.first().copied()? })
    }
}

/// Splits the path of a mount into the folder, with a slash at the end, and the name in the folder.
fn split_path(mount: &Mount) -> (&str, &str) {
    let path = mount.record.path.as_str();
    let name_start = path.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
    let (folder, name) = path.split_at(name_start);
    (folder, name.trim_end_matches('/'))
}

/// Returns a placeholder for mounts of the plugin that no other group has.
fn unused_name(used: &mut BTreeSet<String>, kind: &str) -> String {
    let first = format!("{kind}_mount_path");
    let further = (2..).map(|number| format!("{kind}_{number}_mount_path"));
    let name = std::iter::once(first.clone()).chain(further).find(|name| !used.contains(name));
    let name = name.unwrap_or(first);
    used.insert(name.clone());
    name
}
