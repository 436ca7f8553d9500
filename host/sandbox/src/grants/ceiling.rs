//! The ceiling set by a plugin's entry in the catalog, compared with the lines granted to a mount
//! and with the lines that the component asks for.
//!
//! This file prevents the operator of a mount from granting a plugin an act that the operator who
//! registered the plugin has ruled out.

use super::ask::{AnyTarget, GrantPattern};
use super::limits::ceiling_limit;
use super::line::{DatabasePlugins, Grant, OutboundProtocol};
use bulkhead_outbound::addresses::{HostPattern, ServerHost};
use ipnet::IpNet;

/// Checks a line to be granted to a mount of the plugin.
///
/// # Errors
/// The lines that the ceiling allows instead.
pub fn check(ceiling: &[GrantPattern], grant: &Grant) -> Result<(), String> {
    // An engine dials through a database plugin, and the database plugin has its own ceiling.
    let is_for_another =
        matches!(grant, Grant::Sql { .. } | Grant::Address(_)) && reaches_plugins(ceiling);
    if is_for_another || is_below(ceiling, grant) {
        return Ok(());
    }
    Err(match grant {
        Grant::Limit(line) => format!("limit:{}", ceiling_limit(ceiling, line)),
        _ if ceiling.is_empty() => "nothing".to_owned(),
        _ => ceiling.iter().map(GrantPattern::to_string).collect::<Vec<_>>().join(", "),
    })
}

/// Returns whether the ceiling allows all of an ask.
#[must_use]
pub fn allows(ceiling: &[GrantPattern], pattern: &GrantPattern) -> bool {
    match pattern {
        GrantPattern::Any(_) => ceiling.contains(pattern),
        GrantPattern::Of(grant) => is_below(ceiling, grant),
    }
}

/// Returns the ranges to which names may resolve at most.
pub(super) fn ranges(ceiling: &[GrantPattern]) -> Vec<IpNet> {
    let range = |ask: &GrantPattern| match ask {
        GrantPattern::Of(Grant::Address(range)) => Some(*range),
        _ => None,
    };
    ceiling.iter().filter_map(range).collect()
}

/// Returns the parts of a granted range that are within `ceiling`, if there is a ceiling.
pub(super) fn narrow(granted: IpNet, ceiling: Option<&[IpNet]>) -> Vec<IpNet> {
    let Some(ceiling) = ceiling else { return vec![granted] };
    let common = |most: &IpNet| match (most.contains(&granted), granted.contains(most)) {
        (true, _) => Some(granted),
        (false, true) => Some(*most),
        (false, false) => None,
    };
    ceiling.iter().filter_map(common).collect()
}

/// Returns whether the ceiling covers every target of the line.
fn is_below(ceiling: &[GrantPattern], grant: &Grant) -> bool {
    match grant {
        Grant::Limit(line) => line.is_at_most(&ceiling_limit(ceiling, line)),
        // The context reaches no server that the component may not ask.
        Grant::Trace(targets) => is_below(ceiling, targets),
        _ => ceiling.iter().any(|most| contains(most, grant)),
    }
}

fn reaches_plugins(ceiling: &[GrantPattern]) -> bool {
    let reaches = |ask: &GrantPattern| {
        matches!(ask, GrantPattern::Any(AnyTarget::Database) | GrantPattern::Of(Grant::Database(_)))
    };
    ceiling.iter().any(reaches)
}

/// Returns whether `most` covers every target of `grant`.
fn contains(most: &GrantPattern, grant: &Grant) -> bool {
    let within = match most {
        GrantPattern::Any(_) => return most.covers(grant),
        GrantPattern::Of(within) => within,
    };
    match (within, grant) {
        (Grant::Sql { driver, host, port }, Grant::Sql { driver: of, host: inner, port: at }) => {
            driver == of && port == at && host_contains(host, inner)
        }
        (Grant::Http { tls, host, port }, Grant::Http { tls: of, host: inner, port: at })
        | (Grant::Ldap { tls, host, port }, Grant::Ldap { tls: of, host: inner, port: at }) => {
            tls == of && port == at && host_contains(host, inner)
        }
        (Grant::Address(outer), Grant::Address(inner)) => outer.contains(inner),
        (Grant::Anywhere(OutboundProtocol::Http), Grant::Http { .. })
        | (Grant::Anywhere(OutboundProtocol::Ldap), Grant::Ldap { .. })
        | (Grant::Database(DatabasePlugins::Any), Grant::Database(_)) => true,
        _ => within == grant,
    }
}

fn host_contains(outer: &HostPattern, inner: &HostPattern) -> bool {
    match (outer, inner) {
        (_, HostPattern::Name(name)) => outer.covers(&ServerHost::Name(name.clone())),
        (HostPattern::Below(_), HostPattern::Below(domain)) => {
            outer == inner || outer.covers(&ServerHost::Name(domain.clone()))
        }
        (HostPattern::Network(outer), HostPattern::Network(inner)) => outer.contains(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(text: &str) -> Vec<GrantPattern> {
        text.split_whitespace().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn line_is_below_ceiling_covering_all_its_targets() {
        for (most, line, is_below) in [
            ("sql", "sql:postgres://db:5432", true),
            ("sql:postgres://db", "sql:postgres://db:5432", true),
            ("sql:postgres://db", "sql:postgres://db:5433", false),
            ("sql:postgres://10.0.0.0/8", "sql:postgres://10.1.0.0/16", true),
            ("sql:postgres://10.1.0.0/16", "sql:postgres://10.0.0.0/8", false),
            ("sql:postgres://10.0.0.0/8", "sql:postgres://db", false),
            ("http:https://*.example.com", "http:https://a.example.com", true),
            ("http:https://*.example.com", "http:https://*.b.example.com", true),
            ("http:https://*.example.com", "http:https://*.example.com", true),
            ("http:https://*.b.example.com", "http:https://*.example.com", false),
            ("http:https://*.example.com", "http:https://example.com", false),
            ("http:https://a", "http:http://a:443", false),
            ("ldap:ldaps://dc1", "ldap:ldaps://dc1", true),
            ("address:10.0.0.0/8", "address:10.1.2.3", true),
            ("address:10.0.0.0/16", "address:10.0.0.0/8", false),
            ("address:10.0.0.0/8", "address:fd00::/8", false),
            ("http", "http:*", true),
            ("http:*", "http:https://*.example.com", true),
            ("http:*", "ldap:*", false),
            ("http:https://a", "http:*", false),
            ("ldap", "ldap:*", true),
            ("database", "database:*", true),
            ("database:*", "database:x", true),
            ("database:x", "database:*", false),
            ("crypto:sign", "crypto:sign", true),
            ("crypto:sign", "crypto:generate-key", false),
            ("limit:memory=96MiB", "limit:memory=96MiB", true),
            ("limit:memory=96MiB", "limit:memory=97MiB", false),
            ("sql", "limit:memory=64MiB", true),
            ("sql", "limit:memory=65MiB", false),
            ("sql", "limit:rate=1/s", true),
            ("", "database:x", false),
        ] {
            assert_eq!(
                check(&ceiling(most), &line.parse().unwrap()).is_ok(),
                is_below,
                "{most} {line}"
            );
            assert_eq!(allows(&ceiling(most), &line.parse().unwrap()), is_below, "{most} {line}");
        }
    }

    #[test]
    fn ceiling_refusal_names_allowed_grants() {
        for (most, line, allowed) in [
            ("limit:memory=96MiB sql", "limit:memory=97MiB", "limit:memory=96MiB"),
            ("sql", "limit:memory=65MiB", "limit:memory=64MiB"),
            ("sql limit:rate=5/s", "crypto:sign", "sql, limit:rate=5/s"),
            ("", "crypto:sign", "nothing"),
        ] {
            assert_eq!(check(&ceiling(most), &line.parse().unwrap()), Err(allowed.to_owned()));
        }
    }

    #[test]
    fn granted_range_is_narrowed_to_ceiling() {
        let most = ranges(&ceiling("sql address:10.0.0.0/8 address:192.168.1.0/24"));
        for (granted, left) in [
            ("10.1.0.0/16", "10.1.0.0/16"),
            ("0.0.0.0/0", "10.0.0.0/8 192.168.1.0/24"),
            ("192.168.0.0/16", "192.168.1.0/24"),
            ("172.16.0.0/12", ""),
        ] {
            let granted: IpNet = granted.parse().unwrap();
            let narrow: Vec<String> =
                narrow(granted, Some(&most)).iter().map(IpNet::to_string).collect();
            assert_eq!(narrow.join(" "), left, "{granted}");
            assert_eq!(super::narrow(granted, None), [granted]);
        }
    }

    #[test]
    fn database_plugin_ceiling_bounds_its_connections() {
        for line in ["sql:postgres://db", "address:10.0.0.0/8"] {
            assert_eq!(check(&ceiling("database:x"), &line.parse().unwrap()), Ok(()));
            assert!(check(&ceiling("crypto:sign"), &line.parse().unwrap()).is_err());
        }
    }

    #[test]
    fn any_target_request_exceeds_ceiling_with_named_targets() {
        assert!(allows(&ceiling("sql"), &"sql".parse().unwrap()));
        assert!(!allows(&ceiling("sql:postgres://db"), &"sql".parse().unwrap()));
        assert!(!allows(&[], &"sql".parse().unwrap()));
    }
}
