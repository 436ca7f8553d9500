//! The descriptors of `LISTEN_FDS`: taken over once, checked, and closed in child processes.
//!
//! This file prevents a descriptor of something else from being served: `LISTEN_PID` has to be the
//! number of this process, because the variables are inherited by every program that a program of
//! the service manager starts.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of the first descriptor, after the three standard streams.
const FIRST: i32 = 3;

/// True from the first [`take`] on: no descriptor gets a second owner.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// A descriptor that was handed over.
pub(super) struct HandedDescriptor {
    pub(super) number: i32,
    /// Name in `LISTEN_FDNAMES`; empty without a name.
    pub(super) name: String,
    pub(super) socket: ListeningSocket,
}

/// A listening stream socket.
pub(super) enum ListeningSocket {
    Tcp {
        socket: TcpListener,
        address: SocketAddr,
    },
    Unix {
        socket: UnixListener,
        /// `None`: an abstract address.
        path: Option<PathBuf>,
    },
}

impl HandedDescriptor {
    /// Returns the number and the address, for messages.
    pub(super) fn shown(&self) -> String {
        let address = match &self.socket {
            ListeningSocket::Tcp { address, .. } => address.to_string(),
            ListeningSocket::Unix { path: Some(path), .. } => path.display().to_string(),
            ListeningSocket::Unix { path: None, .. } => "an abstract address".to_owned(),
        };
        format!("descriptor {} ({address}) of LISTEN_FDS", self.number)
    }

    /// Checks that `socket` is a listening stream socket.
    ///
    /// # Errors
    /// The kind of the descriptor, and the remedy.
    pub(super) fn of(number: i32, name: &str, socket: OwnedFd) -> Result<Self, String> {
        let cannot = |error: io::Error| {
            format!("descriptor {number} of LISTEN_FDS cannot be examined: {error}")
        };
        let unfit = |kind: &str| {
            format!(
                "descriptor {number} of LISTEN_FDS {kind}; hand over listening stream sockets \
                 alone: ListenStream= and Accept=no in the socket unit"
            )
        };
        let kind = socket_type(&socket).map_err(|error| cannot(error.into()))?;
        if kind != SocketType::STREAM {
            return Err(unfit("is not a stream socket"));
        }
        if !socket_acceptconn(&socket).map_err(|error| cannot(error.into()))? {
            return Err(unfit("does not listen"));
        }
        let domain = socket_domain(&socket).map_err(|error| cannot(error.into()))?;
        let socket = match domain {
            AddressFamily::INET | AddressFamily::INET6 => {
                let socket = TcpListener::from(socket);
                let address = socket.local_addr().map_err(cannot)?;
                ListeningSocket::Tcp { socket, address }
            }
            AddressFamily::UNIX => {
                let socket = UnixListener::from(socket);
                let address = socket.local_addr().map_err(cannot)?;
                let path = address.as_pathname().map(PathBuf::from);
                ListeningSocket::Unix { socket, path }
            }
            _ => return Err(unfit("is neither a TCP socket nor a Unix socket")),
        };
        Ok(Self { number, name: name.to_owned(), socket })
    }
}

/// The descriptors that the environment announces.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) count: i32,
    /// A name for each descriptor, or no names.
    pub(super) names: Vec<String>,
}

impl Announcement {
    /// Reads the variables. `None`: the environment hands nothing to the process `pid`.
    ///
    /// # Errors
    /// A malformed variable.
    pub(super) fn read(
        env: &dyn Fn(&str) -> Option<OsString>,
        pid: u32,
    ) -> Result<Option<Self>, String> {
        let text = |name| env(name).map(|value| value.to_string_lossy().into_owned());
        let is_ours = |value: String| value.parse() == Ok(pid);
        if !text("LISTEN_PID").is_some_and(is_ours) {
            return Ok(None);
        }
        let Some(number) = text("LISTEN_FDS") else { return Ok(None) };
        let fits = |count: &i32| (0..=i32::MAX - FIRST).contains(count);
        let Some(count) = number.parse().ok().filter(fits) else {
            return Err(format!(
                "LISTEN_FDS {number:?} is not a number of descriptors; unset LISTEN_PID, or let \
                 the service manager set both"
            ));
        };
        let names = text("LISTEN_FDNAMES").unwrap_or_default();
        let names: Vec<String> = match names.as_str() {
            "" => Vec::new(),
            names => names.split(':').map(str::to_owned).collect(),
        };
        if !names.is_empty() && i32::try_from(names.len()) != Ok(count) {
            return Err(format!(
                "LISTEN_FDNAMES has {} names for the {count} descriptors of LISTEN_FDS; give a \
                 name for each, or unset LISTEN_FDNAMES",
                names.len()
            ));
        }
        Ok(Some(Self { count, names }))
    }
}

/// Takes the descriptors over. A second call finds none.
///
/// # Errors
/// As [`super::HandedSockets::take`].
pub(super) fn take(
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<HandedDescriptor>, String> {
    let announcement = Announcement::read(env, std::process::id())?;
    let Some(Announcement { count, names }) = announcement else { return Ok(Vec::new()) };
    if IS_TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let mut names = names.iter().map(String::as_str);
    (FIRST..FIRST.saturating_add(count))
        .map(|number| {
            let name = names.next().unwrap_or_default();
            HandedDescriptor::of(number, name, own(number)?)
        })
        .collect()
}

/// Takes the descriptor `number` over, and closes the descriptor in future child processes.
///
/// # Errors
/// The descriptor is not an open socket.
#[allow(unsafe_code, reason = "only this function owns inherited descriptors; see SAFETY")]
fn own(number: i32) -> Result<OwnedFd, String> {
    let opened = std::fs::read_link(format!("/proc/self/fd/{number}"));
    if !opened.is_ok_and(|opened| opened.to_string_lossy().starts_with("socket:")) {
        return Err(format!(
            "descriptor {number} of LISTEN_FDS is not an open socket; unset LISTEN_PID, or let the \
             service manager start this program"
        ));
    }
    // SAFETY: the descriptor is open, as the line above shows, and has no other owner: the program
    // that started this process left the descriptor to this process, by the number of this process
    // in LISTEN_PID; this process has opened no socket yet and has one thread; and `IS_TAKEN` lets
    // a single call of `take` come here, with each number once.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)
        .map_err(|error| format!("descriptor {number} of LISTEN_FDS cannot be kept: {error}"))?;
    Ok(descriptor)
}
