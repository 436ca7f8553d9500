//! Grants: acts that a mount's plugin may do. The first line of every import checks an act.
//!
//! An act is allowed if the component asks for the act, the component's entry in the catalog allows
//! the act, and the mount is granted the act: all three. A refusal names the layer that refused,
//! and prints the line that would allow the act. Acts that belong to a component's world (its own
//! storage, time, randomness) need no line. During `describe`, a component may do nothing.

mod act;
mod address;
mod ask;
pub mod ceiling;
mod host;
mod limits;
mod line;
mod reach;
mod refusal;
mod rights;

pub(crate) use act::{Act, AmbientAct, LdapServer, SqlTarget};
pub use ask::{AnyTarget, Ask};
pub use host::HostPattern;
pub(crate) use host::{Host, Origin};
pub use line::{Ambient, CryptoVerb, DatabasePlugins, Driver, Grant, Outward};
pub(crate) use reach::{Reach, Refused, resolve};
pub(crate) use refusal::ungranted_address;
pub(crate) use rights::{Dials, Part};
pub use rights::{Maker, Rights};

use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::is_name;
use std::net::SocketAddr;
use std::sync::Arc;

/// The grants of a mount's calls. Cheap to clone: a nested call has grants of its own.
#[derive(Clone, Debug)]
pub struct Grants {
    mount: Arc<str>,
    part: Part,
    maker: Maker,
    asked: Arc<[Ask]>,
    ceiling: Option<Arc<[Ask]>>,
    granted: Option<Arc<[Grant]>>,
    /// Targets named by the settings of a nested call's connection.
    configured: Arc<[Grant]>,
}

impl Grants {
    /// Creates the grants of a mount's engine.
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

    /// Creates empty grants, for an instance that is `doing` something for no mount.
    pub(crate) fn none(doing: &str) -> Self {
        let rights = Rights {
            mount: doing,
            maker: Maker::Uploaded,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        Self { part: Part::Described, ..Self::of(&rights) }
    }

    /// Returns the grants of a nested call for a connection whose settings name `targets`: the
    /// mount's grants, with the asks of the database plugin.
    pub(crate) fn for_connection(&self, dials: &Dials<'_>, targets: &[String]) -> Self {
        let targets = if self.heeds_targets(dials) { targets } else { &[] };
        Self {
            part: Part::DatabasePlugin,
            maker: dials.maker,
            // Registration already refused unreadable lines; such a line gives nothing here.
            asked: dials.asks.iter().filter_map(|line| line.parse().ok()).collect(),
            ceiling: dials.ceiling.map(Arc::from),
            configured: targets
                .iter()
                .filter_map(|target| format!("sql:{target}").parse().ok())
                .collect(),
            ..self.clone()
        }
    }

    /// Returns `true` if a connection may dial the servers that its settings name, without a grant
    /// for each: both components are part of this binary.
    pub(crate) fn heeds_targets(&self, dials: &Dials<'_>) -> bool {
        self.maker == Maker::Official && dials.maker == Maker::Official
    }

    /// Checks an act of the call.
    ///
    /// # Errors
    /// `permission-denied`, with the layer that refused and the remedy.
    pub(crate) fn ask(&self, act: &Act<'_>) -> Result<(), Failure> {
        let is_of_its_part = match act {
            Act::Time | Act::Random | Act::Derive | Act::Verify | Act::Crypto(_) | Act::Log => {
                self.part != Part::Described
            }
            Act::Sql(_) => self.part == Part::DatabasePlugin,
            Act::Storage
            | Act::Leases
            | Act::Timers
            | Act::Passwords
            | Act::Cache
            | Act::Metrics
            | Act::Close
            | Act::Database(_)
            | Act::Http(_)
            | Act::Ambient(_)
            | Act::Ldap(_)
            | Act::IdentityToken
            | Act::Entities => self.part == Part::Engine,
        };
        if !is_of_its_part {
            return Err(refusal::outside_of_its_part(self.part));
        }
        match act {
            Act::Database(name) => {
                self.allow(&Grant::Database(DatabasePlugins::Named((*name).to_owned())))
            }
            Act::Sql(target) => self.allow(&target.grant()?),
            Act::Http(origin) => self.allow(&origin.grant()),
            Act::Ldap(server) => self.allow(&server.grant()),
            Act::Crypto(verb) => self.allow(&Grant::Crypto(*verb)),
            Act::Ambient(wanted) => self.allow(&wanted.grant()?),
            Act::IdentityToken => self.allow(&Grant::IdentityToken),
            _ => Ok(()),
        }
    }

    /// Checks a database session. Returns the addresses to which the target's name may resolve.
    /// `own` is the list of this server's listeners.
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

    /// Checks a request to a web server, and returns the allowed addresses.
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

    /// Checks a request in the pod's name. The grant of the pod identity includes the pod's
    /// cluster, so every address is allowed except the addresses that are never dialled.
    ///
    /// # Errors
    /// As [`Grants::ask`].
    pub(crate) fn reach_of_pod(&self, own: &Arc<[SocketAddr]>) -> Result<Reach, Failure> {
        self.ask(&Act::Ambient(AmbientAct::PodIdentity))?;
        Ok(Reach {
            mount: Arc::clone(&self.mount),
            part: self.part,
            networks: Vec::new(),
            ceiling: None,
            everything: true,
            own: Arc::clone(own),
        })
    }

    /// Checks a session with a directory, and returns the allowed addresses.
    ///
    /// # Errors
    /// As [`Grants::ask`].
    pub(crate) fn reach_of_directory(
        &self,
        server: &LdapServer,
        own: &Arc<[SocketAddr]>,
    ) -> Result<Reach, Failure> {
        self.ask(&Act::Ldap(server))?;
        Ok(self.addresses_of(&server.grant(), own))
    }

    fn addresses_of(&self, wanted: &Grant, own: &Arc<[SocketAddr]>) -> Reach {
        let granted = self.granted.as_deref().unwrap_or_default();
        let ceiling = self.ceiling.as_deref().map(ceiling::ranges);
        let networks = granted.iter().flat_map(|grant| match grant {
            Grant::Address(range) => ceiling::narrow(*range, ceiling.as_deref()),
            Grant::Sql { host: HostPattern::Network(range), .. }
            | Grant::Http { host: HostPattern::Network(range), .. }
            | Grant::Ldap { host: HostPattern::Network(range), .. }
                if grant.covers(wanted) =>
            {
                vec![*range]
            }
            _ => Vec::new(),
        });
        let networks = networks.collect();
        let everything = self.is_configured(wanted) || self.is_anywhere(wanted);
        let mount = Arc::clone(&self.mount);
        Reach { mount, part: self.part, networks, ceiling, everything, own: Arc::clone(own) }
    }

    /// Checks an act that needs a line in all three layers.
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
                "the plugin of mount {mount} does not ask for {wanted}, so that no grant allows \
                 it; use a version of the plugin that asks for it"
            )));
        }
        if self
            .ceiling
            .as_ref()
            .is_some_and(|ceiling| !ceiling.iter().any(|ask| ask.covers(wanted)))
        {
            return Err(Failure::denied(refusal::above_ceiling(self.part, mount, wanted)));
        }
        if self.is_granted(wanted) || self.is_configured(wanted) {
            return Ok(());
        }
        Err(Failure::denied(refusal::not_granted(mount, wanted)))
    }

    fn is_granted(&self, wanted: &Grant) -> bool {
        match (&self.granted, wanted) {
            (Some(granted), _) => granted.iter().any(|grant| grant.covers(wanted)),
            // Without grants of the operator, an official component is granted its asks, except
            // `sql` and `address` lines: a connection must name the servers of a database.
            (
                None,
                Grant::Database(_)
                | Grant::Http { .. }
                | Grant::Ldap { .. }
                | Grant::Ambient(_)
                | Grant::Crypto(_)
                | Grant::IdentityToken,
            ) => self.usual().any(|grant| grant.covers(wanted)),
            (None, _) => false,
        }
    }

    /// Returns the grants of a mount whose operator set no grants.
    fn usual(&self) -> impl Iterator<Item = Grant> {
        let is_official = self.maker == Maker::Official;
        self.asked.iter().filter(move |_| is_official).filter_map(Ask::as_grant)
    }

    /// Returns whether an official component reaches the target by a line for any server. Private
    /// and loopback addresses are then allowed too, because the mount's own configuration names the
    /// server.
    fn is_anywhere(&self, wanted: &Grant) -> bool {
        let opens = |grant: &Grant| matches!(grant, Grant::Anywhere(_)) && grant.covers(wanted);
        self.maker == Maker::Official
            && match &self.granted {
                Some(granted) => granted.iter().any(opens),
                None => self.usual().any(|grant| opens(&grant)),
            }
    }

    /// Returns whether the mount's own configuration names the target, and no `sql` line of the
    /// mount restricts the targets.
    fn is_configured(&self, wanted: &Grant) -> bool {
        let narrows =
            |granted: &Arc<[Grant]>| granted.iter().any(|grant| matches!(grant, Grant::Sql { .. }));
        !self.granted.as_ref().is_some_and(narrows) && self.configured.contains(wanted)
    }

    /// Returns the command that grants the mount this line. `None`: there is no mount.
    pub(crate) fn command(&self, line: &Grant) -> Option<String> {
        (self.part != Part::Described).then(|| refusal::command(&self.mount, line))
    }
}

#[cfg(test)]
mod tests;
