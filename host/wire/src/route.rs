//! The route table of a component, and the look-up of the row for a call.
//!
//! A mistake in a table is reported at registration with the name of the row, never during a
//! request. The attack this file prevents: a storage key built from a capture containing several
//! segments or another placeholder.

#[cfg(test)]
mod tests;

use crate::coercion::coerce;
use crate::description::{Field, FieldKind, Route, Verb};
use crate::name::is_name;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A checked route table. A look-up takes time proportional to the length of the path, not to the
/// number of rows.
#[derive(Clone, Debug)]
pub struct Table {
    routes: Vec<Route>,
    root: Node,
    /// Names and aliases of all fields marked secret by any row, settings inside objects included.
    secrets: BTreeSet<String>,
}

/// The result of a look-up by path and verb.
#[derive(Clone, Debug, PartialEq)]
pub enum Match<'a> {
    /// A row.
    Row {
        /// Index of the row in the table.
        index: usize,
        /// The row.
        route: &'a Route,
        /// Name and text of each capture, in the order of the path.
        captures: Vec<(String, String)>,
    },
    /// No row has this path: 404.
    NoPath,
    /// Rows have this path, but not for this verb: 405.
    NoVerb,
}

/// A node of the path tree. Captures have no name here, because each row names its own captures.
#[derive(Clone, Debug, Default)]
struct Node {
    literals: BTreeMap<String, Node>,
    capture: Option<Box<Node>>,
    /// The node of a capture of all remaining segments. At most a single literal follows below, the
    /// last segment of such a path.
    rest: Option<Box<Node>>,
    rows: BTreeMap<Verb, usize>,
}

impl Table {
    /// Checks `routes` and builds the table.
    ///
    /// # Errors
    /// A message with the row and the mistake: an invalid pattern, a capture without a field of
    /// kind name or string, a name shared by two fields, an old name not marked as such, a storage
    /// key with an unknown capture, an exclusive group with an unknown field, a default unfit for
    /// its kind, or a second row for the same verb and path.
    pub fn new(routes: Vec<Route>) -> Result<Self, String> {
        let mut root = Node::default();
        for (index, route) in routes.iter().enumerate() {
            check(route)
                .and_then(|()| root.add(route, index))
                .map_err(|why| format!("{}: {why}", title(route)))?;
        }
        let fields = routes.iter().flat_map(|route| &route.fields);
        let secrets = fields
            .flat_map(|field| std::iter::once(field).chain(&field.members))
            .filter(|field| field.secret)
            .flat_map(|field| std::iter::once(&field.name).chain(&field.aliases))
            .cloned()
            .collect();
        Ok(Self { routes, root, secrets })
    }

    /// Returns the row for `verb` on `path`, which has no slash at either end; `""` is the mount's
    /// root. A literal segment wins over a capture, even if the literal's row lacks the verb.
    #[must_use]
    pub fn find(&self, verb: Verb, path: &str) -> Match<'_> {
        let Some(node) = self.root.seek(Some(path).filter(|path| !path.is_empty())) else {
            return Match::NoPath;
        };
        let Some(&index) = node.rows.get(&verb) else {
            return Match::NoVerb;
        };
        let Some(route) = self.routes.get(index) else {
            return Match::NoPath;
        };
        Match::Row { index, route, captures: capture(&route.path, path) }
    }

    /// Returns whether any row has this path, for any verb.
    #[must_use]
    pub fn knows(&self, path: &str) -> bool {
        let node = self.root.seek(Some(path).filter(|path| !path.is_empty()));
        node.is_some_and(|node| !node.rows.is_empty())
    }

    /// Returns whether any row marks a field with this name or alias as secret. Redaction asks the
    /// whole table, because a row may show a value taken by another row.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        self.secrets.contains(name)
    }

    /// Returns the rows in the order given to [`Table::new`].
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }
}

/// Returns `pattern` with each `{x}` segment replaced by its capture. The text of a capture is not
/// expanded again, so braces inside have no effect. A segment without a capture stays unchanged;
/// [`Table::new`] refuses rows with such a segment.
#[must_use]
pub fn fill(pattern: &str, captures: &[(String, String)]) -> String {
    let segment = |part| {
        let name = capture_of(part);
        captures
            .iter()
            .find(|(known, _)| name == Some(known.as_str()))
            .map_or(part, |(_, text)| text.as_str())
    };
    pattern.split('/').map(segment).collect::<Vec<&str>>().join("/")
}

impl Node {
    fn add(&mut self, route: &Route, index: usize) -> Result<(), String> {
        let mut node = self;
        for part in segments(&route.path) {
            node = match capture_of(part) {
                Some(_) if takes_rest(part) => node.rest.get_or_insert_default(),
                Some(_) => node.capture.get_or_insert_default(),
                None => node.literals.entry(part.to_owned()).or_default(),
            };
        }
        match node.rows.insert(route.verb, index) {
            Some(_) => {
                Err("another row answers the same verb on the same path; remove one".to_owned())
            }
            None => Ok(()),
        }
    }

    /// Returns the node for `path`. Each node is reached on a single way, so backtracking visits at
    /// most every node of the table.
    fn seek(&self, path: Option<&str>) -> Option<&Self> {
        let Some(path) = path else {
            return Some(self).filter(|node| !node.rows.is_empty());
        };
        let (head, rest) =
            path.split_once('/').map_or((path, None), |(head, rest)| (head, Some(rest)));
        let literal = self.literals.get(head).and_then(|node| node.seek(rest));
        let capture = || self.capture.as_ref().filter(|_| !head.is_empty())?.seek(rest);
        let all = || self.rest.as_ref().filter(|_| !path.is_empty())?.end(path);
        literal.or_else(capture).or_else(all)
    }

    /// Returns the end of `path` below a capture of all remaining segments: the node of the last
    /// segment if rows have that literal, else `self`.
    fn end(&self, path: &str) -> Option<&Self> {
        let last = path.rsplit_once('/').filter(|(before, _)| !before.is_empty());
        let ending = last.and_then(|(_, last)| self.literals.get(last));
        ending.or(Some(self)).filter(|node| !node.rows.is_empty())
    }
}

fn title(route: &Route) -> String {
    format!("row {:?} of {:?}", route.verb, route.path)
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Returns the name inside `{…}` or `{…+}`.
fn capture_of(part: &str) -> Option<&str> {
    let name = part.strip_prefix('{')?.strip_suffix('}')?;
    Some(name.strip_suffix('+').unwrap_or(name))
}

/// Returns whether the segment is `{x+}`, which takes the rest of the path, slashes included.
fn takes_rest(part: &str) -> bool {
    part.ends_with("+}")
}

/// Returns name and text of each capture, for a path matched by the pattern.
fn capture(pattern: &str, path: &str) -> Vec<(String, String)> {
    let mut captures = Vec::new();
    let mut left = path;
    let mut parts = segments(pattern).peekable();
    while let Some(part) = parts.next() {
        let (head, rest) = left.split_once('/').unwrap_or((left, ""));
        let text = match takes_rest(part) {
            true if parts.peek().is_some() => {
                left.rsplit_once('/').map_or(left, |(before, _)| before)
            }
            true => left,
            false => head,
        };
        captures.extend(capture_of(part).map(|name| (name.to_owned(), text.to_owned())));
        left = rest;
    }
    captures
}

fn check(route: &Route) -> Result<(), String> {
    let captures = captures_of(&route.path).map_err(|why| format!("path: {why}"))?;
    let behind: Vec<&str> =
        segments(&route.path).skip_while(|part| !takes_rest(part)).skip(1).collect();
    if behind.len() > 1 || behind.iter().any(|part| capture_of(part).is_some()) {
        return Err("path: behind a capture of all that is left stands at most one literal, \
             the last segment"
            .to_owned());
    }
    check_fields(&route.fields)?;
    check_captures(route, &captures)?;
    check_keys(route, &captures)?;
    check_exclusive(route)?;
    if route.asked_as.is_some() && route.verb != Verb::Read {
        return Err("asked_as: only a read is asked for as something else".to_owned());
    }
    check_open(route)
}

/// Refuses marks that need a caller known to policy on a row served without a token.
fn check_open(route: &Route) -> Result<(), String> {
    let mark = match (route.login, route.unauthenticated) {
        (true, true) => return Err("login: it asks for no token; leave unauthenticated out".into()),
        (true, false) => "login",
        (false, true) => "unauthenticated",
        (false, false) => return Ok(()),
    };
    let cannot = [
        ("answer anything but writes", route.login && route.verb != Verb::Write),
        ("answer anything but reads and writes", !matches!(route.verb, Verb::Read | Verb::Write)),
        ("need sudo", route.sudo),
        ("take open fields", route.open_fields),
        ("take bytes", route.raw),
        ("answer leases", route.leases),
        ("reach a database plugin", route.nested),
        ("tell create from update", route.existence.is_some()),
    ];
    match cannot.into_iter().find(|(_, is)| *is) {
        Some((what, _)) => Err(format!("{mark}: a row without a token cannot {what}")),
        None => Ok(()),
    }
}

/// Returns the captures of a pattern; each may occur only once.
fn captures_of(pattern: &str) -> Result<BTreeSet<&str>, String> {
    let mut captures = BTreeSet::new();
    for part in pattern.split('/').filter(|_| !pattern.is_empty()) {
        match capture_of(part) {
            Some(name) if !is_name(name) => {
                return Err(format!("{part:?} does not hold the name of a field"));
            }
            Some(name) if !captures.insert(name) => {
                return Err(format!("{part:?} stands in it twice"));
            }
            Some(_) => {}
            None => check_literal(part)?,
        }
    }
    Ok(captures)
}

fn check_literal(part: &str) -> Result<(), String> {
    match part {
        "" => Err("it has an empty segment, or a slash at an end".to_owned()),
        "." | ".." => Err(format!("{part:?} is not a segment that a request can have")),
        _ if part.contains(['{', '}']) => {
            Err(format!("{part:?} mixes text and a capture; a capture is a segment"))
        }
        _ if !part.chars().all(|c| c.is_ascii_graphic()) => {
            Err(format!("{part:?} is not printable ASCII"))
        }
        _ => Ok(()),
    }
}

fn check_fields(fields: &[Field]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for field in fields {
        for name in std::iter::once(&field.name).chain(&field.aliases) {
            if !is_name(name) {
                return Err(format!("{name:?} cannot be the name of a field"));
            }
            if !names.insert(name) {
                return Err(format!("{name:?} names two fields, or one field twice"));
            }
        }
        let fits = |default: &Value| !default.is_null() && coerce(field.kind, default).is_ok();
        if !field.default.as_ref().is_none_or(fits) {
            return Err(format!("the default of field {:?} does not fit its kind", field.name));
        }
        check_fields(&field.members).map_err(|why| format!("{} holds: {why}", field.name))?;
        check_old_name(field, fields)?;
    }
    Ok(())
}

/// Checks that an old name refers to a sibling field of the same kind that is not itself an old
/// name. Also refuses an unmarked `x` beside `token_x`, because policies would see two independent
/// fields.
fn check_old_name(field: &Field, fields: &[Field]) -> Result<(), String> {
    let named = |name: &str| fields.iter().find(|other| other.name == name);
    let Some(new) = &field.old_name_of else {
        let twin = format!("token_{}", field.name);
        return match named(&twin).filter(|twin| twin.kind == field.kind) {
            Some(_) => {
                Err(format!("{:?} looks like the old name of {twin:?}: mark it", field.name))
            }
            None => Ok(()),
        };
    };
    match named(new) {
        Some(new) if new.kind == field.kind && new.old_name_of.is_none() => Ok(()),
        Some(_) => Err(format!("{:?} and {new:?} are not of one kind, or both old", field.name)),
        None => Err(format!("{:?} is the old name of {new:?}, which is not there", field.name)),
    }
}

fn check_captures(route: &Route, captures: &BTreeSet<&str>) -> Result<(), String> {
    for capture in captures {
        let field = route.fields.iter().find(|field| field.name == *capture);
        if !field.is_some_and(|field| matches!(field.kind, FieldKind::Name | FieldKind::String)) {
            return Err(format!(
                "capture {capture:?} needs a field of that name, of kind name or string"
            ));
        }
    }
    Ok(())
}

/// Checks the storage keys: shaped like a path, and with a trailing slash for the prefix of a list.
fn check_keys(route: &Route, captures: &BTreeSet<&str>) -> Result<(), String> {
    if let Some(key) = &route.existence {
        if !matches!(route.verb, Verb::Write | Verb::Patch) {
            return Err("existence: only a write or a patch can have it".to_owned());
        }
        check_key(key, captures).map_err(|why| format!("existence: {why}"))?;
    }
    if let Some(prefix) = &route.list {
        if route.verb != Verb::List {
            return Err("list: only a row of verb list can have it".to_owned());
        }
        let key = prefix.strip_suffix('/').ok_or("list: the prefix must end in a slash")?;
        check_key(key, captures).map_err(|why| format!("list: {why}"))?;
    }
    Ok(())
}

fn check_key(key: &str, captures: &BTreeSet<&str>) -> Result<(), String> {
    if key.is_empty() {
        return Err("the storage key is empty".to_owned());
    }
    if segments(key).any(takes_rest) {
        return Err("the key would take slashes from a capture".to_owned());
    }
    match captures_of(key)?.difference(captures).next() {
        Some(unknown) => Err(format!("the path has no capture {unknown:?}")),
        None => Ok(()),
    }
}

fn check_exclusive(route: &Route) -> Result<(), String> {
    for group in &route.exclusive {
        if group.iter().collect::<BTreeSet<_>>().len() < 2 {
            return Err(format!("exclusive: {group:?} needs at least two fields"));
        }
        if let Some(name) =
            group.iter().find(|name| !route.fields.iter().any(|field| field.name == **name))
        {
            return Err(format!("exclusive: there is no field {name:?}"));
        }
        let has_default = |field: &&Field| field.default.is_some() && group.contains(&field.name);
        if route.fields.iter().filter(has_default).count() > 1 {
            return Err(format!("exclusive: of {group:?} only one can have a default"));
        }
    }
    Ok(())
}
