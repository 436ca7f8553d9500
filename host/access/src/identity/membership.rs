//! Memberships of entities in groups.
//!
//! Each membership has its own record and an entry in the entity's record, so a login that joins a
//! group does not conflict with other logins, and a group can be large. A bound keeps the changes
//! of a single request small enough for a single commit.

use super::alias::{Alias, GroupProof};
use super::bounds::at_most;
use super::entity::{self, Entity};
use super::group::{self, Group, GroupKind};
use super::index;
use bulkhead_store::{Address, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of entities that operators may put into a group, and that a read of a group
/// shows.
pub(crate) const MOST_MEMBERS: usize = 10_000;
/// Maximum number of entities that join or leave a group in a single request.
const MOST_CHANGED: usize = 1_000;
/// Maximum number of entities that are removed from a group in a single commit.
const REMOVALS_PER_COMMIT: u32 = 500;

/// Makes exactly the entities `wanted` direct members of the group.
///
/// # Errors
/// 400 if an entity does not exist or the group would have too many members; 413 if too many
/// members change at once.
pub(super) async fn set_members(
    unit: &mut Unit,
    group: &str,
    wanted: &BTreeSet<String>,
) -> Result<(), Failure> {
    at_most(wanted.len(), MOST_MEMBERS, "the member entities of the group")?;
    let prefix = index::members_prefix(group);
    let present = unit.names(Space::Core, &prefix, "", MOST_MEMBERS + 1).await?;
    let present: BTreeSet<String> = present.into_iter().collect();
    let changed: Vec<&String> = wanted.symmetric_difference(&present).collect();
    if changed.len() > MOST_CHANGED {
        return Err(Failure::new(
            FailureKind::TooLarge,
            format!(
                "{} entities would join or leave the group; change at most {MOST_CHANGED} at once",
                changed.len()
            ),
        ));
    }
    for id in changed {
        let Some(before) = entity::read(unit, id).await? else {
            return Err(Failure::invalid(format!(
                "member_entity_ids: there is no entity with the id {}",
                quoted(id)
            )));
        };
        let mut after = Entity::clone(&before);
        match wanted.contains(id) {
            true => after.groups.insert(group.to_owned()),
            false => after.groups.remove(group),
        };
        entity::put(unit, Some(&before), &after)?;
    }
    Ok(())
}

/// Returns the direct members of the group, sorted, and whether more than [`MOST_MEMBERS`] exist.
/// The rest is left out. Reads outside the request's unit, so logins that join the group cause no
/// conflict.
pub async fn list_members(store: &Arc<Store>, group: &str) -> Result<(Vec<String>, bool), Failure> {
    let prefix = index::members_prefix(group);
    let mut members = store.begin().names(Space::Core, &prefix, "", MOST_MEMBERS + 1).await?;
    let more = members.len() > MOST_MEMBERS;
    members.truncate(MOST_MEMBERS);
    Ok((members, more))
}

/// Returns the number of direct members of the group; counting stops at [`MOST_MEMBERS`].
pub async fn count(store: &Store, group: &str) -> Result<u32, Failure> {
    let most = u32::try_from(MOST_MEMBERS).unwrap_or(u32::MAX);
    Ok(store.count(Space::Core, &index::members_prefix(group), most).await?)
}

/// Schedules the removal of memberships that the group's present alias does not prove;
/// [`all_leave`] removes them after the commit. Such memberships give no rights from the commit on,
/// because each request compares a membership's proof with the group's alias.
pub(super) fn let_all_leave(unit: &mut Unit, group: &str) -> Result<(), Failure> {
    index::mark_leaving(unit, group)
}

/// Returns the groups with scheduled removals.
pub async fn groups_with_removals(store: &Arc<Store>) -> Result<Vec<String>, Failure> {
    Ok(store.begin().names(Space::Core, index::LEAVING, "", usize::MAX).await?)
}

/// Removes all memberships that the group's present alias does not prove, page by page, and then
/// the schedule. An interrupted walk may start again from the beginning.
pub async fn all_leave(store: &Arc<Store>, group: &str) -> Result<(), Failure> {
    let changes = group::read(&mut store.begin(), group).await?.map(|group| group.modify_index);
    let mut sweep = MemberScan { store, group, changes, after: String::new() };
    while !sweep.some_leave().await? {}
    Ok(())
}

/// A walk over the members of a group.
struct MemberScan<'a> {
    store: &'a Arc<Store>,
    group: &'a str,
    /// Modify index of the group at the start of the walk; `None` for a deleted group.
    changes: Option<u64>,
    /// Key of the last member on the previous page.
    after: String,
}

impl MemberScan<'_> {
    /// Handles a page of members; returns `true` after the last page.
    ///
    /// A conflict with a login writes nothing, and the page is repeated. If the group changed
    /// meanwhile, the walk starts again, because members of earlier pages may have to leave now.
    async fn some_leave(&mut self) -> Result<bool, Failure> {
        let mut unit = self.store.begin();
        let group = group::read(&mut unit, self.group).await?;
        let changes = group.as_ref().map(|group| group.modify_index);
        if changes != self.changes {
            (self.changes, self.after) = (changes, String::new());
        }
        let prefix = index::members_prefix(self.group);
        let keys = unit.keys(Space::Core, &prefix, &self.after, REMOVALS_PER_COMMIT).await?;
        for key in &keys {
            let id = key.strip_prefix(&prefix).unwrap_or_default();
            match entity::read(&mut unit, id).await? {
                Some(before) => self.leave(&mut unit, group.as_deref(), &before)?,
                None => unit.delete(Address::new(Space::Core, key.as_str())),
            }
        }
        if keys.is_empty() {
            index::forget_leaving(&mut unit, self.group);
        }
        match unit.commit().await {
            Ok(_) => {}
            Err(StoreFault::Conflict) => return Ok(false),
            Err(fault) => return Err(fault.into()),
        }
        self.after = keys.last().cloned().unwrap_or_default();
        Ok(keys.is_empty())
    }

    /// Removes the entity's membership unless the present alias still proves it.
    fn leave(
        &self,
        unit: &mut Unit,
        group: Option<&Group>,
        before: &Entity,
    ) -> Result<(), Failure> {
        let mut after = before.clone();
        if !group.is_some_and(|group| group.kind == GroupKind::Internal) {
            after.groups.remove(self.group);
        }
        for Alias { mount, groups, .. } in &mut after.aliases {
            let holds = |proof: &GroupProof| {
                group.is_some_and(|group| group.is_proven_by(&mount.accessor, proof))
            };
            groups.retain(|id, proof| id != self.group || holds(proof));
        }
        if after == *before { Ok(()) } else { entity::put(unit, Some(before), &after) }
    }
}
