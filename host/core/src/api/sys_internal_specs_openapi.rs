//! `sys/internal/specs/openapi`: the API as an OpenAPI document, from the tables by which requests
//! are dispatched.
//!
//! The attack this file stops: reading off the document which mounts there are. Whoever has no
//! token, or asks for it, gets the engines at a path left open; others see the mounts that their
//! policies reach (decision P11).

use super::row::{field, open};
use super::{Handler, PublicHandler};
use crate::core::Core;
use crate::openapi::{self, Served};
use crate::policies::acl::Acl;
use bulkhead_sandbox::Maker;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use serde_json::{Map, Value};

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let generic = || {
        let about = "whether engines stand at {x_mount_path} instead of at their mounts";
        vec![field("generic_mount_paths", FieldKind::Bool, about)]
    };
    let row = |verb| {
        open(verb, "sys/internal/specs/openapi", "this API as an OpenAPI document", generic())
    };
    [Verb::Read, Verb::Write]
        .map(|verb| (Handler::Public(PublicHandler::OpenApi), row(verb)))
        .to_vec()
}

/// The document, as far as the caller's policies reach.
pub(super) fn document(core: &Core, acl: Option<&Acl>, values: &Map<String, Value>) -> Value {
    let is_generic = values.get("generic_mount_paths").and_then(Value::as_bool).unwrap_or_default();
    let (mounts, all) = (core.mounts.all(), core.catalog.all_engines());
    let engines: Vec<(String, &[Route])> = match acl.filter(|_| !is_generic) {
        Some(acl) => {
            let reached = mounts.iter().filter(|mount| acl.reaches(mount.record.path.as_str()));
            reached
                .map(|mount| (mount.record.path.to_string(), mount.plugin.table.routes()))
                .collect()
        }
        None => {
            let generic = |name: &str| format!("{{{name}_mount_path}}/");
            // Which components somebody uploaded is not for strangers.
            let officials = all.iter().filter(|one| one.engine.identity().maker == Maker::Official);
            officials
                .map(|one| (generic(&one.engine.description().name), one.table.routes()))
                .collect()
        }
    };
    let host = Served { below: "", routes: core.process.table.table().routes() };
    let served: Vec<Served<'_>> = std::iter::once(host)
        .chain(engines.iter().map(|(below, routes)| Served { below, routes }))
        .collect();
    openapi::document(&served)
}
