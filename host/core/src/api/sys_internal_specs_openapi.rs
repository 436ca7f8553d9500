//! `sys/internal/specs/openapi`: the API as an OpenAPI document, from the tables by which requests
//! are dispatched.
//!
//! The attack this file stops: reading off the document which mounts there are. A caller without a
//! token, or who asks for it, gets the engines at a path left open; others see the mounts that
//! their policies reach (decision P11). And taking processor and memory by asking: a document is
//! made once for the tables that it shows, and its answers share the bytes.

mod openapi;

use super::call::PublicCall;
use super::row::{Endpoint, field, read, write};
use crate::catalog::{EnginePlugin, PluginType};
use bulkhead_sandbox::Maker;
use bulkhead_wire::description::{FieldKind, Route};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::{Body, Response};
use openapi::Served;

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

/// The document, as far as the caller's policies reach.
async fn specify(call: PublicCall<'_>) -> Result<Response, Failure> {
    let PublicCall { core, acl, fields, .. } = call;
    let is_generic = fields.flag("generic_mount_paths", false);
    let (mounts, all) = (core.mounts.all(), core.catalog.all_mountable());
    let engines: Vec<(String, &str, &[Route])> = match acl.filter(|_| !is_generic) {
        Some(acl) => {
            let reached = mounts.iter().filter(|mount| acl.reaches(mount.record.path.as_str()));
            reached
                .map(|mount| {
                    let (path, digest) = (mount.record.path.to_string(), mount.running().digest);
                    (path, digest, mount.plugin.table.routes())
                })
                .collect()
        }
        None => {
            let generic = |one: &EnginePlugin| {
                let below = if one.kind() == PluginType::Auth { "auth/" } else { "" };
                format!("{below}{{{}_mount_path}}/", one.engine.description().name)
            };
            // Which components an operator uploaded is not for strangers.
            let officials = all.iter().filter(|one| one.engine.identity().maker == Maker::Official);
            officials
                .map(|one| {
                    let digest = one.engine.identity().digest.as_str();
                    (generic(one), digest, one.table.routes())
                })
                .collect()
        }
    };
    let version = engines.iter().map(|(below, digest, _)| format!("{below} {digest}\n")).collect();
    let document = core.documents.get(version, || {
        let host = Served { below: "", routes: call.rows.routes() };
        let engines = engines.iter().map(|(below, _, routes)| Served { below, routes });
        let served: Vec<Served<'_>> = std::iter::once(host).chain(engines).collect();
        openapi::document(&served).to_string().into_bytes()
    });
    Ok(Response { status: 200, body: Body::Document(document), retry_after: None })
}
