//! Tests of the rules of descriptions.

use super::*;
use bulkhead_wire::description::Verb;

#[test]
fn plugin_row_stays_below_mount_and_within_bounds() {
    let with = |change: &dyn Fn(&mut Route)| {
        let mut route = Route::new(Verb::Read, "a/b", "reads");
        change(&mut route);
        row(&route)
    };
    assert_eq!(with(&|_| {}), Ok(()));
    for (change, why) in [
        (&(|route: &mut Route| route.path = "sys/x".to_owned()) as &dyn Fn(&mut Route), "\"sys\""),
        (&|route| route.raw = true, "raw"),
        (&|route| route.deadline = 3_601, "deadline"),
        (&|route| route.body_limit = BODY + 1, "body_limit"),
        (&|route| route.about = "x".repeat(TEXT + 1), "1025 bytes"),
        (&|route| route.about = "a\u{1b}[2J".to_owned(), "cannot be printed"),
    ] {
        assert!(with(change).unwrap_err().contains(why), "{why}");
    }
}

#[test]
fn component_cannot_read_caller_credential_headers() {
    let access = |headers: &[&str], secret: &[&str]| RawAccess {
        headers: headers.iter().map(|name| (*name).to_owned()).collect(),
        secret_headers: secret.iter().map(|name| (*name).to_owned()).collect(),
        ..RawAccess::default()
    };
    assert_eq!(raw(&access(&["x-nomad-token", "authorization"], &["authorization"])), Ok(()));
    for name in ["x-vault-token", "cookie", "proxy-authorization", "X-Other", "", "a b"] {
        assert!(raw(&access(&[name], &[])).is_err(), "{name}");
    }
    assert!(raw(&access(&["a"], &["b"])).unwrap_err().contains("not among"));
    assert!(raw(&access(&["a"; 17], &[])).unwrap_err().contains("at most 16"));
    let shown = |paths: Vec<String>| raw(&RawAccess { paths, ..RawAccess::default() });
    assert_eq!(shown(vec!["acl/policy/:name".to_owned()]), Ok(()));
    for paths in [vec![String::new()], vec!["a".repeat(TEXT + 1)], vec!["a".to_owned(); 257]] {
        assert!(shown(paths).unwrap_err().starts_with("paths: "));
    }
}

#[test]
fn other_names_are_for_components_of_the_server() {
    let described = |aliases: &[&str]| ComponentDescription {
        kind: "secrets-engine".to_owned(),
        name: "shelf".to_owned(),
        aliases: aliases.iter().map(|name| (*name).to_owned()).collect(),
        version: "1.0.0".to_owned(),
        schema: 1,
        reads_schema_up_to: None,
        indexed: false,
        upgrades_api: false,
        asks: Vec::new(),
        metrics: Vec::new(),
        about: String::new(),
        routes: Vec::new(),
        raw: None,
    };
    assert_eq!(engine(&described(&[])), Ok(()));
    assert!(engine(&described(&["database"])).unwrap_err().contains("aliases"));
}

#[test]
fn invalid_requested_grant_is_refused_with_nearest_word() {
    let refused = |line: &str| asks(&["sql".to_owned(), line.to_owned()]).unwrap_err();
    assert!(
        refused("databse").contains("\"databse\" is not a grant")
            && refused("databse").contains("\"database\"")
    );
    assert!(refused("limit:memroy=1MiB").contains("did you mean \"memory\"?"));
    assert!(asks(&vec!["sql".to_owned(); 257]).unwrap_err().contains("at most 256"));
    assert_eq!(asks(&["database:x".to_owned(), "http".to_owned()]), Ok(()));
}

#[test]
fn registration_reports_requested_grants_not_given() {
    let report = |asks: &str, most: Option<&str>| {
        let most: Option<Vec<GrantPattern>> =
            most.map(|most| most.split_whitespace().map(|line| line.parse().unwrap()).collect());
        let asks: Vec<String> = asks.split_whitespace().map(str::to_owned).collect();
        warnings(&asks, most.as_deref())
    };
    assert_eq!(report("sql", None), [""; 0]);
    assert_eq!(report("database:x", Some("database")), [""; 0]);
    let less = report("database limit:memory=128MiB", Some("database:x"));
    assert!(
        less.len() == 2
            && less[0].contains("asks for database,")
            && less[1].contains("memory=128MiB"),
        "{less:?}"
    );
}

#[test]
fn versions_are_semantic_and_bare() {
    assert_eq!(version("1.4.2-rc.1"), Ok(()));
    for wrong in ["", "1", "v1.4.2", "1.4.2+builtin", "1.4.2 "] {
        assert!(version(wrong).unwrap_err().contains("not a version"), "{wrong}");
    }
}

#[test]
fn plugin_name_of_core_part_is_refused() {
    let catalog = Catalog::default();
    assert_eq!(name(&catalog, PluginType::Secret, "my-engine"), Ok(()));
    for reserved in ["sys", "auth", "identity", "", "a/b", "a b", "-x"] {
        assert!(
            name(&catalog, PluginType::Secret, reserved)
                .unwrap_err()
                .contains("cannot be the name"),
            "{reserved}"
        );
    }
}
