//! The decision, row by row, and against a second matcher that works in another way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use super::*;
use serde_json::json;

fn policy(text: &str) -> Policy {
    Policy::parse("test", text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn acl(texts: &[&str]) -> Acl {
    let policies: Vec<Policy> = texts.iter().map(|text| policy(text)).collect();
    Acl::new(&policies)
}

fn ask(acl: &Acl, operation: Operation, path: &str) -> Verdict {
    acl.check(&Question { path, operation, sudo: false, fields: &Map::new(), schema: &[] })
}

fn ask_with(acl: &Acl, operation: Operation, fields: Value) -> Verdict {
    let fields = fields.as_object().unwrap();
    acl.check(&Question { path: "x", operation, sudo: false, fields, schema: &[] })
}

fn granted(words: &[&str]) -> Verdict {
    Verdict::Granted { capabilities: words.iter().map(|word| (*word).to_owned()).collect() }
}

fn may(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Granted { .. })
}

fn refusal(verdict: Verdict) -> String {
    match verdict {
        Verdict::Denied(why) => why,
        Verdict::Granted { capabilities } => panic!("granted {capabilities:?}"),
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
    let question =
        Question { path: "sys/seal", operation: Operation::Update, sudo: true, fields: &fields, schema: &[] };
    assert_eq!(root.check(&question), granted(&["root"]));
    assert_eq!(root.capabilities("any"), ["root"]);
}

#[test]
fn each_operation_needs_its_own_capability() {
    use Operation::{Create, Delete, List, Patch, Read, Update};
    let all = [Create, Read, Update, Patch, Delete, List];
    for granted_one in all {
        let acl = acl(&[&format!("path \"x\" {{ capabilities = [\"{}\"] }}", granted_one.word())]);
        for asked in all {
            assert_eq!(may(&ask(&acl, asked, "x")), asked == granted_one, "{granted_one:?} {asked:?}");
        }
    }
}

#[test]
fn capabilities_without_effect_grant_nothing_and_are_not_shown() {
    let acl = acl(&[r#"path "x" { capabilities = ["subscribe", "recover", "scan"] } path "y" {}"#]);
    assert_eq!(acl.capabilities("x"), ["deny"]);
    assert_eq!(acl.capabilities("y"), ["deny"]);
    assert!(!may(&ask(&acl, Operation::Read, "x")));
}

/// `spec/core.md` §3.2: the rule that counts is the one that grants `update`; all others grant `read`.
#[test]
fn the_closest_rule_counts_alone() {
    for (close, loose, path) in [
        ("a/b", "a/*", "a/b"),
        ("a/b", "a/+", "a/b"),
        ("a/b", "*", "a/b"),
        ("a/b*", "a/*", "a/bc"),
        ("a/*", "*", "a/bc"),
        ("a/b*", "a/+", "a/bc"),
        ("a/b/+/d", "a/+/c/d", "a/b/c/d"),
        ("a/+", "a/*", "a/b"),
        ("a/+/c", "a/+/c*", "a/b/c"),
        ("a/+/c", "a/+/+", "a/b/c"),
        ("a/+/+", "a/+/c*", "a/b/c"),
        ("a/+/c*", "a/+/+/*", "a/b/c/d"),
        ("a/+/cd*", "a/+/c*", "a/b/cde"),
        ("+/b", "*", "a/b"),
    ] {
        let close_rule = format!("path \"{close}\" {{ capabilities = [\"update\"] }}");
        let loose_rule = format!("path \"{loose}\" {{ capabilities = [\"read\"] }}");
        for texts in [[&close_rule, &loose_rule], [&loose_rule, &close_rule]] {
            let acl = acl(&texts.map(String::as_str));
            assert_eq!(ask(&acl, Operation::Update, path), granted(&["update"]), "{close} before {loose}");
            assert!(!may(&ask(&acl, Operation::Read, path)), "{close} before {loose}");
        }
    }
}

#[test]
fn a_closer_rule_may_take_away() {
    let acl = acl(&[r#"path "a/*" { capabilities = ["read"] } path "a/secret" { capabilities = ["deny"] }"#]);
    assert!(may(&ask(&acl, Operation::Read, "a/open")));
    assert_eq!(refusal(ask(&acl, Operation::Read, "a/secret")), "this token may not read a/secret");
    assert_eq!(acl.capabilities("a/secret"), ["deny"]);
}

#[test]
fn the_same_pattern_in_several_policies_is_joined() {
    let acl = acl(&[r#"path "x" { capabilities = ["read"] }"#, r#"path "/x" { capabilities = ["update", "sudo"] }"#]);
    assert_eq!(ask(&acl, Operation::Read, "x"), granted(&["read", "sudo", "update"]));
    assert_eq!(acl.capabilities("/x"), ["read", "sudo", "update"]);
}

#[test]
fn deny_anywhere_wipes_the_rest_of_its_pattern_in_every_order() {
    let read = r#"path "x*" { capabilities = ["read"] }"#;
    let deny = r#"path "x*" { capabilities = ["deny"] }"#;
    for texts in [[read, deny, read], [deny, read, read], [read, read, deny]] {
        let acl = acl(&texts);
        assert!(!may(&ask(&acl, Operation::Read, "xy")));
        assert_eq!(acl.capabilities("xy"), ["deny"]);
    }
}

#[test]
fn a_list_asks_for_the_folder_and_then_for_the_name() {
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
fn a_list_prefers_the_rule_with_the_slash() {
    let acl = acl(&[
        r#"path "a/" { capabilities = ["deny"] } path "a" { capabilities = ["list"] }"#,
        r#"path "b" { capabilities = ["list"] } path "b/*" { capabilities = ["deny"] }"#,
        r#"path "+/c" { capabilities = ["deny"] } path "x/c/*" { capabilities = ["list"] }"#,
    ]);
    assert!(!may(&ask(&acl, Operation::List, "a")), "exact with slash before exact without");
    assert!(may(&ask(&acl, Operation::List, "b")), "exact without slash before any pattern");
    assert!(may(&ask(&acl, Operation::List, "x/c")), "patterns with slash before patterns without");
}

#[test]
fn a_rule_for_the_folder_says_nothing_of_its_name() {
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
        acl.check(&Question { path: "x", operation: Operation::Update, sudo: true, fields: &fields, schema: &[] })
    };
    assert!(may(&ask("\"update\", \"sudo\"")));
    assert!(refusal(ask("\"update\"")).contains("without sudo"));
    assert_eq!(refusal(ask("\"sudo\"")), "this token may not update x");
}

#[test]
fn a_refused_write_does_not_tell_whether_the_object_exists() {
    let acl = acl(&[r#"path "x" { capabilities = ["read"] }"#]);
    assert_eq!(ask(&acl, Operation::Create, "x"), ask(&acl, Operation::Update, "x"));
    assert_eq!(ask(&acl, Operation::Create, "y"), ask(&acl, Operation::Update, "y"));
}

#[test]
fn a_token_that_may_only_update_is_told_that_it_may_not_create() {
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
fn deny_also_wipes_parameters_that_would_have_been_allowed() {
    let acl = acl(&[
        r#"path "x" { capabilities = ["update"] allowed_parameters = { "ttl" = [] } }"#,
        r#"path "x" { capabilities = ["deny"] }"#,
    ]);
    assert_eq!(refusal(ask_with(&acl, Operation::Update, json!({"ttl": 1}))), "this token may not update x");
}

#[test]
fn a_rule_that_bounds_wrapping_denies_unwrapped_requests() {
    for bound in ["min_wrapping_ttl = \"1m\"", "max_wrapping_ttl = 60"] {
        let text = format!("path \"x\" {{ capabilities = [\"read\"] {bound} }}");
        let acl = acl(&[&text, r#"path "x" { capabilities = ["read"] }"#]);
        assert!(refusal(ask(&acl, Operation::Read, "x")).contains("unless the response is wrapped"), "{bound}");
    }
    let unset = acl(&[r#"path "x" { capabilities = ["read"] min_wrapping_ttl = 0 }"#]);
    assert!(may(&ask(&unset, Operation::Read, "x")));
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(u64::try_from(from.len()).unwrap())).unwrap()]
    }
}

/// A rule as the second matcher sees it: texts, no types of the product.
type NaiveRule = (String, Vec<&'static str>);

fn random_rules(dice: &mut Dice) -> Vec<NaiveRule> {
    let rule = |dice: &mut Dice| {
        let segments: Vec<&str> = (0..=dice.below(3)).map(|_| dice.pick(&["a", "b", "ab", "+"])).collect();
        let star = if segments.last() == Some(&"+") {
            dice.pick(&["", "", "/", "/*"])
        } else {
            dice.pick(&["", "*", "/", "/*"])
        };
        let pattern = if dice.below(12) == 0 { "*".to_owned() } else { segments.join("/") + star };
        let words = (0..dice.below(3)).map(|_| dice.pick(&["create", "read", "update", "delete", "list", "sudo"]));
        let mut words: Vec<&str> = words.collect();
        if dice.below(8) == 0 {
            words.push("deny");
        }
        (pattern, words)
    };
    (0..dice.below(9)).map(|_| rule(dice)).collect()
}

fn random_path(dice: &mut Dice) -> String {
    let segments: Vec<&str> = (0..=dice.below(3)).map(|_| dice.pick(&["a", "b", "ab", "abc"])).collect();
    segments.join("/")
}

/// Matches letter by letter, trying every length for a `+`.
fn naive_match(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*'] => true,
        [b'+', rest @ ..] => {
            let segment = path.iter().take_while(|byte| **byte != b'/').count();
            naive_match(rest, &path[segment..])
        }
        [first, rest @ ..] => path.first() == Some(first) && naive_match(rest, &path[1..]),
    }
}

/// Whether `a` wins against `b`, question by question as the specification lists them.
fn naive_wins(a: &str, b: &str) -> bool {
    let first_wildcard = |p: &str| p.find(['+', '*']).unwrap();
    let pluses = |p: &str| p.matches('+').count();
    if first_wildcard(a) != first_wildcard(b) {
        return first_wildcard(a) > first_wildcard(b);
    }
    if a.ends_with('*') != b.ends_with('*') {
        return !a.ends_with('*');
    }
    if pluses(a) != pluses(b) {
        return pluses(a) < pluses(b);
    }
    if a.len() != b.len() {
        return a.len() > b.len();
    }
    a > b
}

fn naive_closest<'a>(rules: &'a [NaiveRule], path: &str) -> Option<&'a str> {
    let is_wild = |pattern: &str| pattern.ends_with('*') || pattern.contains('+');
    let matching =
        rules.iter().map(|(p, _)| p.as_str()).filter(|p| is_wild(p) && naive_match(p.as_bytes(), path.as_bytes()));
    let (plus, mut candidates): (Vec<&str>, Vec<&str>) = matching.partition(|p| p.contains('+'));
    candidates.sort_by_key(|prefix| prefix.len());
    let longest_prefix = candidates.pop();
    plus.into_iter().chain(longest_prefix).reduce(|best, other| if naive_wins(other, best) { other } else { best })
}

fn naive_pattern<'a>(rules: &'a [NaiveRule], path: &str, is_list: bool) -> Option<&'a str> {
    let exact = |path: &str| rules.iter().map(|(p, _)| p.as_str()).find(|p| *p == path);
    if !is_list {
        return exact(path).or_else(|| naive_closest(rules, path));
    }
    let folder = path.to_owned() + "/";
    let tries = [exact(&folder), exact(path), naive_closest(rules, &folder), naive_closest(rules, path)];
    tries.into_iter().flatten().next()
}

fn naive_capabilities(rules: &[NaiveRule], path: &str, is_list: bool) -> BTreeSet<&'static str> {
    let Some(pattern) = naive_pattern(rules, path, is_list) else {
        return BTreeSet::new();
    };
    let words: BTreeSet<&str> =
        rules.iter().filter(|(p, _)| p == pattern).flat_map(|(_, words)| words.clone()).collect();
    if words.contains("deny") { BTreeSet::new() } else { words }
}

#[test]
fn a_second_matcher_decides_the_same() {
    let mut dice = Dice(0xac1);
    let (mut grants, mut refusals) = (0, 0);
    for _ in 0..20_000 {
        let rules = random_rules(&mut dice);
        let texts: Vec<String> =
            rules.iter().map(|(pattern, words)| format!("path \"{pattern}\" {{ capabilities = {words:?} }}")).collect();
        let acl = acl(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..4 {
            let path = random_path(&mut dice);
            let words = naive_capabilities(&rules, &path, false);
            let shown = if words.is_empty() { vec!["deny"] } else { words.iter().copied().collect() };
            assert_eq!(acl.capabilities(&path), shown, "{path} under {rules:?}");
            for operation in [Operation::Read, Operation::Create, Operation::Update, Operation::Delete, Operation::List]
            {
                let words = naive_capabilities(&rules, &path, operation == Operation::List);
                let verdict = ask(&acl, operation, &path);
                assert_eq!(may(&verdict), words.contains(operation.word()), "{operation:?} {path} under {rules:?}");
                if may(&verdict) { grants += 1 } else { refusals += 1 }
            }
        }
    }
    assert!(grants > 10_000 && refusals > 10_000, "both outcomes must be met: {grants} and {refusals}");
}
