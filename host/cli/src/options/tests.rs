//! Parsed options, and options refused by name.

use super::*;
use crate::commands;
use serde_json::{Value, json};

fn parsed(command: &str, args: &[&str]) -> Result<ParsedOptions, CommandProblem> {
    let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
    let (command, _) = commands::find(&words).unwrap();
    command.parse(args.iter().map(OsString::from))
}

#[test]
fn one_dash_or_two_mean_the_same() {
    let expected = ParsedOptions {
        format: Some(OutputFormat::Json),
        field: Some("ttl".to_owned()),
        address: Some("http://a:1".to_owned()),
        words: vec!["p".to_owned()],
        ..ParsedOptions::default()
    };
    for args in [
        ["-format=json", "-field=ttl", "-address=http://a:1", "p"],
        ["--format=json", "p", "--field=ttl", "--address=http://a:1"],
    ] {
        assert_eq!(parsed("read", &args).unwrap(), expected, "{args:?}");
    }
    assert_eq!(parsed("read", &["p", "-format", "json"]).unwrap().format(), OutputFormat::Json);
}

#[test]
fn underscores_in_option_names_are_dashes() {
    let options = parsed("plugin register", &["-oci_image=a", "--ca_cert=b", "x_y"]).unwrap();
    assert_eq!((options.value("oci-image"), options.value("ca-cert")), (Some("a"), Some("b")));
    assert_eq!(options.words, ["x_y"]);
}

#[test]
fn single_dash_is_word_and_double_ends_options() {
    assert_eq!(parsed("write", &["p", "-", "k=-x"]).unwrap().words, ["p", "-", "k=-x"]);
    assert_eq!(parsed("write", &["--", "-format=json"]).unwrap().words, ["-format=json"]);
}

#[test]
fn switches_and_repeated_options_are_kept() {
    assert!(parsed("write", &["-f", "p"]).unwrap().switch("force"));
    assert!(parsed("write", &["-force=true", "p"]).unwrap().switch("force"));
    assert!(!parsed("write", &["-force=false", "p"]).unwrap().switch("force"));
    let options = parsed("token create", &["-policy=a", "--policy", "b", "-ttl=1h"]).unwrap();
    assert_eq!(options.values("policy").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((options.value("ttl"), options.value("display-name")), (Some("1h"), None));
}

#[test]
fn fields_contain_typed_options_only() {
    const OPTS: [CommandOption; 7] = [
        CommandOption::text("ttl", "TIME", "").with_field("ttl"),
        CommandOption::number("use-limit", "").with_field("num_uses"),
        CommandOption::switch("renewable", "").with_field("renewable"),
        CommandOption::names("policy", "NAME", "").with_field("policies"),
        CommandOption::list("grant", "LINE", "").with_field("grants"),
        CommandOption::pairs("metadata", "").with_field("meta"),
        CommandOption::text("role", "NAME", ""),
    ];
    let fields = |args: &[&str]| Value::Object(parsed("token create", args).unwrap().fields(&OPTS));
    assert_eq!(fields(&[]), json!({}));
    assert_eq!(
        fields(&[
            "-ttl=1h",
            "-ttl=2h",
            "-use-limit=3",
            "-renewable=false",
            "-policy=a",
            "-policy=b",
            "-role=r"
        ]),
        json!({"ttl": "2h", "num_uses": 3, "renewable": false, "policies": ["a", "b"]})
    );
    assert_eq!(
        fields(&["-metadata=k=a=b", "-metadata=e="]),
        json!({"meta": {"k": "a=b", "e": ""}})
    );
    assert_eq!(
        fields(&["-policy=a, b", "-policy=c"]),
        json!({"policies": ["a", "b", "c"]}),
        "names are split on commas"
    );
    assert_eq!(fields(&["-policy="]), json!({"policies": []}));
    let unset = parsed("token create", &["-policy=a", "-policy="]).unwrap();
    assert_eq!(unset.first_empty(&OPTS).map(|opt| opt.name), Some("policy"));
}

#[test]
fn line_options_stay_unsplit_and_empty_names_fail() {
    let options = parsed("secrets enable", &["-grant=a:b,c", "-grant=d", "x"]).unwrap();
    let fields = options.fields(&[CommandOption::list("grant", "LINE", "").with_field("grants")]);
    assert_eq!(fields["grants"], json!(["a:b,c", "d"]));
    for bad in ["a,", ",a", "a,,b", ",", " ,a"] {
        let problem = parsed("token create", &[&format!("-policy={bad}")]).unwrap_err();
        assert!(problem.code == 2 && problem.message.contains("-policy"), "{problem:?}");
    }
}

#[test]
fn invalid_option_value_is_refused_without_repeating_pair() {
    for bad in ["-1", "1.5", "x", "", "18446744073709551616"] {
        let problem = parsed("token create", &[&format!("-use-limit={bad}")]).unwrap_err();
        assert!(
            problem.code == 2 && problem.message.contains("-use-limit is a number"),
            "{problem:?}"
        );
    }
    for bad in ["canary", "=canary"] {
        let problem = parsed("token create", &["-metadata", bad]).unwrap_err();
        assert!(
            problem.message.contains("name=value") && !problem.message.contains("canary"),
            "{problem:?}"
        );
    }
}

#[test]
fn unknown_option_is_named_with_help_command() {
    for (args, part) in [
        (&["-ttl=1"][..], "-ttl"),
        (&["-x"], "-x"),
        (&["-feild=a"], "did you mean -field?"),
        (&["-format=xml"], "xml"),
        (&["-field"], "--field"),
        (&["-help=no"], "-help"),
    ] {
        let problem = parsed("read", args).unwrap_err();
        assert_eq!(problem.code, 2);
        assert!(
            problem.message.contains(part) && problem.message.contains("bulkhead read -help"),
            "{problem:?}"
        );
    }
    assert!(
        parsed("read", &["-f"]).unwrap_err().message.contains("-force"),
        "only write has -force"
    );
}
