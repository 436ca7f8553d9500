//! A grant as a line: what operators write, components ask for and refusals print.
//!
//! Each has one canonical text: hosts in their one spelling, the port always, ranges without the
//! bits behind their prefix. Reading what was printed gives the same grant, so that a printed
//! remedy can be typed as it stands.

use super::host::{Endpoint, Host, HostPattern, network};
use crate::address;
use crate::limits::LimitLine;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::name::is_name;
use bulkhead_wire::spelling;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most bytes of a line.
const LONGEST: usize = 512;

/// One act that a mount's plugin may do, with its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    /// Requests to one origin, or to those below a domain.
    Http {
        /// With TLS.
        tls: bool,
        /// Where.
        host: HostPattern,
        /// Its port.
        port: u16,
    },
    /// Sessions with a database server.
    Sql {
        /// What kind of server.
        driver: Driver,
        /// Where.
        host: HostPattern,
        /// Its port.
        port: u16,
    },
    /// Sessions with a directory.
    Ldap {
        /// With TLS.
        tls: bool,
        /// Where.
        host: HostPattern,
        /// Its port.
        port: u16,
    },
    /// Private or loopback addresses that names may resolve to.
    Address(IpNet),
    /// A value that the process has from its surroundings.
    Ambient(Ambient),
    /// Work with keys that the host keeps.
    Crypto(CryptoVerb),
    /// Database plugins that an engine may reach.
    Database(DatabasePlugins),
    /// A limit other than the default.
    Limit(LimitLine),
}

/// A kind of SQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// PostgreSQL.
    Postgres,
}

/// What the process has from its surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ambient {
    /// One value of its environment.
    Environment(String),
    /// The token of the machine's cloud identity.
    CloudToken,
    /// The token of the pod that it runs in.
    PodIdentity,
}

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptoVerb {
    /// Signing.
    Sign,
    /// Signing a certificate.
    IssueCertificate,
    /// Making a key.
    GenerateKey,
}

/// Database plugins by the name under which connections ask for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabasePlugins {
    /// All: `*`.
    Any,
    /// That one.
    Named(String),
}

const ACTS: [&str; 8] =
    ["http", "sql", "ldap", "address", "ambient", "crypto", "database", "limit"];

const NO_LDAP: &str = "this version has no import for ldap";

const VERBS: [(CryptoVerb, &str); 3] = [
    (CryptoVerb::Sign, "sign"),
    (CryptoVerb::IssueCertificate, "issue-certificate"),
    (CryptoVerb::GenerateKey, "generate-key"),
];

impl Grant {
    /// Why it does nothing in this version, for whoever stores it.
    #[must_use]
    pub fn without_effect(&self) -> Option<&'static str> {
        match self {
            Self::Ldap { .. } => Some(NO_LDAP),
            Self::Ambient(_) => Some("this version has no import for ambient values"),
            Self::Crypto(_) => Some("this version has no import for keys of the host"),
            Self::Http { .. }
            | Self::Sql { .. }
            | Self::Address(_)
            | Self::Database(_)
            | Self::Limit(_) => None,
        }
    }

    /// Whether both set the same limit, so that the later takes the place of the earlier.
    #[must_use]
    pub fn is_of_same_limit(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Limit(one), Self::Limit(other)) if one.is_of_same_limit(other))
    }

    /// Whether it is for that target, which is written as the grant for this target alone.
    pub(super) fn covers(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (
                Self::Sql { driver, host, port },
                Self::Sql { driver: wanted, host: target, port: at },
            ) => {
                driver == wanted
                    && port == at
                    && target.single().is_some_and(|target| host.covers(&target))
            }
            (
                Self::Http { tls, host, port },
                Self::Http { tls: wanted, host: target, port: at },
            ) => {
                tls == wanted
                    && port == at
                    && target.single().is_some_and(|target| host.covers(&target))
            }
            (Self::Database(DatabasePlugins::Any), Self::Database(_)) => true,
            _ => self == wanted,
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let Some((act, target)) = text.split_once(':') else {
            let hint = if ACTS.contains(&text) {
                "; it names no target".to_owned()
            } else {
                spelling::hint(text, &ACTS)
            };
            return Err(format!(
                "it is no act and its target, such as sql:postgres://10.1.0.0/16:5432{hint}"
            ));
        };
        match act {
            "http" => schemed(target, ["http", "https"], [80, 443])
                .map(|(tls, host, port)| Self::Http { tls: tls == 1, host, port }),
            "ldap" => schemed(target, ["ldap", "ldaps"], [389, 636])
                .map(|(tls, host, port)| Self::Ldap { tls: tls == 1, host, port }),
            "sql" => schemed(target, [Driver::Postgres.word()], [Driver::Postgres.port()])
                .map(|(_, host, port)| Self::Sql { driver: Driver::Postgres, host, port }),
            "address" => read_range(target).map(Self::Address),
            "ambient" => Ambient::read(target).map(Self::Ambient),
            "crypto" => read_verb(target).map(Self::Crypto),
            "database" => DatabasePlugins::read(target).map(Self::Database),
            "limit" => LimitLine::parse(target).map(Self::Limit),
            other => {
                Err(format!("there is no act {}{}", quoted(other), spelling::hint(other, &ACTS)))
            }
        }
    }
}

impl HostPattern {
    /// The one host that it is for.
    fn single(&self) -> Option<Host> {
        match self {
            Self::Name(name) => Some(Host::Name(name.clone())),
            Self::Network(one) if one.prefix_len() == one.max_prefix_len() => {
                Some(Host::Address(one.addr()))
            }
            Self::Below(_) | Self::Network(_) => None,
        }
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!(
                "{} is not a grant: a line has at most {LONGEST} bytes",
                quoted(text)
            ));
        }
        Self::read(text).map_err(|why| format!("{} is not a grant: {why}", quoted(text)))
    }
}

impl TryFrom<String> for Grant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { tls, host, port } => {
                write!(f, "http:http{}://{host}:{port}", if *tls { "s" } else { "" })
            }
            Self::Sql { driver, host, port } => write!(f, "sql:{}://{host}:{port}", driver.word()),
            Self::Ldap { tls, host, port } => {
                write!(f, "ldap:ldap{}://{host}:{port}", if *tls { "s" } else { "" })
            }
            Self::Address(range) => write!(f, "address:{range}"),
            Self::Ambient(Ambient::Environment(name)) => write!(f, "ambient:env/{name}"),
            Self::Ambient(Ambient::CloudToken) => f.write_str("ambient:cloud-token"),
            Self::Ambient(Ambient::PodIdentity) => f.write_str("ambient:pod-identity"),
            Self::Crypto(verb) => {
                let named = VERBS.iter().find(|(known, _)| known == verb);
                write!(f, "crypto:{}", named.map_or("", |(_, word)| word))
            }
            Self::Database(DatabasePlugins::Any) => f.write_str("database:*"),
            Self::Database(DatabasePlugins::Named(name)) => write!(f, "database:{name}"),
            Self::Limit(line) => write!(f, "limit:{line}"),
        }
    }
}

impl Driver {
    /// The word of `sql` lines and of the `sql` import.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
        }
    }
}

/// `scheme://host:port` with one of the schemes, which is told by its place; its port where none is
/// written.
fn schemed<const N: usize>(
    text: &str,
    schemes: [&str; N],
    ports: [u16; N],
) -> Result<(usize, HostPattern, u16), String> {
    let endpoint = Endpoint::parse(text)?;
    let known =
        schemes.iter().zip(ports).enumerate().find(|(_, (scheme, _))| **scheme == endpoint.scheme);
    let Some((place, (_, port))) = known else {
        let scheme = endpoint.scheme;
        return Err(format!(
            "there is no scheme {}{}",
            quoted(scheme),
            spelling::hint(scheme, &schemes)
        ));
    };
    Ok((place, endpoint.host, endpoint.port.unwrap_or(port)))
}

fn read_range(text: &str) -> Result<IpNet, String> {
    let range = network(text).ok_or_else(|| {
        format!("{} is no range of addresses: give one such as 10.0.0.0/8", quoted(text))
    })?;
    match address::forbidden_range(&range) {
        Some(why) => Err(format!("{range} is {why}, which no grant opens; leave it out")),
        None => Ok(range),
    }
}

fn read_verb(text: &str) -> Result<CryptoVerb, String> {
    let found = VERBS.iter().find(|(_, word)| *word == text).map(|(verb, _)| *verb);
    let words = VERBS.map(|(_, word)| word);
    found.ok_or_else(|| format!("crypto has no {}{}", quoted(text), spelling::hint(text, &words)))
}

impl Ambient {
    fn read(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("env/")) {
            ("cloud-token", _) => Ok(Self::CloudToken),
            ("pod-identity", _) => Ok(Self::PodIdentity),
            (_, Some(name)) if is_name(name) => Ok(Self::Environment(name.to_owned())),
            _ => Err(format!("{} is none of env/NAME, cloud-token and pod-identity", quoted(text))),
        }
    }
}

impl DatabasePlugins {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "*" => Ok(Self::Any),
            name if is_name(name) => Ok(Self::Named(name.to_owned())),
            other => {
                Err(format!("{} is no name of a database plugin, and not * for all", quoted(other)))
            }
        }
    }
}

/// What a component asks for, or what its entry in the catalog allows at most: a grant, or an act
/// whatever its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Ask {
    /// Any target of that act.
    Any(AnyTarget),
    /// That grant.
    Of(Grant),
}

/// An act that may be asked for without a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyTarget {
    /// `http`.
    Http,
    /// `sql`.
    Sql,
    /// `ldap`.
    Ldap,
    /// `database`.
    Database,
}

const TARGETLESS: [(AnyTarget, &str); 4] = [
    (AnyTarget::Http, "http"),
    (AnyTarget::Sql, "sql"),
    (AnyTarget::Ldap, "ldap"),
    (AnyTarget::Database, "database"),
];

impl Ask {
    /// The grant, where it has a target.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Of(grant) => Some(grant),
            Self::Any(_) => None,
        }
    }

    /// Whether that target is among what it is for.
    pub(super) fn covers(&self, wanted: &Grant) -> bool {
        match self {
            Self::Of(grant) => grant.covers(wanted),
            Self::Any(act) => matches!(
                (act, wanted),
                (AnyTarget::Http, Grant::Http { .. })
                    | (AnyTarget::Sql, Grant::Sql { .. })
                    | (AnyTarget::Ldap, Grant::Ldap { .. })
                    | (AnyTarget::Database, Grant::Database(_))
            ),
        }
    }

    /// What a mount that says nothing of its own is granted of it, as a line. An act without a
    /// target has none but for `database`.
    #[must_use]
    pub fn as_grant(&self) -> Option<Grant> {
        match self {
            Self::Of(grant) => Some(grant.clone()),
            Self::Any(AnyTarget::Database) => Some(Grant::Database(DatabasePlugins::Any)),
            Self::Any(_) => None,
        }
    }
}

impl Ask {
    /// Why it gives nothing in this version, for whoever registers the component that asks for it.
    #[must_use]
    pub fn without_effect(&self) -> Option<&'static str> {
        match self {
            Self::Any(AnyTarget::Ldap) => Some(NO_LDAP),
            Self::Any(AnyTarget::Http | AnyTarget::Sql | AnyTarget::Database) => None,
            Self::Of(grant) => grant.without_effect(),
        }
    }
}

impl TryFrom<String> for Ask {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Ask> for String {
    fn from(ask: Ask) -> Self {
        ask.to_string()
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(act) => {
                let named = TARGETLESS.iter().find(|(known, _)| known == act);
                f.write_str(named.map_or("", |(_, word)| word))
            }
            Self::Of(grant) => grant.fmt(f),
        }
    }
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match TARGETLESS.iter().find(|(_, word)| *word == text) {
            Some((act, _)) => Ok(Self::Any(*act)),
            None => text.parse().map(Self::Of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> Grant {
        text.parse().unwrap()
    }

    #[test]
    fn every_form_of_the_operators_guide_is_printed_as_it_is_written() {
        for text in [
            "http:https://login.example.com:443",
            "http:https://*.example.com:443",
            "sql:postgres://10.1.0.0/16:5432",
            "sql:postgres://[fd00::/8]:5432",
            "sql:postgres://db.example:6432",
            "sql:postgres://[::1]:5432",
            "ldap:ldaps://dc1.corp.example:636",
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
    fn what_is_left_open_is_filled_in_and_spellings_become_one() {
        for (written, canonical) in [
            ("http:https://Login.Example.com.", "http:https://login.example.com:443"),
            ("http:http://2130706433", "http:http://127.0.0.1:80"),
            ("sql:postgres://db", "sql:postgres://db:5432"),
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
    fn what_is_no_grant_is_refused_with_the_line_and_what_to_write() {
        let long = format!("database:{}", "x".repeat(600));
        for (text, says) in [
            ("htps:https://a", "there is no act \"htps\"; did you mean \"http\"?"),
            ("sql", "it names no target"),
            ("", "sql:postgres://"),
            ("sql:postgres//a", "has no scheme"),
            ("sql:mysql://a", "there is no scheme \"mysql\""),
            ("http:ftp://a", "\"ftp\""),
            ("sql:postgres://", "no host"),
            ("sql:postgres://*:5432", "*.example.com"),
            ("sql:postgres://a'b:5432", "no host"),
            ("sql:postgres://::1:5432", "brackets"),
            ("sql:postgres://a:0", "1 to 65535"),
            ("sql:postgres://a:+5", "1 to 65535"),
            ("sql:postgres://a:99999", "1 to 65535"),
            ("sql:postgres://[::1]5432x", "1 to 65535"),
            ("http:https://a:443/path", "1 to 65535"),
            ("http:https://user@a", "no host"),
            ("address:db.example", "10.0.0.0/8"),
            ("address:10.0.0.0/33", "10.0.0.0/8"),
            ("address:169.254.169.254", "link-local"),
            ("address:169.254.0.0/16", "no grant opens"),
            ("address:fe80::/64", "no grant opens"),
            ("address:224.0.0.0/8", "multicast"),
            ("ambient:env/", "env/NAME"),
            ("ambient:env/A;B", "env/NAME"),
            ("crypto:sing", "did you mean \"sign\"?"),
            ("database:$(id)", "no name of a database plugin"),
            (long.as_str(), "512 bytes"),
        ] {
            let why = text.parse::<Grant>().unwrap_err();
            assert!(why.starts_with(&quoted(text)) && why.contains(says), "{why}");
        }
    }

    /// Lines at random from what lines are made of, so that every reader sees what the others
    /// leave.
    #[test]
    fn whatever_is_read_is_read_again_from_what_is_printed() {
        const PARTS: [&str; 34] = [
            "http", "https", "sql", "postgres", "ldap", "ldaps", "address", "database", "limit",
            "ambient", "crypto", ":", "://", "*.", "*", "/", "[", "]", "::1", "fd00::", "10.1.2.3",
            "0x7f.1", "Ex.ample", "xn--a", "16", "5432", "memory=", "rate=", "1", "MiB", "/s",
            "env/", "sign", "'",
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
            assert_eq!(word.parse::<Ask>().unwrap().to_string(), word);
            assert!(word.parse::<Ask>().is_ok() && word.parse::<Grant>().is_err(), "{word}");
        }
        for word in ["address", "limit", "crypto", "ambient", "x"] {
            assert!(word.parse::<Ask>().is_err(), "{word}");
        }
        assert!("sql".parse::<Ask>().unwrap().covers(&grant("sql:postgres://db:5432")));
        assert!(!"sql".parse::<Ask>().unwrap().covers(&grant("database:x")));
    }
}
