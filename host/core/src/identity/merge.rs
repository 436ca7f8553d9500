//! Several entities become one. Tokens of those that went are tokens of the one that stays.

use super::entity::{self, Entity};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::BTreeSet;

/// Which entities, and what becomes of aliases of which the one that stays could have but one.
pub(crate) struct Merge {
    pub(crate) from: BTreeSet<String>,
    pub(crate) to: String,
    /// Where both have an alias at a mount, that of the one that stays is kept.
    pub(crate) is_forced: bool,
    /// Ids of aliases that are kept instead.
    pub(crate) keep: BTreeSet<String>,
}

/// Moves aliases, policies and groups of the entities to the one that stays; name and metadata of
/// that one stay as they are. External groups and metadata follow their alias: a kept alias brings
/// them along, a dropped alias takes them away. `now` is store time in milliseconds.
///
/// # Errors
/// 400 for an entity that does not exist, and for two aliases at one mount of which nothing is
/// said.
pub(crate) async fn merge(unit: &mut Unit, now: u64, merge: &Merge) -> Result<(), Failure> {
    let invalid = |way: &str, id: &str| {
        Failure::invalid(format!(
            "entity id to merge {way} is invalid: there is no entity with the id {}",
            quoted(id)
        ))
    };
    let Some(before) = entity::read(unit, &merge.to).await? else {
        return Err(invalid("to", &merge.to));
    };
    if merge.from.contains(&merge.to) {
        return Err(Failure::invalid(
            "to_entity_id should not be present in from_entity_ids: leave it out there",
        ));
    }
    let mut after = Entity { updated: now, ..Entity::clone(&before) };
    let mut conflicts = BTreeSet::new();
    for id in &merge.from {
        let Some(from) = entity::read(unit, id).await? else { return Err(invalid("from", id)) };
        entity::delete(unit, &from)?;
        absorb(&mut after, &from, merge, &mut conflicts);
    }
    if !conflicts.is_empty() {
        let accessors = Vec::from_iter(conflicts).join(", ");
        return Err(Failure::invalid(format!(
            "several of these entities have an alias at the mount of {accessors}: name the one to \
             keep in conflicting_alias_ids_to_keep, or let force keep that of to_entity_id"
        )));
    }
    entity::put(unit, Some(&before), &after)
}

/// Adds what `from` is known by. Accessors of mounts at which both are known go to `conflicts`.
fn absorb(after: &mut Entity, from: &Entity, merge: &Merge, conflicts: &mut BTreeSet<String>) {
    for alias in &from.aliases {
        let accessor = &alias.mount.accessor;
        let own = after.alias_at(accessor).map(|own| own.id.clone());
        let takes_over = merge.keep.contains(&alias.id);
        match own {
            Some(own) if !takes_over => {
                if !merge.is_forced && !merge.keep.contains(&own) {
                    conflicts.insert(accessor.clone());
                }
                continue;
            }
            Some(_) => after.aliases.retain(|own| own.mount.accessor != *accessor),
            None => {}
        }
        let mut alias = alias.clone();
        alias.merged_from.push(from.id.clone());
        after.aliases.push(alias);
    }
    after.policies.extend(from.policies.iter().cloned());
    after.policies.sort_unstable();
    after.policies.dedup();
    after.groups.extend(from.groups.iter().cloned());
    after.merged.push(from.id.clone());
    after.merged.extend(from.merged.iter().cloned());
}
