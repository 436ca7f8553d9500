//! The form of a report about clients: of a namespace, its mounts, and its months.
//!
//! The only namespace is the root namespace. A client that uses two mounts counts at each mount,
//! and once in the sum.

use bulkhead_access::activity::{ActivityMonth, MountClients, OTHER_MOUNTS, TOKEN_MOUNT};
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

type ClientsByMount = BTreeMap<String, MountClients>;

/// The clients of a period.
#[derive(Default)]
pub(super) struct ActivityReport {
    /// The clients of all months so far.
    mounts: ClientsByMount,
    total: MountClients,
    months: Vec<MonthReport>,
}

/// A month of a period.
struct MonthReport {
    month: ActivityMonth,
    /// `None` without clients.
    clients: Option<MonthNumbers>,
}

struct MonthNumbers {
    all: NamespaceNumbers,
    /// Clients that were in no earlier month of the period.
    new: NamespaceNumbers,
}

/// The numbers of clients in the namespace and at its mounts.
#[derive(Default)]
struct NamespaceNumbers {
    sum: ClientNumbers,
    mounts: Vec<(String, ClientNumbers)>,
}

#[derive(Clone, Copy, Default)]
struct ClientNumbers {
    entities: u64,
    tokens: u64,
}

/// Paths and types of mounts, by UUID.
pub(super) struct MountNames(HashMap<String, (String, String)>);

impl ActivityReport {
    /// Adds the next month, with its clients by mount.
    pub(super) fn add(&mut self, month: ActivityMonth, clients: ClientsByMount) {
        let sum = sum_of(&clients);
        let all = NamespaceNumbers {
            sum: ClientNumbers::of(&sum),
            mounts: clients
                .iter()
                .map(|(mount, clients)| (mount.clone(), ClientNumbers::of(clients)))
                .collect(),
        };
        let mut new = NamespaceNumbers {
            sum: ClientNumbers::added_by(&mut self.total, &sum),
            mounts: Vec::new(),
        };
        for (mount, clients) in clients {
            let earlier = self.mounts.entry(mount.clone()).or_default();
            let added = ClientNumbers::added_by(earlier, &clients);
            if added.sum() > 0 {
                new.mounts.push((mount, added));
            }
        }
        self.months.push(MonthReport { month, clients: Some(MonthNumbers { all, new }) });
    }

    /// Adds the next month, without clients.
    pub(super) fn add_empty(&mut self, month: ActivityMonth) {
        self.months.push(MonthReport { month, clients: None });
    }

    /// Returns true without any client.
    pub(super) fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    /// Returns the numbers of the period.
    pub(super) fn total(&self) -> Value {
        ClientNumbers::of(&self.total).shown()
    }

    /// Returns the numbers of the period by mount.
    pub(super) fn namespace(&self, names: &MountNames) -> Value {
        let of_mount = |(mount, clients): (&String, &MountClients)| {
            (mount.clone(), ClientNumbers::of(clients))
        };
        let mounts = self.mounts.iter().map(of_mount).collect();
        NamespaceNumbers { sum: ClientNumbers::of(&self.total), mounts }.shown(names)
    }

    /// Returns the numbers of each month.
    pub(super) fn months(&self, names: &MountNames) -> Value {
        let shown = |report: &MonthReport| {
            let time = timestamp(report.month.begin());
            match &report.clients {
                Some(MonthNumbers { all, new }) => json!({
                    "timestamp": time,
                    "counts": all.sum.shown(),
                    "namespaces": [all.shown(names)],
                    "new_clients": {
                        "counts": new.sum.shown(),
                        "namespaces": [new.shown(names)],
                    },
                }),
                None => json!({
                    "timestamp": time,
                    "counts": null,
                    "namespaces": null,
                    "new_clients": null,
                }),
            }
        };
        self.months.iter().map(shown).collect()
    }
}

impl NamespaceNumbers {
    fn shown(&self, names: &MountNames) -> Value {
        let of_mount = |(mount, numbers): &(String, ClientNumbers)| {
            let (path, kind) = names.name(mount);
            json!({ "mount_path": path, "mount_type": kind, "counts": numbers.shown() })
        };
        let mounts: Vec<Value> = self.mounts.iter().map(of_mount).collect();
        json!({
            "namespace_id": "root",
            "namespace_path": "",
            "counts": self.sum.shown(),
            "mounts": mounts,
        })
    }
}

impl ClientNumbers {
    fn of(clients: &MountClients) -> Self {
        Self { entities: clients.entities.count(), tokens: clients.tokens.count() }
    }

    /// Adds `clients` to `earlier`, and returns the growth.
    fn added_by(earlier: &mut MountClients, clients: &MountClients) -> Self {
        let before = Self::of(earlier);
        earlier.merge(clients);
        let after = Self::of(earlier);
        Self {
            entities: after.entities.saturating_sub(before.entities),
            tokens: after.tokens.saturating_sub(before.tokens),
        }
    }

    fn sum(self) -> u64 {
        self.entities.saturating_add(self.tokens)
    }

    /// Returns the numbers under the present names and the names of earlier releases.
    fn shown(self) -> Value {
        json!({
            "clients": self.sum(),
            "entity_clients": self.entities,
            "non_entity_clients": self.tokens,
            "distinct_entities": self.entities,
            "non_entity_tokens": self.tokens,
            "acme_clients": 0,
            "secret_syncs": 0,
        })
    }
}

impl MountNames {
    /// Returns the names of the present mounts.
    pub(super) fn of(core: &Core) -> Self {
        let mounts = core.mounts.all();
        let names = mounts.iter().map(|mount| {
            let record = &mount.record;
            let kind = format!("{}/", record.kind);
            (record.uuid.clone(), (record.path.as_str().to_owned(), kind))
        });
        Self(names.collect())
    }

    fn name(&self, mount: &str) -> (String, String) {
        match (mount, self.0.get(mount)) {
            (TOKEN_MOUNT, _) => ("auth/token/".to_owned(), "token/".to_owned()),
            (OTHER_MOUNTS, _) => ("other mounts".to_owned(), String::new()),
            (_, Some(names)) => names.clone(),
            (removed, None) => {
                (format!("deleted mount; uuid \"{removed}\""), "deleted mount".to_owned())
            }
        }
    }
}

/// Returns the clients of all mounts, each client once.
fn sum_of(mounts: &ClientsByMount) -> MountClients {
    let mut sum = MountClients::default();
    mounts.values().for_each(|clients| _ = sum.merge(clients));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(entities: &[u64]) -> MountClients {
        let mut clients = MountClients::default();
        entities.iter().for_each(|hash| _ = clients.entities.add(*hash));
        clients
    }

    #[test]
    fn clients_of_two_mounts_and_months_count_once() {
        let month = ActivityMonth::parse("2026-10").unwrap();
        let mut report = ActivityReport::default();
        assert!(report.is_empty());
        let by_mount = |a: &[u64], b: &[u64]| {
            BTreeMap::from([("a".to_owned(), clients(a)), (TOKEN_MOUNT.to_owned(), clients(b))])
        };
        report.add(month, by_mount(&[1, 2], &[2]));
        report.add_empty(month.plus(1));
        report.add(month.plus(2), by_mount(&[2, 3], &[2]));
        let names = MountNames(HashMap::from([(
            "a".to_owned(),
            ("auth/a/".to_owned(), "userpass/".to_owned()),
        )]));
        assert_eq!(report.total()["clients"], 3);
        let namespace = report.namespace(&names);
        assert_eq!(namespace["mounts"][0]["mount_path"], "auth/a/");
        assert_eq!(namespace["mounts"][0]["counts"]["entity_clients"], 3);
        assert_eq!(namespace["mounts"][1]["mount_path"], "auth/token/");
        let months = report.months(&names);
        assert_eq!(months[0]["counts"]["clients"], 2);
        assert_eq!(months[0]["new_clients"]["counts"]["clients"], 2);
        assert_eq!(months[1]["counts"], Value::Null);
        assert_eq!(months[2]["counts"]["clients"], 2);
        assert_eq!(months[2]["new_clients"]["counts"]["clients"], 1);
        let added = months[2]["new_clients"]["namespaces"][0]["mounts"].as_array().unwrap();
        assert_eq!(added.len(), 1, "a mount without new clients is left out");
        let removed = MountNames(HashMap::new()).name("a").0;
        assert_eq!(removed, "deleted mount; uuid \"a\"");
    }
}
