//! Fixtures for the tests of all nouns: a directory of either kind with the engine's login and four
//! accounts, and a test bed with its configuration.

use crate::Directory;
use bulkhead_sdk::testbed::{Flavour, TestBed};
use serde_json::{Value, json};

/// DN of the engine's login.
pub(crate) const ENGINE: &str = "CN=engine,OU=people,DC=corp,DC=example";
pub(crate) const ENGINE_PASSWORD: &str = "secret-of-engine";

/// Returns the DN of an account.
pub(crate) fn dn(name: &str) -> String {
    format!("CN={name},OU=people,DC=corp,DC=example")
}

/// Returns a test bed with a directory of that kind, and without a configuration.
pub(crate) fn empty(flavour: Flavour) -> TestBed<Directory> {
    let bed = TestBed::<Directory>::new().unwrap();
    let directory = bed.host.directory();
    directory.be(flavour);
    directory.add_administrator(ENGINE, ENGINE_PASSWORD);
    let people = [
        ("ou", "people"),
        ("objectGUID", "guid-of-people--"),
        ("entryUUID", "6f9619ff-8b86-d011-b42d-00cf4fc90000"),
    ];
    directory.add("OU=people,DC=corp,DC=example", "", &people);
    for name in ["svc1", "svc2", "svc3", "svc4"] {
        let upn = format!("{name}@corp.example");
        let (guid, uuid) =
            (format!("guid-of-{name}----"), format!("6f9619ff-8b86-d011-b42d-00cf4fc9{name:0>4}"));
        let uuid = uuid.replace("svc", "abc");
        let id = match flavour {
            Flavour::ActiveDirectory => ("objectGUID", guid.as_str()),
            Flavour::OpenLdap => ("entryUUID", uuid.as_str()),
        };
        let class = ("objectClass", "person");
        let names =
            [class, ("cn", name), ("sAMAccountName", name), ("userPrincipalName", &upn), id];
        directory.add(&dn(name), &format!("first-of-{name}"), &names);
    }
    bed
}

/// Returns the default test configuration.
pub(crate) fn config(flavour: Flavour) -> Value {
    let schema = if flavour == Flavour::OpenLdap { "openldap" } else { "ad" };
    json!({
        "url": "ldaps://dc1.corp.example",
        "binddn": ENGINE,
        "bindpass": ENGINE_PASSWORD,
        "userdn": "OU=people,DC=corp,DC=example",
        "schema": schema,
        "ttl": 600,
    })
}

/// Returns a test bed with the configuration.
pub(crate) fn configured(flavour: Flavour) -> TestBed<Directory> {
    let bed = empty(flavour);
    bed.write("config", &config(flavour)).unwrap();
    bed
}

/// Returns a test bed with the configuration and the role `build` on the account `svc1`.
pub(crate) fn with_role(flavour: Flavour) -> TestBed<Directory> {
    let bed = configured(flavour);
    let role = json!({ "service_account_name": "svc1@corp.example" });
    let role =
        if flavour == Flavour::OpenLdap { json!({"service_account_name": "svc1"}) } else { role };
    bed.write("roles/build", &role).unwrap();
    bed.host.steps();
    bed
}

/// Returns a test bed with the configuration and the set `team` of `svc1` and `svc2`.
pub(crate) fn with_set() -> TestBed<Directory> {
    let bed = configured(Flavour::ActiveDirectory);
    let set = json!({ "service_account_names": "svc1,svc2", "ttl": "30m", "max_ttl": "1h" });
    bed.write("library/team", &set).unwrap();
    bed.host.steps();
    bed.host.advance(60);
    bed
}

/// Returns true if the password is in force in the directory.
pub(crate) fn works(bed: &TestBed<Directory>, name: &str, password: &Value) -> bool {
    bed.host.directory().has_password(&dn(name), password.as_str().unwrap())
}
