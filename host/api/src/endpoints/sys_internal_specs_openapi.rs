//! `sys/internal/specs/openapi`: the API as an OpenAPI document, built from the tables that
//! dispatch requests.
//!
//! This file prevents two attacks:
//! - Reading the mounts off the document. A caller without a token gets the engines at a
//!   placeholder path; other callers see the mounts within reach of their policies, or ask for the
//!   placeholders (decision P11).
//! - Using up processor and memory with requests. A document is built once for the shown tables,
//!   all answers share the bytes, and the size does not grow with the number of mounts (decision
//!   H82).

mod mount_groups;
mod openapi;
mod responses;

use super::call::PublicCall;
use super::row::{Endpoint, field, read, write};
use bulkhead_access::policies::acl::Acl;
use bulkhead_core::catalog::{EnginePlugin, PluginType};
use bulkhead_core::mounts::Mount;
use bulkhead_sandbox::Publisher;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::response::{Response, ResponseBody};
use mount_groups::MountGroups;
pub(super) use openapi::{ServedRoutes, document};
use serde_json::Value;
use std::sync::Arc;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let (path, about) = ("sys/internal/specs/openapi", "this API as an OpenAPI document");
    let fields = || {
        let generic = "whether engines stand at {x_mount_path} instead of at their mounts";
        let mount = "the only mount to describe; every mount if left out";
        [
            field("generic_mount_paths", FieldKind::Bool, generic),
            field("mount", FieldKind::String, mount),
        ]
    };
    vec![
        read(path, about).fields(fields()).without_a_token(specify),
        write(path, about).fields(fields()).without_a_token(specify),
    ]
}

/// Returns the document of the mounts that the caller's policies reach.
async fn specify(call: PublicCall<'_>) -> Result<Response, Failure> {
    let is_generic = call.fields.flag("generic_mount_paths", false);
    let document = match (call.fields.text("mount"), call.acl.filter(|_| !is_generic)) {
        ("", Some(acl)) => describe_mounts(&call, acl),
        ("", None) => describe_plugins(&call),
        (path, _) => describe_mount(&call, path)?,
    };
    Ok(Response::new(200, ResponseBody::Document(document)))
}

/// Returns the document of one mount, without the host's rows.
///
/// # Errors
/// 400 if the caller's policies reach no such mount.
fn describe_mount(call: &PublicCall<'_>, path: &str) -> Result<Arc<Vec<u8>>, Failure> {
    let is_asked = |mount: &&Arc<Mount>| {
        mount.record.path.as_str().trim_matches('/') == path.trim_matches('/')
    };
    let all = call.core.mounts.all();
    let reached = call.acl.and_then(|acl| {
        all.iter().find(is_asked).filter(|mount| acl.may_reach(mount.record.path.as_str()))
    });
    let mount = reached.ok_or_else(|| {
        let path = quoted(path);
        Failure::invalid(format!("no mount {path} is within the caller's policies; correct mount"))
    })?;
    let (below, routes) = (mount.record.path.as_str(), mount.table.routes());
    let version = format!("mount {below} {} {}\n", mount.running().digest, routes.len());
    Ok(call
        .core
        .documents
        .get(version, || document(&[ServedRoutes::at(below, routes)]).to_string().into_bytes()))
}

/// Returns the document of the host and of the mounts that the caller's policies reach.
fn describe_mounts(call: &PublicCall<'_>, acl: &Acl) -> Arc<Vec<u8>> {
    let all = call.core.mounts.all();
    let reached = all.iter().filter(|mount| acl.may_reach(mount.record.path.as_str()));
    let reached: Vec<&Arc<Mount>> = reached.collect();
    // The rows of a mount depend on its options, too.
    let shown = |mount: &&Arc<Mount>| {
        let (path, digest) = (&mount.record.path, mount.running().digest);
        format!("{path} {digest} {}\n", mount.table.routes().len())
    };
    let version = reached.iter().map(shown).collect();
    call.core.documents.get(version, || {
        let groups = MountGroups::of(&reached);
        let host = ServedRoutes::at("", call.rows.routes());
        let served: Vec<ServedRoutes<'_>> = std::iter::once(host).chain(groups.served()).collect();
        let mut document = document(&served);
        let info = document.pointer_mut("/info").and_then(Value::as_object_mut);
        if let (Some(note), Some(info)) = (groups.note_of_omitted(), info) {
            info.insert("description".to_owned(), note.into());
        }
        document.to_string().into_bytes()
    })
}

/// Returns the document of the host and of the official plugins at placeholders. A caller
/// without a token must not learn which components an operator uploaded.
fn describe_plugins(call: &PublicCall<'_>) -> Arc<Vec<u8>> {
    let all = call.core.catalog.all_mountable();
    let is_official = |one: &&Arc<EnginePlugin>| one.identity().maker == Publisher::Official;
    let officials: Vec<&Arc<EnginePlugin>> = all.iter().filter(is_official).collect();
    let below = |one: &EnginePlugin| {
        let below = if one.kind() == PluginType::Auth { "auth/" } else { "" };
        format!("{below}{{{}_mount_path}}/", one.description().name)
    };
    let places: Vec<String> = officials.iter().map(|one| below(one)).collect();
    let shown = |(below, one): (&String, &&Arc<EnginePlugin>)| {
        format!("{below} {} {}\n", one.identity().digest, one.table.routes().len())
    };
    let version = places.iter().zip(&officials).map(shown).collect();
    call.core.documents.get(version, || {
        let host = ServedRoutes::at("", call.rows.routes());
        let engines = places.iter().zip(&officials);
        let engines = engines.map(|(below, one)| ServedRoutes::at(below, one.table.routes()));
        let served: Vec<ServedRoutes<'_>> = std::iter::once(host).chain(engines).collect();
        document(&served).to_string().into_bytes()
    })
}
