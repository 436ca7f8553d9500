//! The URLs of a configuration: `ldap://dc1.corp.example, ldaps://dc2.corp.example:1636`.

use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;

/// Maximum number of URLs, set by the host.
const MOST: usize = 16;

/// Splits a list into its URLs, in order.
pub(crate) fn of(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|url| !url.is_empty())
}

/// Checks a list of directory URLs.
///
/// # Errors
/// Invalid request that names the first malformed URL, or the number of URLs.
pub(crate) fn check(list: &str) -> Result<(), Failure> {
    let count = of(list).count();
    if count == 0 || count > MOST {
        return Err(Failure::invalid(format!("url names {count} servers; name 1 to {MOST}")));
    }
    match of(list).find(|url| host_of(url).is_none()) {
        Some(url) => Err(Failure::invalid(format!(
            "url {} is not ldap://host, ldaps://host, or either with a port",
            quoted(url)
        ))),
        None => Ok(()),
    }
}

/// Returns the first URL to which passwords would be sent unencrypted. Servers on this machine do
/// not count.
pub(crate) fn in_clear(list: &str) -> Option<&str> {
    let is_here = |url: &str| {
        let host = host_of(url).unwrap_or_default();
        ["127.0.0.1", "localhost", "[::1]"].contains(&host)
    };
    of(list).find(|url| scheme_of(url) == Some("ldap") && !is_here(url))
}

/// Returns the URLs that are asked. An unencrypted server after a TLS server is never asked.
pub(crate) fn asked(list: &str) -> impl Iterator<Item = &str> {
    let mut is_secured = false;
    of(list).filter(move |url| {
        let is_clear = scheme_of(url) == Some("ldap");
        is_secured |= !is_clear;
        !(is_clear && is_secured)
    })
}

/// Returns the first URL that is never asked: an unencrypted server after a TLS server.
pub(crate) fn never_asked(list: &str) -> Option<&str> {
    let mut behind = of(list).skip_while(|url| scheme_of(url) != Some("ldaps"));
    behind.find(|url| scheme_of(url) == Some("ldap"))
}

fn scheme_of(url: &str) -> Option<&'static str> {
    let (scheme, _) = url.split_once("://")?;
    ["ldap", "ldaps"].into_iter().find(|name| name.eq_ignore_ascii_case(scheme))
}

/// Returns the host of a URL that consists only of scheme, host and port.
fn host_of(url: &str) -> Option<&str> {
    scheme_of(url)?;
    let (_, rest) = url.split_once("://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, port)) => (rest.get(..address.len() + 2)?, port.strip_prefix(':')),
        None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let is_host = !host.is_empty()
        && host.chars().all(|one| one.is_ascii_graphic())
        && !host.contains(['/', '?', '#', '@', '\\']);
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    (is_host && is_port).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_list_is_trimmed_and_holds_only_directories() {
        let list = "ldap://a, ldaps://B.example:1636/ ,LDAPS://[::1]:636";
        assert_eq!(of(list).collect::<Vec<_>>().len(), 3);
        assert!(check(list).is_ok());
        for bad in [
            "",
            " , ",
            "http://x",
            "ldap://",
            "ldap://a:0",
            "ldap://a:b",
            "ldap://a/dc=x",
            "a:389",
            "ldap://u:p@a",
            "ldap://a b",
            "ldaps://[::1",
            "ldap://a?cn",
            "ldap://a:389:390",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check(&["ldap://a"; 17].join(",")).is_err());
    }

    #[test]
    fn plain_servers_after_secured_servers_are_never_contacted() {
        assert_eq!(never_asked("ldap://a, ldaps://b, ldap://c"), Some("ldap://c"));
        for list in ["ldap://a, ldaps://b", "ldap://a, ldap://b", "ldaps://a"] {
            assert_eq!(never_asked(list), None, "{list}");
        }
    }

    #[test]
    fn plain_connections_are_reported_except_to_this_machine() {
        assert_eq!(in_clear("ldaps://a,ldap://dc1.corp"), Some("ldap://dc1.corp"));
        assert_eq!(in_clear("ldap://127.0.0.1:389, ldaps://a, ldap://[::1]:389"), None);
    }
}
