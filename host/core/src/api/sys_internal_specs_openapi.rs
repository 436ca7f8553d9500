//! `sys/internal/specs/openapi`: the API as an OpenAPI document, from the tables by which requests
//! are dispatched.
//!
//! The attack this file stops: reading off the document which mounts there are. A caller without a
//! token, or who asks for it, gets the engines at a path left open; others see the mounts that
//! their policies reach (decision P11).

mod openapi;

use super::call::PublicCall;
use super::row::{Endpoint, field, read, write};
use bulkhead_sandbox::Maker;
use bulkhead_wire::description::{FieldKind, Route};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use openapi::Served;

/// The rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let (path, about) = ("sys/internal/specs/openapi", "this API as an OpenAPI document");
    let generic = || {
        let about = "whether engines stand at {x_mount_path} instead of at their mounts";
        [field("generic_mount_paths", FieldKind::Bool, about)]
    };
    vec![
        read(path, about).fields(generic()).without_a_token(specify),
        write(path, about).fields(generic()).without_a_token(specify),
    ]
}

/// The document, as far as the caller's policies reach.
async fn specify(call: PublicCall<'_>) -> Result<Response, Failure> {
    let PublicCall { core, acl, fields, .. } = call;
    let is_generic = fields.flag("generic_mount_paths", false);
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
            // Which components an operator uploaded is not for strangers.
            let officials = all.iter().filter(|one| one.engine.identity().maker == Maker::Official);
            officials
                .map(|one| (generic(&one.engine.description().name), one.table.routes()))
                .collect()
        }
    };
    let host = Served { below: "", routes: call.rows.routes() };
    let served: Vec<Served<'_>> = std::iter::once(host)
        .chain(engines.iter().map(|(below, routes)| Served { below, routes }))
        .collect();
    Ok(Response::bare(200, openapi::document(&served)))
}
