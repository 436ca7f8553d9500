//! Tests of path matching, and of refused tables.

use super::*;
use crate::description::{Field, FieldKind, Operation};
use serde_json::json;

fn field(name: &str, kind: FieldKind) -> Field {
    Field::new(name, kind, "")
}

/// Returns a row with a field for every capture.
fn row(verb: Verb, path: &str) -> Route {
    let captures = segments(path).filter_map(capture_of);
    let fields = captures.map(|name| field(name, FieldKind::Name)).collect();
    Route { fields, ..Route::new(verb, path, "") }
}

#[test]
fn name_secret_in_one_row_is_secret_everywhere() {
    let password = Field {
        aliases: vec!["bindpass".to_owned()],
        ..field("password", FieldKind::String).secret()
    };
    let write = Route { fields: vec![password], ..Route::new(Verb::Write, "config", "") };
    let table = RouteTable::new(vec![write, row(Verb::Read, "creds/{name}")]).unwrap();
    assert!(table.is_secret("password") && table.is_secret("bindpass"));
    assert!(!table.is_secret("name") && !table.is_secret("Password") && !table.is_secret(""));
}

fn table() -> RouteTable {
    RouteTable::new(vec![
        row(Verb::Read, ""),
        row(Verb::List, "roles"),
        row(Verb::Read, "roles/{name}"),
        row(Verb::Write, "roles/{role}"),
        row(Verb::Write, "roles/reset"),
        row(Verb::Write, "library/manage/{set}/check-in"),
        row(Verb::Read, "library/{set}/status"),
        row(Verb::Read, "{a}/{b}/{c}/status"),
    ])
    .unwrap()
}

#[test]
fn rest_capture_takes_slashes_with_lowest_priority() {
    let rows = vec![
        row(Verb::Write, "renew"),
        row(Verb::Write, "renew/{id+}"),
        row(Verb::Write, "renew/now"),
    ];
    let table = RouteTable::new(rows).unwrap();
    let RouteMatch::Row { index, captures, .. } =
        table.find(Verb::Write, "renew/database/creds/x/abc")
    else {
        panic!()
    };
    assert_eq!((index, captures), (1, pairs(&[("id", "database/creds/x/abc")])));
    assert!(matches!(table.find(Verb::Write, "renew/now"), RouteMatch::Row { index: 2, .. }));
    assert!(matches!(table.find(Verb::Write, "renew"), RouteMatch::Row { index: 0, .. }));
    for path in ["{a+}/b/c", "{a+}/{b}", "{a+}/{b+}"] {
        assert!(why(row(Verb::Read, path)).contains("last segment"), "{path}");
    }
}

#[test]
fn rest_capture_precedes_literal_path_end() {
    let rows = vec![row(Verb::Write, "mounts/{path+}"), row(Verb::Write, "mounts/{path+}/tune")];
    let table = RouteTable::new(rows).unwrap();
    let found = |path: &str| match table.find(Verb::Write, path) {
        RouteMatch::Row { index, captures, .. } => (index, captures),
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(found("mounts/a/tune"), (1, pairs(&[("path", "a")])));
    assert_eq!(found("mounts/a/b/tune"), (1, pairs(&[("path", "a/b")])));
    assert_eq!(found("mounts/tune/tune"), (1, pairs(&[("path", "tune")])));
    assert_eq!(found("mounts/tune"), (0, pairs(&[("path", "tune")])));
    assert_eq!(found("mounts/a/tune/b"), (0, pairs(&[("path", "a/tune/b")])));
    assert_eq!(table.find(Verb::Delete, "mounts/a/tune"), RouteMatch::NoVerb);
    let only = RouteTable::new(vec![row(Verb::Read, "mounts/{path+}/tune")]).unwrap();
    for path in ["mounts", "mounts/a", "mounts/tune", "mounts//tune", "mounts/a/tune/b"] {
        assert_eq!(only.find(Verb::Read, path), RouteMatch::NoPath, "{path}");
    }
}

fn found(verb: Verb, path: &str) -> (usize, Vec<(String, String)>) {
    match table().find(verb, path) {
        RouteMatch::Row { index, captures, .. } => (index, captures),
        other => panic!("{path}: {other:?}"),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn why(route: Route) -> String {
    RouteTable::new(vec![row(Verb::List, "roles"), route]).unwrap_err()
}

#[test]
fn path_finds_row_with_own_capture_names() {
    assert_eq!(found(Verb::Read, ""), (0, Vec::new()));
    assert_eq!(found(Verb::List, "roles"), (1, Vec::new()));
    assert_eq!(found(Verb::Read, "roles/a b"), (2, pairs(&[("name", "a b")])));
    assert_eq!(found(Verb::Write, "roles/a"), (3, pairs(&[("role", "a")])));
    assert_eq!(found(Verb::Read, "x/y/z/status").1, pairs(&[("a", "x"), ("b", "y"), ("c", "z")]));
}

#[test]
fn literal_wins_over_capture_even_without_verb() {
    assert_eq!(found(Verb::Write, "roles/reset"), (4, Vec::new()));
    assert_eq!(table().find(Verb::Read, "roles/reset"), RouteMatch::NoVerb);
}

#[test]
fn dead_end_literal_yields_to_capture() {
    assert_eq!(found(Verb::Read, "library/manage/status"), (6, pairs(&[("set", "manage")])));
    assert_eq!(found(Verb::Read, "library/manage/x/status").0, 7);
}

#[test]
fn unknown_path_and_unknown_verb_are_distinguished() {
    for path in [
        "role",
        "roles/a/b",
        "library",
        "library/x",
        "roles/",
        "/roles",
        "roles//",
        "//",
        "Roles/a",
        "x//z/status",
    ] {
        assert_eq!(table().find(Verb::Read, path), RouteMatch::NoPath, "{path}");
    }
    assert_eq!(table().find(Verb::Delete, "roles/a"), RouteMatch::NoVerb);
    assert_eq!(table().find(Verb::Read, "roles"), RouteMatch::NoVerb);
    let no_root = RouteTable::new(vec![row(Verb::Read, "{x}")]).unwrap();
    assert_eq!(no_root.find(Verb::Read, ""), RouteMatch::NoPath);
}

#[test]
fn most_literal_row_is_found_among_all_mixes() {
    let pattern = |mix: u32| {
        let part = |place| {
            if (mix >> place) & 1 == 1 { format!("{{c{place}}}") } else { "a".to_owned() }
        };
        (0_u32..8).map(part).collect::<Vec<String>>().join("/")
    };
    let table =
        RouteTable::new((0..256).map(|mix| row(Verb::Read, &pattern(mix))).collect()).unwrap();
    for mix in 0..256 {
        let path = pattern(mix).replace(['{', '}'], "");
        let RouteMatch::Row { index, .. } = table.find(Verb::Read, &path) else { panic!("{path}") };
        assert_eq!(index, mix as usize, "{path}");
    }
    for hostile in ["a/".repeat(2000), "a/".repeat(8) + "a", "a/".repeat(6) + "a"] {
        assert_eq!(table.find(Verb::Read, &hostile), RouteMatch::NoPath);
    }
}

#[test]
fn a_bad_pattern_is_refused_with_its_row() {
    for path in [
        "/roles", "roles/", "a//b", "a/../b", ".", "x{name}", "{a}-{b}", "{}", "{a b}", "a b", "ä",
        "{a}/{a}", "{",
    ] {
        let why = RouteTable::new(vec![row(Verb::Read, path)]).unwrap_err();
        assert!(why.contains(&format!("row Read of {path:?}")), "{why}");
    }
}

#[test]
fn duplicate_rows_are_refused_despite_other_capture_names() {
    let table =
        RouteTable::new(vec![row(Verb::Read, "roles/{name}"), row(Verb::Read, "roles/{role}")]);
    assert!(table.unwrap_err().contains("roles/{role}"));
    assert!(why(row(Verb::List, "roles")).contains("another row"));
}

#[test]
fn capture_needs_field_of_name_or_string_kind() {
    let mut bare = row(Verb::Read, "creds/{name}");
    bare.fields.clear();
    assert!(why(bare.clone()).contains("\"name\""));
    bare.fields.push(field("name", FieldKind::Int));
    assert!(why(bare.clone()).contains("of kind name or string"));
    bare.fields =
        vec![Field { aliases: vec!["name".to_owned()], ..field("role", FieldKind::Name) }];
    assert!(why(bare).contains("\"name\""));
}

#[test]
fn a_name_stands_for_one_field_only() {
    for other in [
        field("name", FieldKind::Int),
        Field { aliases: vec!["name".into()], ..field("x", FieldKind::Int) },
    ] {
        let mut route = row(Verb::Read, "creds/{name}");
        route.fields.push(other);
        assert!(why(route).contains("\"name\" names two fields"));
    }
    let mut route = row(Verb::Read, "creds/{name}");
    route.fields.push(field("a b", FieldKind::Int));
    assert!(why(route).contains("\"a b\""));
}

#[test]
fn old_name_is_marked_and_matches_field_kind() {
    let of = |fields: Vec<Field>| why(Route { fields, ..Route::new(Verb::Write, "x", "") });
    let ttl = |name: &str| field(name, FieldKind::Duration);
    let unmarked = of(vec![ttl("token_ttl"), ttl("ttl")]);
    assert!(unmarked.contains("\"ttl\" looks like the old name of \"token_ttl\""), "{unmarked}");
    let absent = of(vec![ttl("ttl").old_name_of("token_ttl")]);
    assert!(absent.contains("which is not there"), "{absent}");
    let other = of(vec![field("token_ttl", FieldKind::Int), ttl("ttl").old_name_of("token_ttl")]);
    assert!(other.contains("differ in kind"), "{other}");
    let inside = field("config", FieldKind::Any).with_members(vec![ttl("token_ttl"), ttl("ttl")]);
    let inside = of(vec![inside]);
    assert!(inside.contains("config holds: \"ttl\" looks like"), "{inside}");
    let marked = vec![ttl("token_ttl"), ttl("ttl").old_name_of("token_ttl")];
    assert!(
        RouteTable::new(vec![Route { fields: marked, ..Route::new(Verb::Write, "x", "") }]).is_ok()
    );
}

#[test]
fn storage_keys_use_the_captures_of_their_row() {
    let keyed =
        |key: &str| Route { existence: Some(key.to_owned()), ..row(Verb::Write, "roles/{name}") };
    assert!(RouteTable::new(vec![keyed("role/{name}")]).is_ok());
    for key in ["role/{role}", "", "role/", "/role", "role/x{name}", "role/../{name}"] {
        assert!(why(keyed(key)).contains("existence"), "{key}");
    }
    assert!(
        why(Route { verb: Verb::Read, ..keyed("role/{name}") })
            .contains("existence: only for a write")
    );
    let listed =
        |prefix: &str| Route { list: Some(prefix.to_owned()), ..row(Verb::List, "sets/{name}") };
    assert!(RouteTable::new(vec![listed("set/{name}/")]).is_ok());
    for prefix in ["set/{set}/", "set", "/", "", "set//"] {
        assert!(why(listed(prefix)).contains("list"), "{prefix}");
    }
    assert!(why(Route { verb: Verb::Read, ..listed("set/") }).contains("list: only"));
}

#[test]
fn successor_uses_captures_of_its_row() {
    let with = |api_version, successor: &str| Route {
        api_version,
        successor: Some(successor.to_owned()),
        fields: vec![field("path", FieldKind::String)],
        ..row(Verb::Read, "{path+}")
    };
    assert!(RouteTable::new(vec![with(1, "data/{path}")]).is_ok());
    assert!(why(with(0, "data/{path}")).contains("only for a row with a version"));
    assert!(why(with(1, "data/{name}")).contains("no capture \"name\""));
    assert!(why(with(1, "data//{path}")).contains("successor: there is an empty segment"));
}

#[test]
fn exclusive_group_names_at_least_two_known_fields() {
    let grouped = |names: &[&str]| Route {
        exclusive: vec![names.iter().map(|name| (*name).to_owned()).collect()],
        ..row(Verb::Write, "{a}/{b}")
    };
    assert!(RouteTable::new(vec![grouped(&["a", "b"])]).is_ok());
    assert!(why(grouped(&["a", "c"])).contains("\"c\""));
    let mut both = grouped(&["a", "b"]);
    both.fields.iter_mut().for_each(|field| field.default = Some(json!("x")));
    assert!(why(both).contains("can have a default"));
    for names in [&[][..], &["a"], &["a", "a"]] {
        assert!(why(grouped(names)).contains("at least two"));
    }
}

#[test]
fn a_default_must_fit_its_kind() {
    let with = |default| {
        let ttl = Field { default: Some(default), ..field("ttl", FieldKind::Duration) };
        Route { fields: vec![ttl], ..row(Verb::Write, "x") }
    };
    assert!(RouteTable::new(vec![with(json!("1h"))]).is_ok());
    for default in [json!("soon"), json!(null), json!([])] {
        assert!(why(with(default)).contains("default of field \"ttl\""));
    }
}

#[test]
fn only_read_is_asked_as_another_operation() {
    let row =
        |verb| Route { asked_as: Some(Operation::Update), ..Route::new(verb, "turn", "turns") };
    assert!(RouteTable::new(vec![row(Verb::Read)]).is_ok());
    assert!(why(row(Verb::Delete)).contains("asked_as"));
}

#[test]
fn pattern_is_filled_once_without_nested_captures() {
    let captures = pairs(&[("a", "{b}"), ("b", "x")]);
    assert_eq!(fill_pattern("role/{a}/{b}", &captures), "role/{b}/x");
    assert_eq!(fill_pattern("role/", &captures), "role/");
    assert_eq!(fill_pattern("role/{c}", &captures), "role/{c}");
}

#[test]
fn login_route_must_be_unauthenticated_write() {
    let login = |change: &dyn Fn(&mut Route)| {
        let mut route = Route { login: true, ..Route::new(Verb::Write, "login", "logs in") };
        change(&mut route);
        RouteTable::new(vec![route])
    };
    assert!(login(&|_| {}).is_ok());
    let both = login(&|route| route.unauthenticated = true);
    assert!(both.unwrap_err().contains("leave unauthenticated out"));
    for change in [
        &(|route: &mut Route| route.verb = Verb::Read) as &dyn Fn(&mut Route),
        &|route| route.sudo = true,
        &|route| route.fields = vec![field("x", FieldKind::String).needs_sudo()],
        &|route| route.open_fields = true,
        &|route| route.raw = true,
        &|route| route.leases = true,
        &|route| route.nested = true,
        &|route| route.existence = Some("login".to_owned()),
    ] {
        let why = login(change).unwrap_err();
        assert!(why.contains("a row without a token cannot"), "{why}");
    }
}

#[test]
fn public_row_reads_or_writes_without_policy_options() {
    let public = |verb: Verb, change: &dyn Fn(&mut Route)| {
        let mut route = Route { unauthenticated: true, ..Route::new(verb, "keys", "shows keys") };
        change(&mut route);
        RouteTable::new(vec![route])
    };
    for verb in [Verb::Read, Verb::Write] {
        assert!(public(verb, &|_| {}).is_ok());
        assert!(public(verb, &|route| route.sudo = true).is_err());
        assert!(public(verb, &|route| route.leases = true).is_err());
    }
    for verb in [Verb::Patch, Verb::Delete, Verb::List] {
        let why = public(verb, &|_| {}).unwrap_err();
        assert!(why.contains("reads and writes"), "{why}");
        let open = Route { unauthenticated: true, ..Route::new(verb, "keys", "shows keys") };
        assert_eq!(RouteTable::of_host(vec![open]).is_ok(), verb == Verb::Delete);
    }
}

#[test]
fn verbatim_row_takes_any_member_as_possible_secret() {
    let path = Field::new("path", FieldKind::String, "where");
    let row = |change: &dyn Fn(&mut Route)| {
        let mut route = Route {
            open_fields: true,
            verbatim: true,
            fields: vec![path.clone()],
            ..Route::new(Verb::Write, "{path+}", "keeps")
        };
        change(&mut route);
        RouteTable::new(vec![route])
    };
    let table = row(&|_| {}).unwrap();
    assert!(table.is_secret("anything") && !table.is_secret("path"));
    for (change, reason) in [
        (&(|route: &mut Route| route.verb = Verb::Read) as &dyn Fn(&mut Route), "only for a write"),
        (&|route| route.open_fields = false, "open fields"),
        (&|route| route.fields.push(Field::new("x", FieldKind::Any, "")), "field of the body"),
    ] {
        let why = row(change).unwrap_err();
        assert!(why.contains(reason), "{why}");
    }
}

#[test]
fn a_capture_cannot_need_sudo_of_its_own() {
    let row = |name: Field| Route { fields: vec![name], ..Route::new(Verb::Write, "x/{name}", "") };
    let name = || field("name", FieldKind::Name);
    assert!(RouteTable::new(vec![row(name())]).is_ok());
    assert!(why(row(name().needs_sudo())).contains("mark the row"));
}
