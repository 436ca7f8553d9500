//! Grants: acts that a mount's plugin may do. The first line of every import checks an act.
//!
//! An act is allowed if the component asks for the act, the component's entry in the catalog allows
//! the act, and the mount is granted the act: all three. A refusal names the layer that refused,
//! and prints the line that would allow the act. Acts that belong to a component's world (its own
//! storage, time, randomness) need no line. During `describe`, a component may do nothing.
//!
//! Example. The mount `database/` has the grants `database:*` and `sql:postgres://db.example:5432`,
//! and a caller sends `GET /v1/database/creds/app`, for a connection to `127.0.0.1:5432`. The
//! engine calls the import `database`: `Grants::check_act` gets `Act::Database`, and all three
//! layers agree. The database plugin runs with the grants of `Grants::for_connection`, and calls
//! the import `sql`. `Grants::reach_of` asks for `sql:postgres://127.0.0.1:5432`: the plugin asks
//! for `sql`, and its entry in the catalog has no ceiling, but no line of the mount covers the
//! target. The import refuses before the dial. The caller gets 400 with the layer and the remedy:
//! `bulkhead secrets tune --grant 'sql:postgres://127.0.0.1:5432' database/`. Without a line for
//! `sql`, a mount with components of this binary may dial the servers that its connections name.

mod act;
mod ask;
pub mod ceiling;
mod limits;
mod line;
mod refusal;
mod rights;

pub(crate) use act::{Act, AmbientAct, SqlTarget};
pub use ask::{AnyTarget, GrantPattern};
pub use line::{AmbientValue, CryptoVerb, DatabasePlugins, Grant, OutboundProtocol, SqlDriver};
pub(crate) use rights::{ComponentKind, DialingPlugin};
pub use rights::{GrantLayers, Publisher};

use bulkhead_outbound::addresses::{
    AddressRemedy, AllowedAddresses, HostPattern, LdapServer, Origin,
};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::is_name;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;

/// The grants of a mount's calls. Cheap to clone: a nested call has grants of its own.
#[derive(Clone, Debug)]
pub struct Grants {
    mount: Arc<str>,
    part: ComponentKind,
    maker: Publisher,
    asked: Arc<[GrantPattern]>,
    ceiling: Option<Arc<[GrantPattern]>>,
    granted: Option<Arc<[Grant]>>,
    /// Targets named by the settings of a nested call's connection.
    configured: Arc<[Grant]>,
}

impl Grants {
    /// Creates the grants of a mount's engine.
    #[must_use]
    pub fn of(rights: &GrantLayers<'_>) -> Self {
        Self {
            mount: rights.mount.into(),
            part: ComponentKind::Engine,
            maker: rights.maker,
            asked: rights.asked.into(),
            ceiling: rights.ceiling.map(Arc::from),
            granted: rights.granted.map(Arc::from),
            configured: Arc::new([]),
        }
    }

    /// Creates empty grants, for an instance that is `doing` something for no mount.
    pub(crate) fn none(doing: &str) -> Self {
        let rights = GrantLayers {
            mount: doing,
            maker: Publisher::Uploaded,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        Self { part: ComponentKind::Described, ..Self::of(&rights) }
    }

    /// Creates the grants of a seal plugin: HTTP to `origins`, which the configuration of the
    /// server names, the time, signatures and the log. `seal` names the seal in refusals.
    pub(crate) fn for_seal(seal: &str, origins: &[Origin]) -> Self {
        let rights = GrantLayers {
            mount: seal,
            maker: Publisher::Official,
            asked: &[],
            ceiling: None,
            granted: Some(&[]),
        };
        let configured = origins.iter().map(Grant::from).collect();
        Self { part: ComponentKind::SealPlugin, configured, ..Self::of(&rights) }
    }

    /// Returns the grants of a nested call for a connection whose settings name `targets`: the
    /// mount's grants, with the asks of the database plugin.
    pub(crate) fn for_connection(&self, dials: &DialingPlugin<'_>, targets: &[String]) -> Self {
        let targets = if self.may_dial_targets(dials) { targets } else { &[] };
        Self {
            part: ComponentKind::DatabasePlugin,
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
    pub(crate) fn may_dial_targets(&self, dials: &DialingPlugin<'_>) -> bool {
        self.maker == Publisher::Official && dials.maker == Publisher::Official
    }

    /// Checks an act of the call.
    ///
    /// # Errors
    /// `permission-denied`, with the layer that refused and the remedy.
    pub(crate) fn check_act(&self, act: &Act<'_>) -> Result<(), Failure> {
        if self.part == ComponentKind::SealPlugin {
            return self.check_seal_act(act);
        }
        let is_of_its_part = match act {
            Act::Time | Act::Random | Act::Derive | Act::Verify | Act::Crypto(_) | Act::Log => {
                self.part != ComponentKind::Described
            }
            Act::Sql(_) => self.part == ComponentKind::DatabasePlugin,
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
            | Act::Entities => self.part == ComponentKind::Engine,
        };
        if !is_of_its_part {
            return Err(refusal::outside_world_refusal(self.part));
        }
        match act {
            Act::Database(name) => {
                self.allow(&Grant::Database(DatabasePlugins::Named((*name).to_owned())))
            }
            Act::Sql(target) => self.allow(&target.grant()?),
            Act::Http(origin) => self.allow(&Grant::from(*origin)),
            Act::Ldap(server) => self.allow(&Grant::from(*server)),
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
    ) -> Result<AllowedAddresses, Failure> {
        self.check_act(&Act::Sql(target))?;
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
    ) -> Result<AllowedAddresses, Failure> {
        self.check_act(&Act::Http(origin))?;
        Ok(self.addresses_of(&Grant::from(origin), own))
    }

    /// Checks a request in the pod's name. The grant of the pod identity includes the pod's
    /// cluster, so every address is allowed except the addresses that are never dialled.
    ///
    /// # Errors
    /// As [`Grants::ask`].
    pub(crate) fn reach_of_pod(
        &self,
        own: &Arc<[SocketAddr]>,
    ) -> Result<AllowedAddresses, Failure> {
        self.check_act(&Act::Ambient(AmbientAct::PodIdentity))?;
        Ok(AllowedAddresses {
            networks: Vec::new(),
            everything: true,
            own: Arc::clone(own),
            remedy: self.address_remedy(None),
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
    ) -> Result<AllowedAddresses, Failure> {
        self.check_act(&Act::Ldap(server))?;
        Ok(self.addresses_of(&Grant::from(server), own))
    }

    fn addresses_of(&self, wanted: &Grant, own: &Arc<[SocketAddr]>) -> AllowedAddresses {
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
        let everything = self.is_configured(wanted) || self.reaches_any_server(wanted);
        let remedy = self.address_remedy(ceiling);
        AllowedAddresses { networks, everything, own: Arc::clone(own), remedy }
    }

    /// Returns the end of a refusal of an address to which a granted name resolved. The printed
    /// line covers that address alone. `ceiling` has the ranges that the plugin's entry in the
    /// catalog allows.
    fn address_remedy(&self, ceiling: Option<Vec<IpNet>>) -> AddressRemedy {
        let (part, mount) = (self.part, Arc::clone(&self.mount));
        AddressRemedy::new(move |address| {
            let line = Grant::Address(IpNet::from(address));
            let is_ruled_out =
                |ranges: &Vec<IpNet>| !ranges.iter().any(|range| range.contains(&address));
            match ceiling.as_ref().is_some_and(is_ruled_out) {
                true => refusal::ceiling_remedy(part, &mount, &line),
                false => refusal::grant_remedy(&mount, &line),
            }
        })
    }

    /// Checks an act of a seal plugin.
    fn check_seal_act(&self, act: &Act<'_>) -> Result<(), Failure> {
        match act {
            Act::Log | Act::Time | Act::Crypto(CryptoVerb::Sign) => Ok(()),
            Act::Http(origin) => {
                let wanted = Grant::from(*origin);
                match self.configured.contains(&wanted) {
                    true => Ok(()),
                    false => Err(refusal::other_origin_refusal(&self.mount, &wanted)),
                }
            }
            _ => Err(refusal::outside_world_refusal(self.part)),
        }
    }

    /// Checks an act that needs a line in all three layers.
    fn allow(&self, wanted: &Grant) -> Result<(), Failure> {
        if let Grant::Database(DatabasePlugins::Named(name)) = wanted
            && !is_name(name)
            && !self.is_granted(wanted)
        {
            let name = quoted(name);
            return Err(Failure::denied(format!(
                "{name} is not a valid name of a database plugin, so no grant can allow this plugin"
            )));
        }
        let mount = &self.mount;
        if !self.asked.iter().any(|ask| ask.covers(wanted)) {
            return Err(Failure::denied(format!(
                "the plugin of mount {mount} does not ask for {wanted}, so no grant allows the \
                 act; use a plugin version that asks for {wanted}"
            )));
        }
        if self
            .ceiling
            .as_ref()
            .is_some_and(|ceiling| !ceiling.iter().any(|ask| ask.covers(wanted)))
        {
            return Err(Failure::denied(refusal::ceiling_remedy(self.part, mount, wanted)));
        }
        if self.is_granted(wanted) || self.is_configured(wanted) {
            return Ok(());
        }
        Err(Failure::denied(refusal::grant_remedy(mount, wanted)))
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
            ) => self.default_grants().any(|grant| grant.covers(wanted)),
            (None, _) => false,
        }
    }

    /// Returns the grants of a mount whose operator set no grants.
    fn default_grants(&self) -> impl Iterator<Item = Grant> {
        let is_official = self.maker == Publisher::Official;
        self.asked.iter().filter(move |_| is_official).filter_map(GrantPattern::as_grant)
    }

    /// Returns whether an official component reaches the target by a line for any server. Private
    /// and loopback addresses are then allowed too, because the mount's own configuration names the
    /// server.
    fn reaches_any_server(&self, wanted: &Grant) -> bool {
        let opens = |grant: &Grant| matches!(grant, Grant::Anywhere(_)) && grant.covers(wanted);
        self.maker == Publisher::Official
            && match &self.granted {
                Some(granted) => granted.iter().any(opens),
                None => self.default_grants().any(|grant| opens(&grant)),
            }
    }

    /// Returns whether the mount's own configuration names the target, and no `sql` line of the
    /// mount restricts the targets.
    fn is_configured(&self, wanted: &Grant) -> bool {
        let narrows =
            |granted: &Arc<[Grant]>| granted.iter().any(|grant| matches!(grant, Grant::Sql { .. }));
        !self.granted.as_ref().is_some_and(narrows) && self.configured.contains(wanted)
    }

    /// Returns the path of the mount.
    pub(crate) fn mount(&self) -> &str {
        &self.mount
    }

    /// Returns whether requests to the origin carry the context of their trace: only a line of the
    /// operator decides, because the component neither reads nor writes the context.
    pub(crate) fn passes_trace_to(&self, origin: &Origin) -> bool {
        let wanted = Grant::Trace(Box::new(Grant::from(origin)));
        self.granted.iter().flat_map(|granted| &**granted).any(|grant| grant.covers(&wanted))
    }

    /// Returns the command that grants the mount this line. `None`: there is no mount.
    pub(crate) fn command(&self, line: &Grant) -> Option<String> {
        let is_of_mount =
            matches!(self.part, ComponentKind::Engine | ComponentKind::DatabasePlugin);
        is_of_mount.then(|| refusal::command(&self.mount, line))
    }
}

#[cfg(test)]
mod tests;
