//! Statements as a table: inputs, outputs, and attacks that must fail.

use super::*;
use crate::database_plugin::{Refusal, StatementAct};
use crate::refusal_codes::find_mistakes;

const VALUES: PlaceholderValues<'static> = PlaceholderValues {
    username: "v-a-1",
    password: Some("pw"),
    subject: None,
    expiration: Some(1_893_456_000_999),
};

fn filled(text: &str, values: &PlaceholderValues<'_>) -> Result<Vec<String>, LexFault> {
    let prepared =
        prepare(SqlDialect::Postgres, &[text.to_owned()], values).map_err(|error| error.fault)?;
    Ok(prepared.into_iter().map(|prepared| prepared.statement.text).collect())
}

fn split(text: &str) -> Vec<String> {
    filled(text, &VALUES).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// Purpose of statements that create a user with a password.
fn creation() -> StatementPurpose {
    let credential_type = "password".to_owned();
    StatementPurpose { act: StatementAct::Creation, credential_type, passwords: Vec::new() }
}

fn fault(text: &str) -> LexFault {
    check(SqlDialect::Postgres, &[text.to_owned()], &creation()).expect_err(text).fault
}

/// Fault of an unknown placeholder in statements with the values of [`VALUES`].
fn unknown(written: &str) -> LexFault {
    let available = "{{name}}, {{username}}, {{password}} and {{expiration}}".to_owned();
    LexFault::UnknownPlaceholder { written: written.to_owned(), available }
}

fn with_password(text: &str, password: &str) -> Result<String, LexFault> {
    filled(text, &PlaceholderValues { password: Some(password), ..VALUES })
        .map(|texts| texts.join("¦"))
}

fn with_name(text: &str, username: &str) -> Result<String, LexFault> {
    filled(text, &PlaceholderValues { username, ..VALUES }).map(|texts| texts.join("¦"))
}

#[test]
fn the_documented_example_is_two_statements() {
    let text = "CREATE ROLE \"{{name}}\" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL \
                '{{expiration}}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO \"{{name}}\";";
    assert_eq!(
        split(text),
        [
            "CREATE ROLE \"v-a-1\" WITH LOGIN PASSWORD 'pw' VALID UNTIL '2030-01-01 00:00:00+0000'",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO \"v-a-1\"",
        ]
    );
}

#[test]
fn semicolon_cuts_only_where_server_ends_statement() {
    for (text, parts) in [
        ("a;b", vec!["a", "b"]),
        (" ; a ;; b ; ", vec!["a", "b"]),
        ("", vec![]),
        (";;\n;", vec![]),
        ("-- nothing", vec![]),
        ("/* ; */", vec![]),
        ("a ';' b; c", vec!["a ';' b", "c"]),
        ("a 'it''s;' b", vec!["a 'it''s;' b"]),
        (r"a E'\';' b; c", vec![r"a E'\';' b", "c"]),
        (r"a '\'; b", vec![r"a '\'", "b"]),
        (r"a somee'\'; b", vec![r"a somee'\'", "b"]),
        ("a E'x'\n'\\';'; b", vec!["a E'x'\n'\\';'", "b"]),
        ("a E'x' -- c\n'\\';'; b", vec!["a E'x' \n'\\';'", "b"]),
        ("a \"x;\"\"y\" b", vec!["a \"x;\"\"y\" b"]),
        ("a $$;$$ b; c", vec!["a $$;$$ b", "c"]),
        ("a $t$;$$;$t$ b", vec!["a $t$;$$;$t$ b"]),
        ("a $t$ $u$ ; $t$; b", vec!["a $t$ $u$ ; $t$", "b"]),
        ("a x$1$ ;b $1 ;c", vec!["a x$1$", "b $1", "c"]),
        ("a /* ; /* ; */ ; */ b; c", vec!["a   b", "c"]),
        ("a -- ;'\"$$ (\n b; c", vec!["a \n b", "c"]),
        (
            "CREATE RULE r AS ON INSERT TO t DO ALSO (a; b); c",
            vec!["CREATE RULE r AS ON INSERT TO t DO ALSO (a; b)", "c"],
        ),
        ("a é$é$;$é$ b; $é$; c", vec!["a é$é$", "$é$ b; $é$", "c"]),
        ("U&'\\0061;' UESCAPE '!'; b", vec!["U&'\\0061;' UESCAPE '!'", "b"]),
    ] {
        assert_eq!(split(text), parts, "{text}");
    }
}

#[test]
fn bodies_stay_whole() {
    let anonymous = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname='{{name}}') \
                     THEN CREATE ROLE \"{{name}}\"; END IF; END $$";
    assert_eq!(
        split(&format!("{anonymous}; SELECT 1")),
        [anonymous.replace("{{name}}", "v-a-1"), "SELECT 1".to_owned()]
    );

    let assigned = "DO $do$ BEGIN PERFORM set_config('x', rolname=\"{{name}}\"); END $do$";
    assert_eq!(split(assigned), [assigned.replace("{{name}}", "v-a-1")]);

    let routine = "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true \
                   THEN 1 END; SELECT 2; END";
    assert_eq!(split(&format!("{routine}; SELECT 1")), [routine, "SELECT 1"]);
    assert_eq!(split("CREATE TABLE begin_at (a int); b"), ["CREATE TABLE begin_at (a int)", "b"]);
}

#[test]
fn statement_element_takes_json_array_plain_or_base64() {
    assert_eq!(split(r#" ["a; b", "", "c '{{name}}'"] "#), ["a", "b", "c 'v-a-1'"]);
    let packed = "WyJhOyBiIiwi\nYyJd";
    assert_eq!(split(packed), ["a", "b", "c"]);
    assert_eq!(split("c2VsZWN0IDE7IHNlbGVjdCAy"), ["select 1", "select 2"]);
    assert_eq!(split("ROLLBACKS"), ["ROLLBACKS"]);
    assert_eq!(split("[\"a\", 1]"), ["[\"a\", 1]"], "a mixed array is read as a text");
}

#[test]
fn syntax_errors_are_reported_by_kind_and_place() {
    for (text, fault, position) in [
        ("a; b 'x", LexFault::UnclosedString, 6),
        ("a E'x\\'", LexFault::UnclosedString, 4),
        ("a \"x", LexFault::UnclosedIdentifier, 3),
        ("a $t$ x $$", LexFault::UnclosedDollarQuote, 3),
        ("a /* /* */", LexFault::UnclosedComment, 3),
        ("a (b; c", LexFault::UnbalancedParenthesis, 3),
        ("a ) b", LexFault::UnbalancedParenthesis, 3),
        ("CREATE FUNCTION f() BEGIN ATOMIC SELECT 1;", LexFault::UnclosedRoutineBody, 21),
        ("\\c orders", LexFault::ClientCommand, 1),
        ("é\n \\c orders", LexFault::ClientCommand, 4),
        ("a\0b", LexFault::Nul, 2),
        ("a '\0'", LexFault::Nul, 4),
        ("a; COMMIT", LexFault::TransactionControl, 4),
        ("begin; a", LexFault::TransactionControl, 1),
        ("PREPARE TRANSACTION 'x'", LexFault::TransactionControl, 1),
        ("a '{{foo}}'", unknown("{{foo}}"), 4),
        ("a {{ name }}", unknown("{{ name }}"), 3),
        ("a $$ é {{.Name}} $$", unknown("{{.Name}}"), 8),
    ] {
        let list = ["fine".to_owned(), text.to_owned()];
        let error = check(SqlDialect::Postgres, &list, &creation()).expect_err(text);
        assert_eq!(error, LexError { statement: 1, position, fault }, "{text:?}");
        assert_eq!(prepare(SqlDialect::Postgres, &list, &VALUES).err(), Some(error), "{text:?}");
    }
}

#[test]
fn braces_that_are_no_placeholder_stay() {
    for text in [
        "a '{{1,2},{3,4}}'",
        "a '{\"a\":{\"b\":{}}}'",
        "a '{{}}'",
        "a '{{'",
        "a '}}'",
        "a '{{name}'",
    ] {
        assert_eq!(split(text), [text]);
    }
    assert_eq!(split("a '{{{name}}}'"), ["a '{v-a-1}'"]);
}

#[test]
fn values_are_escaped_for_the_quotes_around_them() {
    let password = "a'b\"c";
    assert_eq!(with_password("x '{{password}}'", password).unwrap(), "x 'a''b\"c'");
    assert_eq!(with_password("x E'{{password}}'", "a'b\\").unwrap(), r"x E'a''b\\'");
    assert_eq!(with_name("x \"{{name}}\"", password).unwrap(), "x \"a'b\"\"c\"");
    assert_eq!(with_password("x 'a\\{{password}}'", "\\'").unwrap(), r"x  E'a\\\\'''");
    assert_eq!(with_password("x 'é{{password}}' y", "ü\\").unwrap(), r"x  E'éü\\' y");
}

#[test]
fn hostile_passwords_stay_inside_their_literal() {
    let create =
        "CREATE ROLE \"{{name}}\" PASSWORD '{{password}}' -- note\n; GRANT g TO \"{{name}}\"";
    for password in [
        "'",
        "''",
        "\\",
        "\\'",
        "'\\",
        "\"",
        "$$",
        "$x$",
        "%",
        "%s",
        "a\nb",
        "a\r\nb",
        "{{name}}",
        "{{password}}",
        ";",
        "'; DROP ROLE root; --",
        "\\'; DROP ROLE root; --",
        "/*",
        "*/",
        "--",
        "E'",
        "é'",
        "\u{feff}'",
    ] {
        let values = PlaceholderValues { password: Some(password), ..VALUES };
        let prepared = prepare(SqlDialect::Postgres, &[create.to_owned()], &values).unwrap();
        assert_eq!(prepared.len(), 2, "{password:?}");
        assert!(prepared[0].statement.secret && !prepared[1].statement.secret);
        assert_eq!(literal(&prepared[0].statement.text), password, "{password:?}");
    }
}

/// Returns the only literal of a statement, as the server would read it.
fn literal(text: &str) -> String {
    let (before, rest) = text.split_once('\'').unwrap();
    let inside = rest.strip_suffix('\'').unwrap();
    if before.ends_with(" E") {
        inside.replace("''", "'").replace("\\\\", "\\")
    } else {
        inside.replace("''", "'")
    }
}

#[test]
fn value_resembling_placeholder_is_not_filled_again() {
    assert_eq!(
        with_password("x '{{password}}' \"{{name}}\"", "{{name}}").unwrap(),
        "x '{{name}}' \"v-a-1\""
    );
    assert_eq!(
        with_name("x \"{{name}}\" '{{password}}'", "{{password}}").unwrap(),
        "x \"{{password}}\" 'pw'"
    );
}

#[test]
fn outside_quotes_only_plain_words_are_taken() {
    assert_eq!(with_name("x {{name}}", "a.b_c@d-1").unwrap(), "x a.b_c@d-1");
    for name in ["a b", "a;b", "a\"b", "a'b", "a\nb", "", "é", "x--y", "a$b"] {
        assert_eq!(
            with_name("x {{name}} y", name),
            Err(LexFault::UnsafePlaceholder("{{name}}")),
            "{name:?}"
        );
    }
}

#[test]
fn placeholder_value_altering_following_text_is_refused() {
    for (text, name) in [
        ("x {{name}}'\\'", "E"),
        ("x {{name}}'a'", "e"),
        ("x ${{name}}$ y", "a"),
        ("x -{{name}} y", "-a"),
        ("{{name}} x", "commit"),
    ] {
        assert_eq!(with_name(text, name), Err(LexFault::UnsafePlaceholder("{{name}}")), "{text}");
    }
}

#[test]
fn quoted_code_refuses_values_able_to_end_quotes() {
    let body = "DO $$ BEGIN CREATE ROLE \"{{name}}\" PASSWORD '{{password}}'; END $$";
    assert!(with_password(body, "a b;c!").is_ok());
    for password in ["'", "\"", "\\", "$$", "a$b$c", "a\nb"] {
        assert_eq!(
            with_password(body, password),
            Err(LexFault::UnsafePlaceholder("{{password}}")),
            "{password:?}"
        );
    }
    for code in [
        "DO $$ BEGIN CREATE ROLE {{password}}; END $$",
        "DO $$ -- {{password}}\n $$",
        "DO $$ it's {{password}} $$",
        "DO $$ $x$ '{{password}}' $x$ $$",
        "SELECT dblink_exec('CREATE ROLE x PASSWORD ''{{password}}''')",
        "SELECT dblink_exec('CREATE ROLE \"{{password}}\"')",
        r"SELECT dblink_exec(E'CREATE ROLE x PASSWORD \'{{password}}\'')",
        "x U&'{{password}}'",
        "x U&\"{{password}}\"",
        "x N'{{password}}'",
    ] {
        assert!(with_password(code, "abc-1").is_ok(), "{code}");
        for password in ["a b", "a;b", "'", "\\"] {
            assert_eq!(
                with_password(code, password),
                Err(LexFault::UnsafePlaceholder("{{password}}")),
                "{code}"
            );
        }
    }
    assert!(
        split("DO $$ BEGIN EXECUTE 'ALTER ROLE x VALID UNTIL ''{{expiration}}'''; END $$")[0]
            .contains("+0000")
    );
}

#[test]
fn a_continued_escape_string_escapes_too() {
    let text = "x E'a'\n'{{password}}'";
    assert_eq!(with_password(text, "\\'; DROP").unwrap(), "x E'a'\n'\\\\''; DROP'");
}

#[test]
fn values_with_nul_are_refused_everywhere() {
    for text in [
        "x '{{password}}'",
        "x E'{{password}}'",
        "x \"{{password}}\"",
        "x {{password}}",
        "x $$'{{password}}'$$",
    ] {
        assert_eq!(
            with_password(text, "a\0b"),
            Err(LexFault::UnsafePlaceholder("{{password}}")),
            "{text}"
        );
    }
}

#[test]
fn comments_are_not_sent() {
    assert_eq!(with_password("x -- {{password}}\n y", "a\nb").unwrap(), "x \n y");
    let prepared =
        prepare(SqlDialect::Postgres, &["x /* {{password}} */".to_owned()], &VALUES).unwrap();
    assert!(!prepared[0].statement.secret);
}

#[test]
fn an_expiration_is_written_in_utc_and_bounded() {
    let at = |expiration| {
        filled("'{{expiration}}'", &PlaceholderValues { expiration: Some(expiration), ..VALUES })
    };
    assert_eq!(at(0).unwrap(), ["'1970-01-01 00:00:00+0000'"]);
    assert_eq!(at(253_402_300_799_000).unwrap(), ["'9999-12-31 23:59:59+0000'"]);
    assert_eq!(at(253_402_300_800_000), Err(LexFault::ExpirationOutOfRange));
    assert_eq!(at(u64::MAX), Err(LexFault::ExpirationOutOfRange));
}

#[test]
fn statements_know_which_text_they_come_from() {
    let list = ["a; b".to_owned(), String::new(), "c".to_owned()];
    let prepared = prepare(SqlDialect::Postgres, &list, &VALUES).unwrap();
    let places: Vec<u32> = prepared.iter().map(|prepared| prepared.index).collect();
    assert_eq!(places, [0, 0, 2]);
}

#[test]
fn refusal_has_position_and_fault_without_statement_text() {
    let error = check(SqlDialect::Postgres, &["canary 'x".to_owned()], &creation()).unwrap_err();
    let refusal = Refusal::from(error);
    assert_eq!((refusal.code.as_str(), refusal.statement), ("invalid-statement", Some(0)));
    assert_eq!(refusal.ext[0], ("position".to_owned(), "8".to_owned()));
    assert_eq!(find_mistakes(&[INVALID_STATEMENT], &[]), Vec::<String>::new());
    assert!(!format!("{refusal:?}").contains("canary"));
    assert_eq!(fault("x {{nmae}}").to_string().matches("{{nmae}}").count(), 1);
}

#[test]
fn random_statements_never_panic_and_split_identically() {
    let alphabet: Vec<char> = "ab;'\"$\\-/*(){}E&U \n{{name}}é[,]1_".chars().collect();
    let mut state = 0x9e37_79b9_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..(state >> 60) + 12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push(alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]);
        }
        let Ok(statements) = filled(&text, &VALUES) else { continue };
        // A single word may be base64 of another text.
        for statement in statements
            .into_iter()
            .filter(|statement| split::texts(statement) == [statement.as_str()])
        {
            assert_eq!(split(&statement), std::slice::from_ref(&statement), "{text:?}");
        }
    }
}
