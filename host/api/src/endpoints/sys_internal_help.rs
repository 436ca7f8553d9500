//! `sys/internal/help`: the description of a path, from the tables that dispatch requests. GET of a
//! path with `help=true` arrives here.
//!
//! This file prevents callers from finding out which paths are mounted: only a caller with a token
//! gets help, and for a mount only if the caller's policies reach the mount.

use super::call::PublicCall;
use super::row::{Endpoint, field, read};
use super::sys_internal_specs_openapi::{ServedRoutes, document};
use bulkhead_access::policies::acl::Acl;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use bulkhead_wire::route::{RouteMatch, RouteTable};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The verbs in the order of the help text.
const VERBS: [Verb; 5] = [Verb::Read, Verb::List, Verb::Write, Verb::Patch, Verb::Delete];

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let path = field("path", FieldKind::String, "the path in question");
    vec![
        read("sys/internal/help/{path+}", "the description of a path")
            .fields([path])
            .without_a_token(help),
    ]
}

/// `GET sys/internal/help/:path`.
async fn help(call: PublicCall<'_>) -> Result<Response, Failure> {
    let path = call.fields.text("path");
    let acl = call
        .acl
        .ok_or_else(|| Failure::denied("help shows the paths visible to a token; send a token"))?;
    let (below, routes) = find_rows(&call, acl, path).ok_or_else(Failure::absent)?;
    let served = ServedRoutes::at(&below, &routes);
    Ok(Response::bare(
        200,
        json!({
            "help": format_rows(&below, &routes),
            "see_also": Value::Null,
            "openapi": document(&[served]),
        }),
    ))
}

/// Returns the rows that answer on a path or, if none does, the rows below the path. Also returns
/// the path of their mount, which is empty for the host. `None` if there are none, or if the
/// caller's policies reach nothing in the mount.
fn find_rows(call: &PublicCall<'_>, acl: &Acl, path: &str) -> Option<(String, Vec<Route>)> {
    let hosts = rows_of(call.rows, path);
    if !hosts.is_empty() {
        return Some((String::new(), hosts));
    }
    let (mount, rest) = call.core.mounts.route(path)?;
    let at = mount.record.path.as_str();
    let rows = rows_of(&mount.table, rest);
    (acl.may_reach(at) && !rows.is_empty()).then(|| (at.to_owned(), rows))
}

fn rows_of(table: &RouteTable, path: &str) -> Vec<Route> {
    let exact = VERBS.into_iter().filter_map(|verb| match table.find(verb, path) {
        RouteMatch::Row { route, .. } => Some(route.clone()),
        RouteMatch::NoVerb | RouteMatch::NoPath => None,
    });
    let exact: Vec<Route> = exact.collect();
    if !exact.is_empty() {
        return exact;
    }
    let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
    table.routes().iter().filter(|route| route.path.starts_with(&folder)).cloned().collect()
}

/// Formats rows for a person at a terminal: the method, the path and its description, then a line
/// for each field.
fn format_rows(below: &str, routes: &[Route]) -> String {
    let mut text = String::new();
    for route in routes {
        let method = route.verb.method();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{method} {below}{}\n    {}\n", route.path, route.about);
        for field in &route.fields {
            let _ = writeln!(text, "    {}", line(field));
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn line(Field { name, kind, required, sudo, about, .. }: &Field) -> String {
    let kind = format!("{kind:?}").to_lowercase();
    let must = if *required { ", required" } else { "" };
    let right = if *sudo { ", a change needs sudo" } else { "" };
    format!("{name} ({kind}{must}{right}): {about}")
}
