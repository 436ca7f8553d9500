//! Limits for the description of an uploaded plugin.
//!
//! This file prevents a description from claiming the name of a plugin of this binary or a path of
//! the core, and from filling the host's memory.

use super::entry::PluginType;
use super::table::Catalog;
use bulkhead_sandbox::GrantPattern;
use bulkhead_sandbox::grants::ceiling;
use bulkhead_wire::description::{
    ComponentDescription, DatabaseDescription, Field, RawAccess, Route,
};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::metric;
use bulkhead_wire::name::{MountPath, is_name};
use semver::Version;

/// Maximum number of rows of a route table.
const ROWS: usize = 1_000;
/// Maximum number of fields of a row, and of settings of a database plugin.
const FIELDS: usize = 256;
/// Maximum length of a text, in bytes.
const TEXT: usize = 1_024;
/// Maximum deadline of a row, in seconds.
const DEADLINE: u64 = 3_600;
/// Maximum body limit of a row, in bytes.
const BODY: u64 = 32 << 20;
/// Maximum number of grants that a component may ask for.
const ASKS: usize = 256;
/// Maximum number of aliases of a database plugin.
const ALIASES: usize = 16;
/// Maximum number of plain HTTP headers that a component reads.
const HEADERS: usize = 16;
/// Maximum number of plain HTTP paths that the audit log shows.
const PATHS: usize = 256;
/// Maximum length of a header's name, in bytes.
const NAME: usize = 64;

/// Checks the name under which a plugin is registered.
///
/// # Errors
/// The fault of the name.
pub(super) fn name(catalog: &Catalog, kind: PluginType, name: &str) -> Result<(), String> {
    if !is_name(name) || name.len() > FIELDS {
        return Err(format!(
            "{} cannot be the name of a plugin: use letters, digits, \"_\", \"-\" and \".\"",
            quoted(name)
        ));
    }
    if let Err(why) = MountPath::new(name) {
        return Err(format!("{} cannot be the name of a plugin: {why}", quoted(name)));
    }
    if catalog.is_official(kind, name) {
        return Err(format!("the {} {name} is built in; choose another name", kind.title()));
    }
    Ok(())
}

/// Checks a version number.
///
/// # Errors
/// The fault of the number.
pub(super) fn version(text: &str) -> Result<(), String> {
    let wrong = |why: String| format!("{} is not a version such as 1.4.2: {why}", quoted(text));
    let version = Version::parse(text).map_err(|error| wrong(error.to_string()))?;
    match version.build.is_empty() {
        true => Ok(()),
        false => Err(wrong("leave the part behind \"+\" out".to_owned())),
    }
}

/// Checks the description of an engine or auth method.
///
/// # Errors
/// The fault of the description, with the row.
pub(super) fn engine(description: &ComponentDescription) -> Result<(), String> {
    version(&description.version)?;
    text("its description", &description.about)?;
    if description.routes.len() > ROWS {
        return Err(format!(
            "the table has {} rows; there may be at most {ROWS}",
            description.routes.len()
        ));
    }
    if !description.aliases.is_empty() {
        return Err(
            "the component has aliases: only the server's components may have aliases".to_owned()
        );
    }
    if let Some(newest) = description.reads_schema_up_to
        && newest < description.schema
    {
        return Err(format!(
            "reads_schema_up_to is {newest}, below the component's schema {}: a component reads \
             its own schema",
            description.schema
        ));
    }
    asks(&description.asks)?;
    metric::check(&description.metrics)?;
    if let Some(access) = &description.raw {
        raw(access).map_err(|why| format!("raw: {why}"))?;
    }
    for route in &description.routes {
        row(route)
            .map_err(|why| format!("row {:?} of {}: {why}", route.verb, quoted(&route.path)))?;
    }
    Ok(())
}

/// Checks the plain HTTP headers that a component reads. Refuses headers with tokens of the host,
/// cookies and proxy credentials.
fn raw(access: &RawAccess) -> Result<(), String> {
    if access.headers.len() > HEADERS {
        let count = access.headers.len();
        return Err(format!("the component reads {count} headers; there may be at most {HEADERS}"));
    }
    if access.body_limit > BODY {
        return Err(format!("body_limit: {} bytes; at most {BODY}", access.body_limit));
    }
    for name in &access.headers {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > NAME || !name.bytes().all(is_word) {
            return Err(format!("{} is not a header's name in lower case", quoted(name)));
        }
        let reserved_prefixes = ["x-vault-", "x-secrets-", "x-bulkhead-token", "cookie", "proxy-"];
        if reserved_prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            return Err(format!("the header {name} reaches no component"));
        }
    }
    if access.paths.len() > PATHS {
        let count = access.paths.len();
        return Err(format!("paths: {count} paths; there may be at most {PATHS}"));
    }
    if access.paths.iter().any(|path| path.is_empty() || path.len() > TEXT) {
        return Err(format!("paths: each has 1 to {TEXT} bytes"));
    }
    match access.secret_headers.iter().find(|name| !access.headers.contains(name)) {
        Some(name) => Err(format!("secret_headers: {} is not among headers", quoted(name))),
        None => Ok(()),
    }
}

fn row(route: &Route) -> Result<(), String> {
    let root = route.path.split('/').next().unwrap_or_default();
    if root == "sys" {
        return Err("\"sys\" is the server's; choose another path".to_owned());
    }
    if route.path.len() > TEXT {
        return Err(format!("the path has more than {TEXT} bytes"));
    }
    if route.raw {
        return Err("raw: this version hands no bodies of bytes to plugins".to_owned());
    }
    if route.deadline > DEADLINE {
        return Err(format!("deadline: {} s; there may be at most {DEADLINE}", route.deadline));
    }
    if route.body_limit > BODY {
        return Err(format!(
            "body_limit: {} bytes; the listener takes at most {BODY}",
            route.body_limit
        ));
    }
    text("its description", &route.about)?;
    fields(&route.fields)
}

fn fields(fields: &[Field]) -> Result<(), String> {
    if fields.len() > FIELDS {
        return Err(format!("there are {} fields; there may be at most {FIELDS}", fields.len()));
    }
    fields.iter().try_for_each(|field| {
        text(&format!("the description of {}", quoted(&field.name)), &field.about)
    })
}

fn asks(lines: &[String]) -> Result<(), String> {
    if lines.len() > ASKS {
        return Err(format!(
            "the component asks for {} lines; there may be at most {ASKS}",
            lines.len()
        ));
    }
    let read = |line: &String| {
        line.parse::<GrantPattern>()
            .map(drop)
            .map_err(|why| format!("the component asks for an invalid grant: {why}"))
    };
    lines.iter().try_for_each(read)
}

/// Returns warnings for the operator: the grants that the component asks for and its ceiling does
/// not fully allow.
pub(super) fn warnings(asks: &[String], most: Option<&[GrantPattern]>) -> Vec<String> {
    // Lines with a syntax error were refused before.
    let grants: Vec<GrantPattern> = asks.iter().filter_map(|line| line.parse().ok()).collect();
    let is_above = |ask: &&GrantPattern| most.is_some_and(|most| !ceiling::allows(most, ask));
    let warning = |ask: &GrantPattern| {
        format!(
            "the component asks for {ask}, which its ceiling does not allow in full: acts above \
             the ceiling are refused"
        )
    };
    grants.iter().filter(is_above).map(warning).collect()
}

/// Checks the description of a database plugin.
///
/// # Errors
/// The fault of the description.
pub(super) fn database_plugin(
    catalog: &Catalog,
    description: &DatabaseDescription,
) -> Result<(), String> {
    version(&description.version)?;
    text("its description", &description.about)?;
    fields(&description.settings)?;
    asks(&description.asks)?;
    if description.aliases.len() > ALIASES {
        return Err(format!(
            "the component has {} aliases; there may be at most {ALIASES}",
            description.aliases.len()
        ));
    }
    for alias in &description.aliases {
        name(catalog, PluginType::Database, alias).map_err(|why| format!("alias: {why}"))?;
        let owner = catalog
            .owner_of(PluginType::Database, alias)
            .filter(|owner| *owner != description.name);
        if let Some(owner) = owner {
            return Err(format!("alias: {alias} is a name of the database plugin {owner}"));
        }
    }
    let sentences = description.codes.iter().chain(&description.warnings);
    let mut sentences = sentences.map(|(code, sentence)| (quoted(code), sentence));
    sentences.try_for_each(|(code, sentence)| text(&format!("the sentence of {code}"), sentence))
}

fn text(subject: &str, text: &str) -> Result<(), String> {
    if text.len() > TEXT {
        return Err(format!("{subject} has {} bytes; there may be at most {TEXT}", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{subject} has a character that cannot be printed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
