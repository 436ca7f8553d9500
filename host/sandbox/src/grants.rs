//! Grants: one act that a mount's plugin may do, asked in the first line of every import.
//!
//! What is allowed is what the component asks for, its entry in the catalog allows and its mount is
//! granted: all three. A refusal says which of them refused, and prints the line that would allow
//! the act. What a component is for (its own storage, time, randomness) follows from its world and
//! needs no line; a component that is being described has nothing.

pub mod ceiling;
mod host;
mod line;

pub(crate) use host::Host;
pub use host::{HostPattern, Origin};
pub use line::{Ambient, AnyTarget, Ask, CryptoVerb, DatabasePlugins, Driver, Grant};

use crate::address::Reach;
use crate::component::Maker;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::is_name;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// One act of a component, as the first line of an import asks for it.
#[derive(Clone, Copy, Debug)]
pub enum Act<'a> {
    /// Its mount's own rows.
    Storage,
    /// Leases of its mount.
    Leases,
    /// What time it is.
    Time,
    /// Being woken.
    Timers,
    /// Random bytes.
    Random,
    /// Keys derived from passwords.
    Derive,
    /// Generated passwords.
    Passwords,
    /// What its mount's calls keep for each other.
    Cache,
    /// Lines for the operator.
    Log,
    /// Ending its mount's own sessions.
    Close,
    /// A database plugin, by the name under which a connection asks for it.
    Database(&'a str),
    /// A session with a database server.
    Sql(SqlTarget<'a>),
    /// A request to a web server.
    Http(&'a Origin),
}

/// What a component wants to dial, as it spells it.
#[derive(Clone, Copy, Debug)]
pub struct SqlTarget<'a> {
    /// The kind of server.
    pub driver: &'a str,
    /// A name or an address.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
}

/// Where the lines of a mount come from.
#[derive(Clone, Copy, Debug)]
pub struct Rights<'a> {
    /// The mount's path, for refusals.
    pub mount: &'a str,
    /// Who made its component.
    pub maker: Maker,
    /// What the component asks for.
    pub asked: &'a [Ask],
    /// What its entry in the catalog allows; `None`: whatever it asks for.
    pub ceiling: Option<&'a [Ask]>,
    /// What the mount is granted; `None` where nobody said: what an official component asks for,
    /// and of another's nothing.
    pub granted: Option<&'a [Grant]>,
}

/// The database plugin of a nested call, which dials what a connection names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dials<'a> {
    /// Who made it.
    pub(crate) maker: Maker,
    /// What it asks for, in lines.
    pub(crate) asks: &'a [String],
    /// What its own entry in the catalog allows; `None`: whatever it asks for.
    pub(crate) ceiling: Option<&'a [Ask]>,
}

/// Which world the grants are for: what needs no line follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Engine,
    DatabasePlugin,
    Described,
}

/// What the calls of one mount may do. Cheap to clone: a nested call has grants of its own.
#[derive(Clone, Debug)]
pub struct Grants {
    mount: Arc<str>,
    part: Part,
    maker: Maker,
    asked: Arc<[Ask]>,
    ceiling: Option<Arc<[Ask]>>,
    granted: Option<Arc<[Grant]>>,
    /// Of a nested call: what its connection's settings name.
    configured: Arc<[Grant]>,
}

impl Grants {
    /// What the engine of a mount may do.
    #[must_use]
    pub fn of(rights: &Rights<'_>) -> Self {
        Self {
            mount: rights.mount.into(),
            part: Part::Engine,
            maker: rights.maker,
            asked: rights.asked.into(),
            ceiling: rights.ceiling.map(Arc::from),
            granted: rights.granted.map(Arc::from),
            configured: Arc::new([]),
        }
    }

    /// Nothing at all, for an instance that is `doing` something for no mount.
    pub(crate) fn nobody(doing: &str) -> Self {
        let rights = Rights {
            mount: doing,
            maker: Maker::Uploaded,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        Self { part: Part::Described, ..Self::of(&rights) }
    }

    /// For a nested call about a connection whose settings name `targets`: the mount's grants, and
    /// what the database plugin asks for. The targets need no line of their own only where both
    /// components are part of this binary.
    pub(crate) fn for_connection(&self, dials: &Dials<'_>, targets: &[String]) -> Self {
        let both_official = self.maker == Maker::Official && dials.maker == Maker::Official;
        let targets = if both_official { targets } else { &[] };
        Self {
            part: Part::DatabasePlugin,
            maker: dials.maker,
            // What is not understood was refused at registration, and gives nothing here.
            asked: dials.asks.iter().filter_map(|line| line.parse().ok()).collect(),
            ceiling: dials.ceiling.map(Arc::from),
            configured: targets
                .iter()
                .filter_map(|target| format!("sql:{target}").parse().ok())
                .collect(),
            ..self.clone()
        }
    }

    /// May this call do that?
    ///
    /// # Errors
    /// `permission-denied`, with who refused and what to do.
    pub fn ask(&self, act: &Act<'_>) -> Result<(), Failure> {
        let is_of_its_part = match act {
            Act::Time | Act::Random | Act::Derive | Act::Log => self.part != Part::Described,
            Act::Sql(_) => self.part == Part::DatabasePlugin,
            Act::Storage
            | Act::Leases
            | Act::Timers
            | Act::Passwords
            | Act::Cache
            | Act::Close
            | Act::Database(_)
            | Act::Http(_) => self.part == Part::Engine,
        };
        if !is_of_its_part {
            return Err(self.outside_of_its_part());
        }
        match act {
            Act::Database(name) => {
                self.allow(&Grant::Database(DatabasePlugins::Named((*name).to_owned())))
            }
            Act::Sql(target) => self.allow(&target.grant()?),
            Act::Http(origin) => self.allow(&origin.grant()),
            _ => Ok(()),
        }
    }

    /// Asks for a session, and says to which addresses the target's name may lead. `own` is where
    /// this server listens.
    ///
    /// # Errors
    /// As [`Grants::ask`].
    pub(crate) fn reach_of(
        &self,
        target: SqlTarget<'_>,
        own: &Arc<[SocketAddr]>,
    ) -> Result<Reach, Failure> {
        self.ask(&Act::Sql(target))?;
        Ok(self.addresses_of(&target.grant()?, own))
    }

    /// The same for a request to a web server.
    ///
    /// # Errors
    /// As [`Grants::ask`].
    pub(crate) fn reach_of_origin(
        &self,
        origin: &Origin,
        own: &Arc<[SocketAddr]>,
    ) -> Result<Reach, Failure> {
        self.ask(&Act::Http(origin))?;
        Ok(self.addresses_of(&origin.grant(), own))
    }

    fn addresses_of(&self, wanted: &Grant, own: &Arc<[SocketAddr]>) -> Reach {
        let granted = self.granted.as_deref().unwrap_or_default();
        let ceiling = self.ceiling.as_deref().map(ceiling::ranges);
        let networks = granted.iter().flat_map(|grant| match grant {
            Grant::Address(range) => ceiling::narrowed(*range, ceiling.as_deref()),
            Grant::Sql { host: HostPattern::Network(range), .. }
            | Grant::Http { host: HostPattern::Network(range), .. }
                if grant.covers(wanted) =>
            {
                vec![*range]
            }
            _ => Vec::new(),
        });
        let networks = networks.collect();
        let (mount, everything) = (Arc::clone(&self.mount), self.is_configured(wanted));
        Reach { mount, part: self.part, networks, ceiling, everything, own: Arc::clone(own) }
    }

    /// Whether all three layers allow what needs a line.
    fn allow(&self, wanted: &Grant) -> Result<(), Failure> {
        if let Grant::Database(DatabasePlugins::Named(name)) = wanted
            && !is_name(name)
            && !self.is_granted(wanted)
        {
            let name = quoted(name);
            return Err(Failure::denied(format!(
                "{name} is no name of a database plugin, so that no grant is for it"
            )));
        }
        let mount = &self.mount;
        if !self.asked.iter().any(|ask| ask.covers(wanted)) {
            return Err(Failure::denied(format!(
                "the plugin of mount {mount} does not ask for {wanted}, so that no grant allows it; use a version of the \
                 plugin that asks for it"
            )));
        }
        if self
            .ceiling
            .as_ref()
            .is_some_and(|ceiling| !ceiling.iter().any(|ask| ask.covers(wanted)))
        {
            return Err(Failure::denied(above_ceiling(self.part, mount, wanted)));
        }
        if self.is_granted(wanted) || self.is_configured(wanted) {
            return Ok(());
        }
        Err(Failure::denied(not_granted(mount, wanted)))
    }

    fn is_granted(&self, wanted: &Grant) -> bool {
        match (&self.granted, wanted) {
            (Some(granted), _) => granted.iter().any(|grant| grant.covers(wanted)),
            // What an engine of ours asks for; what its connections dial, they must name.
            (None, Grant::Database(_) | Grant::Http { .. }) => {
                let usual = self.asked.iter().filter_map(Ask::as_grant);
                self.maker == Maker::Official && usual.into_iter().any(|grant| grant.covers(wanted))
            }
            (None, _) => false,
        }
    }

    /// Whether the mount's own configuration names the target, and no line of the mount narrows
    /// that.
    fn is_configured(&self, wanted: &Grant) -> bool {
        let narrows =
            |granted: &Arc<[Grant]>| granted.iter().any(|grant| matches!(grant, Grant::Sql { .. }));
        !self.granted.as_ref().is_some_and(narrows) && self.configured.contains(wanted)
    }

    /// The command that grants the mount this line; `None` where there is no mount.
    pub(crate) fn command(&self, line: &Grant) -> Option<String> {
        (self.part != Part::Described).then(|| command(&self.mount, line))
    }

    fn outside_of_its_part(&self) -> Failure {
        Failure::denied(match self.part {
            Part::Described => {
                "describe must be pure: a component that is being described may call no import"
            }
            Part::DatabasePlugin => {
                "a database plugin has no storage, leases, timers, passwords, cache or http, and reaches no other"
            }
            Part::Engine => {
                "an engine speaks to no database itself: it reaches them through a database plugin"
            }
        })
    }
}

impl Origin {
    /// The grant for this origin alone.
    fn grant(&self) -> Grant {
        Grant::Http { tls: self.tls, host: HostPattern::from(self.host.clone()), port: self.port }
    }
}

impl SqlTarget<'_> {
    /// The grant for this target alone.
    fn grant(self) -> Result<Grant, Failure> {
        let Self { driver, host, port } = self;
        let line = Host::parse(host).map(|host| format!("sql:{driver}://{host}:{port}"));
        line.and_then(|line| line.parse().ok()).ok_or_else(|| {
            let target = quoted(&format!("{driver}://{host}:{port}"));
            Failure::denied(format!(
                "{target} is no target that a grant is for: it takes a known driver, a host and a port"
            ))
        })
    }
}

/// The refusal of an address that a granted name led to. The printed line is for this address
/// alone.
pub(crate) fn ungranted_address(reach: &Reach, address: IpAddr, what: &str) -> Failure {
    let line = Grant::Address(IpNet::from(address));
    let is_ruled_out = |ranges: &Vec<IpNet>| !ranges.iter().any(|range| range.contains(&address));
    let why = match reach.ceiling.as_ref().is_some_and(is_ruled_out) {
        true => above_ceiling(reach.part, &reach.mount, &line),
        false => not_granted(&reach.mount, &line),
    };
    Failure::denied(format!("{address} is {what}, and {why}"))
}

/// The end of a refusal by the plugin's entry in the catalog, with the option that would allow the
/// act.
fn above_ceiling(part: Part, mount: &str, line: &Grant) -> String {
    let whose = match part {
        Part::DatabasePlugin => "the database plugin that",
        Part::Engine | Part::Described => "the plugin of",
    };
    let reaches = if part == Part::DatabasePlugin { " reaches" } else { "" };
    format!(
        "the catalog's entry of {whose} mount {mount}{reaches} does not allow {line}; to allow it, register the same \
         component again with all its grants and this one: bulkhead plugin register --grant '{line}'"
    )
}

/// The end of a refusal, with the command that would allow the act.
fn not_granted(mount: &str, line: &Grant) -> String {
    format!("mount {mount} was not granted {line}; to allow it: {}", command(mount, line))
}

fn command(mount: &str, line: &Grant) -> String {
    format!("bulkhead secrets tune --grant '{line}' {}", in_a_shell(mount))
}

/// A word as a shell reads it.
fn in_a_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: SqlTarget<'static> = SqlTarget { driver: "postgres", host: "db.example", port: 5432 };
    const LINE: &str = "sql:postgres://db.example:5432";

    fn asks(lines: &[&str]) -> Vec<Ask> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    fn lines(lines: &[&str]) -> Vec<Grant> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    /// The grants of a mount of the database engine.
    fn mount(maker: Maker, granted: Option<&[&str]>) -> Grants {
        let (asked, granted) = (asks(&["database"]), granted.map(lines));
        Grants::of(&Rights {
            mount: "m/",
            maker,
            asked: &asked,
            ceiling: None,
            granted: granted.as_deref(),
        })
    }

    /// Those of a nested call of the mount, about a connection to that database.
    fn nested(maker: Maker, granted: Option<&[&str]>) -> Grants {
        below(maker, None, granted)
    }

    /// The same of a database plugin, of whose entry in the catalog that is the ceiling.
    fn below(maker: Maker, ceiling: Option<&[Ask]>, granted: Option<&[&str]>) -> Grants {
        let dials = Dials { maker: Maker::Official, asks: &["sql".to_owned()], ceiling };
        mount(maker, granted).for_connection(&dials, &["postgres://db.example:5432".into()])
    }

    fn dials(grants: &Grants, host: &str) -> Result<Reach, String> {
        let own: Arc<[SocketAddr]> = Arc::new([]);
        grants.reach_of(SqlTarget { host, ..DB }, &own).map_err(|refused| refused.message)
    }

    #[test]
    fn what_is_allowed_is_asked_for_and_below_the_ceiling_and_granted() {
        for layers in 0..8 {
            let has = |bit: u32| layers & (1 << bit) != 0;
            let line = |is: bool| if is { vec!["database:orders"] } else { vec!["database:other"] };
            let (asked, ceiling, granted) =
                (asks(&line(has(0))), asks(&line(has(1))), lines(&line(has(2))));
            let rights = Rights {
                mount: "m/",
                maker: Maker::Uploaded,
                asked: &asked,
                ceiling: Some(&ceiling),
                granted: Some(&granted),
            };
            let allowed = Grants::of(&rights).ask(&Act::Database("orders"));
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
    fn what_a_database_plugin_dials_is_asked_for_and_below_its_own_ceiling_and_granted_to_the_mount()
     {
        for layers in 0..8 {
            let has = |bit: u32| layers & (1 << bit) != 0;
            let line = |is: bool| if is { LINE } else { "sql:postgres://other.example:5432" };
            let (asked, ceiling) = ([line(has(0)).to_owned()], asks(&[line(has(1))]));
            let dials = Dials { maker: Maker::Uploaded, asks: &asked, ceiling: Some(&ceiling) };
            let granted = mount(Maker::Official, Some(&[line(has(2))])).for_connection(&dials, &[]);
            let refusal = match (has(0), has(1), has(2)) {
                (true, true, true) => {
                    assert!(self::dials(&granted, "db.example").is_ok());
                    continue;
                }
                (false, ..) => "does not ask for sql:postgres://db.example:5432",
                (_, false, _) => {
                    "bulkhead plugin register --grant 'sql:postgres://db.example:5432'"
                }
                (_, _, false) => {
                    "to allow it: bulkhead secrets tune --grant 'sql:postgres://db.example:5432' m/"
                }
            };
            let message = self::dials(&granted, "db.example").unwrap_err();
            assert!(message.contains(refusal), "{layers}: {message}");
        }
    }

    #[test]
    fn an_address_is_granted_to_the_mount_and_below_the_ceiling_or_refused_by_who_rules_it_out() {
        let ceiling = asks(&["sql", "address:10.0.0.0/16"]);
        let grants = below(
            Maker::Uploaded,
            Some(&ceiling),
            Some(&[LINE, "address:10.0.0.0/8", "address:10.9.0.0/16"]),
        );
        let reach = dials(&grants, "db.example").unwrap();
        assert!(reach.admit("10.0.1.2:5432".parse().unwrap()).is_ok());
        assert!(reach.admit("10.9.1.2:5432".parse().unwrap()).is_err());
        let told = |address: &str| {
            ungranted_address(&reach, address.parse().unwrap(), "a private address").message
        };
        assert!(
            told("10.9.1.2").ends_with("bulkhead plugin register --grant 'address:10.9.1.2/32'")
        );
        let bare = below(Maker::Uploaded, Some(&ceiling), Some(&[LINE]));
        let reach = dials(&bare, "db.example").unwrap();
        let refused =
            ungranted_address(&reach, "10.0.1.2".parse().unwrap(), "a private address").message;
        assert!(refused.ends_with("tune --grant 'address:10.0.1.2/32' m/"), "{refused}");
    }

    #[test]
    fn a_third_partys_mount_reaches_nothing_until_it_is_granted_line_by_line() {
        let none = mount(Maker::Uploaded, None).ask(&Act::Database("postgresql"));
        assert!(
            none.unwrap_err()
                .message
                .ends_with("bulkhead secrets tune --grant 'database:postgresql' m/")
        );
        let refused = dials(&nested(Maker::Uploaded, None), "db.example").unwrap_err();
        assert!(
            refused.ends_with(&format!("to allow it: bulkhead secrets tune --grant '{LINE}' m/")),
            "{refused}"
        );
        let granted = nested(Maker::Uploaded, Some(&[LINE]));
        assert!(
            !dials(&granted, "DB.example.").unwrap().everything,
            "private addresses need a line of their own"
        );
        assert!(dials(&granted, "other.example").is_err());
    }

    #[test]
    fn an_officials_mount_dials_what_its_configuration_names_and_nothing_else() {
        let grants = nested(Maker::Official, None);
        assert!(dials(&grants, "db.example").unwrap().everything);
        assert!(
            dials(&grants, "other.example")
                .unwrap_err()
                .contains("'sql:postgres://other.example:5432' m/")
        );
        assert!(grants.ask(&Act::Sql(SqlTarget { port: 5433, ..DB })).is_err());
        let brought = Dials { maker: Maker::Uploaded, asks: &["sql".to_owned()], ceiling: None };
        let brought = mount(Maker::Official, None)
            .for_connection(&brought, &["postgres://db.example:5432".into()]);
        assert!(
            dials(&brought, "db.example").is_err(),
            "a plugin that somebody brought names its own targets"
        );
    }

    #[test]
    fn lines_of_a_mount_narrow_what_its_configuration_may_name() {
        let elsewhere =
            nested(Maker::Official, Some(&["database:*", "sql:postgres://10.0.0.0/8:5432"]));
        assert!(dials(&elsewhere, "db.example").is_err());
        let reach = dials(&elsewhere, "10.1.2.3").unwrap();
        assert!(!reach.everything && reach.admit("10.9.9.9:5432".parse().unwrap()).is_ok());
        assert!(dials(&elsewhere, "11.1.2.3").is_err());
        assert!(
            mount(Maker::Official, Some(&[])).ask(&Act::Database("x")).is_err(),
            "an empty list grants nothing"
        );
    }

    fn origin(text: &str) -> Origin {
        crate::http::parsed(text).unwrap().0
    }

    /// The grants of a mount of an engine that asks for those lines.
    fn asking(maker: Maker, asked: &[&str], granted: Option<&[&str]>) -> Grants {
        let (asked, granted) = (asks(asked), granted.map(lines));
        Grants::of(&Rights {
            mount: "m/",
            maker,
            asked: &asked,
            ceiling: None,
            granted: granted.as_deref(),
        })
    }

    #[test]
    fn an_origin_is_scheme_host_and_port_and_a_grant_is_for_it_or_for_those_below_a_domain() {
        let granted = [
            "http:https://login.example.com",
            "http:https://*.corp.example:8443",
            "http:http://10.0.0.0/8",
        ];
        let grants = asking(Maker::Uploaded, &["http"], Some(&granted));
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
            assert_eq!(grants.ask(&Act::Http(&origin(text))).is_ok(), allowed, "{text}");
        }
        let own: Arc<[SocketAddr]> = Arc::new([]);
        let reach = grants.reach_of_origin(&origin("http://10.9.8.7"), &own).unwrap();
        assert!(reach.admit("10.9.8.7:80".parse().unwrap()).is_ok(), "its grant names the address");
        let reach = grants.reach_of_origin(&origin("https://login.example.com"), &own).unwrap();
        assert!(
            reach.admit("10.9.8.7:443".parse().unwrap()).is_err(),
            "a name leads to no private address by itself"
        );
        let refused = grants.ask(&Act::Http(&origin("https://other.example"))).unwrap_err().message;
        assert!(
            refused.ends_with("bulkhead secrets tune --grant 'http:https://other.example:443' m/"),
            "{refused}"
        );
    }

    #[test]
    fn an_official_has_the_origins_that_it_asks_for_by_name_and_no_others() {
        let login = origin("https://login.example.com");
        let asked = ["http:https://*.example.com"];
        assert!(asking(Maker::Official, &asked, None).ask(&Act::Http(&login)).is_ok());
        assert!(
            asking(Maker::Official, &asked, Some(&[])).ask(&Act::Http(&login)).is_err(),
            "its mount says otherwise"
        );
        assert!(
            asking(Maker::Official, &["http"], None).ask(&Act::Http(&login)).is_err(),
            "any target is none by itself"
        );
        assert!(asking(Maker::Uploaded, &asked, None).ask(&Act::Http(&login)).is_err());
    }

    #[test]
    fn ranges_that_names_may_resolve_to_are_those_of_the_mounts_address_lines() {
        let grants = nested(Maker::Uploaded, Some(&[LINE, "address:10.0.0.0/8"]));
        let reach = dials(&grants, "db.example").unwrap();
        assert!(reach.admit("10.1.2.3:5432".parse().unwrap()).is_ok());
        assert!(reach.admit("192.168.0.1:5432".parse().unwrap()).is_err());
        let refused =
            ungranted_address(&reach, "192.168.0.1".parse().unwrap(), "a private address").message;
        assert!(refused.ends_with("tune --grant 'address:192.168.0.1/32' m/"), "{refused}");
    }

    #[test]
    fn what_a_component_is_for_needs_no_line_and_nothing_else_is_inherent() {
        let (engine, plugin) = (mount(Maker::Uploaded, None), nested(Maker::Uploaded, None));
        let nobody = Grants::nobody("being described");
        let login = origin("https://login.example.com");
        for (act, of_an_engine, of_a_plugin) in [
            (Act::Storage, true, false),
            (Act::Leases, true, false),
            (Act::Timers, true, false),
            (Act::Passwords, true, false),
            (Act::Close, true, false),
            (Act::Cache, true, false),
            (Act::Time, true, true),
            (Act::Random, true, true),
            (Act::Derive, true, true),
            (Act::Log, true, true),
            (Act::Database("x"), false, false),
            (Act::Sql(DB), false, false),
            (Act::Http(&login), false, false),
        ] {
            assert_eq!(engine.ask(&act).is_ok(), of_an_engine, "{act:?}");
            assert_eq!(plugin.ask(&act).is_ok(), of_a_plugin, "{act:?}");
            assert!(
                nobody.ask(&act).unwrap_err().message.contains("describe must be pure"),
                "{act:?}"
            );
        }
        assert!(
            mount(Maker::Official, None).ask(&Act::Sql(DB)).is_err(),
            "an engine dials nothing itself"
        );
        assert!(
            nested(Maker::Official, None).ask(&Act::Database("x")).is_err(),
            "nor reaches a plugin another one"
        );
    }

    #[test]
    fn a_hostile_name_never_stands_in_a_command() {
        for name in ["x'; rm -rf ~; '", "$(id)", "", "*", "a b"] {
            let refused =
                mount(Maker::Uploaded, Some(&[])).ask(&Act::Database(name)).unwrap_err().message;
            assert!(!refused.contains("--grant"), "{refused}");
            let host = dials(&nested(Maker::Uploaded, None), name).unwrap_err();
            assert!(!host.contains("--grant"), "{host}");
        }
        assert_eq!(in_a_shell("a/b-c_d.e/"), "a/b-c_d.e/");
        assert_eq!(in_a_shell("it's;x/"), r"'it'\''s;x/'");
    }
}
