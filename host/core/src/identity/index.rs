//! By what entities and groups are found: a record for each name, alias and membership that leads
//! to an id.
//!
//! What people are called stands in no key: keys can be read in the database file, so names are
//! keyed hashes there. Entity and group are written together with all that leads to them
//! ([`replace`]), so that no way leads to what is not there.

use bulkhead_store::{Address, Index, Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of the keyed hashes. Part of the stored format.
const NAME: &str = "identity name";
const ALIAS: &str = "identity alias";

/// What leads somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pointer {
    /// The id of an entity or a group.
    to: String,
}

stored!(Pointer, "identity-pointer", reads_stored_identity_pointers);

/// Of what an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noun {
    Entity,
    Group,
}

impl Noun {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Entity => "entity",
            Self::Group => "group",
        }
    }

    /// The record with that id.
    pub(super) fn record(self, id: &str) -> Address {
        self.address("", id)
    }

    /// What leads from a name, in any case of its letters.
    pub(super) fn name(self, unit: &Unit, name: &str) -> Address {
        let folded = name.to_lowercase();
        let hash = unit.hashes().keyed_hash(NAME, folded.as_bytes());
        self.address("-name", &hash)
    }

    /// What leads from an alias by its id.
    pub(super) fn alias_id(self, id: &str) -> Address {
        self.address("-alias", id)
    }

    /// What leads from an alias by its mount and name.
    pub(super) fn alias(self, unit: &Unit, accessor: &str, name: &str) -> Address {
        // An accessor holds no space.
        let both = format!("{accessor} {name}");
        self.address("-alias-name", &unit.hashes().keyed_hash(ALIAS, both.as_bytes()))
    }

    /// The id of the alias from which the record at `address` leads.
    pub(super) fn id_of_alias(self, address: &Address) -> Option<&str> {
        address.key.strip_prefix(self.word())?.strip_prefix("-alias/")
    }

    fn address(self, way: &str, key: &str) -> Address {
        Address::new(Space::Core, format!("{}{way}/{key}", self.word()))
    }
}

/// The entities of a group; their ids follow.
pub(super) fn members_prefix(group: &str) -> String {
    format!("group-member/{group}/")
}

/// That an entity is a member of a group.
pub(super) fn member(group: &str, entity: &str) -> Address {
    Address::new(Space::Core, format!("{}{entity}", members_prefix(group)))
}

/// Of the groups whose entities are to leave them; their ids follow.
pub(super) const LEAVING: &str = "group-leaving/";

/// Writes down that the entities of a group are to leave it.
pub(super) fn mark_leaving(unit: &mut Unit, group: &str) -> Result<(), Failure> {
    let body = Pointer { to: group.to_owned() }.to_bytes()?;
    unit.put(leaving(group), body, Index::default());
    Ok(())
}

/// They left.
pub(super) fn forget_leaving(unit: &mut Unit, group: &str) {
    unit.delete(leaving(group));
}

fn leaving(group: &str) -> Address {
    Address::new(Space::Core, format!("{LEAVING}{group}"))
}

/// What leads from an entity that was merged to the one that it is now.
pub(super) fn merged(entity: &str) -> Address {
    Address::new(Space::Core, format!("merged-entity/{entity}"))
}

/// Whether a text can be an id: nothing else is looked up by one.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Where the record at `address` leads.
pub(super) async fn follow(unit: &mut Unit, address: &Address) -> Result<Option<String>, Failure> {
    let Some(found) = unit.get(address).await? else { return Ok(None) };
    let parsed: Result<Arc<Pointer>, _> = found.body.parsed(Pointer::from_bytes);
    let parsed =
        parsed.map_err(|unreadable| unreadable.of("what leads to an entity or a group"))?;
    Ok(Some(parsed.to.clone()))
}

/// What leads to an entity or a group: addresses, and by what those are listed.
pub(super) type Ways = BTreeMap<Address, String>;

/// Lets `after` lead to `id`, and nothing of `before` that is not in it.
pub(super) fn replace(
    unit: &mut Unit,
    id: &str,
    before: &Ways,
    after: &Ways,
) -> Result<(), Failure> {
    for gone in before.keys().filter(|address| !after.contains_key(*address)) {
        unit.delete(gone.clone());
    }
    for (address, owner) in after {
        if before.get(address) != Some(owner) {
            let index = Index { owner: owner.clone(), ..Index::default() };
            unit.put(address.clone(), Pointer { to: id.to_owned() }.to_bytes()?, index);
        }
    }
    Ok(())
}
