//! `sys/internal/specs/openapi`: the API as an OpenAPI document, built from the tables that
//! dispatch requests.
//!
//! Prevents two attacks:
//! - Reading the mounts off the document. A caller without a token gets the engines at a
//!   placeholder path; other callers see the mounts that their policies reach, or ask for the
//!   placeholders (decision P11).
//! - Using up processor and memory with requests. A document is built once for the tables that it
//!   shows, and its answers share the bytes.

mod openapi;
mod responses;

use super::call::PublicCall;
use super::row::{Endpoint, field, read, write};
use crate::catalog::{EnginePlugin, PluginType};
use bulkhead_sandbox::Publisher;
use bulkhead_wire::description::{FieldKind, Route};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::{Response, ResponseBody};
pub(super) use openapi::{ServedRoutes, document};

/// Returns the rows of this file.
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

/// Returns the document of the mounts that the caller's policies reach.
async fn specify(call: PublicCall<'_>) -> Result<Response, Failure> {
    let PublicCall { core, acl, fields, .. } = call;
    let is_generic = fields.flag("generic_mount_paths", false);
    let (mounts, all) = (core.mounts.all(), core.catalog.all_mountable());
    let engines: Vec<(String, &str, &[Route])> = match acl.filter(|_| !is_generic) {
        Some(acl) => {
            let reached = mounts.iter().filter(|mount| acl.may_reach(mount.record.path.as_str()));
            reached
                .map(|mount| {
                    let (path, digest) = (mount.record.path.to_string(), mount.running().digest);
                    (path, digest, mount.table.routes())
                })
                .collect()
        }
        None => {
            let generic = |one: &EnginePlugin| {
                let below = if one.kind() == PluginType::Auth { "auth/" } else { "" };
                format!("{below}{{{}_mount_path}}/", one.engine.description().name)
            };
            // A stranger must not learn which components an operator uploaded.
            let officials =
                all.iter().filter(|one| one.engine.identity().maker == Publisher::Official);
            officials
                .map(|one| {
                    let digest = one.engine.identity().digest.as_str();
                    (generic(one), digest, one.table.routes())
                })
                .collect()
        }
    };
    // The rows of a mount depend on its options, too.
    let shown = |(below, digest, rows): &(String, &str, &[Route])| {
        format!("{below} {digest} {}\n", rows.len())
    };
    let version = engines.iter().map(shown).collect();
    let document = core.documents.get(version, || {
        let host = ServedRoutes { below: "", routes: call.rows.routes() };
        let engines = engines.iter().map(|(below, _, routes)| ServedRoutes { below, routes });
        let served: Vec<ServedRoutes<'_>> = std::iter::once(host).chain(engines).collect();
        document(&served).to_string().into_bytes()
    });
    Ok(Response { status: 200, body: ResponseBody::Document(document), retry_after: None })
}
