//! The URL form: `scheme://user:password@host:port,host:port/database?parameter=value`.

use super::faults::Fault;
use super::parameters::{CONNECTION_URL, ConnectionParameters, WrittenValue, in_place};
use crate::database_plugin::Refusal;

/// Reads the URL after the scheme.
///
/// # Errors
/// If a part cannot be told from its neighbours, or has characters that must be encoded.
pub fn read(text: &str) -> Result<ConnectionParameters, Refusal> {
    if text.contains('#') || text.contains(char::is_whitespace) || text.contains('\0') {
        return Err(Fault::UrlEscaping.about(CONNECTION_URL));
    }
    let (before_query, query) = text.split_once('?').unwrap_or((text, ""));
    let (authority, database) = before_query.split_once('/').unwrap_or((before_query, ""));
    // A password with a bare `/` would be read as a port and a database: never dial that.
    if database.contains('@') {
        return Err(Fault::UrlEscaping.about(CONNECTION_URL));
    }
    let mut parameters = ConnectionParameters::default();
    let hosts = match authority.rsplit_once('@') {
        Some((userinfo, hosts)) => {
            add_login(&mut parameters, userinfo);
            hosts
        }
        None => authority,
    };
    add_part(&mut parameters, "dbname", database);
    for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
        parameters.hosts.push(host_and_port(host)?);
    }
    parameters.written_from = parameters.named.len();
    parameters.is_doubtful = query.contains('@');
    for (place, pair) in query.split('&').filter(|_| !query.is_empty()).enumerate() {
        let (keyword, value) =
            pair.split_once('=').ok_or_else(|| in_place(Fault::ParameterUnreadable, place))?;
        parameters
            .named
            .push((WrittenValue::encoded(keyword).plain()?, WrittenValue::encoded(value)));
    }
    parameters.take_named_hosts()?;
    Ok(parameters)
}

fn add_login(parameters: &mut ConnectionParameters, userinfo: &str) {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    add_part(parameters, "user", user);
    add_part(parameters, "password", password);
}

fn add_part(parameters: &mut ConnectionParameters, keyword: &str, value: &str) {
    if !value.is_empty() {
        parameters.named.push((keyword.to_owned(), WrittenValue::encoded(value)));
    }
}

/// Splits `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(text: &str) -> Result<(WrittenValue, Option<WrittenValue>), Refusal> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let refused = || Fault::UrlHost.about(CONNECTION_URL);
        let (address, after) = bracketed.split_once(']').ok_or_else(refused)?;
        let port = match after.strip_prefix(':') {
            Some(port) => port,
            None if after.is_empty() => "",
            None => return Err(refused()),
        };
        return Ok((WrittenValue::encoded(address), Some(WrittenValue::encoded(port))));
    }
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    Ok((WrittenValue::encoded(host), Some(WrittenValue::encoded(port))))
}
