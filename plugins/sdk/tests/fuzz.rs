//! Templates of user names and the SQL lexer, given nearly good input at random.

use bulkhead_sdk::database_plugin::{StatementAct, StatementPurpose};
use bulkhead_sdk::statements::{PlaceholderValues, SqlDialect, check, prepare};
use bulkhead_sdk::template::{LONGEST_RESULT, RenderContext, Template, TemplateNames, sanitised};

#[test]
fn templates() {
    let seeds: [&[u8]; 3] = [
        b"{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName | truncate 8) \
          (random 20) (unix_time) | truncate 63 }}",
        b"{{ if .RoleName }}{{ .RoleName | lowercase | replace \".\" \"-\" }}{{ else }}x{{ end }}-\
          {{ uuid }}",
        br#"{{ .DisplayName | sha256 | base64 | uppercase | truncate_sha256 20 }}"#,
    ];
    let words = [
        "{{",
        "}}",
        "{{-",
        "(",
        ")",
        "|",
        "\"",
        "`",
        "random 999999999",
        "{{ if ",
        "{{ end }}",
        ".X",
        "$x",
    ];
    let names = TemplateNames { display_name: "a\"b'c;--\u{e9}", role_name: "R.\0" };
    bulkhead_fuzz::run("templates", &seeds, &words, |bytes| {
        let Ok(template) = Template::parse(&String::from_utf8_lossy(bytes)) else { return };
        let random =
            |length: u32| (0..length.min(4_096)).map(|byte| byte.to_le_bytes()[0]).collect();
        let context = RenderContext { random: &random, now: 1_700_000_000_123 };
        if let Ok(rendered) = template.render(&names, &context) {
            assert!(rendered.len() <= LONGEST_RESULT);
            assert!(
                sanitised(&rendered)
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte))
            );
        }
    });
}

#[test]
fn statements() {
    let seeds: [&[u8]; 4] = [
        b"CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; \
          GRANT x TO \"{{name}}\";",
        b"DO $body$ BEGIN /* a /* b */ */ EXECUTE E'x\\'y' || U&'\\0041'; END $body$; -- \
          end\nSELECT 1",
        b"CREATE USER '{{name}}'@'%' IDENTIFIED BY \"{{password}}\"; GRANT x TO `{{name}}` # end\n",
        br#"["CREATE ROLE \"{{name}}\"", "GRANT a TO \"{{name}}\""]"#,
    ];
    let words = [
        "'",
        "\"",
        "`",
        "#",
        "/*!",
        "$$",
        "$a$",
        "--",
        "/*",
        "*/",
        ";",
        "{{name}}",
        "{{password}}",
        "E'",
        "\\'",
        "{{",
        "\n",
    ];
    // Neither value may be found outside of the quotes that the operator wrote: both are recognised
    // by what they hold.
    let values = PlaceholderValues {
        username: "v-name-1",
        password: Some("p'w\\d"),
        subject: None,
        expiration: Some(1_893_456_000_999),
    };
    let purpose = StatementPurpose {
        act: StatementAct::Creation,
        credential_type: "password".to_owned(),
        passwords: Vec::new(),
    };
    bulkhead_fuzz::run("SQL lexer", &seeds, &words, |bytes| {
        let list = [String::from_utf8_lossy(bytes).into_owned()];
        for dialect in [SqlDialect::Postgres, SqlDialect::Mysql] {
            let checked = check(dialect, &list, &purpose);
            let Ok(prepared) = prepare(dialect, &list, &values) else { continue };
            assert_eq!(checked, Ok(()), "a template that can be filled was accepted");
            assert!(prepared.iter().all(|one| !one.statement.text.trim().is_empty()));
            assert!(prepared.iter().all(|one| !one.statement.text.contains("{{name}}")));
        }
    });
}
