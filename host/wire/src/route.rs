//! The route table of a component, and the look-up of the row for a call.
//!
//! A mistake in a table is reported at registration with the name of the row, never during a
//! request. The attack this file prevents: a storage key built from a capture containing several
//! segments or another placeholder.

mod check;
#[cfg(test)]
mod tests;

use crate::description::{Route, Verb};
use check::{check, forbidden_verb};
use std::collections::{BTreeMap, BTreeSet};

/// A checked route table. A look-up takes time proportional to the length of the path, not to the
/// number of rows.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    routes: Vec<Route>,
    root: PathNode,
    /// Names and aliases of all fields marked secret by any row, settings inside objects included.
    secrets: BTreeSet<String>,
    /// Names of the captures of all rows, if any row is verbatim: every other name may be a
    /// secret's.
    known_if_verbatim: Option<BTreeSet<String>>,
}

/// The result of a look-up by path and verb.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteMatch<'a> {
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
struct PathNode {
    literals: BTreeMap<String, PathNode>,
    capture: Option<Box<PathNode>>,
    /// The node of a capture of all remaining segments. At most a single literal follows below, the
    /// last segment of such a path.
    rest: Option<Box<PathNode>>,
    rows: BTreeMap<Verb, usize>,
}

impl RouteTable {
    /// Checks `routes` and builds the table.
    ///
    /// # Errors
    /// A message with the row and the mistake: an invalid pattern, a capture without a field of
    /// kind name or string, a name shared by two fields, an old name not marked as such, a storage
    /// key with an unknown capture, an exclusive group with an unknown field, a default unfit for
    /// its kind, or a second row for the same verb and path.
    pub fn new(routes: Vec<Route>) -> Result<Self, String> {
        let is_open_delete = |route: &&Route| route.unauthenticated && route.verb == Verb::Delete;
        match routes.iter().find(is_open_delete) {
            Some(route) => Err(format!("{}: {}", title(route), forbidden_verb("unauthenticated"))),
            None => Self::of_host(routes),
        }
    }

    /// Checks `routes` of the host and builds the table. A row of the host may delete without a
    /// token.
    ///
    /// # Errors
    /// As [`RouteTable::new`].
    pub fn of_host(routes: Vec<Route>) -> Result<Self, String> {
        let mut root = PathNode::default();
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
        let captures = routes.iter().flat_map(|route| segments(&route.path)).filter_map(capture_of);
        let captures: BTreeSet<String> = captures.map(str::to_owned).collect();
        let known_if_verbatim = routes.iter().any(|route| route.verbatim).then_some(captures);
        Ok(Self { routes, root, secrets, known_if_verbatim })
    }

    /// Returns the row for `verb` on `path`, which has no slash at either end; `""` is the mount's
    /// root. A literal segment wins over a capture, even if the literal's row lacks the verb.
    #[must_use]
    pub fn find(&self, verb: Verb, path: &str) -> RouteMatch<'_> {
        let Some(node) = self.root.find_node(Some(path).filter(|path| !path.is_empty())) else {
            return RouteMatch::NoPath;
        };
        let Some(&index) = node.rows.get(&verb) else {
            return RouteMatch::NoVerb;
        };
        let Some(route) = self.routes.get(index) else {
            return RouteMatch::NoPath;
        };
        RouteMatch::Row { index, route, captures: capture(&route.path, path) }
    }

    /// Returns whether any row has this path, for any verb.
    #[must_use]
    pub fn has_path(&self, path: &str) -> bool {
        let node = self.root.find_node(Some(path).filter(|path| !path.is_empty()));
        node.is_some_and(|node| !node.rows.is_empty())
    }

    /// Returns whether any row marks a field with this name or alias as secret. Redaction asks the
    /// whole table, because a row may show a value taken by another row. With a verbatim row, whose
    /// body has members of any name, every name is secret apart from those of captures.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        let is_open = |known_names: &BTreeSet<String>| !known_names.contains(name);
        self.secrets.contains(name) || self.known_if_verbatim.as_ref().is_some_and(is_open)
    }

    /// Returns the rows in the order given to [`RouteTable::new`].
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }
}

/// Returns `pattern` with each `{x}` segment replaced by its capture. The text of a capture is not
/// expanded again, so braces inside have no effect. A segment without a capture stays unchanged;
/// [`RouteTable::new`] refuses rows with such a segment.
#[must_use]
pub fn fill_pattern(pattern: &str, captures: &[(String, String)]) -> String {
    let segment = |part| {
        let name = capture_of(part);
        captures
            .iter()
            .find(|(capture, _)| name == Some(capture.as_str()))
            .map_or(part, |(_, text)| text.as_str())
    };
    pattern.split('/').map(segment).collect::<Vec<&str>>().join("/")
}

impl PathNode {
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
    fn find_node(&self, path: Option<&str>) -> Option<&Self> {
        let Some(path) = path else {
            return Some(self).filter(|node| !node.rows.is_empty());
        };
        let (head, rest) =
            path.split_once('/').map_or((path, None), |(head, rest)| (head, Some(rest)));
        let literal = self.literals.get(head).and_then(|node| node.find_node(rest));
        let capture = || self.capture.as_ref().filter(|_| !head.is_empty())?.find_node(rest);
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
