//! Tests of parsing and printing lines.

use super::*;
use crate::grants::GrantPattern;

fn grant(text: &str) -> Grant {
    text.parse().unwrap()
}

#[test]
fn every_documented_grant_form_prints_as_written() {
    for text in [
        "http:https://login.example.com:443",
        "http:https://*.example.com:443",
        "sql:postgres://10.1.0.0/16:5432",
        "sql:postgres://[fd00::/8]:5432",
        "sql:postgres://db.example:6432",
        "sql:mysql://db.example:3307",
        "sql:postgres://[::1]:5432",
        "ldap:ldaps://dc1.corp.example:636",
        "http:*",
        "ldap:*",
        "address:10.0.0.0/8",
        "address:127.0.0.0/8",
        "address:fd00::/8",
        "ambient:env/CLOUDA_TENANT_ID",
        "ambient:cloud-token",
        "ambient:pod-identity",
        "crypto:sign",
        "crypto:issue-certificate",
        "crypto:generate-key",
        "database:*",
        "database:postgresql-database-plugin",
        "trace:https://api.example.com:443",
        "trace:*",
        "limit:memory=64MiB",
        "limit:deadline=30s",
        "limit:http-calls=20",
        "limit:storage=16MiB",
        "limit:rate=200/s",
    ] {
        assert_eq!(grant(text).to_string(), text);
    }
}

#[test]
fn grants_fill_missing_parts_and_unify_spellings() {
    for (written, canonical) in [
        ("http:https://Login.Example.com.", "http:https://login.example.com:443"),
        ("http:http://2130706433", "http:http://127.0.0.1:80"),
        ("sql:postgres://db", "sql:postgres://db:5432"),
        ("sql:mysql://db", "sql:mysql://db:3306"),
        ("sql:postgres://[::ffff:10.0.0.1]:5432", "sql:postgres://10.0.0.1:5432"),
        ("ldap:ldap://dc1", "ldap:ldap://dc1:389"),
        ("ldap:ldaps://dc1", "ldap:ldaps://dc1:636"),
        ("address:10.1.2.3/8", "address:10.0.0.0/8"),
        ("address:10.1.2.3", "address:10.1.2.3/32"),
        ("limit:memory=65536KiB", "limit:memory=64MiB"),
        ("limit:deadline=90", "limit:deadline=1m30s"),
    ] {
        assert_eq!(grant(written).to_string(), canonical, "{written}");
        assert_eq!(grant(canonical), grant(written));
    }
}

#[test]
fn invalid_grant_refusal_shows_line_and_correct_form() {
    let long = format!("database:{}", "x".repeat(600));
    for (text, says) in [
        ("htps:https://a", "there is no act \"htps\"; did you mean \"http\"?"),
        ("sql", "the target is missing"),
        ("", "sql:postgres://"),
        ("sql:postgres//a", "has no scheme"),
        ("sql:mssql://a", "there is no scheme \"mssql\"; did you mean \"mysql\"?"),
        ("http:ftp://a", "\"ftp\""),
        ("sql:postgres://", "not a host"),
        ("sql:postgres://*:5432", "*.example.com"),
        ("sql:*", "has no scheme"),
        ("http:https://*", "*.example.com"),
        ("sql:postgres://a'b:5432", "not a host"),
        ("sql:postgres://::1:5432", "brackets"),
        ("sql:postgres://a:0", "1 to 65535"),
        ("sql:postgres://a:+5", "1 to 65535"),
        ("sql:postgres://a:99999", "1 to 65535"),
        ("sql:postgres://[::1]5432x", "1 to 65535"),
        ("http:https://a:443/path", "1 to 65535"),
        ("http:https://user@a", "not a host"),
        ("address:db.example", "10.0.0.0/8"),
        ("address:10.0.0.0/33", "10.0.0.0/8"),
        ("address:169.254.169.254", "link-local"),
        ("address:169.254.0.0/16", "no grant opens"),
        ("address:fe80::/64", "no grant opens"),
        ("address:224.0.0.0/8", "multicast"),
        ("ambient:env/", "env/NAME"),
        ("ambient:env/A;B", "env/NAME"),
        ("ambient:env/VAULT_TOKEN", "the server's own"),
        ("ambient:env/bulkhead_token", "the server's own"),
        ("ambient:env/BAO_ADDR", "the server's own"),
        ("ambient:environment", "cloud-token and pod-identity"),
        ("crypto:sing", "did you mean \"sign\"?"),
        ("database:$(id)", "not a name of a database plugin"),
        (long.as_str(), "512 bytes"),
    ] {
        let why = text.parse::<Grant>().unwrap_err();
        assert!(why.starts_with(&quoted(text)) && why.contains(says), "{why}");
    }
}

/// Parses random lines built from parts of real lines, so that random input reaches every parser.
#[test]
fn every_parsed_grant_round_trips_through_text() {
    const PARTS: [&str; 34] = [
        "http", "https", "sql", "postgres", "ldap", "ldaps", "address", "database", "limit",
        "ambient", "crypto", ":", "://", "*.", "*", "/", "[", "]", "::1", "fd00::", "10.1.2.3",
        "0x7f.1", "Ex.ample", "xn--a", "16", "5432", "memory=", "rate=", "1", "MiB", "/s", "env/",
        "sign", "'",
    ];
    let (mut seed, mut read) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let mut next = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap() % bound
    };
    let starts = [
        "http:https://",
        "sql:postgres://",
        "ldap:ldap://",
        "address:",
        "limit:",
        "database:",
        "ambient:",
        "",
    ];
    for _ in 0..200_000 {
        let mut text = starts.get(next(starts.len())).copied().unwrap_or_default().to_owned();
        for _ in 0..=next(4) {
            text.push_str(PARTS.get(next(PARTS.len())).copied().unwrap_or_default());
        }
        let Ok(grant) = text.parse::<Grant>() else { continue };
        read += 1;
        let printed = grant.to_string();
        assert_eq!(
            printed.parse::<Grant>().as_ref(),
            Ok(&grant),
            "{text} was printed as {printed}"
        );
        assert_eq!(printed.parse::<Grant>().unwrap().to_string(), printed);
        assert!(!printed.contains('\''), "{printed} cannot stand in a command");
    }
    assert!(read > 5_000, "only {read} lines were grants");
}

#[test]
fn stored_grants_are_their_lines() {
    let lines = ["sql:postgres://db:5432", "limit:memory=64MiB"].map(grant);
    let stored = serde_json::to_string(&lines).unwrap();
    assert_eq!(stored, r#"["sql:postgres://db:5432","limit:memory=64MiB"]"#);
    assert_eq!(serde_json::from_str::<Vec<Grant>>(&stored).unwrap(), lines);
    assert!(serde_json::from_str::<Grant>("\"sql\"").is_err());
}

#[test]
fn only_an_ask_may_leave_its_target_open() {
    for word in ["http", "sql", "ldap", "database"] {
        assert_eq!(word.parse::<GrantPattern>().unwrap().to_string(), word);
        assert!(word.parse::<GrantPattern>().is_ok() && word.parse::<Grant>().is_err(), "{word}");
    }
    for word in ["address", "limit", "crypto", "ambient", "x"] {
        assert!(word.parse::<GrantPattern>().is_err(), "{word}");
    }
    assert!("sql".parse::<GrantPattern>().unwrap().covers(&grant("sql:postgres://db:5432")));
    assert!(!"sql".parse::<GrantPattern>().unwrap().covers(&grant("database:x")));
}
