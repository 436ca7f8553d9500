//! Settings of the server on which the promises of the store depend.
//!
//! This file prevents a start on a database that cannot store every text, and a cluster that loses
//! acknowledged commits without a word to the operator.

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use bulkhead_record::fault::StoreFault;

use super::statement_draft::StatementDraft;

/// Settings with the value that can lose an acknowledged commit, and the consequence.
const DOUBTS: [(&str, &str, &str); 3] = [
    ("fsync", "off", "a power cut may damage the database and lose acknowledged commits"),
    ("full_page_writes", "off", "a power cut may damage the database"),
    ("synchronous_commit", "off", "a crash of the server loses the last acknowledged commits"),
];

/// Values of `synchronous_commit` with which a failover to a standby can lose an acknowledged
/// commit, and the consequence.
const STANDBY_DOUBTS: [(&str, &str); 2] = [
    ("local", "a failover loses commits that the standby has not received"),
    ("remote_write", "a failover to a standby that crashed as well may lose the last commits"),
];

/// The oldest version whose statements the store uses, as `server_version_num` counts.
const OLDEST_VERSION: u32 = 130_000;

/// Checks the version of the server. A compatible database without the setting is accepted.
///
/// # Errors
/// [`StoreFault::Refused`] for a version before PostgreSQL 13; [`StoreFault::Unavailable`] if the
/// database cannot be read.
pub(super) async fn check_version(connection: &mut PgConnection) -> Result<(), StoreFault> {
    let Ok(Some(version)) = setting(connection, "server_version_num").await else { return Ok(()) };
    match refused_version(&version) {
        Some(refusal) => Err(StoreFault::Refused(refusal)),
        None => Ok(()),
    }
}

/// Returns the refusal of a version that is too old.
fn refused_version(version: &str) -> Option<String> {
    let version = version.parse::<u32>().ok().filter(|version| *version < OLDEST_VERSION)?;
    Some(format!(
        "the database server has version {}, and the store needs PostgreSQL 13 or newer; upgrade \
         the server",
        version / 10_000
    ))
}

/// Checks that the database stores any text.
///
/// # Errors
/// [`StoreFault::Refused`] for another encoding than UTF-8; [`StoreFault::Unavailable`] if the
/// database cannot be read.
pub(super) async fn check_encoding(connection: &mut PgConnection) -> Result<(), StoreFault> {
    let encoding = setting(connection, "server_encoding").await?;
    match encoding.as_deref() {
        Some("UTF8") => Ok(()),
        other => Err(StoreFault::Refused(format!(
            "the database has the encoding {:?}, and the store needs \"UTF8\"; create a database \
             with ENCODING 'UTF8'",
            other.unwrap_or("unknown")
        ))),
    }
}

/// Returns a sentence for each setting that can lose an acknowledged commit. A compatible database
/// may not know a setting.
pub(super) async fn find_doubts(connection: &mut PgConnection) -> Vec<String> {
    let mut doubts = Vec::new();
    for (name, value, consequence) in DOUBTS {
        if let Ok(Some(found)) = setting(connection, name).await
            && found == value
        {
            doubts.push(format!(
                "the database server has {name} = {value}: {consequence}; set {name} = on"
            ));
        }
    }
    doubts.extend(find_standby_doubt(connection).await);
    doubts
}

/// Returns a sentence if synchronous standbys are configured, and commits do not wait until a
/// standby has flushed.
async fn find_standby_doubt(connection: &mut PgConnection) -> Option<String> {
    let names = setting(connection, "synchronous_standby_names").await.ok()??;
    let found = setting(connection, "synchronous_commit").await.ok()??;
    standby_doubt(&names, &found)
}

fn standby_doubt(names: &str, found: &str) -> Option<String> {
    let doubt = STANDBY_DOUBTS.iter().find(|(value, _)| *value == found);
    let (value, consequence) = doubt.filter(|_| !names.trim().is_empty())?;
    Some(format!(
        "the database server has synchronous standbys and synchronous_commit = {value}: \
         {consequence}; set synchronous_commit = on"
    ))
}

/// Returns the value of a setting for this session.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read or has no such setting.
pub(super) async fn setting(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<String>, StoreFault> {
    let rows = StatementDraft::of(format!("SHOW {name}")).fetch(connection).await?;
    Ok(rows.first().and_then(|row| row.try_get(0).ok()))
}

#[cfg(test)]
mod tests;
