//! The login of a target, parsed once.
//!
//! This file prevents a login with a name and an empty password, which servers treat as an
//! anonymous login and answer with success (RFC 4513, section 5.1.2).

use super::directory_target::DirectoryTarget;
use super::failure::{LdapFailure, failed};
use super::secure::LdapTlsSettings;
use crate::addresses::{AllowedAddresses, LdapServer, ServerHost};
use crate::limits;
use crate::tls::TlsConfigs;
use std::time::Duration;

/// A parsed target.
#[derive(Clone)]
pub struct LdapLogin {
    /// The servers in the order of their attempts, each with its allowed addresses.
    pub(super) servers: Vec<(LdapServer, AllowedAddresses)>,
    pub(super) secured: LdapTlsSettings,
    pub(super) name: String,
    pub(super) password: String,
    /// Timeout of the connection to a single server.
    pub(super) connect_time: Duration,
    /// Timeout of a single answer.
    pub(super) answer_time: Duration,
}

impl LdapLogin {
    /// Parses the target. The caller has already checked the grants of its servers.
    ///
    /// # Errors
    /// The fault of the target, without quoting a secret.
    pub fn new(
        target: &DirectoryTarget,
        servers: Vec<(LdapServer, AllowedAddresses)>,
        configs: &TlsConfigs,
    ) -> Result<Self, LdapFailure> {
        let invalid = |why: String| failed("invalid-request", why);
        if target.bind_dn.len().max(target.password.len()) > limits::LDAP_TEXT_BYTES {
            return Err(invalid("a name or password is longer than 64 KiB".to_owned()));
        }
        match (target.bind_dn.is_empty(), target.password.is_empty()) {
            (false, true) => {
                return Err(invalid(
                    "the password is empty, which servers take for a login without a name; set a \
                     password"
                        .to_owned(),
                ));
            }
            (true, false) => return Err(invalid("a password is given without a name".to_owned())),
            _ => {}
        }
        let secured = LdapTlsSettings::new(&target.tls, configs).map_err(invalid)?;
        Ok(Self {
            connect_time: time(target.connect_timeout).min(share(servers.len())),
            answer_time: time(target.request_timeout),
            name: target.bind_dn.clone(),
            password: target.password.clone(),
            servers,
            secured,
        })
    }

    /// Returns the allowed addresses of each server.
    pub fn reaches(&self) -> impl Iterator<Item = &AllowedAddresses> + Clone {
        self.servers.iter().map(|(_, reach)| reach)
    }
}

fn time(milliseconds: u32) -> Duration {
    match milliseconds {
        0 => limits::EFFECT_TIME,
        timeout => Duration::from_millis(timeout.into()).min(limits::EFFECT_TIME),
    }
}

/// Returns the share of a call's time for a single server, so that a call can try every server.
fn share(servers: usize) -> Duration {
    let shares = u32::try_from(servers).unwrap_or(u32::MAX).saturating_add(1);
    limits::EFFECT_TIME / shares
}

/// Parses `ldap://host:port` or `ldaps://host:port`; only a slash may follow.
///
/// # Errors
/// The fault of the URL, without quoting the URL.
pub fn parse_server(url: &str) -> Result<LdapServer, LdapFailure> {
    read_server(url).ok_or_else(|| {
        failed("invalid-request", "a URL is ldap://host:port or ldaps://host:port, and no more")
    })
}

fn read_server(url: &str) -> Option<LdapServer> {
    let (scheme, rest) = url.split_once("://")?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "ldaps" => true,
        "ldap" => false,
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '@', '\\', '%', ' ']) {
        return None;
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return None;
    }
    let usual = if tls { 636 } else { 389 };
    let port = match port {
        None => usual,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port > 0)?
        }
        Some(_) => return None,
    };
    Some(LdapServer { tls, host: ServerHost::parse(host)?, port })
}
