//! The URL form: `postgresql://user:password@host:port,host:port/database?parameter=value`.

use crate::parameters::{CONNECTION_URL, Parameters, Text, in_place};
use crate::refusal::Code;
use bulkhead_sdk::database_plugin::Refusal;

/// Reads what follows the scheme.
pub(crate) fn read(text: &str) -> Result<Parameters, Refusal> {
    if text.contains('#') || text.contains(char::is_whitespace) || text.contains('\0') {
        return Err(Code::UrlEscaping.about(CONNECTION_URL));
    }
    let (before_query, query) = text.split_once('?').unwrap_or((text, ""));
    let (authority, database) = before_query.split_once('/').unwrap_or((before_query, ""));
    // A bare / in a password would make its head a port and its tail the database: never dial that.
    if database.contains('@') {
        return Err(Code::UrlEscaping.about(CONNECTION_URL));
    }
    let mut parameters = Parameters::default();
    let hosts = match authority.rsplit_once('@') {
        Some((userinfo, hosts)) => {
            parameters.userinfo(userinfo);
            hosts
        }
        None => authority,
    };
    parameters.name("dbname", database);
    for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
        parameters.hosts.push(host_and_port(host)?);
    }
    for (place, pair) in query.split('&').filter(|_| !query.is_empty()).enumerate() {
        let (keyword, value) =
            pair.split_once('=').ok_or_else(|| in_place(Code::ParameterUnknown, place))?;
        parameters.named.push((encoded(keyword).plain()?, encoded(value)));
    }
    parameters.take_named_hosts()?;
    Ok(parameters)
}

impl Parameters {
    fn userinfo(&mut self, userinfo: &str) {
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        self.name("user", user);
        self.name("password", password);
    }

    fn name(&mut self, keyword: &str, value: &str) {
        if !value.is_empty() {
            self.named.push((keyword.to_owned(), encoded(value)));
        }
    }

    /// Hosts and ports that are given by keyword, each a comma list; one port may serve all hosts.
    pub(crate) fn take_named_hosts(&mut self) -> Result<(), Refusal> {
        let ports = self.plain("port")?;
        if let Some(hosts) = self.plain("host")? {
            self.hosts = hosts.split(',').map(|host| (decoded(host), None)).collect();
        }
        let Some(ports) = ports else { return Ok(()) };
        let ports: Vec<&str> = ports.split(',').collect();
        for (place, (_, port)) in self.hosts.iter_mut().enumerate() {
            let given = if ports.len() == 1 { ports.first() } else { ports.get(place) };
            *port = Some(decoded(given.ok_or_else(|| Code::UrlPort.about(CONNECTION_URL))?));
        }
        if ports.len() > 1 && ports.len() != self.hosts.len() {
            return Err(Code::UrlPort.about(CONNECTION_URL));
        }
        Ok(())
    }
}

fn encoded(written: &str) -> Text {
    Text { written: written.to_owned(), encoded: true }
}

fn decoded(written: &str) -> Text {
    Text { written: written.trim().to_owned(), encoded: false }
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(text: &str) -> Result<(Text, Option<Text>), Refusal> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let refused = || Code::UrlHost.about(CONNECTION_URL);
        let (address, after) = bracketed.split_once(']').ok_or_else(refused)?;
        let port = match after.strip_prefix(':') {
            Some(port) => port,
            None if after.is_empty() => "",
            None => return Err(refused()),
        };
        return Ok((encoded(address), Some(encoded(port))));
    }
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    Ok((encoded(host), Some(encoded(port))))
}
