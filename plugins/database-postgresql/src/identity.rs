//! Identities of roles: the cluster's system identifier, its timeline, and the role's OID.
//!
//! This file prevents two faults. A renamed role passes for gone, although it still logs in; and a
//! role made by somebody else under the name of a removed role is removed. A restored dump has
//! other OIDs in another cluster, where the name decides. A cluster recovered to an earlier time
//! uses OIDs again, and has a new timeline, as after a failover: there a role with the OID and
//! another name is refused, because the role may be either.

use crate::codes::Code;
use crate::settings::ParsedConnection;
use crate::sql_failure;
use bulkhead_sdk::database_plugin::{Account, Refusal, SqlFailure, SqlHost, is_derived_name};

/// SQLSTATE of an act that the connection's user may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// SQLSTATE of a catalog that this server does not have.
const UNDEFINED_TABLE: &str = "42P01";

/// SQLSTATEs of a server without these catalogs and functions, which only speaks PostgreSQL's
/// protocol, and of a missing right.
const UNREADABLE: [&str; 5] = [INSUFFICIENT_PRIVILEGE, UNDEFINED_TABLE, "42883", "42703", "0A000"];

/// Query that fails if the connection's user may not read identities.
const READABLE: &str = "SELECT s.system_identifier::text, c.timeline_id::text FROM \
                        pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c";

/// Query for the OIDs of all roles, as a list.
const EVERY_OID: &str = "SELECT coalesce(string_agg(oid::text, ','), '') FROM pg_catalog.pg_roles";

/// Query for roles with their identities; a condition follows.
const ROLES: &str = "SELECT r.rolname::text, r.oid::text, s.system_identifier::text, \
                     c.timeline_id::text FROM pg_catalog.pg_roles r, \
                     pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c WHERE";

/// Condition for the names of a list, separated by the character 31.
const NAMED: &str = "r.rolname = ANY (string_to_array($1, chr(31))::name[])";

/// Condition for the roles made by the transaction that made the user. The second parameter has the
/// roles that existed before: the transaction may have changed some of these roles. A role that
/// cannot log in and does not have the user's name is shared by users, and not an account.
const OF_TRANSACTION: &str = "r.oid IN (SELECT a.oid FROM pg_catalog.pg_authid a WHERE a.xmin = \
                              (SELECT xmin FROM pg_catalog.pg_authid WHERE rolname = $1::name) \
                              AND (a.rolcanlogin OR a.rolname = $1::name)) AND r.oid <> ALL \
                              (string_to_array($2, ',')::oid[])";

/// Condition for new roles whose names contain the name of the user. The roles may be made in a
/// part of the transaction with a separate `xmin`, and are visible to every user.
const WITH_NAME: &str =
    "position($1 in r.rolname) > 0 AND r.oid <> ALL (string_to_array($2, ',')::oid[])";

/// Query for a role by its OID in the cluster. The last column tells if the name exists.
pub(crate) const BY_OID: &str = "SELECT s.system_identifier::text, c.timeline_id::text, \
                                 r.oid::text, r.rolname::text, EXISTS (SELECT FROM pg_shdepend d \
                                 WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = \
                                 r.oid)::text, EXISTS (SELECT FROM pg_roles n WHERE n.rolname = \
                                 $2::name)::text FROM pg_control_system() s CROSS JOIN \
                                 pg_control_checkpoint() c LEFT JOIN pg_roles r ON r.oid = $1::oid";

/// Query for a role by its name, with the role's dependencies: owned objects and direct privileges
/// in any database, but not memberships in groups.
pub(crate) const BY_NAME: &str = "SELECT r.oid::text, EXISTS (SELECT FROM pg_shdepend s WHERE \
                                  s.refclassid = 'pg_authid'::regclass AND s.refobjid = \
                                  r.oid)::text FROM pg_roles r WHERE r.rolname = $1";

/// Variant of [`BY_NAME`] for servers without the catalog of dependencies.
const BY_NAME_ALONE: &str = "SELECT oid::text FROM pg_roles WHERE rolname = $1";

/// Separator of names in a parameter, which no name contains.
const SEPARATOR: &str = "\u{1f}";

/// The place of a recorded account in the catalog.
pub(crate) enum RoleLocation {
    /// The role exists, possibly under another name.
    Found(CatalogRole),
    /// The role does not exist.
    Gone {
        /// The OID, if it was recorded; open sessions keep the OID.
        oid: Option<String>,
        /// A role of somebody else has the name now.
        is_name_taken: bool,
    },
}

/// A role in the catalog.
pub(crate) struct CatalogRole {
    pub(crate) oid: String,
    pub(crate) name: String,
    /// Set if the role may own objects or hold direct privileges.
    pub(crate) holds_something: bool,
}

/// Tells if the connection's user lacks a right to read identities. A server without identities
/// causes no warning.
pub(crate) fn lacks_right(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
) -> Result<bool, SqlFailure> {
    match host.query(&connection.target, READABLE, &[]) {
        Err(failure) if failure.code == "statement-failed" => {
            Ok(failure.has_sqlstate(&[INSUFFICIENT_PRIVILEGE]))
        }
        rows => rows.map(|_| false),
    }
}

/// Returns the OIDs of all roles, before a creation whose text does not show the created roles;
/// `None` if the connection's user may not read the OIDs.
pub(crate) fn every_oid(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
) -> Result<Option<String>, SqlFailure> {
    let lists = unless_unreadable(host.query_column(&connection.target, EVERY_OID, &[]))?;
    Ok(lists.and_then(|lists| lists.into_iter().next()))
}

/// Returns the roles with these names as accounts. An account without an identity was not found, or
/// the connection's user may not read identities.
pub(crate) fn named(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    names: &[String],
) -> Result<Vec<Account>, SqlFailure> {
    let found = roles(host, connection, NAMED, &[&names.join(SEPARATOR)])?;
    let account_named = |name: &String| found.iter().find(|account| account.name == *name).cloned();
    Ok(names
        .iter()
        .map(|name| account_named(name).unwrap_or_else(|| Account::named(name)))
        .collect())
}

/// Returns the roles that a creation made, by what the catalog shows. `before` has the OIDs of the
/// roles before the creation.
pub(crate) fn appeared(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    before: &str,
) -> Result<Vec<Account>, SqlFailure> {
    let mut accounts = roles(host, connection, OF_TRANSACTION, &[username, before])?;
    let named = roles(host, connection, WITH_NAME, &[username, before])?;
    accounts.extend(named.into_iter().filter(|role| is_derived_name(&role.name, username)));
    Ok(accounts)
}

/// Returns the roles that fit the condition; none if identities are not readable.
fn roles(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    condition: &str,
    parameters: &[&str],
) -> Result<Vec<Account>, SqlFailure> {
    let query = format!("{ROLES} {condition}");
    let rows = unless_unreadable(host.query(&connection.target, &query, parameters))?;
    let account = |row: Vec<Option<String>>| {
        let [name, oid, system, timeline] = <[Option<String>; 4]>::try_from(row).ok()?;
        let identity = format!("{}/{}/{}", system?, timeline?, oid?);
        Some(Account { identity, ..Account::named(&name?) })
    };
    Ok(rows.unwrap_or_default().into_iter().filter_map(account).collect())
}

/// Finds a recorded account: by the identity, or by the name if no identity was recorded or the
/// cluster is another cluster.
pub(crate) fn locate(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    account: &Account,
) -> Result<RoleLocation, Refusal> {
    let refused = |failure| sql_failure::refusal(failure, &connection.target);
    let Some((system, timeline, oid)) = parts(&account.identity) else {
        return by_name(host, connection, &account.name).map_err(refused);
    };
    let unseen = |vendor_code| {
        let refusal = Code::IdentityUnseen.refusal().with("user", &connection.target.username);
        Refusal { vendor_code, ..refusal }
    };
    let rows = host.query(&connection.target, BY_OID, &[oid, &account.name]);
    let rows = rows.map_err(|failure| match failure.has_sqlstate(&[INSUFFICIENT_PRIVILEGE]) {
        true => unseen(failure.sqlstate),
        false => refused(failure),
    })?;
    let row = rows.into_iter().next().unwrap_or_default();
    let Ok([Some(system_now), Some(timeline_now), found, name, holds, is_name_taken]) =
        <[Option<String>; 6]>::try_from(row)
    else {
        return Err(unseen(None));
    };
    if system_now != system {
        return by_name(host, connection, &account.name).map_err(refused);
    }
    if let Some(other) = name.as_ref().filter(|name| **name != account.name)
        && timeline_now != timeline
    {
        let refusal = Code::IdentityUncertain.refusal().with("other", other);
        return Err(refusal.with("username", &account.name));
    }
    Ok(match (found, name) {
        (Some(oid), Some(name)) => RoleLocation::Found(CatalogRole {
            oid,
            name,
            holds_something: holds.as_deref() != Some("false"),
        }),
        _ => RoleLocation::Gone {
            oid: Some(oid.to_owned()),
            is_name_taken: is_name_taken.as_deref() != Some("false"),
        },
    })
}

/// Splits an identity into system identifier, timeline and OID.
fn parts(identity: &str) -> Option<(&str, &str, &str)> {
    let (system, rest) = identity.split_once('/')?;
    let (timeline, oid) = rest.split_once('/')?;
    is_number(oid).then_some((system, timeline, oid))
}

fn by_name(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    name: &str,
) -> Result<RoleLocation, SqlFailure> {
    let ask = |query| host.query(&connection.target, query, &[name]);
    let found = match ask(BY_NAME) {
        Err(failure) if failure.has_sqlstate(&[UNDEFINED_TABLE]) => ask(BY_NAME_ALONE),
        found => found,
    };
    let mut cells = found?.into_iter().next().unwrap_or_default().into_iter().flatten();
    let oid = cells.next().filter(|oid| is_number(oid));
    let holds_something = cells.next().is_none_or(|holds| holds != "false");
    Ok(match oid {
        Some(oid) => {
            RoleLocation::Found(CatalogRole { oid, name: name.to_owned(), holds_something })
        }
        None => RoleLocation::Gone { oid: None, is_name_taken: false },
    })
}

/// Returns `None` if identities are not readable; keeps every other failure.
fn unless_unreadable<T>(answer: Result<T, SqlFailure>) -> Result<Option<T>, SqlFailure> {
    match answer {
        Err(failure) if failure.has_sqlstate(&UNREADABLE) => Ok(None),
        answer => answer.map(Some),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
