//! The policy that a request needs, for `-output-policy`.
//!
//! This file prevents policies that are wider than a script needs: the rule names one path and the
//! capabilities of one request.

use crate::client::ServerRequest;
use hyper::Method;
use serde_json::json;

/// Paths of the host that need `sudo` besides the capability, as `docs/host-endpoints.md` lists
/// them: the operations, and the path with `{name}` for a segment and `{name+}` for one or more.
const SUDO: [(&str, &str); 51] = [
    ("read", "sys/audit"),
    ("write", "sys/audit-hash/{path}"),
    ("delete write", "sys/audit/{path}"),
    ("delete read write", "sys/auth/{path+}"),
    ("read write", "sys/auth/{path+}/tune"),
    ("read", "sys/config/auditing/request-headers"),
    ("delete read write", "sys/config/auditing/request-headers/{header}"),
    ("read", "sys/config/state/sanitized"),
    ("delete read write", "sys/generate-root-token/attempt"),
    ("write", "sys/generate-root-token/update"),
    ("read", "sys/host-info"),
    ("read", "sys/in-flight-req"),
    ("read", "sys/leases"),
    ("list", "sys/leases/lookup"),
    ("list", "sys/leases/lookup/{prefix+}"),
    ("write", "sys/leases/revoke-force/{prefix+}"),
    ("write", "sys/leases/revoke-prefix/{prefix+}"),
    ("read", "sys/monitor"),
    ("read", "sys/plugins/catalog"),
    ("list", "sys/plugins/catalog/{type}"),
    ("delete read write", "sys/plugins/catalog/{type}/{name}"),
    ("read", "sys/plugins/pins"),
    ("delete read write", "sys/plugins/pins/{type}/{name}"),
    ("write", "sys/plugins/reload/backend"),
    ("read", "sys/plugins/reload/backend/status"),
    ("write", "sys/plugins/reload/{type}/{name}"),
    ("delete write", "sys/plugins/runtimes/catalog/{type}/{name}"),
    ("delete read", "sys/rekey/backup"),
    ("delete read", "sys/rekey/recovery-key-backup"),
    ("write", "sys/release"),
    ("write", "sys/remount"),
    ("write", "sys/revoke-force/{prefix+}"),
    ("write", "sys/revoke-prefix/{prefix+}"),
    ("write", "sys/rotate"),
    ("write", "sys/rotate/keyring"),
    ("delete read", "sys/rotate/recovery/backup"),
    ("delete read write", "sys/rotate/recovery/init"),
    ("write", "sys/rotate/recovery/update"),
    ("delete read write", "sys/rotate/recovery/verify"),
    ("delete read", "sys/rotate/root/backup"),
    ("delete read write", "sys/rotate/root/init"),
    ("write", "sys/rotate/root/update"),
    ("delete read write", "sys/rotate/root/verify"),
    ("write", "sys/seal"),
    ("write", "sys/step-down"),
    ("read write", "sys/storage/raft/snapshot"),
    ("write", "sys/storage/raft/snapshot-force"),
    ("read write", "sys/storage/snapshot"),
    ("write", "sys/storage/snapshot-force"),
    ("list", "auth/token/accessors"),
    ("write", "auth/token/revoke-orphan"),
];

/// Returns a policy with one rule that allows the request.
pub(crate) fn text(call: &ServerRequest) -> String {
    let is_list = call.query.iter().any(|(name, value)| name == "list" && value == "true");
    let (operation, mut capabilities) = match call.method {
        Method::GET if is_list => ("list", vec!["list"]),
        Method::GET => ("read", vec!["read"]),
        Method::DELETE => ("delete", vec!["delete"]),
        Method::PATCH => ("patch", vec!["patch"]),
        _ => ("write", vec!["create", "update"]),
    };
    if needs_sudo(operation, &call.path) {
        capabilities.push("sudo");
    }
    let listed: Vec<String> =
        capabilities.into_iter().map(|word| json!(word).to_string()).collect();
    format!("path {} {{\n  capabilities = [{}]\n}}", json!(call.path), listed.join(", "))
}

fn needs_sudo(operation: &str, path: &str) -> bool {
    SUDO.iter().any(|(operations, pattern)| {
        operations.split(' ').any(|one| one == operation) && is_matching(pattern, path)
    })
}

/// Returns true if `path` has the form of `pattern`.
fn is_matching(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    for part in pattern.split('/') {
        let Some(segment) = parts.next() else { return false };
        if part.starts_with('{') {
            // A tail, and not a segment, may be followed by a fixed segment: `{path+}/tune`. The
            // endpoints with the tail alone need `sudo` as well.
            if part.ends_with("+}") {
                return true;
            }
        } else if part != segment {
            return false;
        }
    }
    parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns operation and path of each endpoint of the host that needs `sudo`.
    fn documented() -> Vec<(String, String)> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/host-endpoints.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows = page.lines().filter(|line| line.contains("| token with `sudo` |"));
        rows.map(|row| {
            let cell = |index| row.split('|').nth(index).unwrap().trim().trim_matches('`');
            (cell(1).to_owned(), cell(2).to_owned())
        })
        .collect()
    }

    #[test]
    fn sudo_paths_match_documented_endpoints() {
        let own = SUDO.iter().flat_map(|(operations, path)| {
            operations.split(' ').map(|operation| (operation.to_owned(), (*path).to_owned()))
        });
        let (mut own, mut documented) = (own.collect::<Vec<_>>(), documented());
        own.sort();
        documented.sort();
        assert!(!documented.is_empty());
        assert_eq!(own, documented, "SUDO and docs/host-endpoints.md differ");
    }

    #[test]
    fn policy_names_path_and_capabilities_of_one_request() {
        let of = |method: Method, path: &str, list: bool| {
            let query = list.then(|| ("list".to_owned(), "true".to_owned())).into_iter().collect();
            text(&ServerRequest { query, ..ServerRequest::new(method, path) })
        };
        for (method, path, list, capabilities) in [
            (Method::GET, "secret/data/a", false, r#""read""#),
            (Method::GET, "secret/metadata", true, r#""list""#),
            (Method::PUT, "secret/data/a", false, r#""create", "update""#),
            (Method::POST, "sys/mounts/a", false, r#""create", "update""#),
            (Method::PATCH, "secret/data/a", false, r#""patch""#),
            (Method::DELETE, "secret/data/a", false, r#""delete""#),
            (Method::PUT, "sys/auth/a/b/tune", false, r#""create", "update", "sudo""#),
            (Method::GET, "sys/auth", false, r#""read""#),
            (Method::PUT, "sys/leases/lookup", false, r#""create", "update""#),
            (Method::GET, "sys/leases/lookup/a/b", true, r#""list", "sudo""#),
            (Method::DELETE, "sys/plugins/pins/auth/a", false, r#""delete", "sudo""#),
        ] {
            let expected = format!("path \"{path}\" {{\n  capabilities = [{capabilities}]\n}}");
            assert_eq!(of(method, path, list), expected);
        }
    }
}
