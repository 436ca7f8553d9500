//! Templates as a table, test vectors of the reference implementation, and every bound.

use super::*;
use bulkhead_fuzz::Dice;

const NAMES: TemplateNames<'static> =
    TemplateNames { display_name: "token-alice", role_name: "Read.Only" };

fn rendered_for(text: &str, names: &TemplateNames<'_>) -> Result<String, TemplateFault> {
    let context =
        RenderContext { random: &|length| vec![0; length as usize], now: 1_700_000_000_123 };
    let bytes = Template::parse(text)?.render(names, &context)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn rendered(text: &str) -> Result<String, TemplateFault> {
    rendered_for(text, &NAMES)
}

#[test]
fn supported_template_functions_match_go() {
    for (text, result) in [
        ("", ""),
        ("plain", "plain"),
        ("{{.DisplayName}}/{{ .RoleName }}", "token-alice/Read.Only"),
        ("{{ .DisplayName | truncate 5 }}", "token"),
        ("{{ truncate 5 .DisplayName }}", "token"),
        ("{{ .RoleName | uppercase | replace \".\" \"_\" }}", "READ_ONLY"),
        ("{{ lowercase .RoleName }}", "read.only"),
        ("{{ replace `e` `` .RoleName }}", "Rad.Only"),
        (
            "{{ printf \"%s-%d-%v-%q-%%\" .RoleName 5 true \"a\\\"b\" }}",
            "Read.Only-5-true-\"a\\\"b\"-%",
        ),
        ("{{ printf \"%s\" (printf \"<%s>\" (.RoleName | truncate 4)) }}", "<Read>"),
        ("{{ print .RoleName 5 }}", "Read.Only5"),
        ("{{ unix_time }} {{ unix_time_millis }}", "1700000000 1700000000123"),
        (
            "{{ timestamp \"2006-01-02T15:04:05Z\" }} {{ timestamp \"060102\" }}",
            "2023-11-14T22:13:20Z 231114",
        ),
        ("{{ random 5 }}", "AAAAA"),
        ("{{ uuid }}", "00000000-0000-4000-8000-000000000000"),
        ("{{ \"abc\" | sha256 | truncate 8 }}", "ba7816bf"),
        ("{{ \"abc\" | base64 }}{{ \"abc\" | hex }}", "YWJj616263"),
        ("{{ len .RoleName }}", "9"),
        ("{{ if .DisplayName }}a{{ else }}b{{ end }}", "a"),
        ("{{ if eq .DisplayName \"x\" \"token-alice\" }}a{{ end }}", "a"),
        ("{{ if eq .RoleName \"x\" }}a{{ else if ne .RoleName \"y\" }}b{{ else }}c{{ end }}", "b"),
        ("{{ if and (gt (len .RoleName) 8) (not false) }}a{{ end }}", "a"),
        ("{{ if or \"\" 0 }}a{{ else }}b{{ end }}", "b"),
        ("{{ or \"\" \"x\" }}{{ and \"y\" \"\" }}", "x"),
        ("{{ if true }}{{ if false }}a{{ else }}b{{ end }}{{ end }}", "b"),
        ("a {{- /* note */ -}} b {{- .RoleName -}} c", "abRead.Onlyc"),
        ("{{/* note */}}x", "x"),
        ("a{{ \"}}\" }}b", "a}}b"),
        ("}}", "}}"),
    ] {
        assert_eq!(rendered(text).as_deref(), Ok(result), "{text}");
    }
}

#[test]
fn the_vectors_of_truncate_sha256_hold() {
    for (length, result) in [
        (9, "t4bb25641"),
        (12, "this704cd12b"),
        (22, "thisisareallyl7f978be6"),
        (23, "thisisareallylongstring"),
        (24, "thisisareallylongstring"),
    ] {
        let text = format!("{{{{ \"thisisareallylongstring\" | truncate_sha256 {length} }}}}");
        assert_eq!(rendered(&text).as_deref(), Ok(result));
    }
    assert_eq!(
        rendered("{{ truncate_sha256 8 \"x\" }}"),
        Err(TemplateFault::WrongArguments("truncate_sha256"))
    );
}

#[test]
fn malformed_templates_are_refused_by_fault() {
    use TemplateFault as Fault;
    for (text, fault) in [
        ("{{", Fault::UnclosedAction),
        ("{{ .RoleName", Fault::UnclosedAction),
        ("{{ /* }}", Fault::UnclosedAction),
        ("{{ \"a }}", Fault::BadLiteral),
        ("{{ \"\\x\" }}", Fault::BadLiteral),
        ("{{ `a }}", Fault::BadLiteral),
        ("{{ (.RoleName }}", Fault::UnclosedParenthesis),
        ("{{ .RoleName) }}", Fault::Unexpected(")".to_owned())),
        ("{{ if true }}", Fault::UnclosedIf),
        ("{{ end }}", Fault::Unexpected("end".to_owned())),
        ("{{ else }}", Fault::Unexpected("else".to_owned())),
        ("{{ if true }}{{ else }}{{ else }}{{ end }}", Fault::Unexpected("else".to_owned())),
        ("{{ if }}{{ end }}", Fault::Unexpected("}}".to_owned())),
        ("{{}}", Fault::Unexpected("}}".to_owned())),
        ("{{ | random 5 }}", Fault::Unexpected("|".to_owned())),
        ("{{ .RoleName | }}", Fault::Unexpected("}}".to_owned())),
        ("{{ é }}", Fault::Unexpected("é".to_owned())),
        ("{{ 5x }}", Fault::Unexpected("5x".to_owned())),
        ("{{ .RoleName 5 }}", Fault::Unexpected("a value with arguments".to_owned())),
        ("{{ .Password }}", Fault::UnknownField(".Password".to_owned())),
        ("{{ . }}", Fault::UnknownField(".".to_owned())),
        ("{{ env \"PATH\" }}", Fault::UnknownFunction("env".to_owned())),
        ("{{ $x := 5 }}", Fault::Unsupported("$x".to_owned())),
        ("{{ range .RoleName }}{{ end }}", Fault::Unsupported("range".to_owned())),
        ("{{ random 0 }}", Fault::WrongArguments("random")),
        ("{{ random -1 }}", Fault::WrongArguments("random")),
        ("{{ random \"5\" }}", Fault::WrongArguments("random")),
        ("{{ random 1025 }}", Fault::WrongArguments("random")),
        ("{{ truncate 0 .RoleName }}", Fault::WrongArguments("truncate")),
        ("{{ printf \"%s\" }}", Fault::WrongArguments("printf")),
        ("{{ printf \"a\" 5 }}", Fault::WrongArguments("printf")),
        ("{{ printf \"%d\" \"a\" }}", Fault::WrongArguments("printf")),
        ("{{ printf \"%e\" 5 }}", Fault::UnknownVerb("%e".to_owned())),
        ("{{ printf \"%\" }}", Fault::WrongArguments("printf")),
        ("{{ eq 5 \"5\" }}", Fault::WrongArguments("eq")),
        ("{{ timestamp \"Jan 2\" }}", Fault::WrongArguments("timestamp")),
        ("{{ replace \"\" \"x\" .RoleName }}", Fault::WrongArguments("replace")),
    ] {
        assert_eq!(rendered(text), Err(fault), "{text}");
    }
}

#[test]
fn every_bound_holds() {
    let nested = |depth: usize| format!("{{{{ {}1{} }}}}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(rendered(&nested(DEEPEST)).as_deref(), Ok("1"));
    assert_eq!(rendered(&nested(DEEPEST + 1)), Err(TemplateFault::TooDeep));
    let ifs = |depth: usize| format!("{}x{}", "{{if true}}".repeat(depth), "{{end}}".repeat(depth));
    assert_eq!(rendered(&ifs(DEEPEST)).as_deref(), Ok("x"));
    assert_eq!(rendered(&ifs(DEEPEST + 1)), Err(TemplateFault::TooDeep));
    assert_eq!(rendered(&"x".repeat(LONGEST_RESULT + 1)), Err(TemplateFault::TooLong));
    assert_eq!(rendered(&"x".repeat(LONGEST_TEMPLATE + 1)), Err(TemplateFault::TemplateTooLong));
    assert_eq!(rendered("{{ random 1024 }}{{ random 1 }}"), Err(TemplateFault::TooLong));
    let growing = format!("{{{{ \"a\" {} }}}}", "| replace \"a\" \"aaaa\"".repeat(20));
    assert_eq!(rendered(&growing), Err(TemplateFault::TooLong));
    let long = "n".repeat(LONGEST_VALUE + 1);
    let names = TemplateNames { display_name: &long, role_name: "" };
    assert_eq!(rendered_for("{{ truncate 1 .DisplayName }}", &names), Err(TemplateFault::TooLong));
    let busy = format!("{{{{ print {} }}}}", "``  ".repeat(1000));
    assert_eq!(rendered(&busy).as_deref(), Ok(""));
}

#[test]
fn generator_without_output_is_fault_without_endless_loop() {
    for generator in
        [&(|_| Vec::new()) as &dyn Fn(u32) -> Vec<u8>, &|length| vec![255; length as usize]]
    {
        let context = RenderContext { random: generator, now: 0 };
        let outcome = Template::parse("{{ random 5 }}").unwrap().render(&NAMES, &context);
        assert_eq!(outcome, Err(TemplateFault::NoRandomness));
    }
    let short = RenderContext { random: &|_| vec![7], now: 0 };
    let outcome = Template::parse("{{ uuid }}").unwrap().render(&NAMES, &short);
    assert_eq!(outcome, Err(TemplateFault::NoRandomness));
}

#[test]
fn every_letter_and_digit_is_equally_likely() {
    let all: Vec<u8> = (0..=255).collect();
    let context = RenderContext { random: &|_| all.clone(), now: 0 };
    let text = Template::parse("{{ random 248 }}").unwrap().render(&NAMES, &context).unwrap();
    for symbol in ('0'..='9').chain('A'..='Z').chain('a'..='z') {
        assert_eq!(text.iter().filter(|byte| char::from(**byte) == symbol).count(), 4, "{symbol}");
    }
}

#[test]
fn character_cut_in_two_leaves_replaced_bytes() {
    let names = TemplateNames { display_name: "aé", role_name: "" };
    let context = RenderContext { random: &|_| Vec::new(), now: 0 };
    let cut = Template::parse("{{ .DisplayName | truncate 2 }}")
        .unwrap()
        .render(&names, &context)
        .unwrap();
    assert_eq!(cut, [b'a', 0xc3]);
    assert_eq!(sanitised(&cut), "a-");
}

#[test]
fn only_harmless_characters_are_left() {
    assert_eq!(sanitised(b"aZ09_.@-"), "aZ09_.@-");
    assert_eq!(sanitised("a\"'; \\\n\0$é/*".as_bytes()), "a------------".get(..13).unwrap());
    let every: Vec<u8> = (0..=255).collect();
    assert!(
        sanitised(&every)
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte))
    );
}

/// Fragments for random texts: parts of templates, and other text.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "{{", "}}", "{{-", "-}}", "if", "else", "end", "(", ")", "|", ".DisplayName", ".RoleName",
    "random", "truncate", "printf", "replace", "sha256", "eq", "and", "not", "len", "timestamp",
    "\"%s\"", "`x`", "\"", "\\", "5", "-1", "0", "99999999999999999999", " ", "\n", "é", "$x",
    "/*", "*/", "true", "x", "truncate_sha256", "20",
];

#[test]
fn no_template_panics() {
    let mut dice = Dice::of(0x2545_f491);
    let mut understood = 0;
    for _ in 0..50_000 {
        let mut text = String::from(if dice.below(2) == 0 { "{{ " } else { "" });
        for _ in 0..dice.below(12) {
            text.push_str(dice.pick(PIECES));
            text.push_str(if dice.below(2) == 0 { " " } else { "" });
        }
        text.push_str(if dice.below(2) == 0 { " }}" } else { "" });
        understood += usize::from(rendered(&text).is_ok());
    }
    assert!(understood > 1000, "the loop must reach the evaluator: {understood}");
}

#[test]
fn username_field_is_available_in_user_templates_only() {
    let template = Template::parse("{{ .Username | uppercase }}").unwrap();
    let random = |length: u32| vec![0; length as usize];
    let context = RenderContext { random: &random, now: 0 };
    let names = TemplateNames::default();
    assert_eq!(template.render_for_user(&names, "app", &context).unwrap(), b"APP");
    let fault = template.render(&names, &context).unwrap_err();
    assert_eq!(fault, TemplateFault::UnknownField(".Username".to_owned()));
}
