//! Tests of the written form of limits.

use super::*;

#[test]
fn documents_list_every_limit_with_default_and_maximum() {
    let page = include_str!("../../../../../docs/grants.md");
    for (word, name, form) in WORDS {
        let default = match word.get(&MountLimits::default()) {
            UNBOUNDED => String::new(),
            value => format!(" `{}` ", form.show(value)),
        };
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        let most = format!("| `{}` |", form.show(word.get(&MountLimits::CEILING)));
        assert!(
            row.contains(&default) && row.contains(&most),
            "{row}: default {default}, most {most}"
        );
    }
}

#[test]
fn invalid_limit_refusal_shows_value_and_correct_form() {
    for (text, says) in [
        ("memory", "limit:memory=64MiB"),
        ("memry=1MiB", "did you mean \"memory\"?"),
        ("memory=1GiB", "the most is memory=256MiB"),
        ("memory=64MB", "\"64MB\""),
        ("memory=0", "0 lets nothing run"),
        ("deadline=", "30s"),
        ("deadline=2h", "the most is deadline=1h"),
        ("rate=200", "200/s"),
        ("rate=-1/s", "200/s"),
        ("http-calls=+5", "\"+5\""),
        ("host-calls=99999999999999999999", "not a whole number"),
    ] {
        let why = LimitLine::parse(text).unwrap_err();
        assert!(why.contains(says), "{text}: {why}");
    }
}
