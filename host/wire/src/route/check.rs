//! The checks of a row: its path, its fields, its storage keys and its marks.

use super::{capture_of, segments, takes_rest};
use crate::coercion::coerce;
use crate::description::{Field, FieldKind, Route, Verb};
use crate::field_rights::declare_sudo;
use crate::name::is_name;
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks a row by itself.
///
/// # Errors
/// As [`RouteTable::new`](super::RouteTable::new).
pub(super) fn check(route: &Route) -> Result<(), String> {
    let captures = captures_of(&route.path).map_err(|why| format!("path: {why}"))?;
    let behind: Vec<&str> =
        segments(&route.path).skip_while(|part| !takes_rest(part)).skip(1).collect();
    if behind.len() > 1 || behind.iter().any(|part| capture_of(part).is_some()) {
        return Err("path: at most one literal follows a capture of the rest, as the last segment"
            .to_owned());
    }
    check_fields(&route.fields)?;
    check_captures(route, &captures)?;
    check_keys(route, &captures)?;
    check_exclusive(route)?;
    check_verbatim(route, &captures)?;
    check_successor(route, &captures)?;
    if route.asked_as.is_some() && route.verb != Verb::Read {
        return Err("asked_as: only a read is asked for as something else".to_owned());
    }
    check_open(route)
}

/// Refuses a body that is passed on as sent, and yet has fields or kinds of its own.
fn check_verbatim(route: &Route, captures: &BTreeSet<&str>) -> Result<(), String> {
    if !route.verbatim {
        return Ok(());
    }
    if !route.open_fields || route.verb != Verb::Write {
        return Err("verbatim: only for a write with open fields".to_owned());
    }
    match route.fields.iter().find(|field| !captures.contains(field.name.as_str())) {
        Some(field) => Err(format!("verbatim: {:?} is a field of the body", field.name)),
        None => Ok(()),
    }
}

/// Refuses marks that need a caller known to policy on a row served without a token.
fn check_open(route: &Route) -> Result<(), String> {
    let mark = match (route.login, route.unauthenticated) {
        (true, true) => {
            return Err("login: a login needs no token; leave unauthenticated out".into());
        }
        (true, false) => "login",
        (false, true) => "unauthenticated",
        (false, false) => return Ok(()),
    };
    if !matches!(route.verb, Verb::Read | Verb::Write | Verb::Delete) {
        return Err(forbidden_verb(mark));
    }
    let cannot = [
        ("answer anything but writes", route.login && route.verb != Verb::Write),
        ("need sudo", route.sudo || declare_sudo(&route.fields)),
        ("take open fields", route.open_fields),
        ("take bytes", route.raw),
        ("answer leases", route.leases),
        ("reach a database plugin", route.nested),
        ("tell create from update", route.existence.is_some()),
    ];
    match cannot.into_iter().find(|(_, is)| *is) {
        Some((act, _)) => Err(format!("{mark}: a row without a token cannot {act}")),
        None => Ok(()),
    }
}

/// Returns the error of a row with a verb that no row without a token may have.
pub(super) fn forbidden_verb(mark: &str) -> String {
    format!("{mark}: a row without a token cannot answer anything but reads and writes")
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
        "" => Err("there is an empty segment, or a slash at an end".to_owned()),
        "." | ".." => Err(format!("{part:?} cannot be a segment of a request")),
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
                return Err(format!("{name:?} names two fields, or the same field twice"));
            }
        }
        let fits = |default: &Value| !default.is_null() && coerce(field.kind, default).is_ok();
        if !field.default.as_ref().is_none_or(fits) {
            return Err(format!(
                "the default of field {:?} is not of the field's kind",
                field.name
            ));
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
                Err(format!("{:?} looks like the old name of {twin:?}: mark the field", field.name))
            }
            None => Ok(()),
        };
    };
    match named(new) {
        Some(new) if new.kind == field.kind && new.old_name_of.is_none() => Ok(()),
        Some(_) => Err(format!("{:?} and {new:?} differ in kind, or are both old", field.name)),
        None => Err(format!("{:?} is the old name of {new:?}, which is not there", field.name)),
    }
}

fn check_captures(route: &Route, captures: &BTreeSet<&str>) -> Result<(), String> {
    for capture in captures {
        let field = route.fields.iter().find(|field| field.name == *capture);
        if !field.is_some_and(|field| matches!(field.kind, FieldKind::Name | FieldKind::String)) {
            return Err(format!(
                "capture {capture:?} needs a field of the same name, of kind name or string"
            ));
        }
        if field.is_some_and(|field| field.sudo) {
            return Err(format!("capture {capture:?} cannot need sudo: mark the row"));
        }
    }
    Ok(())
}

/// Checks the storage keys: shaped like a path, and with a trailing slash for the prefix of a list.
fn check_keys(route: &Route, captures: &BTreeSet<&str>) -> Result<(), String> {
    if let Some(key) = &route.existence {
        if !matches!(route.verb, Verb::Write | Verb::Patch) {
            return Err("existence: only for a write or a patch".to_owned());
        }
        check_key(key, captures).map_err(|why| format!("existence: {why}"))?;
    }
    if let Some(prefix) = &route.list {
        if route.verb != Verb::List {
            return Err("list: only for a row of verb list".to_owned());
        }
        let key = prefix.strip_suffix('/').ok_or("list: the prefix must end in a slash")?;
        check_key(key, captures).map_err(|why| format!("list: {why}"))?;
    }
    Ok(())
}

/// Refuses a successor without an earlier version, or with an unknown capture.
fn check_successor(route: &Route, captures: &BTreeSet<&str>) -> Result<(), String> {
    let Some(pattern) = &route.successor else { return Ok(()) };
    if route.api_version == 0 {
        return Err("successor: only for a row with a version of the API".to_owned());
    }
    let pattern_captures = captures_of(pattern).map_err(|why| format!("successor: {why}"))?;
    match pattern_captures.difference(captures).next() {
        Some(unknown) => Err(format!("successor: the path has no capture {unknown:?}")),
        None => Ok(()),
    }
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
            return Err(format!("exclusive: at most one of {group:?} can have a default"));
        }
    }
    Ok(())
}
