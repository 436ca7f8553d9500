//! Connection URLs: `postgresql://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?NAME=VALUE&…`.
//!
//! This file prevents a part of a URL without effect: every part becomes a named parameter, and
//! `parameters` refuses unknown and contradicting parameters.

use percent_encoding::percent_decode_str;

use bulkhead_record::fault::StoreFault;

use super::keyword_form;
use super::parameters::{Parameters, refused};
use super::{PostgresPlace, PostgresSetting};

impl PostgresPlace {
    /// Parses a connection URL, or the keyword form `host=… user=…`.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] with the part that cannot be read. The text repeats no value.
    pub fn from_url(url: &str) -> Result<PostgresPlace, StoreFault> {
        PostgresPlace::from_url_beside(url, &[])
    }

    /// Parses a connection URL like [`PostgresPlace::from_url`], with settings beside the URL.
    ///
    /// # Errors
    /// As [`PostgresPlace::from_url`]; [`StoreFault::Refused`] if the URL has the parameter of a
    /// setting, or a setting contradicts a parameter.
    pub fn from_url_beside(
        url: &str,
        settings: &[PostgresSetting],
    ) -> Result<PostgresPlace, StoreFault> {
        let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
        let mut parameters = match rest {
            Some(rest) => parameters_of(rest)?,
            None if url.contains("://") || !url.contains('=') => {
                return Err(refused(
                    "it begins neither with postgresql:// nor with a keyword as in host=",
                ));
            }
            None => keyword_form::parameters_of(url)?,
        };
        for setting in settings {
            parameters.set_beside(setting)?;
        }
        parameters.into_place()
    }
}

/// Reads a URL after its scheme.
fn parameters_of(rest: &str) -> Result<Parameters, StoreFault> {
    let (place, listed) = rest.split_once('?').unwrap_or((rest, ""));
    let (account, place) = place.rsplit_once('@').unwrap_or(("", place));
    let (servers, database) = place.split_once('/').unwrap_or((place, ""));
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let mut parameters = Parameters::default();
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for server in servers.split(',') {
        let (host, port) = host_and_port(server)?;
        let host = decoded(host)?;
        if host.contains(',') {
            return Err(refused("a host contains a comma"));
        }
        hosts.push(host);
        ports.push(port);
    }
    for (name, list) in [("host", hosts.join(",")), ("port", ports.join(","))] {
        if list.chars().any(|character| character != ',') {
            parameters.set(name, list)?;
        }
    }
    parameters.set("user", decoded(user)?)?;
    parameters.set("password", decoded(password)?)?;
    parameters.set("dbname", decoded(database)?)?;
    for parameter in listed.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter
            .split_once('=')
            .ok_or_else(|| refused("a parameter has no value; write NAME=VALUE"))?;
        parameters.set(&decoded(name)?, decoded(value)?)?;
    }
    Ok(parameters)
}

/// Splits a server. An IPv6 address stands in brackets.
fn host_and_port(server: &str) -> Result<(&str, &str), StoreFault> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(|| refused("an address has no ]"))?,
        None => server.find(':').map_or((server, ""), |colon| server.split_at(colon)),
    };
    match port.strip_prefix(':') {
        Some(port) if port.contains(':') => {
            Err(refused("an IPv6 address stands without brackets; write [ADDRESS]:PORT"))
        }
        Some(port) => Ok((host, port)),
        None if port.is_empty() => Ok((host, "")),
        None => Err(refused("an address in brackets is not followed by a port")),
    }
}

fn decoded(text: &str) -> Result<String, StoreFault> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let digits = after.as_bytes().get(..2);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(refused("a % is not followed by two hexadecimal digits; write %25 for %"));
        }
        rest = after;
    }
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| refused("a part of it is not UTF-8"))?;
    match decoded.contains('\0') {
        true => Err(refused("a part of it contains a zero byte")),
        false => Ok(decoded.into_owned()),
    }
}
