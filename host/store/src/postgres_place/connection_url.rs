//! Connection URLs: `postgresql://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?NAME=VALUE&…`.
//!
//! This file prevents a word of a URL without effect: an unknown parameter is refused with its
//! name. No message repeats a value, because the value may be a password.

use std::time::Duration;

use bulkhead_wire::secret::Secret;
use percent_encoding::percent_decode_str;

use crate::fault::StoreFault;

use super::{
    CONNECT_TIMEOUT, MAX_PARALLEL, PasswordSource, PostgresPlace, PostgresServer, PostgresTls,
    PostgresTlsMode, SCHEMA, SessionTarget, TABLE,
};

const FORM: &str = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE";
/// Default port of a server.
const PORT: u16 = 5432;

impl PostgresPlace {
    /// Parses a connection URL.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] with the part that cannot be read. The text repeats no value.
    pub fn from_url(url: &str) -> Result<PostgresPlace, StoreFault> {
        let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
        let rest = rest.ok_or_else(|| refused("it does not begin with postgresql://"))?;
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (account, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
        let (user, password) = match account.split_once(':') {
            Some((user, password)) => {
                (decoded(user)?, PasswordSource::Fixed(Secret::new(decoded(password)?)))
            }
            None => (decoded(account)?, PasswordSource::Missing),
        };
        let servers: Vec<_> = hosts.split(',').map(server).collect::<Result<_, _>>()?;
        let mode = match servers.iter().all(PostgresServer::is_local) {
            true => PostgresTlsMode::Prefer,
            false => PostgresTlsMode::VerifyFull,
        };
        let tls = PostgresTls {
            mode,
            root_certificates: None,
            client_certificate: None,
            client_key: None,
        };
        let mut place = PostgresPlace {
            servers,
            session_target: SessionTarget::Any,
            database: decoded(database)?,
            user,
            password,
            schema: SCHEMA.to_owned(),
            table: TABLE.to_owned(),
            tls,
            connect_timeout: CONNECT_TIMEOUT,
            max_parallel: MAX_PARALLEL,
            application_name: "bulkhead".to_owned(),
        };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            place.set(&decoded(name)?, decoded(value)?)?;
        }
        if place.user.is_empty() {
            return Err(refused("it names no user"));
        }
        if place.database.is_empty() {
            place.database.clone_from(&place.user);
        }
        Ok(place)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), StoreFault> {
        match name {
            "sslmode" => self.tls.mode = tls_mode(&value)?,
            "sslrootcert" => self.tls.root_certificates = Some(value.into()),
            "sslcert" => self.tls.client_certificate = Some(value.into()),
            "sslkey" => self.tls.client_key = Some(value.into()),
            "connect_timeout" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                let seconds =
                    seconds.ok_or_else(|| refused("connect_timeout is not a number of seconds"))?;
                self.connect_timeout = Duration::from_secs(seconds);
            }
            "target_session_attrs" => {
                self.session_target = match value.as_str() {
                    "any" => SessionTarget::Any,
                    "read-write" | "primary" => SessionTarget::ReadWrite,
                    _ => return Err(refused("target_session_attrs is not any or read-write")),
                }
            }
            "application_name" => self.application_name = value,
            "search_path" => self.schema = value,
            "passfile" => self.password = PasswordSource::PassFile(value.into()),
            _ => return Err(refused(&format!("it has the unknown parameter {name:?}"))),
        }
        Ok(())
    }
}

fn refused(why: &str) -> StoreFault {
    StoreFault::Refused(format!("the connection URL of the database: {why}; give {FORM}"))
}

fn decoded(text: &str) -> Result<String, StoreFault> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| refused("a part of it is not UTF-8"))?.into_owned())
}

fn server(text: &str) -> Result<PostgresServer, StoreFault> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(|| refused("an address has no ]"))?,
        None => match text.rfind(':') {
            Some(colon) => text.split_at(colon),
            None => (text, ""),
        },
    };
    let port = match port.strip_prefix(':') {
        None | Some("") => PORT,
        Some(port) => port.parse().map_err(|_| refused("a port is not a number"))?,
    };
    let host = decoded(host)?;
    Ok(PostgresServer { host: if host.is_empty() { "localhost".to_owned() } else { host }, port })
}

fn tls_mode(value: &str) -> Result<PostgresTlsMode, StoreFault> {
    Ok(match value {
        "disable" => PostgresTlsMode::Disable,
        "prefer" | "allow" => PostgresTlsMode::Prefer,
        "require" => PostgresTlsMode::Require,
        "verify-ca" => PostgresTlsMode::VerifyCa,
        "verify-full" => PostgresTlsMode::VerifyFull,
        _ => {
            return Err(refused(
                "sslmode is not disable, prefer, require, verify-ca or verify-full",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_debug_hide_the_password() {
        let place =
            PostgresPlace::from_url("postgresql://u:hunter2@db.example:6000/vault").unwrap();
        let text = place.to_string();
        assert_eq!(text, "postgresql://db.example:6000/vault (schema public, tables bulkhead_*)");
        assert!(!format!("{place:?}").contains("hunter2"));
        for url in ["nonsense hunter2", "postgresql://u:hunter2@h:hunter2/d"] {
            let fault = PostgresPlace::from_url(url).err().unwrap();
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
        }
    }

    #[test]
    fn parts_of_url_are_read() {
        let url = "postgres://a%40b:p%3A@[::1]:1,h,%2Frun%2Fpg:2/d?search_path=s\
                   &target_session_attrs=read-write&connect_timeout=3";
        let place = PostgresPlace::from_url(url).unwrap();
        assert_eq!((place.user.as_str(), place.schema.as_str()), ("a@b", "s"));
        assert!(matches!(&place.password, PasswordSource::Fixed(text) if text.expose() == "p:"));
        let servers: Vec<_> = place.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["[::1]:1", "h:5432", "/run/pg:2"]);
        assert_eq!(place.session_target, SessionTarget::ReadWrite);
        assert_eq!(place.connect_timeout, Duration::from_secs(3));
        assert_eq!(place.tls.mode, PostgresTlsMode::VerifyFull, "h is another machine");
    }
}
