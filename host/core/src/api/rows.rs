//! The rows of the host's table.

use super::{Handler, OpenHandler};
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use serde_json::json;

/// Every endpoint of the host: handler and row.
pub(super) fn all() -> Vec<(Handler, Route)> {
    [seal(), sys(), leases(), policies(), tokens()].concat()
}

/// What answers while sealed, and what seals.
fn seal() -> Vec<(Handler, Route)> {
    let unseal = || {
        vec![
            field("key", FieldKind::String, "one share of the unseal key, hexadecimal or base64").secret(),
            field("reset", FieldKind::Bool, "forget the shares that came in"),
            field("migrate", FieldKind::Bool, "not in this version"),
        ]
    };
    let sudo = |path, about| Route { sudo: true, ..row(Verb::Write, path, about, vec![]) };
    vec![
        (Handler::Open(OpenHandler::Health), open(Verb::Read, "sys/health", "is this node up and unsealed", codes())),
        (Handler::Open(OpenHandler::Leader), open(Verb::Read, "sys/leader", "which node answers", vec![])),
        (
            Handler::Open(OpenHandler::SealStatus),
            open(Verb::Read, "sys/seal-status", "how the store is sealed", vec![]),
        ),
        (Handler::Open(OpenHandler::InitStatus), open(Verb::Read, "sys/init", "is there a cluster here", vec![])),
        (Handler::Open(OpenHandler::Init), open(Verb::Write, "sys/init", "make a cluster", initialisation())),
        (Handler::Open(OpenHandler::Unseal), open(Verb::Write, "sys/unseal", "give one share of the key", unseal())),
        (Handler::Seal, sudo("sys/seal", "seal the store")),
        (Handler::StepDown, sudo("sys/step-down", "nothing: every node answers")),
        (Handler::Rotate, sudo("sys/rotate", "seal with a new key from now on")),
        (Handler::Rotate, sudo("sys/rotate/keyring", "seal with a new key from now on")),
        (Handler::KeyStatus, row(Verb::Read, "sys/key-status", "the key that seals now", vec![])),
    ]
}

/// Status codes that a load balancer wants instead of the usual ones (`spec/core.md` §7.4). Those of states that this
/// service does not have are checked and not used.
fn codes() -> Vec<Field> {
    let names = [
        "activecode",
        "sealedcode",
        "uninitcode",
        "standbycode",
        "drsecondarycode",
        "performancestandbycode",
        "haunhealthycode",
        "removedcode",
    ];
    let codes = names.map(|name| field(name, FieldKind::String, "a status code to answer with in that state"));
    let flags = ["standbyok", "perfstandbyok"].map(|name| field(name, FieldKind::String, "no state of this service"));
    codes.into_iter().chain(flags).collect()
}

fn initialisation() -> Vec<Field> {
    let number = |name, about| field(name, FieldKind::Int, about);
    let unserved = |name| field(name, FieldKind::Any, "not in this version");
    vec![
        required("secret_shares", FieldKind::Int, "into how many shares the unseal key is split, 1 to 255"),
        required("secret_threshold", FieldKind::Int, "how many of them unseal"),
        number("recovery_shares", "for seals of other kinds"),
        number("recovery_threshold", "for seals of other kinds"),
        number("stored_shares", "for seals of other kinds"),
        unserved("pgp_keys"),
        unserved("recovery_pgp_keys"),
        unserved("root_token_pgp_key"),
    ]
}

fn sys() -> Vec<(Handler, Route)> {
    let mount = || {
        vec![
            field("path", FieldKind::String, "path of the mount"),
            required("type", FieldKind::String, "the engine to mount, e.g. database"),
            field("description", FieldKind::String, "one sentence for people"),
            field("config", FieldKind::Any, "default_lease_ttl and max_lease_ttl"),
        ]
    };
    let path = || vec![field("path", FieldKind::String, "path of the mount")];
    vec![
        (Handler::MountList, row(Verb::Read, "sys/mounts", "all mounts", vec![])),
        (Handler::MountRead, row(Verb::Read, "sys/mounts/{path+}", "one mount", path())),
        (Handler::MountEnable, row(Verb::Write, "sys/mounts/{path+}", "mount an engine", mount())),
        (
            Handler::CapabilitiesSelf,
            row(
                Verb::Write,
                "sys/capabilities-self",
                "what the calling token may do",
                vec![Field {
                    aliases: vec!["path".to_owned()],
                    ..required("paths", FieldKind::CommaList, "the paths in question")
                }],
            ),
        ),
    ]
}

fn leases() -> Vec<(Handler, Route)> {
    let id = || {
        let id = required("lease_id", FieldKind::String, "the lease's id, as its secret came with");
        vec![Field { aliases: vec!["url_lease_id".to_owned()], ..id }]
    };
    let renewal = || {
        let increment = field("increment", FieldKind::Duration, "seconds from now that are asked for");
        [id(), vec![increment]].concat()
    };
    let ends = || [id(), vec![field("sync", FieldKind::Bool, "wait until it is revoked")]].concat();
    let mut rows = vec![(Handler::LeaseLookup, row(Verb::Write, "sys/leases/lookup", "a lease", id()))];
    for base in ["sys/leases/renew", "sys/renew"] {
        rows.push((Handler::LeaseRenew, row(Verb::Write, base, "renew a lease", renewal())));
        let path = format!("{base}/{{lease_id+}}");
        rows.push((Handler::LeaseRenew, row(Verb::Write, &path, "renew a lease", renewal())));
    }
    for base in ["sys/leases/revoke", "sys/revoke"] {
        rows.push((Handler::LeaseRevoke, row(Verb::Write, base, "revoke a lease", ends())));
        let path = format!("{base}/{{lease_id+}}");
        rows.push((Handler::LeaseRevoke, row(Verb::Write, &path, "revoke a lease", ends())));
    }
    rows
}

fn policies() -> Vec<(Handler, Route)> {
    let name = || field("name", FieldKind::String, "name of the policy");
    let text = || Field {
        aliases: vec!["rules".to_owned()],
        ..required("policy", FieldKind::String, "its text, HCL or JSON")
    };
    let mut rows = vec![(Handler::PolicyList, row(Verb::Read, "sys/policy", "names of all policies", vec![]))];
    for base in ["sys/policies/acl", "sys/policy"] {
        let one = format!("{base}/{{name}}");
        rows.push((Handler::PolicyList, row(Verb::List, base, "names of all policies", vec![])));
        rows.push((Handler::PolicyRead, row(Verb::Read, &one, "the text of a policy", vec![name()])));
        rows.push((Handler::PolicyWrite, row(Verb::Write, &one, "write a policy", vec![name(), text()])));
        rows.push((Handler::PolicyDelete, row(Verb::Delete, &one, "delete a policy", vec![name()])));
    }
    rows
}

fn tokens() -> Vec<(Handler, Route)> {
    let token = || required("token", FieldKind::String, "the token in question").secret();
    let increment = || field("increment", FieldKind::Duration, "seconds from now that are asked for");
    let own = |verb, path, about| row(verb, path, about, vec![]);
    vec![
        (Handler::TokenCreate, row(Verb::Write, "auth/token/create", "make a child token", creation())),
        (Handler::TokenLookupSelf, own(Verb::Read, "auth/token/lookup-self", "the calling token")),
        (Handler::TokenLookupSelf, own(Verb::Write, "auth/token/lookup-self", "the calling token")),
        (Handler::TokenLookupSelf, own(Verb::Read, "auth/token/lookup", "the calling token")),
        (Handler::TokenLookup, row(Verb::Write, "auth/token/lookup", "a token", vec![token()])),
        (
            Handler::TokenRenewSelf,
            row(Verb::Write, "auth/token/renew-self", "renew the calling token", vec![increment()]),
        ),
        (Handler::TokenRenew, row(Verb::Write, "auth/token/renew", "renew a token", vec![token(), increment()])),
        (Handler::TokenRevokeSelf, own(Verb::Write, "auth/token/revoke-self", "end the calling token")),
        (Handler::TokenRevoke, row(Verb::Write, "auth/token/revoke", "end a token", vec![token()])),
    ]
}

/// Fields of a token's creation. Those of features that this version lacks are named so that they can be
/// refused: ignoring a restriction would widen access.
fn creation() -> Vec<Field> {
    let renewable = field("renewable", FieldKind::Bool, "whether it can be renewed");
    vec![
        field("policies", FieldKind::CommaList, "its policies; none means its parent's"),
        field("meta", FieldKind::Map, "names and values kept with it"),
        field("no_default_policy", FieldKind::Bool, "leave the policy default out"),
        Field { default: Some(json!(true)), ..renewable },
        Field { aliases: vec!["lease".to_owned()], ..field("ttl", FieldKind::Duration, "its lifetime") },
        field("explicit_max_ttl", FieldKind::Duration, "the most that renewals add up to"),
        field("display_name", FieldKind::String, "name for people"),
        field("type", FieldKind::String, "service"),
        field("id", FieldKind::String, "not in this version"),
        field("no_parent", FieldKind::Bool, "not in this version"),
        field("num_uses", FieldKind::Int, "not in this version"),
        field("period", FieldKind::Duration, "not in this version"),
        field("entity_alias", FieldKind::String, "not in this version"),
        field("bound_cidrs", FieldKind::CommaList, "not in this version"),
    ]
}

fn row(verb: Verb, path: &str, about: &str, fields: Vec<Field>) -> Route {
    Route { fields, ..Route::new(verb, path, about) }
}

fn open(verb: Verb, path: &str, about: &str, fields: Vec<Field>) -> Route {
    Route { unauthenticated: true, ..row(verb, path, about, fields) }
}

fn field(name: &str, kind: FieldKind, about: &str) -> Field {
    Field::new(name, kind, about)
}

fn required(name: &str, kind: FieldKind, about: &str) -> Field {
    field(name, kind, about).required()
}
