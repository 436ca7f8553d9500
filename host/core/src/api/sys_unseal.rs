//! `sys/unseal` and `sys/seal`: the door of the service (decision H15).

use super::row::{field, open, sudo};
use super::{Body, Handler, OpenHandler, Reply, Then, sys_seal_status, text};
use crate::service::Service;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value};

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let fields = vec![
        field("key", FieldKind::String, "one share of the unseal key, hexadecimal or base64")
            .secret(),
        field("reset", FieldKind::Bool, "forget the shares that came in"),
        field("migrate", FieldKind::Bool, "not in this version"),
    ];
    let unseal = open(Verb::Write, "sys/unseal", "give one share of the key", fields);
    vec![
        (Handler::Open(OpenHandler::Unseal), unseal),
        (Handler::Seal, sudo(Verb::Write, "sys/seal", "seal the store", vec![])),
    ]
}

/// `POST sys/unseal`: takes one share, or forgets those that came in.
pub(super) async fn unseal(
    service: &Service,
    values: &Map<String, Value>,
) -> Result<Response, Failure> {
    let flag = |name| values.get(name).and_then(Value::as_bool).unwrap_or_default();
    if flag("migrate") {
        return Err(Failure::invalid(
            "migrate is not supported: there is no other seal to migrate from",
        ));
    }
    if flag("reset") {
        service.forget_shares();
        return sys_seal_status::read(service).await;
    }
    let share = text(values, "key");
    if share.is_empty() {
        return Err(Failure::invalid(
            "key is required: one share of the unseal key, or reset=true to begin again",
        ));
    }
    service.unseal(share).await?;
    sys_seal_status::read(service).await
}

/// `POST sys/seal`. The store is sealed before the answer leaves.
pub(super) fn seal() -> Reply {
    Reply { then: Then::Seal, ..Reply::from(Body::Nothing) }
}
