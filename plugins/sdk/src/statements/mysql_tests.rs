//! The MySQL lexer as a table: single statements, and values that must not become SQL.

use super::*;

fn filled(text: &str, username: &str, password: &str) -> Result<Vec<String>, LexFault> {
    let values = PlaceholderValues {
        username,
        password: Some(password),
        subject: Some("/CN=a'b"),
        expiration: Some(0),
    };
    let prepared =
        prepare(SqlDialect::Mysql, &[text.to_owned()], &values).map_err(|error| error.fault)?;
    Ok(prepared.into_iter().map(|prepared| prepared.statement.text).collect())
}

#[test]
fn semicolon_cuts_only_where_server_ends_statement() {
    for (text, expected) in [
        ("SELECT 'a;b'; SELECT \"c;d\"", &["SELECT 'a;b'", "SELECT \"c;d\""][..]),
        (r"SELECT 'a\';b'; x", &[r"SELECT 'a\';b'", "x"]),
        (r"SELECT `a\`; x", &[r"SELECT `a\`", "x"]),
        ("SELECT `a``;b`", &["SELECT `a``;b`"]),
        ("SELECT 1--1; x", &["SELECT 1--1", "x"]),
        ("a -- b; c\nd; e # f; g\nh", &["a \nd", "e \nh"]),
        ("a /* ; /* */ b; c", &["a   b", "c"]),
        ("a /*!50700 ; */ b", &["a /*!50700 ; */ b"]),
        ("SELECT $$;$$", &["SELECT $$", "$$"]),
        (" ; ; ", &[]),
    ] {
        let found = filled(text, "u", "p").unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn values_stay_quoted_under_every_backslash_reading() {
    let hostile = r#"\' ` " '; DROP USER root; -- "#;
    for (text, expected) in [
        ("x '{{password}}'", r#"x '\\'' ` " ''; DROP USER root; -- '"#),
        ("x \"{{password}}\"", r#"x "\\' ` "" '; DROP USER root; -- ""#),
        ("x `{{password}}`", r#"x `\' `` " '; DROP USER root; -- `"#),
    ] {
        assert_eq!(filled(text, "u", hostile), Ok(vec![expected.to_owned()]), "{text}");
    }
    for text in
        ["x {{password}}", "x N'{{password}}'", "x /*! {{password}} */", "# {{password}}\nx"]
    {
        let done = filled(text, "u", hostile);
        let left_out =
            done.as_ref().is_ok_and(|texts| texts.iter().all(|text| !text.contains("DROP")));
        assert!(done.is_err() || left_out, "{text}: {done:?}");
    }
    assert_eq!(filled("x {{name}}", "v-a", "p"), Ok(vec!["x v-a".to_owned()]));
    assert!(filled("EXECUTE IMMEDIATE 'DROP USER `{{name}}`'", "a`b", "p").is_err());
    assert_eq!(filled("x '{{subject}}'", "u", "p"), Ok(vec!["x '/CN=a''b'".to_owned()]));
}

#[test]
fn placeholder_inside_value_is_not_replaced() {
    assert_eq!(
        filled("x '{{password}}' '{{name}}'", "u", "{{name}}"),
        Ok(vec!["x '{{name}}' 'u'".to_owned()])
    );
}

#[test]
fn unfinished_statements_are_refused() {
    for (text, fault) in [
        ("x 'y", LexFault::UnclosedString),
        (r"x 'y\'", LexFault::UnclosedString),
        ("x \"y", LexFault::UnclosedDoubleQuote),
        ("x `y", LexFault::UnclosedBackquote),
        ("x /* y", LexFault::UnclosedComment),
        (r"x \G", LexFault::ClientCommand),
        ("START TRANSACTION", LexFault::TransactionControl),
        ("x\0", LexFault::Nul),
    ] {
        assert_eq!(filled(text, "u", "p"), Err(fault), "{text}");
    }
}
