//! `sys/plugins/runtimes`: container runtimes; there are none. A component runs in the server's own
//! sandbox, so clients that ask for runtimes get an empty list.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let base = "sys/plugins/runtimes/catalog";
    let one = format!("{base}/{{type}}/{{name}}");
    let kind = || field("type", FieldKind::String, "type of the runtime, e.g. container");
    let named = || [kind(), field("name", FieldKind::String, "name of the runtime")];
    vec![
        row::read(base, "container runtimes: none").fields([kind()]).handled_by(list),
        row::list(base, "container runtimes: none").fields([kind()]).handled_by(list),
        row::read(&one, "a container runtime: absent").fields(named()).handled_by(read),
        row::write(&one, "register a container runtime: refused")
            .needs_sudo()
            .fields(named())
            .handled_by(write),
        row::delete(&one, "remove a container runtime: nothing to do")
            .needs_sudo()
            .fields(named())
            .handled_by(delete),
    ]
}

/// `GET` and `LIST sys/plugins/runtimes/catalog`.
async fn list(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(ReplyBody::Data(Map::from_iter([("runtimes".to_owned(), json!([]))])).into())
}

/// `GET sys/plugins/runtimes/catalog/:type/:name`.
async fn read(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Err(Failure::absent())
}

/// `POST sys/plugins/runtimes/catalog/:type/:name`.
async fn write(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Err(Failure::invalid(
        "plugins need no container runtime: a plugin is a WebAssembly component and runs in the \
         server's sandbox; register the component without a runtime",
    ))
}

/// `DELETE sys/plugins/runtimes/catalog/:type/:name`.
async fn delete(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(ReplyBody::Nothing.into())
}
