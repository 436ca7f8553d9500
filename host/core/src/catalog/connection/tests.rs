//! Choices of versions for connections, on a catalog with two versions of a database plugin.

use super::*;
use crate::catalog::Pin;
use crate::catalog::origin::ComponentOrigin;
use crate::catalog::plugin::Plugin;
use crate::testing::TemporaryStore;
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::FailureKind;
use std::collections::BTreeMap;

const NAME: &str = "keyring";

/// The plugin in that version, with that other name.
fn plugin(version: &str, alias: &str) -> Plugin {
    let description = DatabaseDescription {
        kind: "database-plugin".to_owned(),
        name: NAME.to_owned(),
        aliases: vec![alias.to_owned()],
        version: version.to_owned(),
        asks: Vec::new(),
        about: String::new(),
        credential_types: Vec::new(),
        creation_statements_required: false,
        settings: Vec::new(),
        codes: BTreeMap::new(),
        warnings: BTreeMap::new(),
    };
    Plugin::Database(Arc::new(DatabasePlugin::known((version, None), description).unwrap()))
}

/// A catalog with the versions 1.0.0 and 2.0.0.
fn catalog() -> Catalog {
    let catalog = Catalog::default();
    catalog.insert_registered(plugin("2.0.0", "new"), ComponentOrigin::default());
    catalog.insert_registered(plugin("1.0.0", "old"), ComponentOrigin::default());
    catalog
}

fn pin(version: &str) -> Pin {
    let (kind, name, written) = (PluginType::Database, NAME.to_owned(), String::new());
    Pin { kind, name, version: version.to_owned(), written }
}

fn chosen(catalog: &Catalog, version: &str, overrides_pin: bool) -> Result<String, Failure> {
    let plugin = catalog.choose_database("old", VersionChoice { version, overrides_pin })?;
    Ok(plugin.identity().version.clone())
}

fn recorded(version: &str) -> ConnectionVersion {
    let (plugin, version) = (NAME.to_owned(), version.to_owned());
    ConnectionVersion { plugin, version, asked: String::new(), overrides_pin: false }
}

#[test]
fn chosen_version_is_pinned_requested_or_newest() {
    let catalog = catalog();
    assert_eq!(chosen(&catalog, "", false).unwrap(), "2.0.0");
    assert_eq!(chosen(&catalog, "v1.0.0", false).unwrap(), "1.0.0");
    catalog.set_pin(&pin("1.0.0"));
    assert_eq!(chosen(&catalog, "", false).unwrap(), "1.0.0");
    assert_eq!(chosen(&catalog, "v1.0.0", false).unwrap(), "1.0.0");
    assert_eq!(chosen(&catalog, "2.0.0", true).unwrap(), "2.0.0");
    assert_eq!(chosen(&catalog, "2.0.0", false).unwrap(), "1.0.0");
    assert_eq!(chosen(&catalog, "", true).unwrap(), "1.0.0");
    let other = chosen(&catalog, "newest", false).unwrap_err();
    assert!(other.message.contains("\"newest\" is not a semantic version"), "{other}");
    let absent = chosen(&catalog, "3.0.0", true).unwrap_err();
    assert_eq!(absent.kind, FailureKind::NotFound);
    assert!(absent.message.contains("there is 1.0.0, 2.0.0"), "{absent}");
}

#[test]
fn connection_is_served_by_recorded_or_oldest_version() {
    let catalog = catalog();
    catalog.set_pin(&pin("2.0.0"));
    let served = |version: &str, recorded: Option<&ConnectionVersion>| {
        let found = catalog.serving_database((NAME, version), recorded);
        found.map(|plugin| plugin.identity().version.clone())
    };
    assert_eq!(served("", None).unwrap(), "1.0.0");
    assert_eq!(served("2.0.0", None).unwrap(), "2.0.0");
    assert_eq!(served("1.0.0", Some(&recorded("2.0.0"))).unwrap(), "2.0.0");
    let gone = served("", Some(&recorded("0.9.0"))).unwrap_err();
    assert_eq!(gone.kind, FailureKind::NotFound);
    assert!(gone.message.contains("register version \"0.9.0\""), "{gone}");
    let other = ConnectionVersion { plugin: "other".to_owned(), ..recorded("2.0.0") };
    assert_eq!(served("", Some(&other)).unwrap(), "1.0.0", "the plugin was exchanged");
}

#[test]
fn plugin_keeps_name_present_only_in_older_version() {
    let catalog = catalog();
    for name in [NAME, "old", "new"] {
        assert_eq!(catalog.owner_of(PluginType::Database, name).as_deref(), Some(NAME));
    }
    catalog.remove(PluginType::Database, NAME, "1.0.0");
    assert_eq!(catalog.owner_of(PluginType::Database, "old"), None);
    catalog.remove(PluginType::Database, NAME, "2.0.0");
    let gone = catalog.serving_database((NAME, ""), None).err().unwrap();
    assert!(gone.message.contains("there is no database plugin \"keyring\""), "{gone}");
}

/// Writes the rows that a registration of both versions leaves.
async fn register(store: &Arc<Store>) {
    let mut unit = store.begin();
    for version in ["1.0.0", "2.0.0"] {
        let row = crate::catalog::address(PluginType::Database, NAME, version);
        unit.put(row, Vec::new(), IndexColumns::default());
    }
    unit.commit().await.unwrap();
}

fn connection(name: &str) -> MountConnection {
    MountConnection { mount: "uuid".to_owned(), name: name.to_owned() }
}

async fn choose(scratch: &TemporaryStore, catalog: &Catalog, choice: ConnectionChoice<'_>) {
    let mut unit = scratch.store.begin();
    catalog.choose_for_connection(&mut unit, &connection("orders"), choice).await.unwrap();
    unit.commit().await.unwrap();
}

/// The connections of the plugin, with their versions.
async fn connections(scratch: &TemporaryStore) -> Vec<(String, String)> {
    let mut unit = scratch.store.begin();
    let found = connections_of(&scratch.store, &mut unit, NAME).await.unwrap();
    found.into_iter().map(|(connection, found)| (connection.name, found.version)).collect()
}

#[tokio::test]
async fn choice_ends_with_replacement_connection_or_mount() {
    let (scratch, catalog) = (TemporaryStore::new("connection-versions").await, catalog());
    register(&scratch.store).await;
    let choice =
        |version, keeps| ConnectionChoice { plugin: "old", version, overrides_pin: false, keeps };
    let orders = |version: &str| vec![("orders".to_owned(), version.to_owned())];
    choose(&scratch, &catalog, choice("", true)).await;
    assert_eq!(
        connections(&scratch).await,
        orders("1.0.0"),
        "a record of an earlier release is read"
    );
    catalog.choose_again(&scratch.store, &connection("orders")).await.unwrap();
    assert_eq!(connections(&scratch).await, orders("2.0.0"));
    choose(&scratch, &catalog, choice("v1.0.0", false)).await;
    choose(&scratch, &catalog, choice("v1.0.0", true)).await;
    catalog.choose_again(&scratch.store, &connection("orders")).await.unwrap();
    assert_eq!(connections(&scratch).await, orders("1.0.0"));
    catalog.set_pin(&pin("2.0.0"));
    choose(&scratch, &catalog, choice("1.0.0", true)).await;
    assert_eq!(connections(&scratch).await, orders("1.0.0"), "a pin waits for the reload");
    choose(&scratch, &catalog, choice("1.0.0", false)).await;
    assert_eq!(connections(&scratch).await, orders("2.0.0"), "the same choice, and the pin");
    catalog.remove_pin(PluginType::Database, NAME);
    catalog.choose_again(&scratch.store, &connection("orders")).await.unwrap();
    assert_eq!(connections(&scratch).await, orders("1.0.0"), "the own version counts again");

    let mut unit = scratch.store.begin();
    connection("orders").release(&mut unit);
    unit.commit().await.unwrap();
    assert_eq!(connections(&scratch).await, []);
    choose(&scratch, &catalog, choice("", false)).await;
    forget_connections(&scratch.store, "uuid").await.unwrap();
    assert_eq!(connections(&scratch).await, []);
    scratch.end().await;
}

#[tokio::test]
async fn new_choices_that_would_not_count_are_refused() {
    let (scratch, catalog) = (TemporaryStore::new("connection-choices").await, catalog());
    register(&scratch.store).await;
    catalog.set_pin(&pin("1.0.0"));
    let choice = |version, overrides_pin| ConnectionChoice {
        plugin: "old",
        version,
        overrides_pin,
        keeps: false,
    };
    choose(&scratch, &catalog, choice("1.0.0", false)).await;
    for (version, overrides_pin, why) in
        [("2.0.0", false, "version 1.0.0 of keyring is pinned"), ("", true, "give plugin_version")]
    {
        let (mut unit, refused_choice) = (scratch.store.begin(), choice(version, overrides_pin));
        let refused =
            catalog.choose_for_connection(&mut unit, &connection("orders"), refused_choice).await;
        let refused = refused.err().unwrap().message;
        assert!(refused.contains(why), "{refused}");
    }
    scratch.end().await;
}

#[tokio::test]
async fn concurrent_version_removal_and_choice_conflict() {
    let (scratch, catalog) = (TemporaryStore::new("connection-removal").await, catalog());
    register(&scratch.store).await;
    let row = crate::catalog::address(PluginType::Database, NAME, "2.0.0");
    let newest = ConnectionChoice { plugin: NAME, version: "", overrides_pin: false, keeps: false };

    // The choice commits after the removal looked for connections.
    let mut removal = scratch.store.begin();
    assert_eq!(connections_of(&scratch.store, &mut removal, NAME).await.unwrap(), []);
    removal.delete(row.clone());
    choose(&scratch, &catalog, newest).await;
    assert_eq!(removal.commit().await, Err(StoreFault::Conflict));

    // The removal commits after the choice found the version.
    let mut unit = scratch.store.begin();
    catalog.choose_for_connection(&mut unit, &connection("other"), newest).await.unwrap();
    let mut removal = scratch.store.begin();
    removal.delete(row);
    removal.commit().await.unwrap();
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    let mut late = scratch.store.begin();
    let refused = catalog.choose_for_connection(&mut late, &connection("other"), newest).await;
    assert!(refused.err().unwrap().message.contains("2.0.0 is being removed"));
    drop(late);
    scratch.end().await;
}

#[tokio::test]
async fn recorded_connections_of_mount_are_bounded() {
    let (scratch, catalog) = (TemporaryStore::new("connection-count").await, catalog());
    register(&scratch.store).await;
    let names: Vec<String> = (0..MOST_CONNECTIONS).map(|number| format!("{number:05}")).collect();
    for page in names.chunks(2_000) {
        let mut unit = scratch.store.begin();
        for name in page {
            let row = recorded("1.0.0").to_bytes().unwrap();
            unit.put(connection(name).address(), row, IndexColumns::default());
        }
        unit.commit().await.unwrap();
    }
    let newest = ConnectionChoice { plugin: NAME, version: "", overrides_pin: false, keeps: false };
    let mut unit = scratch.store.begin();
    let recorded_connection = connection("00000");
    catalog.choose_for_connection(&mut unit, &recorded_connection, newest).await.unwrap();
    let refused = catalog.choose_for_connection(&mut unit, &connection("one-more"), newest).await;
    assert!(refused.err().unwrap().message.contains("delete connections"));
    let elsewhere = MountConnection { mount: "other".to_owned(), name: "orders".to_owned() };
    catalog.choose_for_connection(&mut unit, &elsewhere, newest).await.unwrap();
    unit.commit().await.unwrap();
    scratch.end().await;
}
