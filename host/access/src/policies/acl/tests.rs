//! Tests of access decisions, row by row.

use super::super::identity::TemplateEntity;
use super::*;
use serde_json::json;

fn policy(text: &str) -> Policy {
    Policy::parse("test", text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn acl(texts: &[&str]) -> Acl {
    let policies: Vec<Policy> = texts.iter().map(|text| policy(text)).collect();
    Acl::new(&policies)
}

fn ask(acl: &Acl, operation: Operation, path: &str) -> AccessVerdict {
    acl.check(&AccessRequest {
        path,
        operation,
        sudo: false,
        wrap_ttl: None,
        fields: &Map::new(),
        schema: &[],
    })
}

fn ask_with(acl: &Acl, operation: Operation, fields: Value) -> AccessVerdict {
    let fields = fields.as_object().unwrap();
    acl.check(&AccessRequest {
        path: "x",
        operation,
        sudo: false,
        wrap_ttl: None,
        fields,
        schema: &[],
    })
}

/// Returns the verdict of a grant by the single policy that [`policy`] creates.
fn granted(words: &[&str]) -> AccessVerdict {
    let capabilities = words.iter().map(|word| (*word).to_owned()).collect();
    AccessVerdict::Granted(GrantedAccess { capabilities, policies: Arc::from([Arc::from("test")]) })
}

fn may(verdict: &AccessVerdict) -> bool {
    matches!(verdict, AccessVerdict::Granted(_))
}

fn refusal(verdict: AccessVerdict) -> String {
    match verdict {
        AccessVerdict::Denied(why) => why,
        AccessVerdict::Granted(granted) => panic!("{granted:?}"),
    }
}

#[test]
fn without_a_rule_nothing_is_allowed() {
    let empty = acl(&[]);
    assert_eq!(
        refusal(ask(&empty, Operation::Update, "database/config/orders")),
        "this token may not update database/config/orders"
    );
    assert_eq!(empty.capabilities("a"), ["deny"]);
}

#[test]
fn root_may_do_everything() {
    let root = Acl::root();
    let fields = Map::new();
    let question = AccessRequest {
        path: "sys/seal",
        operation: Operation::Update,
        sudo: true,
        wrap_ttl: None,
        fields: &fields,
        schema: &[],
    };
    let granted = GrantedAccess {
        capabilities: Arc::from(["root".to_owned()]),
        policies: Arc::from([Arc::from("root")]),
    };
    assert_eq!(root.check(&question), AccessVerdict::Granted(granted));
    assert_eq!(root.capabilities("any"), ["root"]);
}

#[test]
fn each_operation_needs_its_own_capability() {
    use Operation::{Create, Delete, List, Patch, Read, Update};
    let all = [Create, Read, Update, Patch, Delete, List];
    for granted_one in all {
        let acl = acl(&[&format!("path \"x\" {{ capabilities = [\"{}\"] }}", granted_one.word())]);
        for operation in all {
            assert_eq!(
                may(&ask(&acl, operation, "x")),
                operation == granted_one,
                "{granted_one:?} {operation:?}"
            );
        }
    }
}

#[test]
fn capabilities_without_effect_grant_nothing_and_stay_hidden() {
    let acl = acl(&[r#"path "x" { capabilities = ["subscribe", "recover", "scan"] } path "y" {}"#]);
    assert_eq!(acl.capabilities("x"), ["deny"]);
    assert_eq!(acl.capabilities("y"), ["deny"]);
    assert!(!may(&ask(&acl, Operation::Read, "x")));
}

/// Checks decision H10 row by row. For each row, the first rule grants `update` or `list` and the
/// other rule denies, and the other way round, in both orders: the first rule must apply to the
/// path.
#[test]
fn the_closest_rule_counts_alone() {
    const ROWS: [(&str, &str, &str, &str); 26] = [
        ("1: exact before a prefix", "a/b", "a/*", "a/b"),
        ("1: exact before all", "a/b", "*", "a/b"),
        ("1: exact before a segment", "a/b", "a/+", "a/b"),
        ("1: exact before a segment and a prefix", "a/b", "+/b*", "a/b"),
        ("1, list: exact with the slash", "a/b/", "a/b", "a/b/"),
        ("1, list: exact with the slash before a prefix", "a/b/", "a/b/*", "a/b/"),
        ("1, list: exact without the slash before a prefix with it", "a/b", "a/b/*", "a/b/"),
        ("1, list: exact without the slash before a segment", "a/b", "a/+/", "a/b/"),
        ("2: the longest prefix", "a/bc*", "a/b*", "a/bcd"),
        ("2: the longest prefix, with a slash", "a/b/*", "a/b*", "a/b/c"),
        ("2: the longest prefix before all", "a*", "*", "abc"),
        ("2a: the first wildcard stands later", "a/b/+/d", "a/+/c/d", "a/b/c/d"),
        ("2a: a prefix whose star stands later", "a/b*", "a/+", "a/bc"),
        ("2a: a segment that stands later", "a/+", "*", "a/b"),
        ("2a: also against more segments", "a/b/+/+", "a/+/c/d", "a/b/c/d"),
        ("2b: not ended by a star", "a/+", "a/*", "a/b"),
        ("2b: not ended by a star, although longer", "a/+/c", "a/+/c*", "a/b/c"),
        ("2b: not ended by a star, although with more segments", "a/+/+", "a/+/c*", "a/b/c"),
        ("2c: fewer segments", "a/+/c", "a/+/+", "a/b/c"),
        ("2c: fewer segments, ended by a star", "a/+/c*", "a/+/+/*", "a/b/c/d"),
        ("2c: fewer segments, although shorter", "+/b*", "+/+/cd*", "a/b/cde"),
        ("2d: longer", "a/+/cd*", "a/+/c*", "a/b/cde"),
        ("2e: greater", "+/b/+/+", "+/+/c/+", "a/b/c/d"),
        ("2, list: a pattern with the slash", "a/b/*", "a/b*", "a/b/"),
        ("3, list: a segment takes the name where nothing takes the folder", "a/+", "b/*", "a/b/"),
        ("3, list: a pattern with segments takes the name", "+/b", "b*", "a/b/"),
    ];
    for (row, close, loose, path) in ROWS {
        let (operation, request_path) = path
            .strip_suffix('/')
            .map_or((Operation::Update, path), |folder| (Operation::List, folder));
        let word = operation.word();
        for (close_word, loose_word, expected) in [(word, "deny", true), ("deny", word, false)] {
            let close_rule = format!("path \"{close}\" {{ capabilities = [\"{close_word}\"] }}");
            let loose_rule = format!("path \"{loose}\" {{ capabilities = [\"{loose_word}\"] }}");
            for texts in [[&close_rule, &loose_rule], [&loose_rule, &close_rule]] {
                let acl = acl(&texts.map(String::as_str));
                assert_eq!(
                    may(&ask(&acl, operation, request_path)),
                    expected,
                    "{row}: {close} before {loose} on {path}"
                );
                let shown = if expected { word } else { "deny" };
                assert_eq!(
                    acl.capabilities(path),
                    [shown],
                    "{row}: {close} before {loose} on {path}"
                );
            }
        }
    }
}

#[test]
fn a_closer_rule_may_take_away() {
    let acl = acl(&[
        r#"path "a/*" { capabilities = ["read"] } path "a/secret" { capabilities = ["deny"] }"#,
    ]);
    assert!(may(&ask(&acl, Operation::Read, "a/open")));
    assert_eq!(refusal(ask(&acl, Operation::Read, "a/secret")), "this token may not read a/secret");
    assert_eq!(acl.capabilities("a/secret"), ["deny"]);
}

#[test]
fn the_same_pattern_in_several_policies_is_joined() {
    let acl = acl(&[
        r#"path "x" { capabilities = ["read"] }"#,
        r#"path "/x" { capabilities = ["update", "sudo"] }"#,
    ]);
    assert_eq!(ask(&acl, Operation::Read, "x"), granted(&["read", "sudo", "update"]));
    assert_eq!(acl.capabilities("/x"), ["read", "sudo", "update"]);
}

#[test]
fn deny_overrides_pattern_capabilities_in_any_order() {
    let read = r#"path "x*" { capabilities = ["read"] }"#;
    let deny = r#"path "x*" { capabilities = ["deny"] }"#;
    for texts in [[read, deny, read], [deny, read, read], [read, read, deny]] {
        let acl = acl(&texts);
        assert!(!may(&ask(&acl, Operation::Read, "xy")));
        assert_eq!(acl.capabilities("xy"), ["deny"]);
    }
}

#[test]
fn list_permission_is_checked_on_folder_then_name() {
    for (rule, allowed) in [
        ("roles/", true),
        ("roles", true),
        ("roles/*", true),
        ("roles*", true),
        ("roles/+", true),
        ("+", true),
        ("+/", true),
        ("roles/x", false),
        ("role", false),
    ] {
        let acl = acl(&[&format!("path \"{rule}\" {{ capabilities = [\"list\"] }}")]);
        assert_eq!(may(&ask(&acl, Operation::List, "roles")), allowed, "{rule}");
    }
}

#[test]
fn list_matches_patterns_with_trailing_slash_first() {
    let read = r#"capabilities = ["read"]"#;
    let list = r#"capabilities = ["list"]"#;
    let with = acl(&[&format!("path \"a/*\" {{ {list} }} path \"a/+\" {{ {read} }}")]);
    assert!(may(&ask(&with, Operation::List, "a/b")), "although a/+ is closer to a/b");
    let without = acl(&[&format!("path \"a/*\" {{ {read} }} path \"a/+\" {{ {list} }}")]);
    assert!(!may(&ask(&without, Operation::List, "a/b")));
}

/// The names in a denied folder cannot be listed, even if another wildcard rule matches the folder.
#[test]
fn a_deny_is_not_got_around_by_listing() {
    for (deny, list) in [
        ("kv/private/*", "kv/*"),
        ("kv/private/", "kv/*"),
        ("kv/private", "kv/*"),
        ("kv/private", "kv/private/*"),
        ("kv/private*", "kv/*"),
        ("kv/+", "kv/*"),
        ("kv/+", "*"),
        ("+/private", "*"),
        ("kv/+/", "kv/*"),
        ("kv/+", "+/private/*"),
    ] {
        let denied = format!("path \"{deny}\" {{ capabilities = [\"deny\"] }}");
        let listed = format!("path \"{list}\" {{ capabilities = [\"list\", \"read\"] }}");
        let acl = acl(&[&denied, &listed]);
        assert!(!may(&ask(&acl, Operation::List, "kv/private")), "{deny} before {list}");
        assert_eq!(acl.capabilities("kv/private/"), ["deny"], "{deny} before {list}");
    }
    let acl = acl(&[
        r#"path "kv/+" { capabilities = ["deny"] } path "kv/open/*" { capabilities = ["list"] }"#,
    ]);
    assert!(may(&ask(&acl, Operation::List, "kv/open")), "a closer rule opens the folder");
}

#[test]
fn folder_rule_grants_nothing_on_folder_name_itself() {
    let acl = acl(&[r#"path "a/*" { capabilities = ["read", "list"] }"#]);
    assert!(!may(&ask(&acl, Operation::Read, "a")));
    assert_eq!(acl.capabilities("a"), ["deny"]);
    assert_eq!(acl.capabilities("a/"), ["list", "read"]);
}

#[test]
fn guarded_endpoints_need_sudo_and_the_ordinary_capability() {
    let fields = Map::new();
    let ask = |capabilities: &str| {
        let acl = acl(&[&format!("path \"x\" {{ capabilities = [{capabilities}] }}")]);
        acl.check(&AccessRequest {
            path: "x",
            operation: Operation::Update,
            sudo: true,
            wrap_ttl: None,
            fields: &fields,
            schema: &[],
        })
    };
    assert!(may(&ask("\"update\", \"sudo\"")));
    assert!(refusal(ask("\"update\"")).contains("without sudo"));
    assert_eq!(refusal(ask("\"sudo\"")), "this token may not update x");
}

#[test]
fn refused_write_hides_existence_of_object() {
    let acl = acl(&[r#"path "x" { capabilities = ["read"] }"#]);
    assert_eq!(ask(&acl, Operation::Create, "x"), ask(&acl, Operation::Update, "x"));
    assert_eq!(ask(&acl, Operation::Create, "y"), ask(&acl, Operation::Update, "y"));
}

#[test]
fn refusal_of_create_with_update_capability_names_create() {
    let acl = acl(&[r#"path "x" { capabilities = ["update"] }"#]);
    assert_eq!(refusal(ask(&acl, Operation::Create, "x")), "this token may not create x");
}

#[test]
fn parameters_count_for_writes_and_reads_only() {
    let acl = acl(&[r#"path "x" {
        capabilities = ["create", "read", "update", "patch", "delete", "list"]
        denied_parameters = { "force" = [] }
    }"#]);
    for operation in [Operation::Create, Operation::Read, Operation::Update, Operation::Patch] {
        let why = refusal(ask_with(&acl, operation, json!({"Force": true})));
        assert!(why.contains("with parameter \"force\""), "{why}");
        assert!(may(&ask_with(&acl, operation, json!({"other": true}))));
    }
    for operation in [Operation::Delete, Operation::List] {
        assert!(may(&ask_with(&acl, operation, json!({"force": true}))));
    }
}

#[test]
fn parameters_of_a_pattern_are_joined_over_policies() {
    let acl = acl(&[
        r#"path "x" { capabilities = ["update"] allowed_parameters = { "ttl" = ["1h"] } }"#,
        r#"path "x" {
            capabilities = ["update"]
            allowed_parameters = { "ttl" = ["2h"] }
            required_parameters = ["ttl"]
        }"#,
    ]);
    assert!(may(&ask_with(&acl, Operation::Update, json!({"ttl": 3600}))));
    assert!(may(&ask_with(&acl, Operation::Update, json!({"ttl": 7200}))));
    assert!(!may(&ask_with(&acl, Operation::Update, json!({"ttl": 1}))));
    assert!(!may(&ask_with(&acl, Operation::Update, json!({}))));
}

#[test]
fn deny_also_removes_allowed_parameters() {
    let acl = acl(&[
        r#"path "x" { capabilities = ["update"] allowed_parameters = { "ttl" = [] } }"#,
        r#"path "x" { capabilities = ["deny"] }"#,
    ]);
    assert_eq!(
        refusal(ask_with(&acl, Operation::Update, json!({"ttl": 1}))),
        "this token may not update x"
    );
}

#[test]
fn a_rule_that_bounds_wrapping_denies_unwrapped_requests() {
    for bound in ["min_wrapping_ttl = \"1m\"", "max_wrapping_ttl = 60"] {
        let text = format!("path \"x\" {{ capabilities = [\"read\"] {bound} }}");
        let acl = acl(&[&text, r#"path "x" { capabilities = ["read"] }"#]);
        assert!(
            refusal(ask(&acl, Operation::Read, "x")).contains("unless the response is wrapped"),
            "{bound}"
        );
    }
    let unset = acl(&[r#"path "x" { capabilities = ["read"] min_wrapping_ttl = 0 }"#]);
    assert!(may(&ask(&unset, Operation::Read, "x")));
}

#[test]
fn a_wrapped_request_keeps_to_the_bounds() {
    let fields = Map::new();
    let wrapped = |acl: &Acl, wrap_ttl: u64| {
        let (operation, wrap_ttl) = (Operation::Read, Some(wrap_ttl));
        acl.check(&AccessRequest {
            path: "x",
            operation,
            sudo: false,
            wrap_ttl,
            fields: &fields,
            schema: &[],
        })
    };
    for (bounds, within, beyond, reason) in [
        ("min_wrapping_ttl = 60", [60, 600], 59, "shorter than 1m; send X-Vault-Wrap-TTL with 1m"),
        ("max_wrapping_ttl = \"1h\"", [1, 3_600], 3_601, "longer than 1h"),
        ("min_wrapping_ttl = 60 max_wrapping_ttl = 90", [60, 90], 91, "with 1m to 1m30s"),
    ] {
        let acl = acl(&[&format!("path \"x\" {{ capabilities = [\"read\"] {bounds} }}")]);
        assert!(within.into_iter().all(|ttl| may(&wrapped(&acl, ttl))), "{bounds}");
        let refused = refusal(wrapped(&acl, beyond));
        assert!(refused.contains(reason), "{refused}");
    }
    let unbound = acl(&[r#"path "x" { capabilities = ["read"] }"#]);
    assert!(may(&wrapped(&unbound, 1)));
}

#[test]
fn smallest_wrapping_bounds_apply_and_unmeetable_bounds_deny() {
    let bound = |name: &str, ttl: u64| {
        format!("path \"x\" {{ capabilities = [\"read\"] {name}_wrapping_ttl = {ttl} }}")
    };
    let capabilities = |rules: &[(&str, u64)]| {
        let texts: Vec<String> = rules.iter().map(|(name, ttl)| bound(name, *ttl)).collect();
        acl(&texts.iter().map(String::as_str).collect::<Vec<_>>()).capabilities("x")
    };
    assert_eq!(capabilities(&[("min", 60), ("max", 60)]), ["read"]);
    assert_eq!(capabilities(&[("min", 61), ("max", 60)]), ["deny"]);
    assert_eq!(capabilities(&[("max", 60), ("min", 61)]), ["deny"]);
    assert_eq!(
        capabilities(&[("min", 90), ("max", 60), ("min", 30)]),
        ["read"],
        "the smallest minimum is 30"
    );
    assert_eq!(
        capabilities(&[("min", 40), ("max", 60), ("max", 30)]),
        ["deny"],
        "the smallest maximum is 30"
    );
    assert_eq!(capabilities(&[("min", 90), ("max", 0)]), ["read"], "no maximum is set");
}

fn named(texts: &[(&str, &str)]) -> Acl {
    let policies: Vec<Policy> =
        texts.iter().map(|(name, text)| Policy::parse(name, text).unwrap()).collect();
    Acl::new(&policies)
}

#[test]
fn granting_policies_are_listed_in_token_order() {
    let acl = named(&[
        (
            "writers",
            r#"path "x" { capabilities = ["update", "read"] }
               path "/x" { capabilities = ["read"] }"#,
        ),
        (
            "readers",
            r#"path "x" { capabilities = ["read"] } path "x*" { capabilities = ["delete"] }"#,
        ),
        ("others", r#"path "y" { capabilities = ["read"] }"#),
    ]);
    let granting = |operation: Operation| match ask(&acl, operation, "x") {
        AccessVerdict::Granted(granted) => {
            granted.policies.iter().map(ToString::to_string).collect()
        }
        AccessVerdict::Denied(_) => Vec::new(),
    };
    assert_eq!(granting(Operation::Read), ["writers", "readers"]);
    assert_eq!(granting(Operation::Update), ["writers"]);
    assert_eq!(
        granting(Operation::Delete),
        Vec::<String>::new(),
        "the rule that grants it is not the closest"
    );
}

fn called(name: &str) -> TemplateIdentity {
    TemplateIdentity {
        entity: Some(TemplateEntity { name: name.to_owned(), ..TemplateEntity::default() }),
        groups: Vec::new(),
    }
}

#[test]
fn a_templated_rule_speaks_of_its_caller_only() {
    let policy = policy(r#"path "home/{{identity.entity.name}}/*" { capabilities = ["read"] }"#);
    let (ann, skipped) = Acl::of_caller([&policy], &called("ann"));
    assert_eq!(skipped, []);
    assert_eq!(ann.capabilities("home/ann/x"), ["read"]);
    for path in ["home/bob/x", "home//x", "home/ann", "home/{{identity.entity.name}}/x"] {
        assert_eq!(ann.capabilities(path), ["deny"], "{path}");
        assert_eq!(Acl::new([&policy]).capabilities(path), ["deny"], "{path}");
    }
}

#[test]
fn unfit_value_template_rule_is_skipped_and_reported() {
    let policy = policy(
        r#"path "home/{{identity.entity.name}}/*" { capabilities = ["read"] }
           path "x" { capabilities = ["read"] }"#,
    );
    for name in ["*", "+", "a/b", "a,b", "a\nb"] {
        let (acl, skipped) = Acl::of_caller([&policy], &called(name));
        let [SkippedRule { policy, why }] = skipped.as_slice() else { panic!("{skipped:?}") };
        assert!(policy == "test" && why.contains("identity.entity.name"), "{why}");
        for path in ["home/ann/x", "home/a/b/x", "home/a,b/x"] {
            assert_eq!(acl.capabilities(path), ["deny"], "{path} as {name}");
        }
        assert_eq!(acl.capabilities("x"), ["read"]);
    }
}

#[test]
fn a_templated_deny_that_cannot_be_resolved_denies() {
    let policy = policy(
        r#"path "*" { capabilities = ["read"] }
           path "home/*" { capabilities = ["read", "list"] }
           path "home/{{identity.entity.name}}/private/*" { capabilities = ["deny"] }
           path "x-{{identity.entity.name}}" { capabilities = ["deny"] }
           path "open/{{identity.entity.name}}*" { capabilities = ["deny"] }
           path "home/shared/private/notes" { capabilities = ["read"] }"#,
    );
    let nobody = Acl::new([&policy]);
    for path in ["home/ann/private/x", "home/bob/private/y/z", "x-ann", "open/a/b"] {
        assert_eq!(nobody.capabilities(path), ["deny"], "{path}");
    }
    assert_eq!(nobody.capabilities("home/ann/private/"), ["deny"], "a list of the folder");
    for path in ["home/ann/public", "home/x", "home/shared/private/notes", "other", "a/b"] {
        assert!(nobody.capabilities(path).contains(&"read".to_owned()), "{path}");
    }
    for name in ["*", "+", "a/b", "a,b", "a\nb"] {
        let (acl, skipped) = Acl::of_caller([&policy], &called(name));
        assert_eq!(skipped.len(), 3, "{name}");
        let denied = ["home/a/b/private/x", "home/ann", "home/shared/private/notes", "x-a/b"];
        for path in denied.into_iter().chain(["open/a"]) {
            assert_eq!(acl.capabilities(path), ["deny"], "{path} as {name}");
        }
        assert_eq!(acl.capabilities("other"), ["read"]);
    }
    let (ann, _) = Acl::of_caller([&policy], &called("ann"));
    assert_eq!(ann.capabilities("home/ann/private/x"), ["deny"]);
    assert_eq!(ann.capabilities("home/bob/private/x"), ["list", "read"]);
}

#[test]
fn template_resolved_to_existing_rule_path_is_merged() {
    let policies = [
        policy(r#"path "home/{{identity.entity.name}}" { capabilities = ["read"] }"#),
        policy(r#"path "home/ann" { capabilities = ["deny"] }"#),
    ];
    let (acl, _) = Acl::of_caller(&policies, &called("ann"));
    assert_eq!(acl.capabilities("home/ann"), ["deny"]);
}

#[test]
fn folder_is_reachable_with_any_capability_inside() {
    for (rules, expected) in [
        (r#"path "a/b/c" { capabilities = ["read"] }"#, true),
        (r#"path "a" { capabilities = ["list"] }"#, true),
        (r#"path "a/*" { capabilities = ["read"] }"#, true),
        (r#"path "a/b*" { capabilities = ["read"] }"#, true),
        (r#"path "*" { capabilities = ["read"] }"#, true),
        (r#"path "+/x" { capabilities = ["read"] }"#, true),
        (r#"path "+/+/y*" { capabilities = ["read"] }"#, true),
        (r#"path "ab/c" { capabilities = ["read"] }"#, false),
        (r#"path "ab*" { capabilities = ["read"] }"#, false),
        (r#"path "b/+" { capabilities = ["read"] }"#, false),
        (r#"path "a/*" { capabilities = ["deny"] }"#, false),
        (r#"path "a/*" { capabilities = ["subscribe"] }"#, false),
        (r#"path "a/*" { capabilities = ["deny"] } path "*" { capabilities = ["read"] }"#, false),
        (r#"path "a/*" { capabilities = ["deny"] } path "a/b" { capabilities = ["read"] }"#, true),
        (
            r#"path "a/*" { capabilities = ["deny"] } path "a/b/*" { capabilities = ["read"] }"#,
            true,
        ),
    ] {
        assert_eq!(acl(&[rules]).may_reach("a/"), expected, "{rules}");
    }
    assert!(acl(&[r#"path "a/b/c" { capabilities = ["read"] }"#]).may_reach("a/b/"));
    assert!(!acl(&[r#"path "a/b" { capabilities = ["read"] }"#]).may_reach("a/c/"));
    assert!(!acl(&[r#"path "+" { capabilities = ["read"] }"#]).may_reach("a/b/"));
    assert!(Acl::root().may_reach("a/") && !acl(&[]).may_reach("a/"));
}

/// Grants everything except the restrictions in `rules`.
fn all_but(rules: &str) -> Acl {
    let all = r#"path "*" { capabilities = ["create", "read", "update", "delete", "list"] }"#;
    acl(&[&format!("{all}\n{rules}")])
}

fn deny(path: &str) -> Acl {
    all_but(&format!("path {path:?} {{ capabilities = [\"deny\"] }}"))
}

#[test]
fn a_denied_name_is_denied_in_every_case() {
    for (denied, path) in [
        ("identity/group/name/admins", "identity/group/name/ADMINS"),
        ("identity/group/name/Admins", "identity/group/name/admins"),
        ("identity/entity/name/É*", "identity/entity/name/éva"),
        ("identity/+/name/Admins", "identity/group/name/aDMINS"),
        ("sys/policies/acl/Ops", "sys/policies/acl/ops"),
        ("sys/policies/acl/ops", "sys/policies/acl/ OPS"),
    ] {
        let acl = deny(denied);
        assert!(!may(&ask(&acl, Operation::Update, path)), "{denied} {path}");
        assert_eq!(acl.capabilities(path), ["deny"], "{denied} {path}");
    }
    assert!(may(&ask(&deny("database/roles/x"), Operation::Update, "database/roles/X")));
}

#[test]
fn deny_applies_to_both_older_and_newer_paths() {
    for (denied, path) in [
        ("sys/policies/acl/ops", "sys/policy/ops"),
        ("sys/policies/acl/*", "sys/policy/Ops"),
        ("sys/policies/acl", "sys/policy"),
        ("sys/policy/Ops", "sys/policies/acl/ops"),
        ("sys/policy*", "sys/policies/acl/ops"),
        ("sys/+/ops", "sys/policy/ops"),
        ("sys/leases/renew", "sys/renew"),
        ("sys/renew*", "sys/leases/renew/a"),
        ("sys/leases/revoke/a/*", "sys/revoke/a/b"),
        ("sys/revoke/a/b", "sys/leases/revoke/a/b"),
        ("sys/leases/revoke-prefix/*", "sys/revoke-prefix/a"),
        ("sys/leases/revoke-force/a", "sys/revoke-force/a"),
        ("sys/auth/*", "sys/mounts/auth/a/tune"),
        ("sys/auth/a/tune", "sys/mounts/auth/a/tune"),
        ("sys/mounts/auth/a/tune", "sys/auth/a/tune"),
    ] {
        assert!(!may(&ask(&deny(denied), Operation::Update, path)), "{denied} {path}");
    }
    // A rule about secrets engines does not apply to auth methods.
    assert!(may(&ask(&deny("sys/mounts/*"), Operation::Update, "sys/auth/a/tune")));
}

#[test]
fn rule_for_newer_path_decides_older_path() {
    let reads = all_but(r#"path "sys/policies/acl/*" { capabilities = ["read"] }"#);
    for path in ["sys/policies/acl/x", "sys/policy/x"] {
        assert!(may(&ask(&reads, Operation::Read, path)), "{path}");
        assert!(!may(&ask(&reads, Operation::Update, path)), "{path}");
        assert_eq!(reads.capabilities(path), ["read"], "{path}");
    }
    let text = r#"path "sys/auth/*" { capabilities = ["update"]
                  denied_parameters = { "max_lease_ttl" = [] } }"#;
    for (acl, path) in [
        (all_but(&text.replace("sys/auth/*", "sys/leases/renew")), "sys/renew"),
        (all_but(text), "sys/mounts/auth/a/tune"),
    ] {
        let ask = |name: &str| {
            let fields = Map::from_iter([(name.to_owned(), json!("1h"))]);
            let fields = &fields;
            let operation = Operation::Update;
            may(&acl.check(&AccessRequest {
                path,
                operation,
                sudo: false,
                wrap_ttl: None,
                fields,
                schema: &[],
            }))
        };
        assert!(ask("description") && !ask("max_lease_ttl"), "{path}");
    }
}

#[test]
fn a_rule_for_the_older_path_grants_both() {
    let acl = acl(&[r#"path "sys/policy/*" { capabilities = ["update"] }
                       path "sys/renew" { capabilities = ["update"] }
                       path "sys/+/deep" { capabilities = ["update"] }
                       path "sys/mounts/*" { capabilities = ["update"] }
                       path "sys/auth/*" { capabilities = ["read"] }"#]);
    for path in [
        "sys/policy/x",
        "sys/policies/acl/x",
        "sys/renew",
        "sys/leases/renew",
        "sys/policy/deep",
        "sys/mounts/auth/a/tune",
    ] {
        assert!(may(&ask(&acl, Operation::Update, path)), "{path}");
    }
    for path in ["sys/policies/password/x", "sys/leases/renew/x", "sys/auth/a/tune"] {
        assert!(!may(&ask(&acl, Operation::Update, path)), "{path}");
    }
}

#[test]
fn listed_rules_show_their_capabilities_or_deny() {
    let acl = acl(&[r#"path "a/b" { capabilities = ["update", "read"] }
                       path "a/+" { capabilities = ["list"] }
                       path "c/*" { capabilities = ["deny"] }"#]);
    let words = |path: &str, words: &[&str]| {
        (path.to_owned(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    };
    let listed = acl.listed().unwrap();
    assert_eq!(listed.exact, BTreeMap::from([words("a/b", &["read", "update"])]));
    assert_eq!(listed.patterns, BTreeMap::from([words("a/+", &["list"]), words("c/", &["deny"])]));
    assert!(Acl::root().listed().is_none());
}

#[test]
fn restrictions_matter_for_writes_and_reads_alone() {
    let acl = acl(&[r#"path "x" { capabilities = ["deny"] denied_parameters = { "a" = [] } }
                       path "y" { capabilities = ["read"] required_parameters = ["a"] }
                       path "z" { capabilities = ["read"] }"#]);
    let restricts = |acl: &Acl, path: &str, operation: Operation| {
        acl.speaks_of_parameters(&AccessRequest {
            path,
            operation,
            sudo: false,
            wrap_ttl: None,
            fields: &Map::new(),
            schema: &[],
        })
    };
    for operation in [Operation::Create, Operation::Read, Operation::Update, Operation::Patch] {
        assert!(restricts(&acl, "y", operation), "{operation:?}");
    }
    for operation in [Operation::Delete, Operation::List] {
        assert!(!restricts(&acl, "y", operation), "{operation:?}");
    }
    for path in ["x", "z", "absent"] {
        assert!(!restricts(&acl, path, Operation::Read), "{path}: a deny has no restrictions");
    }
    assert!(!restricts(&Acl::root(), "y", Operation::Read));
}

#[test]
fn restrictions_of_a_newer_path_matter_for_older() {
    let acl =
        all_but(r#"path "sys/auth/*" { capabilities = ["update"] required_parameters = ["a"] }"#);
    let restricts = |path: &str| {
        acl.speaks_of_parameters(&AccessRequest {
            path,
            operation: Operation::Update,
            sudo: false,
            wrap_ttl: None,
            fields: &Map::new(),
            schema: &[],
        })
    };
    assert!(restricts("sys/mounts/auth/a/tune") && !restricts("sys/mounts/a/tune"));
}

#[test]
fn looser_rules_below_a_folder_count_until_covered() {
    for (rules, expected) in [
        (
            r#"path "a/b/*" { capabilities = ["deny"] } path "a/*" { capabilities = ["read"] }"#,
            true,
        ),
        (r#"path "a/+/c" { capabilities = ["deny"] } path "*" { capabilities = ["read"] }"#, true),
        (r#"path "a/+/*" { capabilities = ["deny"] } path "*" { capabilities = ["read"] }"#, true),
        (r#"path "a*" { capabilities = ["deny"] } path "*" { capabilities = ["read"] }"#, false),
    ] {
        assert_eq!(acl(&[rules]).may_reach("a/"), expected, "{rules}");
    }
}

/// An unresolved denial has the rank of the path that a value would produce.
#[test]
fn unresolved_deny_yields_to_closer_rules_only() {
    let policy = policy(
        r#"path "home/{{identity.entity.name}}" { capabilities = ["deny"] }
           path "home/ann" { capabilities = ["read"] }
           path "open/{{identity.entity.name}}/*" { capabilities = ["deny"] }
           path "open/ann/*" { capabilities = ["read"] }
           path "open/bob/x*" { capabilities = ["read"] }
           path "open/bob/y" { capabilities = ["read"] }"#,
    );
    let nobody = Acl::new([&policy]);
    for path in ["home/ann", "home/bob", "open/ann/x", "open/bob/z"] {
        assert_eq!(nobody.capabilities(path), ["deny"], "{path}");
    }
    for path in ["open/bob/xy", "open/bob/y"] {
        assert_eq!(nobody.capabilities(path), ["read"], "{path}");
    }
}

#[test]
fn every_pattern_of_an_acl_is_counted() {
    let policy = policy(
        r#"path "a" { capabilities = ["read"] }
           path "b" { capabilities = ["read"] }
           path "c/*" { capabilities = ["read"] }
           path "d/+" { capabilities = ["read"] }
           path "e/+" { capabilities = ["read"] }
           path "f/{{identity.entity.name}}" { capabilities = ["deny"] }"#,
    );
    assert_eq!((Acl::new([&policy]).len(), Acl::root().len(), acl(&[]).len()), (6, 1, 0));
}

#[test]
fn a_skipped_rule_is_logged_with_its_reason() {
    let policy = policy(r#"path "home/{{identity.entity.name}}" { capabilities = ["read"] }"#);
    let (_, skipped) = Acl::of_caller([&policy], &called("a/b"));
    let words = skipped[0].words();
    assert!(words.contains("identity.entity.name") && !words.contains("a/b"), "{words}");
}
