//! Merging of entities. Tokens of the merged entities become tokens of the remaining entity.

use super::entity::{self, Entity};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::BTreeSet;

/// A merge of entities, with the choice of aliases if several entities have an alias at a mount.
pub struct EntityMerge {
    /// Ids of the entities that are removed.
    pub from: BTreeSet<String>,
    /// Id of the entity that remains.
    pub to: String,
    /// True if the alias of the remaining entity wins every conflict.
    pub is_forced: bool,
    /// Ids of aliases that win their conflict.
    pub keep: BTreeSet<String>,
}

/// Moves the aliases, policies and groups of the entities to the remaining entity, whose name and
/// metadata stay unchanged.
///
/// External groups and alias metadata follow their alias: a kept alias keeps them, a dropped alias
/// drops them. `now` is store time in milliseconds.
///
/// # Errors
/// 400 if an entity does not exist, or if two entities have an alias at the same mount and the
/// request does not decide which to keep.
pub async fn merge(unit: &mut Unit, now: u64, merge: &EntityMerge) -> Result<(), Failure> {
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
            "to_entity_id should not be present in from_entity_ids: leave to_entity_id out there",
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
            "several of these entities have an alias at the mount of {accessors}: name the alias \
             to keep in conflicting_alias_ids_to_keep, or keep the alias of to_entity_id with force"
        )));
    }
    entity::put(unit, Some(&before), &after)
}

/// Adds the aliases, policies and groups of `from`. Adds the accessors of mounts with undecided
/// aliases to `conflicts`.
fn absorb(
    after: &mut Entity,
    from: &Entity,
    merge: &EntityMerge,
    conflicts: &mut BTreeSet<String>,
) {
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
