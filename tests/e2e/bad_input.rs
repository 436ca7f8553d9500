//! Bad input is refused with a clear reason and changes neither the store nor the database.

mod table;

use crate::world::{World, with};
use bulkhead_tests::Answer;
use serde_json::{Value, json};

struct BadInput {
    method: &'static str,
    path: &'static str,
    body: String,
    status: u16,
    says: &'static str,
}

fn case(
    method: &'static str,
    path: &'static str,
    body: impl ToString,
    status: u16,
    says: &'static str,
) -> BadInput {
    BadInput { method, path, body: body.to_string(), status, says }
}

/// Sends every case and asserts after each that nothing has changed.
#[track_caller]
fn refuse_all(world: &World, cases: &[BadInput]) {
    let before = world.configured();
    for case in cases {
        let answer = world.root.send(case.method, case.path, case.body.as_bytes());
        assert_refused(case, &answer);
        assert_eq!(
            world.configured(),
            before,
            "{} {} changed the stored data",
            case.path,
            case.body
        );
        assert_eq!(
            world.postgres.users(),
            Vec::<String>::new(),
            "{} {} left a user",
            case.path,
            case.body
        );
    }
}

#[track_caller]
fn assert_refused(case: &BadInput, answer: &Answer) {
    let BadInput { method, path, body, status, says } = case;
    let body = body.get(..200).unwrap_or(body);
    assert_eq!(answer.status, *status, "{method} {path} {body}: {:?}", answer.body);
    let errors = answer.errors();
    assert!(errors.contains(says), "{method} {path} {body}: {errors:?} does not speak of {says:?}");
    assert!(errors.len() < 2000, "{method} {path}: the refusal repeats what it was sent: {errors}");
}

pub(super) fn bodies_other_than_one_json_object_are_refused() {
    let world = World::new();
    let mut cases = Vec::new();
    for path in
        ["database/roles/bad", "database/config/bad", "sys/policies/acl/bad", "auth/token/create"]
    {
        cases.extend([
            case("POST", path, r#"{"db_name": "#, 400, "JSON"),
            case("POST", path, r#"{"db_name": "demo"} trailing"#, 400, "JSON"),
            case("POST", path, r#"{'db_name': 'demo'}"#, 400, "JSON"),
            case("POST", path, "[1, 2]", 400, "object"),
            case("POST", path, "\"text\"", 400, "object"),
            case("POST", path, "NaN", 400, "JSON"),
        ]);
    }
    refuse_all(&world, &cases);
}

/// Paths of the host, of an engine, and without a route.
const WRITTEN: [&str; 4] =
    ["database/roles/bad", "sys/policies/acl/bad", "auth/token/create", "nothing/here"];

pub(super) fn objects_nested_ten_thousand_deep_are_refused() {
    let world = World::new();
    let both = format!("{}{}", "{\"a\":[".repeat(5_000), "]}".repeat(5_000));
    let open = "[".repeat(10_000);
    let cases =
        WRITTEN.map(|path| [&both, &open].map(|deep| case("POST", path, deep, 400, "JSON")));
    refuse_all(&world, &cases.into_iter().flatten().collect::<Vec<_>>());
}

pub(super) fn a_million_keys_are_refused() {
    let world = World::new();
    let keys: Vec<String> =
        (0..1_000_000).map(|number| format!("\"k{number}\":{number}")).collect();
    let object = format!("{{{}}}", keys.join(","));
    let list = format!("{{\"policies\":[{}]}}", vec!["0"; 1_000_000].join(","));
    let cases = WRITTEN.map(|path| {
        [&object, &list].map(|many| case("POST", path, many, 413, "send fewer values"))
    });
    refuse_all(&world, &cases.into_iter().flatten().collect::<Vec<_>>());
}

pub(super) fn keys_that_are_given_twice_are_refused_by_name() {
    let world = World::new();
    let mut cases = Vec::new();
    for path in WRITTEN {
        cases.push(case("POST", path, r#"{"ttl": 1, "ttl": 2}"#, 400, "ttl"));
        cases.push(case("POST", path, r#"{"ttl": 1, "\u0074tl": 1}"#, 400, "ttl"));
        cases.push(case("POST", path, r#"{"meta": {"team": "a", "team": "b"}}"#, 400, "team"));
    }
    refuse_all(&world, &cases);
}

pub(super) fn bytes_that_are_not_text_are_refused() {
    let world = World::new();
    let before = world.configured();
    for body in
        [&b"{\"db_name\": \"\xff\xfe\"}"[..], b"\x00\x01\x02", b"{\"db_name\": \"\xed\xa0\x80\"}"]
    {
        let refused = world.root.send("POST", "database/roles/bad", body).expect(400);
        assert!(refused.errors().contains("failed to parse JSON input"), "{refused:?}");
    }
    assert_eq!(world.configured(), before);
}

pub(super) fn values_of_the_wrong_type_are_refused_by_name() {
    let world = World::new();
    let role = |(field, value, says): (&str, Value, &'static str)| {
        let mut role =
            json!({ "db_name": "demo", "creation_statements": "CREATE ROLE \"{{name}}\"" });
        role[field] = value;
        case("POST", "database/roles/bad", role, 400, says)
    };
    let other = |(path, body, says): (&'static str, Value, &'static str)| {
        case("POST", path, body, 400, says)
    };
    let cases = fields_of_roles_of_the_wrong_type().map(role).into_iter();
    let cases = cases.chain(bodies_with_a_wrong_type().map(other));
    refuse_all(&world, &cases.collect::<Vec<_>>());
}

/// A field of a role, a value of the wrong type, and a part of the refusal.
fn fields_of_roles_of_the_wrong_type() -> [(&'static str, Value, &'static str); 8] {
    [
        ("db_name", json!(["demo"]), "db_name"),
        ("db_name", json!({ "name": "demo" }), "db_name"),
        ("creation_statements", json!({ "sql": "x" }), "creation_statements"),
        ("creation_statements", json!([["x"]]), "creation_statements"),
        ("default_ttl", json!([60]), "default_ttl"),
        ("default_ttl", json!(true), "default_ttl"),
        ("credential_config", json!("no pairs"), "credential_config"),
        ("credential_type", json!("fingerprint"), "fingerprint"),
    ]
}

/// A path, a body with a wrong type, and a part of the refusal.
fn bodies_with_a_wrong_type() -> [(&'static str, Value, &'static str); 9] {
    [
        ("database/config/bad", json!({ "plugin_name": ["x"] }), "plugin_name"),
        ("database/config/demo", json!({ "verify_connection": "perhaps" }), "verify_connection"),
        ("database/config/demo", json!({ "allowed_roles": { "a": 1 } }), "allowed_roles"),
        ("auth/token/create", json!({ "policies": { "a": 1 } }), "policies"),
        ("auth/token/create", json!({ "num_uses": "many" }), "num_uses"),
        ("auth/token/create", json!({ "num_uses": -1 }), "num_uses"),
        ("sys/leases/renew", json!({ "lease_id": 7, "increment": "x" }), "increment"),
        ("sys/mounts/fresh", json!({ "type": "" }), "type"),
        ("sys/mounts/fresh", json!({ "type": "telepathy" }), "telepathy"),
    ]
}

pub(super) fn malformed_durations_are_refused_with_the_value() {
    let world = World::new();
    let mut cases = Vec::new();
    for (value, says) in [
        (json!(-5), "-5"),
        (json!("-1h"), "-1h"),
        (json!("abc"), "abc"),
        (json!("1x"), "1x"),
        (json!("h"), "h"),
        (json!("1h 30m"), "1h 30m"),
        (json!("1e30h"), "1e30h"),
        (json!("99999999999999999999s"), "99999999999999999999s"),
        (json!("99999999999999999d"), "99999999999999999d"),
        (json!(1e300), "default_ttl"),
        (json!(0.5), "0.5"),
        (json!(9_223_372_037_u64), "9223372037"),
        (json!(u64::MAX), "18446744073709551615"),
    ] {
        let role = json!({
            "db_name": "demo", "creation_statements": "CREATE ROLE \"{{name}}\"",
            "default_ttl": value,
        });
        cases.push(case("POST", "database/roles/bad", role, 400, says));
        cases.push(case(
            "POST",
            "database/roles/reader",
            json!({ "default_ttl": value }),
            400,
            says,
        ));
    }
    refuse_all(&world, &cases);
}

pub(super) fn negative_and_overflowing_times_are_refused_in_every_field() {
    let world = World::new();
    let fields = [
        ("auth/token/create", "ttl"),
        ("auth/token/create", "explicit_max_ttl"),
        ("auth/token/create", "period"),
        ("auth/token/roles/any", "token_period"),
        ("sys/mounts/database/tune", "default_lease_ttl"),
        ("sys/mounts/database/tune", "max_lease_ttl"),
    ];
    let mut cases = Vec::new();
    for (path, field) in fields {
        for time in ["soon", "-1s", "99999999999999999999s", "300y", "9223372037"] {
            cases.push(case("POST", path, json!({ field: time }), 400, time));
        }
        cases.push(case("POST", path, json!({ field: -1 }), 400, "-1"));
    }
    let tuned = world.root.read("sys/mounts/database/tune").expect(200);
    refuse_all(&world, &cases);
    assert_eq!(
        world.root.read("sys/mounts/database/tune").expect(200).body["data"],
        tuned.body["data"]
    );
    world.root.read("auth/token/roles/any").expect(404);
}

pub(super) fn addresses_that_cannot_be_dialled_are_refused_by_name() {
    let world = World::new();
    let login = "postgresql://{{username}}:{{password}}";
    let mut cases = Vec::new();
    for (url, says) in [
        (String::new(), "connection_url is required"),
        ("not a url".to_owned(), "connection_url must begin with postgresql://"),
        (login.replace("postgresql", "mysql") + "@127.0.0.1/demo", "must begin with postgresql://"),
        (format!("{login}@127.0.0.1:port/demo"), "connection_url has a port other than a number"),
        (format!("{login}@127.0.0.1:99999/demo"), "connection_url has a port other than a number"),
        (format!("{login}@/demo?host=/var/run/postgresql"), "connection_url names a Unix socket"),
        (
            format!("{login}@127.0.0.1/demo?sslmode=perhaps"),
            "connection_url has an unknown sslmode",
        ),
        (
            format!("{login}@127.0.0.1/demo?sslrootcert=/etc/shadow"),
            "connection_url names a file in sslrootcert",
        ),
        (format!("{login}@[::1/demo"), "connection_url has no usable host name"),
        (
            "host=/tmp user={{username}} password={{password}}".to_owned(),
            "connection_url names a Unix socket",
        ),
        (
            "host=127.0.0.1 user={{username}} password='{{password}}".to_owned(),
            "connection_url is not a list of keyword=value pairs",
        ),
    ] {
        let changed = json!({ "connection_url": url });
        let connection = with(world.connection(), changed.clone());
        cases.push(case("POST", "database/config/bad", connection, 400, says));
        // With the password, because another address alone would be refused for lack of the
        // password.
        let changed = with(changed, json!({ "password": world.postgres.password }));
        cases.push(case("POST", "database/config/demo", changed, 400, says));
    }
    refuse_all(&world, &cases);
}

pub(super) fn connections_of_unknown_plugins_and_versions_are_refused() {
    let world = World::new();
    let connection = |field: &str, value: &str| {
        let mut connection = world.connection();
        connection[field] = json!(value);
        connection
    };
    let mut nameless = world.connection();
    nameless.as_object_mut().expect("an object").remove("plugin_name");
    refuse_all(
        &world,
        &[
            case("POST", "database/config/bad", nameless, 400, "plugin_name"),
            case("POST", "database/config/bad", connection("plugin_name", ""), 400, "plugin_name"),
            case(
                "POST",
                "database/config/bad",
                connection("plugin_name", "oracle-of-delphi"),
                400,
                "oracle-of-delphi",
            ),
            case(
                "POST",
                "database/config/bad",
                connection("plugin_version", "latest"),
                400,
                "latest",
            ),
            case(
                "POST",
                "database/config/bad",
                connection("plugin_version", "9.9.9"),
                400,
                "9.9.9",
            ),
            case(
                "POST",
                "database/config/bad",
                connection("rotation_period", "5s"),
                400,
                "rotation_period",
            ),
            case(
                "POST",
                "database/config/bad",
                connection("username_template", "{{.DisplayName"),
                400,
                "username_template",
            ),
            case(
                "POST",
                "database/config/bad",
                connection("password_authentication", "md5"),
                400,
                "password_authentication",
            ),
        ],
    );
}

pub(super) fn statements_that_do_not_lex_are_refused_when_the_role_is_written() {
    let world = World::new();
    let cases: Vec<BadInput> = [
        ("CREATE ROLE \"{{name}}", "opens an identifier with \" without closing"),
        (
            "CREATE ROLE \"{{name}}\" PASSWORD '{{password}}",
            "opens a string with ' without closing",
        ),
        ("DO $body$ BEGIN CREATE ROLE x; END", "opens a dollar quote without closing"),
        ("CREATE ROLE \"{{name}}\" /* no end", "opens a comment with /* without closing"),
        ("CREATE ROLE \"{{nmae}}\"", "has the unknown placeholder"),
        ("\\connect demo", "has a backslash outside quotes"),
        ("CREATE ROLE \"{{name}}\"; COMMIT", "begins or ends a transaction"),
    ]
    .into_iter()
    .map(|(sql, says)| (json!({ "db_name": "demo", "creation_statements": [sql] }), says))
    .flat_map(|(role, says)| {
        ["database/roles/bad", "database/roles/reader"].map(|path| (path, role.clone(), says))
    })
    .map(|(path, role, says)| case("POST", path, role, 400, says))
    .collect();
    refuse_all(&world, &cases);
}

pub(super) fn statements_that_do_not_lex_are_refused_when_the_connection_came_after_the_role() {
    let world = World::empty();
    let role = json!({ "db_name": "demo", "creation_statements": ["CREATE ROLE \"{{name}}"] });
    assert!(world.root.write("database/roles/early", &role).status < 300);
    world.connect("demo");
    let says = "opens an identifier with \" without closing";
    refuse_all(&world, &[case("GET", "database/creds/early", "", 400, says)]);
}

pub(super) fn statements_that_the_database_refuses_leave_nothing() {
    let world = World::new();
    let user =
        r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#;
    for (name, statements) in [
        ("syntax", json!(["CRATE ROLE \"{{name}}\""])),
        ("no-table", json!([user, "GRANT SELECT ON nowhere TO \"{{name}}\""])),
        ("divides", json!([user, "SELECT 1/0"])),
        ("no-group", json!(["CREATE ROLE \"{{name}}\" IN ROLE nobody_knows"])),
    ] {
        world.role(name, json!({ "creation_statements": statements }));
    }
    let cases: Vec<BadInput> = [
        ("database/creds/syntax", "42601"),
        ("database/creds/no-table", "42P01"),
        ("database/creds/divides", "22012"),
        ("database/creds/no-group", "42704"),
    ]
    .map(|(path, sqlstate)| case("GET", path, "", 400, sqlstate))
    .into();
    refuse_all(&world, &cases);
}

pub(super) fn roles_that_lack_what_they_need_are_refused() {
    let world = World::new();
    let statements = "CREATE ROLE \"{{name}}\"";
    refuse_all(
        &world,
        &[
            case("POST", "database/roles/bad", json!({}), 400, "db_name"),
            case(
                "POST",
                "database/roles/bad",
                json!({ "creation_statements": statements }),
                400,
                "db_name",
            ),
            case(
                "POST",
                "database/roles/bad",
                json!({ "db_name": "", "creation_statements": statements }),
                400,
                "db_name",
            ),
            case(
                "POST",
                "database/roles/bad",
                json!({ "db_name": "demo" }),
                400,
                "creation_statements",
            ),
            case(
                "POST",
                "database/roles/bad",
                json!({ "db_name": "demo", "creation_statements": [] }),
                400,
                "creation_statements",
            ),
            case(
                "POST",
                "database/roles/bad",
                json!({
                    "db_name": "demo", "creation_statements": statements,
                    "credential_type": "rsa_private_key",
                }),
                400,
                "rsa_private_key",
            ),
        ],
    );
}

pub(super) fn credentials_of_missing_roles_and_leases_are_refused() {
    let world = World::new();
    let orphan = json!({ "db_name": "gone", "creation_statements": "CREATE ROLE \"{{name}}\"" });
    assert!(world.root.write("database/roles/orphan", &orphan).status < 300);
    refuse_all(
        &world,
        &[
            case("GET", "database/creds/nobody", "", 400, "nobody"),
            case("GET", "database/creds/orphan", "", 400, "gone"),
            case("POST", "database/reset/gone", "{}", 400, "gone"),
            case("POST", "database/creds/reader", "{}", 405, ""),
            case("DELETE", "database/creds/reader", "", 405, ""),
            case("GET", "database/creds", "", 404, ""),
            case(
                "POST",
                "sys/leases/renew",
                json!({ "lease_id": "database/creds/reader/none" }),
                400,
                "lease",
            ),
            case("POST", "sys/leases/lookup", json!({ "lease_id": "" }), 400, "lease_id"),
            case("POST", "sys/leases/lookup", json!({}), 400, "lease_id"),
        ],
    );
}

pub(super) fn paths_without_a_route_are_refused() {
    let world = World::new();
    refuse_all(
        &world,
        &[
            case("GET", "nothing/here", "", 404, "nothing/here"),
            case("POST", "nothing/here", "{}", 404, "nothing/here"),
            case("GET", "sys/nothing", "", 404, ""),
            case("GET", "database/nothing/here", "", 404, ""),
            case("GET", "database/config/a/b", "", 404, ""),
            case("POST", "database/roles/-bad-", "{}", 404, ""),
            case("POST", "database/roles/b%20d", "{}", 404, ""),
            case("PATCH", "database/roles/reader", "{}", 405, "does not answer this method"),
            case("BREW", "database/roles/reader", "", 405, ""),
        ],
    );
}

/// A caller without permission learns no more than about any other path.
pub(super) fn ambiguous_paths_are_refused_for_every_caller() {
    let world = World::new();
    let (weak, nobody) = (world.weak(), world.bulkhead.client(None));
    for path in [
        "database/config/..",
        "database/../sys/mounts",
        "database/config/%2e%2e/x",
        "database/config/.%2e",
        "database//config/demo",
        "database/config/a%2Fb",
        "database/config/%2f",
        "database/config/%00",
        "sys%2fmounts",
        "database/config/%ff",
    ] {
        let refused = world.root.read(path).expect(400).errors();
        for other in [&weak, &nobody] {
            assert_eq!(other.read(path).expect(400).errors(), refused, "{path}");
        }
        world.root.write(path, &json!({})).expect(400);
    }
    weak.read("database/config/demo").expect(403);
    nobody.read("database/config/demo").expect(403);
}

pub(super) fn unknown_fields_are_ignored_with_a_warning_and_kept_for_a_plugin() {
    let world = World::new();
    let role = json!({
        "db_name": "demo", "creation_statements": "CREATE ROLE \"{{name}}\"",
        "defualt_ttl": "1h",
    });
    let answer = world.root.write("database/roles/typo", &role).expect(200);
    assert!(answer.warnings().contains("defualt_ttl"), "{}", answer.warnings());
    assert!(world.root.read("database/roles/typo").body["data"].get("defualt_ttl").is_none());

    let mut connection = world.connection();
    connection["max_open_conections"] = json!(3);
    let answer = world.root.write("database/config/typo", &connection).expect(200);
    assert!(answer.warnings().contains("max_open_conections"), "{}", answer.warnings());
    let config = world.root.read("database/config/typo").expect(200);
    assert_eq!(config.body["data"]["connection_details"]["max_open_conections"], 3);
}

pub(super) fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let world = World::new();
    let long = json!({ "db_name": "demo", "creation_statements": "x".repeat(2 << 20) }).to_string();
    world.root.send("POST", "database/roles/large", long.as_bytes()).expect(413);
    world.root.read("database/roles/large").expect(404);
}

fn refuse_policies(world: &World, policies: &[(&str, &str)]) {
    for (rules, says) in policies {
        let refused =
            world.root.write("sys/policies/acl/bad", &json!({ "policy": rules })).expect(400);
        let begin = rules.get(..200).unwrap_or(rules);
        assert!(refused.errors().contains(says), "{begin}: {}", refused.errors());
        assert!(refused.errors().len() < 2000, "{begin}: the refusal repeats the input");
        world.root.read("sys/policies/acl/bad").expect(404);
    }
}

pub(super) fn policies_that_do_not_parse_are_not_stored() {
    refuse_policies(
        &World::empty(),
        &[
            (r#"path "a" { capabilities = ["raed"] }"#, "raed"),
            (r#"path "a" { capabilities = ["read" }"#, ""),
            (r#"path "a" { mfa_methods = ["x"] }"#, "mfa_methods"),
            (r#"paht "a" { capabilities = ["read"] }"#, "paht"),
            (r#"path "a+*" { capabilities = ["read"] }"#, "a+*"),
            (r#"{"path": {"a": {"capabilities": "#, ""),
        ],
    );
}

pub(super) fn policies_made_to_cost_time_or_memory_are_refused() {
    let deep = |open: &str, count: usize| open.repeat(count);
    let rules = |count: usize| {
        (0..count).map(|number| format!("path \"a{number}\" {{}}\n")).collect::<String>()
    };
    let values: Vec<String> = (0..10_000).map(|number| format!("\"v{number}\"")).collect();
    let listing =
        format!("path \"a\" {{ allowed_parameters = {{ \"p\" = [{}] }} }}", values.join(","));
    refuse_policies(
        &World::empty(),
        &[
            (&deep("path \"a\" {", 30_000), ""),
            (&format!("path \"a\" {{ allowed_parameters = {}", deep("{ \"a\" = ", 20_000)), ""),
            (&format!("path \"a\" {{ capabilities = {}", deep("[", 100_000)), ""),
            (&deep("/*", 200_000), ""),
            (&deep("{\"path\":", 20_000), ""),
            (&rules(20_000), "5000 paths"),
            (&listing, "500 values"),
        ],
    );
}

pub(super) fn policies_of_a_million_bytes_are_refused_with_the_limit() {
    let world = World::empty();
    let comments = format!("# {}\n", "x".repeat(97)).repeat(10_000);
    refuse_policies(&world, &[(&comments, "at most 524288 are read")]);
    let twice = json!({ "policy": comments.repeat(2) });
    assert!(
        world
            .root
            .write("sys/policies/acl/bad", &twice)
            .expect(413)
            .errors()
            .contains("at most 1048576")
    );
}
