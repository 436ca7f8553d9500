//! Tests of grants: allowed and refused acts, and the texts of refusals.

mod trace_context;

use super::*;
use bulkhead_outbound::addresses::{AddressRefusal, ServerHost};
use std::net::{IpAddr, Ipv4Addr};

const DB: SqlTarget<'static> = SqlTarget { driver: "postgres", host: "db.example", port: 5432 };
const LINE: &str = "sql:postgres://db.example:5432";

fn asks(lines: &[&str]) -> Vec<GrantPattern> {
    lines.iter().map(|line| line.parse().unwrap()).collect()
}

fn lines(lines: &[&str]) -> Vec<Grant> {
    lines.iter().map(|line| line.parse().unwrap()).collect()
}

/// Returns the grants of a mount of the database engine.
fn mount(maker: Publisher, granted: Option<&[&str]>) -> Grants {
    let (patterns, granted) = (asks(&["database"]), granted.map(lines));
    Grants::of(&GrantLayers {
        mount: "m/",
        maker,
        asked: &patterns,
        ceiling: None,
        granted: granted.as_deref(),
    })
}

/// Returns the grants of a nested call of the mount for the connection to `DB`.
fn nested(maker: Publisher, granted: Option<&[&str]>) -> Grants {
    below(maker, None, granted)
}

/// Returns the grants of a nested call if `ceiling` is the ceiling of the database plugin.
fn below(maker: Publisher, ceiling: Option<&[GrantPattern]>, granted: Option<&[&str]>) -> Grants {
    let dials = DialingPlugin { maker: Publisher::Official, asks: &["sql".to_owned()], ceiling };
    mount(maker, granted).for_connection(&dials, &["postgres://db.example:5432".into()])
}

fn dials(grants: &Grants, host: &str) -> Result<AllowedAddresses, String> {
    let own: Arc<[SocketAddr]> = Arc::new([]);
    grants.reach_of(SqlTarget { host, ..DB }, &own).map_err(|refused| refused.message)
}

#[test]
fn allowed_act_needs_request_ceiling_and_grant() {
    for layers in 0..8 {
        let has = |bit: u32| layers & (1 << bit) != 0;
        let line = |is: bool| if is { vec!["database:orders"] } else { vec!["database:other"] };
        let (patterns, ceiling, granted) =
            (asks(&line(has(0))), asks(&line(has(1))), lines(&line(has(2))));
        let rights = GrantLayers {
            mount: "m/",
            maker: Publisher::Uploaded,
            asked: &patterns,
            ceiling: Some(&ceiling),
            granted: Some(&granted),
        };
        let allowed = Grants::of(&rights).check_act(&Act::Database("orders"));
        let refusal = match (has(0), has(1), has(2)) {
            (true, true, true) => {
                assert_eq!(allowed, Ok(()));
                continue;
            }
            (false, ..) => "does not ask for database:orders",
            (_, false, _) => "the catalog's entry",
            (_, _, false) => "to allow it: bulkhead secrets tune --grant 'database:orders' m/",
        };
        let message = allowed.unwrap_err().message;
        assert!(message.contains(refusal), "{layers}: {message}");
    }
}

#[test]
fn database_plugin_target_needs_request_ceiling_and_grant() {
    for layers in 0..8 {
        let has = |bit: u32| layers & (1 << bit) != 0;
        let line = |is: bool| if is { LINE } else { "sql:postgres://other.example:5432" };
        let (patterns, ceiling) = ([line(has(0)).to_owned()], asks(&[line(has(1))]));
        let dials =
            DialingPlugin { maker: Publisher::Uploaded, asks: &patterns, ceiling: Some(&ceiling) };
        let granted = mount(Publisher::Official, Some(&[line(has(2))])).for_connection(&dials, &[]);
        let refusal = match (has(0), has(1), has(2)) {
            (true, true, true) => {
                assert!(self::dials(&granted, "db.example").is_ok());
                continue;
            }
            (false, ..) => "does not ask for sql:postgres://db.example:5432",
            (_, false, _) => "bulkhead plugin register --grant 'sql:postgres://db.example:5432'",
            (_, _, false) => {
                "to allow it: bulkhead secrets tune --grant 'sql:postgres://db.example:5432' m/"
            }
        };
        let message = self::dials(&granted, "db.example").unwrap_err();
        assert!(message.contains(refusal), "{layers}: {message}");
    }
}

#[test]
fn private_address_needs_mount_grant_and_ceiling() {
    let ceiling = asks(&["sql", "address:10.0.0.0/16"]);
    let grants = below(
        Publisher::Uploaded,
        Some(&ceiling),
        Some(&[LINE, "address:10.0.0.0/8", "address:10.9.0.0/16"]),
    );
    let reach = dials(&grants, "db.example").unwrap();
    assert!(reach.check_address("10.0.1.2:5432".parse().unwrap()).is_ok());
    assert!(reach.check_address("10.9.1.2:5432".parse().unwrap()).is_err());
    let refusal =
        |address: &str| reach.refusal(address.parse().unwrap(), "a private address").message;
    assert!(
        refusal("10.9.1.2").ends_with("bulkhead plugin register --grant 'address:10.9.1.2/32'")
    );
    let bare = below(Publisher::Uploaded, Some(&ceiling), Some(&[LINE]));
    let reach = dials(&bare, "db.example").unwrap();
    let refused = reach.refusal("10.0.1.2".parse().unwrap(), "a private address").message;
    assert!(refused.ends_with("tune --grant 'address:10.0.1.2/32' m/"), "{refused}");
}

#[test]
fn third_party_mount_reaches_only_granted_lines() {
    let none = mount(Publisher::Uploaded, None).check_act(&Act::Database("postgresql"));
    assert!(
        none.unwrap_err()
            .message
            .ends_with("bulkhead secrets tune --grant 'database:postgresql' m/")
    );
    let refused = dials(&nested(Publisher::Uploaded, None), "db.example").unwrap_err();
    assert!(
        refused.ends_with(&format!("to allow it: bulkhead secrets tune --grant '{LINE}' m/")),
        "{refused}"
    );
    let granted = nested(Publisher::Uploaded, Some(&[LINE]));
    assert!(
        !dials(&granted, "DB.example.").unwrap().everything,
        "private addresses need a separate line"
    );
    assert!(dials(&granted, "other.example").is_err());
}

#[test]
fn official_mount_dials_configured_targets_only() {
    let grants = nested(Publisher::Official, None);
    assert!(dials(&grants, "db.example").unwrap().everything);
    assert!(
        dials(&grants, "other.example")
            .unwrap_err()
            .contains("'sql:postgres://other.example:5432' m/")
    );
    assert!(grants.check_act(&Act::Sql(SqlTarget { port: 5433, ..DB })).is_err());
    let brought =
        DialingPlugin { maker: Publisher::Uploaded, asks: &["sql".to_owned()], ceiling: None };
    let brought = mount(Publisher::Official, None)
        .for_connection(&brought, &["postgres://db.example:5432".into()]);
    assert!(dials(&brought, "db.example").is_err(), "an uploaded plugin names its own targets");
}

#[test]
fn mount_grants_restrict_configurable_targets() {
    let elsewhere =
        nested(Publisher::Official, Some(&["database:*", "sql:postgres://10.0.0.0/8:5432"]));
    assert!(dials(&elsewhere, "db.example").is_err());
    let reach = dials(&elsewhere, "10.1.2.3").unwrap();
    assert!(!reach.everything && reach.check_address("10.9.9.9:5432".parse().unwrap()).is_ok());
    assert!(dials(&elsewhere, "11.1.2.3").is_err());
    assert!(
        mount(Publisher::Official, Some(&[])).check_act(&Act::Database("x")).is_err(),
        "an empty list grants nothing"
    );
}

fn origin(text: &str) -> Origin {
    bulkhead_outbound::http::parse_url(text).unwrap().0
}

const DIRECTORY: LdapServer = LdapServer {
    tls: true,
    host: ServerHost::Address(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3))),
    port: 636,
};

/// Returns the grants of a mount whose engine asks for these lines.
fn asking(maker: Publisher, patterns: &[&str], granted: Option<&[&str]>) -> Grants {
    let (patterns, granted) = (asks(patterns), granted.map(lines));
    Grants::of(&GrantLayers {
        mount: "m/",
        maker,
        asked: &patterns,
        ceiling: None,
        granted: granted.as_deref(),
    })
}

#[test]
fn http_grant_covers_exact_origin_or_subdomains() {
    let granted = [
        "http:https://login.example.com",
        "http:https://*.corp.example:8443",
        "http:http://10.0.0.0/8",
    ];
    let grants = asking(Publisher::Uploaded, &["http"], Some(&granted));
    for (text, allowed) in [
        ("https://LOGIN.example.com./a", true),
        ("https://login.example.com:8443", false),
        ("http://login.example.com:443", false),
        ("https://evil-login.example.com", false),
        ("https://a.b.corp.example:8443", true),
        ("https://corp.example:8443", false),
        ("http://10.9.8.7", true),
        ("http://11.0.0.1", false),
    ] {
        assert_eq!(grants.check_act(&Act::Http(&origin(text))).is_ok(), allowed, "{text}");
    }
    let own: Arc<[SocketAddr]> = Arc::new([]);
    let reach = grants.reach_of_origin(&origin("http://10.9.8.7"), &own).unwrap();
    assert!(reach.check_address("10.9.8.7:80".parse().unwrap()).is_ok(), "the address is granted");
    let reach = grants.reach_of_origin(&origin("https://login.example.com"), &own).unwrap();
    assert!(
        reach.check_address("10.9.8.7:443".parse().unwrap()).is_err(),
        "a name leads to no private address by itself"
    );
    let refused =
        grants.check_act(&Act::Http(&origin("https://other.example"))).unwrap_err().message;
    assert!(
        refused.ends_with("bulkhead secrets tune --grant 'http:https://other.example:443' m/"),
        "{refused}"
    );
}

#[test]
fn official_mount_has_requested_origins_until_narrowed() {
    let login = origin("https://login.example.com");
    let patterns = ["http:https://*.example.com"];
    assert!(asking(Publisher::Official, &patterns, None).check_act(&Act::Http(&login)).is_ok());
    assert!(
        asking(Publisher::Official, &patterns, Some(&[])).check_act(&Act::Http(&login)).is_err(),
        "the grants of the mount are empty"
    );
    assert!(asking(Publisher::Official, &["http"], None).check_act(&Act::Http(&login)).is_ok());
    let narrowed = Some(&["http:https://other.example"][..]);
    assert!(
        asking(Publisher::Official, &["http"], narrowed).check_act(&Act::Http(&login)).is_err()
    );
    assert!(asking(Publisher::Uploaded, &patterns, None).check_act(&Act::Http(&login)).is_err());
    assert!(asking(Publisher::Uploaded, &["http"], None).check_act(&Act::Http(&login)).is_err());
}

fn reach_of(grants: &Grants, url: &str) -> AllowedAddresses {
    let own: Arc<[SocketAddr]> = Arc::new([([127, 0, 0, 1], 8200).into()]);
    grants.reach_of_origin(&origin(url), &own).unwrap()
}

#[test]
fn untargeted_official_ask_reaches_all_addresses_except_metadata() {
    let mut grant_sets = vec![
        asking(Publisher::Official, &["http"], None),
        asking(Publisher::Official, &["http"], Some(&["http:*"])),
    ];
    for grants in &grant_sets {
        let reach = reach_of(grants, "https://api.example");
        for address in ["192.0.32.1:443", "10.1.2.3:443", "127.0.0.1:443", "[fd00::1]:443"] {
            assert!(reach.check_address(address.parse().unwrap()).is_ok(), "{address}");
        }
        for address in
            ["169.254.169.254:443", "[fe80::1]:443", "[fd00:ec2::254]:443", "127.0.0.1:8200"]
        {
            let refused = reach.check_address(address.parse().unwrap());
            assert!(matches!(refused, Err(AddressRefusal::Forbidden(_))), "{address}: {refused:?}");
        }
        assert!(
            grants.check_act(&Act::Ldap(&DIRECTORY)).is_err(),
            "the component did not ask for ldap"
        );
    }
    let narrowed = ["http:https://api.example", "http:https://*.example"];
    grant_sets = vec![
        asking(Publisher::Official, &["http"], Some(&narrowed)),
        asking(Publisher::Official, &["http:https://api.example"], None),
        asking(Publisher::Uploaded, &["http"], Some(&["http:*"])),
    ];
    for grants in &grant_sets {
        let refused =
            reach_of(grants, "https://api.example").check_address("10.1.2.3:443".parse().unwrap());
        assert!(
            matches!(refused, Err(AddressRefusal::Ungranted(..))),
            "a name is not a private address"
        );
    }
    let directory = asking(Publisher::Official, &["ldap"], None);
    let own: Arc<[SocketAddr]> = Arc::new([]);
    let reach = directory.reach_of_directory(&DIRECTORY, &own).unwrap();
    assert!(reach.check_address("10.1.2.3:636".parse().unwrap()).is_ok());
}

#[test]
fn host_names_resolve_within_granted_address_ranges_only() {
    let grants = nested(Publisher::Uploaded, Some(&[LINE, "address:10.0.0.0/8"]));
    let reach = dials(&grants, "db.example").unwrap();
    assert!(reach.check_address("10.1.2.3:5432".parse().unwrap()).is_ok());
    assert!(reach.check_address("192.168.0.1:5432".parse().unwrap()).is_err());
    let refused = reach.refusal("192.168.0.1".parse().unwrap(), "a private address").message;
    assert!(refused.ends_with("tune --grant 'address:192.168.0.1/32' m/"), "{refused}");
}

#[test]
fn only_purpose_of_component_needs_no_grant() {
    let (engine, plugin) = (mount(Publisher::Uploaded, None), nested(Publisher::Uploaded, None));
    let none = Grants::none("being described");
    let login = origin("https://login.example.com");
    for (act, of_an_engine, of_a_plugin) in [
        (Act::Storage, true, false),
        (Act::Leases, true, false),
        (Act::Timers, true, false),
        (Act::Passwords, true, false),
        (Act::Close, true, false),
        (Act::Cache, true, false),
        (Act::Metrics, true, false),
        (Act::Time, true, true),
        (Act::Random, true, true),
        (Act::Derive, true, true),
        (Act::Log, true, true),
        (Act::Database("x"), false, false),
        (Act::Sql(DB), false, false),
        (Act::Http(&login), false, false),
    ] {
        assert_eq!(engine.check_act(&act).is_ok(), of_an_engine, "{act:?}");
        assert_eq!(plugin.check_act(&act).is_ok(), of_a_plugin, "{act:?}");
        assert!(
            none.check_act(&act).unwrap_err().message.contains("describe must be pure"),
            "{act:?}"
        );
    }
    assert!(
        mount(Publisher::Official, None).check_act(&Act::Sql(DB)).is_err(),
        "an engine dials nothing itself"
    );
    assert!(
        nested(Publisher::Official, None).check_act(&Act::Database("x")).is_err(),
        "a database plugin may not call another plugin"
    );
}

#[test]
fn auth_method_is_granted_by_own_command() {
    let line = &lines(&["database:orders"])[0];
    let commands = ["auth/pods/", "pods/"].map(|mount| refusal::command(mount, line));
    assert_eq!(commands[0], "bulkhead auth tune --grant 'database:orders' pods/");
    assert_eq!(commands[1], "bulkhead secrets tune --grant 'database:orders' pods/");
}

#[test]
fn a_hostile_name_never_stands_in_a_command() {
    for name in ["x'; rm -rf ~; '", "$(id)", "", "*", "a b"] {
        let refused = mount(Publisher::Uploaded, Some(&[]))
            .check_act(&Act::Database(name))
            .unwrap_err()
            .message;
        assert!(!refused.contains("--grant"), "{refused}");
        let host = dials(&nested(Publisher::Uploaded, None), name).unwrap_err();
        assert!(!host.contains("--grant"), "{host}");
    }
    assert_eq!(refusal::in_a_shell("a/b-c_d.e/"), "a/b-c_d.e/");
    assert_eq!(refusal::in_a_shell("it's;x/"), r"'it'\''s;x/'");
}

#[test]
fn seal_reaches_only_origin_of_address() {
    let origin = |tls: bool, host: &str, port: u16| Origin {
        tls,
        host: ServerHost::parse(host).unwrap(),
        port,
    };
    let origins = [origin(true, "vault.example", 8200), origin(true, "login.example", 443)];
    let grants = Grants::for_seal("seal \"transit\"", &origins);
    assert!(grants.check_act(&Act::Http(&origins[1])).is_ok());
    let own: Arc<[SocketAddr]> = Arc::new([]);
    let reach = grants.reach_of_origin(&origin(true, "vault.example", 8200), &own).unwrap();
    let private = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 7), 8200));
    assert!(reach.check_address(private).is_ok(), "the operator names the server");
    let metadata = SocketAddr::from((Ipv4Addr::new(169, 254, 169, 254), 80));
    assert!(reach.check_address(metadata).is_err());
    for other in [
        origin(false, "vault.example", 8200),
        origin(true, "vault.example", 443),
        origin(true, "evil.example", 8200),
    ] {
        let refused = grants.reach_of_origin(&other, &own).unwrap_err().message;
        assert!(refused.contains("seal \"transit\" may not reach"), "{refused}");
    }
    assert!(grants.reach_of_pod(&own).is_err());
    assert!(grants.check_act(&Act::Log).is_ok() && grants.check_act(&Act::Time).is_ok());
    assert!(grants.check_act(&Act::Crypto(CryptoVerb::Sign)).is_ok());
    let generates = Act::Crypto(CryptoVerb::GenerateKey);
    for act in [generates, Act::Storage, Act::Timers, Act::Random, Act::Sql(DB), Act::IdentityToken]
    {
        assert!(grants.check_act(&act).is_err(), "{act:?}");
    }
    assert!(grants.command(&LINE.parse().unwrap()).is_none());
}
