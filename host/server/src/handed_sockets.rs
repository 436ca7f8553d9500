//! Listening sockets that the service manager opened and handed over (socket activation).
//!
//! This file prevents a restart that refuses connections: the service manager keeps the socket, so
//! that clients wait in the queue of the socket while no server runs. This file prevents a server
//! that serves a socket in place of another one, too: a descriptor that fits no listener of the
//! configuration ends the start.

mod descriptors;
#[cfg(test)]
mod tests;

use crate::config::{Config, ListenerConfig};
use descriptors::{HandedDescriptor, ListeningSocket};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Names of the listeners in `FileDescriptorName=` of a socket unit.
const API: &str = "api";
const SCHEDULER: &str = "scheduler";

/// The sockets of the environment's `LISTEN_FDS`, before the configuration is known.
#[derive(Default)]
pub struct HandedSockets(Vec<HandedDescriptor>);

/// A socket for a listener, with its number for messages.
pub(crate) struct HandedSocket<L> {
    pub(crate) number: i32,
    pub(crate) socket: L,
}

/// The sockets of one listener of the configuration. A missing socket is bound by the server.
#[derive(Default)]
pub(crate) struct ListenerSockets {
    pub(crate) tcp: Option<HandedSocket<TcpListener>>,
    pub(crate) unix: Option<HandedSocket<UnixListener>>,
}

/// The sockets of all listeners.
#[derive(Default)]
pub(crate) struct SocketsByListener {
    pub(crate) api: ListenerSockets,
    pub(crate) scheduler: ListenerSockets,
}

/// An address of the configuration at which a server accepts connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListenerPlace {
    ApiTcp,
    ApiUnix,
    SchedulerTcp,
}

impl ListenerPlace {
    /// Returns the block of the configuration.
    fn block(self) -> &'static str {
        match self {
            Self::ApiTcp => "listener \"tcp\"",
            Self::ApiUnix => "listener \"unix\"",
            Self::SchedulerTcp => "listener \"scheduler\"",
        }
    }

    /// Returns the place of a socket by the name of its descriptor, if the name is one of ours.
    fn by_name(name: &str, socket: &ListeningSocket) -> Option<Self> {
        match (name, socket) {
            (API, ListeningSocket::Tcp { .. }) => Some(Self::ApiTcp),
            (API, ListeningSocket::Unix { .. }) => Some(Self::ApiUnix),
            (SCHEDULER, _) => Some(Self::SchedulerTcp),
            _ => None,
        }
    }

    /// Returns whether the socket is of the place's kind.
    fn takes(self, socket: &ListeningSocket) -> bool {
        matches!(socket, ListeningSocket::Unix { .. }) == (self == Self::ApiUnix)
    }
}

impl HandedSockets {
    /// Takes the sockets that the environment hands to this process: none unless `LISTEN_PID` is
    /// the number of this process. `env` looks up a variable. Call once, before the process opens
    /// any file: a later call finds nothing.
    ///
    /// # Errors
    /// A malformed variable, or a descriptor that is not a listening stream socket, by its number.
    pub fn take(env: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        descriptors::take(env).map(Self)
    }

    /// Assigns each socket to a listener of `config`: by the descriptor's name, by the configured
    /// address, or as the only socket for the only listener.
    ///
    /// # Errors
    /// A socket that fits no listener, or a second socket for a listener, by its number and
    /// address.
    pub(crate) async fn assign(self, config: &Config) -> Result<SocketsByListener, String> {
        let places = ConfiguredPlaces::of(config).await;
        let is_single = self.0.len() == 1;
        let mut assigned = SocketsByListener::default();
        for descriptor in self.0 {
            let place = places.place_of(&descriptor, is_single)?;
            assigned.put(place, descriptor)?;
        }
        Ok(assigned)
    }
}

impl SocketsByListener {
    fn put(&mut self, place: ListenerPlace, descriptor: HandedDescriptor) -> Result<(), String> {
        let shown = descriptor.shown();
        let HandedDescriptor { number, socket, .. } = descriptor;
        let previous = match (place, socket) {
            (ListenerPlace::ApiUnix, ListeningSocket::Unix { socket, .. }) => {
                replace(&mut self.api.unix, number, socket)
            }
            (ListenerPlace::ApiTcp, ListeningSocket::Tcp { socket, .. }) => {
                replace(&mut self.api.tcp, number, socket)
            }
            (ListenerPlace::SchedulerTcp, ListeningSocket::Tcp { socket, .. }) => {
                replace(&mut self.scheduler.tcp, number, socket)
            }
            _ => return Err(format!("{shown} is not of the kind of {}", place.block())),
        };
        match previous {
            None => Ok(()),
            Some(first) => Err(format!(
                "{shown} is for {}, and so is descriptor {first}; a listener has one socket: \
                 remove a ListenStream= of the socket unit",
                place.block()
            )),
        }
    }
}

/// Puts a socket into its place, and returns the number of the descriptor from before.
fn replace<L>(place: &mut Option<HandedSocket<L>>, number: i32, socket: L) -> Option<i32> {
    place.replace(HandedSocket { number, socket }).map(|previous| previous.number)
}

/// The places of a configuration, with their resolved addresses.
struct ConfiguredPlaces<'a> {
    api: Option<Vec<SocketAddr>>,
    unix: Option<&'a Path>,
    scheduler: Option<Vec<SocketAddr>>,
    /// The scheduler's listener is that of dev mode, which counts only by name or address.
    is_scheduler_optional: bool,
}

impl<'a> ConfiguredPlaces<'a> {
    async fn of(config: &'a Config) -> Self {
        let unix = config.listener.unix.as_ref();
        Self {
            api: addresses(Some(&config.listener)).await,
            unix: unix.map(|unix| unix.path.as_path()),
            scheduler: addresses(config.scheduler.as_ref()).await,
            is_scheduler_optional: config.scheduler_is_optional,
        }
    }

    fn has(&self, place: ListenerPlace) -> bool {
        match place {
            ListenerPlace::ApiTcp => self.api.is_some(),
            ListenerPlace::ApiUnix => self.unix.is_some(),
            ListenerPlace::SchedulerTcp => self.scheduler.is_some(),
        }
    }

    fn place_of(
        &self,
        descriptor: &HandedDescriptor,
        is_single: bool,
    ) -> Result<ListenerPlace, String> {
        let HandedDescriptor { name, socket, .. } = descriptor;
        let shown = descriptor.shown();
        if let Some(place) = ListenerPlace::by_name(name, socket) {
            return match self.has(place) && place.takes(socket) {
                true => Ok(place),
                false => Err(format!(
                    "{shown} has the name {name}, and the configuration has no {} for such a \
                     socket; add the block, or correct FileDescriptorName= of the socket unit",
                    place.block()
                )),
            };
        }
        let only = || self.only_place().filter(|place| is_single && place.takes(socket));
        self.place_at(socket).or_else(only).ok_or_else(|| {
            format!(
                "{shown} fits no listener; write FileDescriptorName=api (or scheduler) into the \
                 socket unit, or this address into listener \"tcp\" {{ address = … }}"
            )
        })
    }

    /// Returns the place with the address of the socket.
    fn place_at(&self, socket: &ListeningSocket) -> Option<ListenerPlace> {
        let is_at = |place: &Option<Vec<SocketAddr>>, address| {
            place.as_ref().is_some_and(|addresses| addresses.contains(address))
        };
        match socket {
            ListeningSocket::Tcp { address, .. } if is_at(&self.api, address) => {
                Some(ListenerPlace::ApiTcp)
            }
            ListeningSocket::Tcp { address, .. } if is_at(&self.scheduler, address) => {
                Some(ListenerPlace::SchedulerTcp)
            }
            ListeningSocket::Unix { path: Some(path), .. } if self.unix == Some(path) => {
                Some(ListenerPlace::ApiUnix)
            }
            _ => None,
        }
    }

    /// Returns the place if the configuration has no other.
    fn only_place(&self) -> Option<ListenerPlace> {
        let has_scheduler = self.scheduler.is_some() && !self.is_scheduler_optional;
        match (self.api.is_some(), self.unix.is_some(), has_scheduler) {
            (true, false, false) => Some(ListenerPlace::ApiTcp),
            (false, true, false) => Some(ListenerPlace::ApiUnix),
            _ => None,
        }
    }
}

/// Returns the addresses of a listener with TCP: none if its name cannot be resolved.
async fn addresses(listener: Option<&ListenerConfig>) -> Option<Vec<SocketAddr>> {
    let address = listener?.address.as_deref()?;
    let resolved = tokio::net::lookup_host(address).await;
    Some(resolved.map(Iterator::collect).unwrap_or_default())
}
