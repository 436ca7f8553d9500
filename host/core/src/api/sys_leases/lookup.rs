//! `LIST sys/leases/lookup`: what leases there are below a path, for whoever must find them without
//! their ids.

use super::{Act, Body, HostCall, Reply, field, sudo};
use crate::core::Core;
use crate::leases;
use crate::paging::Paging;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// The rows of this file.
pub(super) fn rows() -> Vec<(Act, Route)> {
    let part = || {
        vec![
            field("after", FieldKind::String, "list only names greater than this one"),
            field("limit", FieldKind::String, "list at most so many"),
        ]
    };
    let prefix = field(
        "prefix",
        FieldKind::String,
        "the beginning of their paths, at the border of a segment",
    );
    let below = [vec![prefix], part()].concat();
    let about = "leases and folders of leases below a path";
    vec![
        (Act::Names, sudo(Verb::List, "sys/leases/lookup", about, part())),
        (Act::Names, sudo(Verb::List, "sys/leases/lookup/{prefix+}", about, below)),
    ]
}

/// The names one step below the prefix.
pub(super) async fn names(core: &Core, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let names = core.leases.names(call.text("prefix"), &Paging::of(call.values)?).await?;
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(Body::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}
