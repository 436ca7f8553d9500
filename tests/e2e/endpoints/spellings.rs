//! A denied path, requested in every other spelling.
//!
//! A token with rights to everything except the path of a row requests this path in upper case,
//! with an encoded letter, with more slashes, and by the endpoint's older or newer path. Each
//! answer must be a refusal or "not found": a spelling means either the denied object or another
//! object.

use super::{EndpointCall, LatestValues, OPERATOR, inspected, send_to};
use crate::world::World;
use bulkhead_tests::Client;
use serde_json::{Value, json};

/// Old and new base paths of the same endpoints.
const MOVED: [[&str; 2]; 9] = [
    ["sys/policy", "sys/policies/acl"],
    ["sys/renew", "sys/leases/renew"],
    ["sys/revoke", "sys/leases/revoke"],
    ["sys/revoke-prefix", "sys/leases/revoke-prefix"],
    ["sys/revoke-force", "sys/leases/revoke-force"],
    ["sys/rotate/keyring", "sys/rotate"],
    ["sys/storage/raft/snapshot", "sys/storage/snapshot"],
    ["sys/storage/raft/snapshot-force", "sys/storage/snapshot-force"],
    ["sys/mounts/auth", "sys/auth"],
];

/// The policy of [`OPERATOR`].
const POLICY: &str = "sys/policies/acl/operator";

/// Lets the operator do everything again.
pub(super) fn allow(world: &World) {
    world.root.write(POLICY, &json!({ "policy": OPERATOR })).expect(204);
}

/// Asserts that the path of `row`, denied to the operator, is not served in another spelling.
#[track_caller]
pub(super) fn assert_denied(
    world: &World,
    operator: &Client,
    row: &EndpointCall,
    latest: &LatestValues,
) {
    let filled = latest.fill(row.path);
    let (path, query) =
        filled.split_once('?').map_or((filled.as_str(), None), |(path, query)| (path, Some(query)));
    let policy = format!("{OPERATOR}\npath {path:?} {{ capabilities = [\"deny\"] }}");
    world.root.write(POLICY, &json!({ "policy": policy })).expect(204);
    let mut spellings = vec![path.to_owned(), encoded(path), path.replacen('/', "//", 1)];
    spellings.extend(moved(path));
    spellings.extend(
        in_upper_case(row, path).into_iter().filter(|other| is_harmless(world, row, other)),
    );
    for spelling in spellings {
        let target = query.map_or(spelling.clone(), |query| format!("{spelling}?{query}"));
        let answer = match row.body {
            // A refusal before the end of a component closes the connection.
            Value::String(_) => operator.send(row.method(), &target, b"\0asm"),
            _ => send_to(operator, row, &target, latest),
        };
        assert!(
            answer.status >= 400,
            "{} of {path}, which is denied, by {target}: {answer:?}",
            row.method()
        );
    }
}

fn encoded(path: &str) -> String {
    let mut path = path.to_owned();
    let last = path.pop().expect("a path has a letter");
    format!(
        "{path}{}",
        last.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect::<String>()
    )
}

/// The path under the other base of its endpoint.
fn moved(path: &str) -> Option<String> {
    let bases = MOVED.iter().flat_map(|[old, new]| [(old, new), (new, old)]);
    let mut moved = bases.filter_map(|(from, to)| {
        let rest =
            path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        // For auth methods only the tuning has two paths.
        let has_two = !from.contains("auth") || rest.ends_with("/tune");
        has_two.then(|| format!("{to}{rest}"))
    });
    moved.next()
}

/// The path with only its names in upper case.
fn in_upper_case(row: &EndpointCall, path: &str) -> Option<String> {
    let pattern = &inspected::endpoint_of(row)?.path;
    let mut parts = pattern.split('/');
    let mut is_rest = false;
    let segment = |segment: &str| {
        let part = parts.next().unwrap_or_default();
        is_rest |= part.ends_with("+}");
        let is_name = is_rest || part.starts_with('{');
        if is_name { segment.to_uppercase() } else { segment.to_owned() }
    };
    let upper = path.split('/').map(segment).collect::<Vec<_>>().join("/");
    (upper != path).then_some(upper)
}

/// Returns true if the request changes no other object. A write in upper case is sent only if a
/// read shows that case does not matter.
fn is_harmless(world: &World, row: &EndpointCall, spelling: &str) -> bool {
    let changes = ["POST", "PATCH", "DELETE"].contains(&row.method());
    !changes || world.root.read(spelling).status < 300
}
