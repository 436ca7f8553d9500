//! The block `storage "postgresql"`, with the words of published servers and those of this server.
//!
//! This file prevents two values of one setting: a setting in both the block and the connection URL
//! is refused, and so is a second source of the password.

use super::connection_source::{ConnectionSource, written_source};
use super::database_settings::{ConnectRetries, DatabaseSettings, PostgresSettings};
use super::place_values::{PARALLEL_MOST, PlaceValues};
use super::{StorageSettings, shared_node};
use crate::config::findings::ConfigError;
use crate::config::section::{
    ConfigSection, ConfigValue, ForeignWord, LabelledBlock, SectionWords, harmless,
};
use bulkhead_store::{CONNECT_TIMEOUT_MOST, PasswordSource, PostgresSetting};
use bulkhead_wire::failure::quoted;

/// Words of published servers without effect here.
pub(super) const FOREIGN: &[ForeignWord] = &[
    harmless(
        "max_idle_connections",
        "connections stay open while they work; leave the line out, and set max_parallel",
    ),
    harmless(
        "transaction_max_parallel",
        "one connection commits for all requests; leave the line out, and set max_parallel",
    ),
    harmless(
        "skip_create_table",
        "the initialisation creates tables that are missing, and names the statements if the user \
         lacks the right; leave the line out",
    ),
    harmless("ha_table", NO_LEADER),
    harmless("redirect_addr", NO_LEADER),
    harmless("cluster_addr", NO_LEADER),
    harmless("disable_clustering", NO_LEADER),
];

const NO_LEADER: &str = "nodes have no leader, and meet in the database alone; leave the line out, \
    and set api_addr at the top of the file";

const WORDS: SectionWords = SectionWords {
    keys: &[
        "connection_url",
        "path",
        "schema",
        "table",
        "password_file",
        "passfile",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "connect_timeout",
        "target_session_attrs",
        "max_parallel",
        "max_connect_retries",
        "ha_enabled",
        "node_id",
    ],
    blocks: &[],
    foreign: FOREIGN,
};

/// Reads the value of a setting as a parameter of a URL.
type ParseSetting = fn(&ConfigValue<'_>) -> Result<String, ConfigError>;

/// Settings with the meaning of a parameter in the URL: name, parameter and values. The place of
/// the tables decides which settings contradict each other.
const SETTINGS: [(&str, &str, ParseSetting); 7] = [
    ("schema", "search_path", read_schema),
    ("sslmode", "sslmode", read_tls_mode),
    ("sslrootcert", "sslrootcert", read_authorities),
    ("sslcert", "sslcert", read_file),
    ("sslkey", "sslkey", read_file),
    ("connect_timeout", "connect_timeout", read_timeout),
    ("target_session_attrs", "target_session_attrs", read_session_target),
];

/// Default of `path`.
const LOCAL_DIRECTORY: &str = "/var/lib/bulkhead";

/// Maximum length of a name of PostgreSQL, in bytes. A longer name would be cut.
const NAME_MAX: usize = 63;
/// Maximum length of `table`, in bytes: names of tables and indexes begin with the text.
const TABLE_MAX: usize = 32;
/// Maximum of `max_connect_retries`.
const CONNECT_RETRIES_MOST: u64 = 1_000;

/// Reads the block. `server` is the file of a server, which may share the database. `None`: an
/// error is kept.
pub(super) fn settings(
    block: &LabelledBlock<'_>,
    server: Option<&ConfigSection<'_>>,
) -> Option<StorageSettings> {
    let section = block.section(&WORDS);
    let data = section.read("path", ConfigValue::path).unwrap_or_else(|| LOCAL_DIRECTORY.into());
    let source = match section.value("connection_url") {
        Some(value) => section.keep(value.text().and_then(|text| {
            written_source(text)
                .ok_or_else(|| value.error("it is empty; write a URL, or leave the line out"))
        })),
        None => Some(ConnectionSource::Variables),
    };
    let node_id = shared_node::node_id(&section, server);
    let retries = section.read("max_connect_retries", |value| value.count(0, CONNECT_RETRIES_MOST));
    let values = read_values(&section);
    let settings = PostgresSettings {
        source: source?,
        values: values?,
        retries: ConnectRetries::of_setting(retries),
    };
    // A URL outside of the file is read by the start.
    if let Some(value) = section.value("connection_url") {
        section.keep(settings.check_written().map_err(|why| value.error(why)))?;
    }
    let database = DatabaseSettings::Block(Box::new(settings));
    Some(StorageSettings { data, database, node_id })
}

/// Reads the values besides the URL. `None`: errors are kept, one for each unusable value.
fn read_values(section: &ConfigSection<'_>) -> Option<PlaceValues> {
    let settings = read_settings(section);
    let table = value_of(section, "table", read_table);
    let password = read_password(section);
    let max_parallel = value_of(section, "max_parallel", |value| value.count(1, PARALLEL_MOST));
    Some(PlaceValues {
        settings: settings?,
        table: table?,
        password: password?,
        max_parallel: max_parallel?.and_then(|count| u32::try_from(count).ok()),
    })
}

/// Reads the settings with the meaning of a parameter in the URL. `None`: errors are kept.
fn read_settings(section: &ConfigSection<'_>) -> Option<Vec<PostgresSetting>> {
    // Collected before the first error ends the reading, so that each error is named.
    let read: Vec<Option<PostgresSetting>> = SETTINGS
        .iter()
        .filter_map(|(name, parameter, parse)| {
            let value = section.keep(parse(&section.value(name)?));
            Some(value.map(|value| PostgresSetting { name, parameter, value }))
        })
        .collect();
    let (certificate, key) = (section.value("sslcert"), section.value("sslkey"));
    if let (Some(value), None) | (None, Some(value)) = (certificate, key) {
        section.refuse(value.error("sslcert and sslkey belong together; write both"));
        return None;
    }
    read.into_iter().collect()
}

/// Returns the value of an optional key; the outer `None`: an error is kept.
fn value_of<'a, T>(
    section: &ConfigSection<'a>,
    key: &'static str,
    parse: impl FnOnce(&ConfigValue<'a>) -> Result<T, ConfigError>,
) -> Option<Option<T>> {
    match section.value(key) {
        Some(value) => section.keep(parse(&value)).map(Some),
        None => Some(None),
    }
}

fn read_password(section: &ConfigSection<'_>) -> Option<Option<PasswordSource>> {
    let file = value_of(section, "password_file", ConfigValue::path)?;
    let pass_file = value_of(section, "passfile", ConfigValue::path)?;
    match (file, pass_file, section.value("passfile")) {
        (Some(_), Some(_), Some(value)) => {
            section.refuse(value.error("password_file is given, too; leave one of the two out"));
            None
        }
        (Some(file), ..) => Some(Some(PasswordSource::File(file))),
        (None, pass_file, _) => Some(pass_file.map(PasswordSource::PassFile)),
    }
}

fn read_schema(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_name = (1..=NAME_MAX).contains(&text.len())
        && !text.contains(|c: char| c.is_control() || matches!(c, ',' | '"'));
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} is not the name of a schema; write 1 to {NAME_MAX} bytes, such as \"bulkhead\"",
            quoted(text)
        ))),
    }
}

fn read_table(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_name = (1..=TABLE_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} cannot begin the names of tables; write 1 to {TABLE_MAX} letters, digits and _, \
             such as \"bulkhead\", and the schema in schema",
            quoted(text)
        ))),
    }
}

fn read_tls_mode(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    match value.text()? {
        mode @ ("disable" | "prefer" | "require" | "verify-ca" | "verify-full") => {
            Ok(mode.to_owned())
        }
        "allow" => Err(value.error(
            "allow would log in without TLS first; write prefer for a server of this machine, or \
             verify-full",
        )),
        other => Err(value.error(format!(
            "{} is not a mode of TLS; write disable, prefer, require, verify-ca or verify-full",
            quoted(other)
        ))),
    }
}

/// Reads the file of the authorities. `system` is the word for the public authorities.
fn read_authorities(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    match value.text()? {
        "system" => Ok("system".to_owned()),
        _ => read_file(value),
    }
}

fn read_file(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    value.path()?.into_os_string().into_string().map_err(|_| {
        value.error("the path of the working directory is not UTF-8; begin the path with /")
    })
}

fn read_timeout(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    value.seconds(1, CONNECT_TIMEOUT_MOST).map(|seconds| seconds.to_string())
}

fn read_session_target(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    match value.text()? {
        target @ ("any" | "read-write" | "primary") => Ok(target.to_owned()),
        other => Err(value.error(format!(
            "{} is not served, because the server writes; write read-write or any",
            quoted(other)
        ))),
    }
}
