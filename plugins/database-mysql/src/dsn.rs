//! Parser for the DSN of Go's driver: `user:password@tcp(host:3306,host)/database?parameter=value`.
//!
//! As in Go's driver, the text is parsed from its end, so that a password may contain any character
//! except `/`: the database follows the last `/`, the login ends at the last `@` before this `/`,
//! and the password follows the first `:` of the login. Nothing before the database is
//! percent-encoded.

use crate::codes::Code;
use bulkhead_sdk::connection::{
    CONNECTION_URL, ConnectionParameters, Fault, WrittenValue, in_place,
};
use bulkhead_sdk::database_plugin::Refusal;

/// Parses a whole `connection_url`.
pub(crate) fn read(text: &str) -> Result<ConnectionParameters, Refusal> {
    let refused = || Code::ConnectionUrlForm.about(CONNECTION_URL);
    let (before, after) = text.rsplit_once('/').ok_or_else(refused)?;
    let (database, query) = after.split_once('?').unwrap_or((after, ""));
    let mut parameters = ConnectionParameters::default();
    let place = match before.rsplit_once('@') {
        Some((login, place)) => {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            parameters.named.push(("user".to_owned(), WrittenValue::bare(user)));
            parameters.named.push(("password".to_owned(), WrittenValue::exact(password)));
            place
        }
        None => before,
    };
    parameters.named.push(("dbname".to_owned(), WrittenValue::encoded(database)));
    parameters.hosts = hosts(place)?;
    parameters.written_from = parameters.named.len();
    parameters.is_doubtful = query.contains('@');
    for (place, pair) in query.split('&').filter(|_| !query.is_empty()).enumerate() {
        let (keyword, value) =
            pair.split_once('=').ok_or_else(|| in_place(Fault::ParameterUnreadable, place))?;
        parameters
            .named
            .push((WrittenValue::encoded(keyword).plain()?, WrittenValue::encoded(value)));
    }
    Ok(parameters)
}

/// Parses `tcp(host:port,host)`, `tcp` or an empty text; without a host, the host is this machine.
fn hosts(place: &str) -> Result<Vec<(WrittenValue, Option<WrittenValue>)>, Refusal> {
    let refused = || Code::ConnectionUrlForm.about(CONNECTION_URL);
    let (network, hosts) = match place.split_once('(') {
        Some((network, rest)) => (network, rest.strip_suffix(')').ok_or_else(refused)?),
        None => (place, "127.0.0.1"),
    };
    match network {
        "tcp" => hosts.split(',').map(|host| host_and_port(host.trim())).collect(),
        "" if hosts == "127.0.0.1" => host_and_port(hosts).map(|host| vec![host]),
        "unix" => Err(Fault::UnixSocket.about(CONNECTION_URL)),
        _ => Err(refused()),
    }
}

/// Parses `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(text: &str) -> Result<(WrittenValue, Option<WrittenValue>), Refusal> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let refused = || Fault::UrlHost.about(CONNECTION_URL);
            let (host, after) = bracketed.split_once(']').ok_or_else(refused)?;
            match after.strip_prefix(':') {
                Some(port) => (host, port),
                None if after.is_empty() => (host, ""),
                None => return Err(refused()),
            }
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    Ok((WrittenValue::bare(host), Some(WrittenValue::bare(port))))
}
