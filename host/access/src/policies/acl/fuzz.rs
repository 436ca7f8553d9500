//! Random policies and requests, decided by the product and by the second matcher of `naive.rs`.
//!
//! Every case has its own seed. If the two matchers disagree on a case, the case is shrunk as far
//! as possible and printed with its seed. `POLICY_SEED=… cargo test … fuzz` begins with that case;
//! any other number gives other cases.

use super::naive::{FIELDS, NaiveLists, NaiveRequest, NaiveRule, granting, shown_capabilities};
use super::*;
use bulkhead_fuzz::Dice;
use bulkhead_wire::description::FieldKind;
use serde_json::json;
use std::collections::BTreeSet;

const SEED: u64 = 0x00ac_1000;
const CASES: u64 = 30_000;
const POLICIES: [&str; 3] = ["first", "second", "third"];

/// The rules of a token's policies, and a request.
#[derive(Clone, Debug, Default)]
struct FuzzCase {
    rules: Vec<NaiveRule>,
    request: NaiveRequest,
}

fn random_pattern(dice: &mut Dice) -> String {
    if dice.below(14) == 0 {
        return "*".to_owned();
    }
    let segments: Vec<&str> =
        (0..=dice.below(3)).map(|_| dice.pick(&["a", "b", "ab", "+"])).collect();
    let ends: &[&str] =
        if segments.last() == Some(&"+") { &["", "", "/", "/*"] } else { &["", "*", "/", "/*"] };
    segments.join("/") + dice.pick(ends)
}

fn random_values(dice: &mut Dice) -> Vec<Value> {
    dice.some(
        2,
        &[
            json!("a"),
            json!("a*"),
            json!("*b"),
            json!("*a*"),
            json!("*"),
            json!(1),
            json!("1"),
            json!(""),
        ],
    )
}

fn random_lists(dice: &mut Dice) -> NaiveLists {
    let mut names = dice.some(3, &["ttl", "lease", "name", "other", "*"]);
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| (name, random_values(dice))).collect()
}

fn random_rule(dice: &mut Dice) -> NaiveRule {
    let words = ["create", "read", "update", "patch", "delete", "list", "sudo", "read", "update"];
    let mut rule = NaiveRule {
        policy: dice.pick(&POLICIES),
        pattern: random_pattern(dice),
        words: dice.some(4, &words),
        ..NaiveRule::default()
    };
    match dice.below(16) {
        0 | 1 => rule.words.push("deny"),
        2 | 3 => rule.allowed = random_lists(dice),
        4 | 5 => rule.denied = random_lists(dice),
        6 => rule.required = dice.some(2, &["ttl", "lease", "TTL", "name", "other"]),
        7 => rule.min = dice.pick(&[30, 60]),
        8 => rule.max = dice.pick(&[45, 60]),
        _ => {}
    }
    rule
}

fn random_parameters(dice: &mut Dice) -> Vec<(&'static str, Value)> {
    let names = ["ttl", "lease", "name", "other", "TTL", "Lease", "Other"];
    let values = [
        json!("a"),
        json!("ab"),
        json!("b"),
        json!(1),
        json!(""),
        json!([]),
        json!(["a", "ab"]),
        json!(["b", 1]),
    ];
    let mut names = dice.some(3, &names);
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| (name, dice.pick(&values))).collect()
}

fn random_case(seed: u64) -> FuzzCase {
    let mut dice = Dice::of(seed);
    let rules = (0..dice.below(9)).map(|_| random_rule(&mut dice)).collect();
    let segments: Vec<&str> =
        (0..=dice.below(3)).map(|_| dice.pick(&["a", "b", "ab", "abc"])).collect();
    let word = dice.pick(&["create", "read", "update", "patch", "delete", "list", "list"]);
    let sudo = dice.below(8) == 0;
    FuzzCase {
        rules,
        request: NaiveRequest {
            path: segments.join("/"),
            word,
            sudo,
            wrap_ttl: dice.pick(&[None, None, Some(1), Some(30), Some(60), Some(90)]),
            parameters: random_parameters(&mut dice),
        },
    }
}

fn format_rule(rule: &NaiveRule) -> String {
    let lists = |lists: &[(&str, Vec<Value>)]| {
        lists
            .iter()
            .map(|(name, values)| format!("{name:?} = {} ", json!(values)))
            .collect::<String>()
    };
    format!(
        "path {:?} {{ capabilities = {:?} allowed_parameters = {{ {}}} denied_parameters = {{ \
         {}}}\n\
         required_parameters = {:?} min_wrapping_ttl = {} max_wrapping_ttl = {} }}\n",
        rule.pattern,
        rule.words,
        lists(&rule.allowed),
        lists(&rule.denied),
        rule.required,
        rule.min,
        rule.max
    )
}

fn acl_of(rules: &[NaiveRule]) -> Acl {
    let policies = POLICIES.map(|name| {
        let text: String =
            rules.iter().filter(|rule| rule.policy == name).map(format_rule).collect();
        Policy::parse(name, &text).unwrap_or_else(|error| panic!("{error} in {text}"))
    });
    Acl::new(&policies)
}

fn schema() -> Vec<Field> {
    let ttl =
        Field { aliases: vec![FIELDS[1].to_owned()], ..Field::new(FIELDS[0], FieldKind::Any, "") };
    vec![ttl, Field::new(FIELDS[2], FieldKind::Any, "")]
}

fn operation(word: &str) -> Operation {
    use Operation::{Create, Delete, List, Patch, Read, Update};
    [Create, Read, Update, Patch, Delete, List]
        .into_iter()
        .find(|operation| operation.word() == word)
        .unwrap()
}

/// Returns the product's verdict.
fn decide_case(acl: &Acl, request: &NaiveRequest) -> AccessVerdict {
    let fields: Map<String, Value> = request
        .parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let (operation, schema) = (operation(request.word), schema());
    acl.check(&AccessRequest {
        path: &request.path,
        operation,
        sudo: request.sudo,
        wrap_ttl: request.wrap_ttl,
        fields: &fields,
        schema: &schema,
    })
}

/// Describes the disagreement of the two matchers; `None` if they agree.
fn find_disagreement(case: &FuzzCase) -> Option<String> {
    let acl = acl_of(&case.rules);
    for path in [case.request.path.clone(), case.request.path.clone() + "/"] {
        let (ours, naive) = (acl.capabilities(&path), shown_capabilities(&case.rules, &path));
        if ours != naive {
            return Some(format!("{path} is shown as {ours:?}, not {naive:?}"));
        }
    }
    let naive = granting(&case.rules, &case.request);
    let verdict = decide_case(&acl, &case.request);
    let ours: BTreeSet<String> = match &verdict {
        AccessVerdict::Granted(granted) => {
            granted.policies.iter().map(ToString::to_string).collect()
        }
        AccessVerdict::Denied(_) => BTreeSet::new(),
    };
    let agree = ours.iter().map(String::as_str).eq(naive.iter().copied());
    (!agree).then(|| format!("{verdict:?}, but {naive:?} grant it"))
}

/// Returns every case that has a single element less than `case`.
fn shrink_once(case: &FuzzCase) -> Vec<FuzzCase> {
    let with = |change: &dyn Fn(&mut FuzzCase)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        smaller
    };
    let mut found = Vec::new();
    for (index, rule) in case.rules.iter().enumerate() {
        found.push(with(&|case| {
            case.rules.remove(index);
        }));
        let (words, allowed) = (rule.words.len(), rule.allowed.len());
        let (denied, required) = (rule.denied.len(), rule.required.len());
        found.extend(
            (0..words).map(|at| with(&|case| case.rules[index].words = remove_at(&rule.words, at))),
        );
        found.extend(
            (0..allowed)
                .map(|at| with(&|case| case.rules[index].allowed = remove_at(&rule.allowed, at))),
        );
        found.extend(
            (0..denied)
                .map(|at| with(&|case| case.rules[index].denied = remove_at(&rule.denied, at))),
        );
        found
            .extend((0..required).map(|at| {
                with(&|case| case.rules[index].required = remove_at(&rule.required, at))
            }));
    }
    let parameters = &case.request.parameters;
    found.extend(
        (0..parameters.len())
            .map(|at| with(&|case| case.request.parameters = remove_at(parameters, at))),
    );
    found
}

fn remove_at<T: Clone>(list: &[T], at: usize) -> Vec<T> {
    let mut list = list.to_vec();
    list.remove(at);
    list
}

fn shrunk(mut case: FuzzCase, fails: impl Fn(&FuzzCase) -> bool) -> FuzzCase {
    while let Some(smaller) = shrink_once(&case).into_iter().find(&fails) {
        case = smaller;
    }
    case
}

#[test]
fn the_second_matcher_decides_every_case_the_same() {
    let first = std::env::var("POLICY_SEED")
        .map_or(SEED, |seed| seed.parse().expect("POLICY_SEED is a number"));
    let (mut grants, mut refusals) = (0, 0);
    for seed in first..first + CASES {
        let case = random_case(seed);
        if find_disagreement(&case).is_some() {
            let case = shrunk(case, |case| find_disagreement(case).is_some());
            let text: String = case
                .rules
                .iter()
                .map(|rule| format!("# {}\n{}", rule.policy, format_rule(rule)))
                .collect();
            panic!(
                "POLICY_SEED={seed}: {}\n{:?}\n{text}",
                find_disagreement(&case).unwrap(),
                case.request
            );
        }
        if granting(&case.rules, &case.request).is_empty() { refusals += 1 } else { grants += 1 }
    }
    assert!(
        grants > CASES / 20 && refusals > CASES / 20,
        "too few of a kind: {grants} grants, {refusals} refusals"
    );
}

#[test]
fn fuzz_case_shrinks_to_failing_part() {
    let holds = |case: &FuzzCase| case.rules.iter().any(|rule| rule.words.contains(&"deny"));
    let case = (SEED..).map(random_case).find(|case| case.rules.len() > 3 && holds(case)).unwrap();
    let shrunk = shrunk(case, holds);
    assert_eq!((shrunk.rules.len(), shrunk.rules[0].words.as_slice()), (1, ["deny"].as_slice()));
    assert!(
        shrunk.request.parameters.is_empty() && shrunk.rules[0].allowed.is_empty(),
        "{shrunk:?}"
    );
}
