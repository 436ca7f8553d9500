//! Groups as members of groups.
//!
//! This file prevents a cycle of groups, and a tree so deep or so wide that every request of a
//! member becomes slow. A group has at most [`MAX_ANCESTORS`] groups above it, and a new member
//! group brings at most [`MAX_SUBTREE`] groups along.

use super::bounds::at_most;
use super::group::{self, Group};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of groups above a group, direct or indirect.
const MAX_ANCESTORS: usize = 64;
/// Maximum number of groups in the subtree of a new member group, itself included; also the maximum
/// number of member groups.
const MAX_SUBTREE: usize = 512;

/// Makes exactly the groups `wanted` members of `group`. Writes the records of the members; the
/// caller writes the record of `group`.
///
/// # Errors
/// 400 if a member does not exist, would make a cycle, or makes the tree too large.
pub(super) async fn set_members(
    unit: &mut Unit,
    group: &mut Group,
    wanted: BTreeSet<String>,
) -> Result<(), Failure> {
    at_most(wanted.len(), MAX_SUBTREE, "the groups that are members")?;
    let added: Vec<String> = wanted.difference(&group.members).cloned().collect();
    if !added.is_empty() {
        let above = GroupAncestry::of(unit, group).await?;
        for id in &added {
            above.check_new_member(unit, group, id).await?;
        }
    }
    for id in &added {
        set_parent(unit, id, |parents| parents.insert(group.id.clone())).await?;
    }
    for id in group.members.difference(&wanted) {
        set_parent(unit, id, |parents| parents.remove(&group.id)).await?;
    }
    group.members = wanted;
    Ok(())
}

/// Removes a group from its parents and from its members, before its deletion.
pub(super) async fn detach(unit: &mut Unit, group: &Group) -> Result<(), Failure> {
    for id in &group.members {
        set_parent(unit, id, |parents| parents.remove(&group.id)).await?;
    }
    for id in &group.parents {
        let Some(before) = group::read(unit, id).await? else { continue };
        let mut parent = Group::clone(&before);
        parent.members.remove(&group.id);
        group::put(unit, Some(&before), &parent)?;
    }
    Ok(())
}

async fn set_parent(
    unit: &mut Unit,
    id: &str,
    change: impl FnOnce(&mut BTreeSet<String>) -> bool,
) -> Result<(), Failure> {
    let Some(before) = group::read(unit, id).await? else { return Ok(()) };
    let mut child = Group::clone(&before);
    change(&mut child.parents);
    group::put(unit, Some(&before), &child)
}

/// A group and all groups above it.
struct GroupAncestry {
    /// Groups by id, each with its name and the group below on the path to the starting group. The
    /// starting group itself has no group below.
    ways: BTreeMap<String, (String, Option<String>)>,
}

impl GroupAncestry {
    async fn of(unit: &mut Unit, group: &Group) -> Result<Self, Failure> {
        let mut ways = BTreeMap::from([(group.id.clone(), (group.name.clone(), None))]);
        let mut next = VecDeque::from([Arc::new(group.clone())]);
        while let Some(below) = next.pop_front() {
            for id in &below.parents {
                if ways.contains_key(id) {
                    continue;
                }
                let Some(above) = group::read(unit, id).await? else { continue };
                ways.insert(id.clone(), (above.name.clone(), Some(below.id.clone())));
                next.push_back(above);
            }
        }
        Ok(Self { ways })
    }

    /// Refuses a member that is above the group, or whose subtree would make the tree too large.
    async fn check_new_member(
        &self,
        unit: &mut Unit,
        group: &Group,
        id: &str,
    ) -> Result<(), Failure> {
        if self.ways.contains_key(id) {
            return Err(Failure::invalid(format!(
                "group {} would be a member of itself: {}",
                quoted(&group.name),
                self.describe_cycle(group, id)
            )));
        }
        let Some(member) = group::read(unit, id).await? else {
            return Err(Failure::invalid(format!(
                "member_group_ids: there is no group with the id {}",
                quoted(id)
            )));
        };
        for below in self.find_subtree(unit, member).await? {
            let mut above: BTreeSet<&String> = self.ways.keys().collect();
            let others = Self::of(unit, &below).await?;
            above.extend(others.ways.keys().filter(|id| **id != below.id));
            at_most(above.len(), MAX_ANCESTORS, &groups_above(&below))?;
        }
        Ok(())
    }

    /// Returns the member and all groups below it.
    async fn find_subtree(
        &self,
        unit: &mut Unit,
        member: Arc<Group>,
    ) -> Result<Vec<Arc<Group>>, Failure> {
        let name = member.name.clone();
        let mut seen = BTreeSet::from([member.id.clone()]);
        let (mut found, mut next) = (Vec::new(), VecDeque::from([member]));
        while let Some(above) = next.pop_front() {
            for id in &above.members {
                if seen.insert(id.clone()) {
                    next.extend(group::read(unit, id).await?);
                }
            }
            found.push(above);
            let all = found.len() + next.len();
            at_most(all, MAX_SUBTREE, &format!("group {} and the groups below", quoted(&name)))?;
        }
        Ok(found)
    }

    /// Returns the cycle that the new member would make: `"crew" > "night" > "crew"`.
    fn describe_cycle(&self, group: &Group, member: &str) -> String {
        let mut names = vec![quoted(&group.name)];
        let mut at = Some(member.to_owned());
        while let Some((name, below)) = at.as_ref().and_then(|id| self.ways.get(id)) {
            names.push(quoted(name));
            at.clone_from(below);
        }
        names.join(" > ")
    }
}

fn groups_above(group: &Group) -> String {
    format!("the groups above group {}", quoted(&group.name))
}
