//! `ha_enabled` and `node_id` of `storage "postgresql"`: a node that shares the database.
//!
//! This file prevents nodes that operators and clients cannot tell apart: each node has an address
//! of its own, and a name that fits into lists, logs and metrics.

use crate::config::findings::ConfigError;
use crate::config::section::{ConfigSection, ConfigValue};
use bulkhead_wire::failure::quoted;
use hyper::Uri;

/// Maximum length of `node_id`, in bytes.
const NODE_ID_MAX: usize = 128;

const ALONE: &str = "without ha_enabled, a single server uses the tables at a time; leave the line \
    out";

const MIGRATION: &str = "a single process migrates; leave the line out";

/// Returns the name of this node if the block `section` lets several nodes share the database.
/// `server` is the file of a server; `None` for a migration. `None`: the node works alone, or an
/// error is kept.
pub(super) fn node_id(
    section: &ConfigSection<'_>,
    server: Option<&ConfigSection<'_>>,
) -> Option<String> {
    let (enabling, naming) = (section.value("ha_enabled"), section.value("node_id"));
    let Some(file) = server else {
        let values = [&enabling, &naming];
        values.into_iter().flatten().for_each(|value| section.notice(value, MIGRATION));
        return None;
    };
    let is_enabled = match &enabling {
        Some(value) => section.keep(value.flag())?,
        None => false,
    };
    match (enabling, naming) {
        (Some(enabling), naming) if is_enabled => {
            let named = match naming {
                Some(value) => Some(section.keep(read_node_id(&value))?),
                None => None,
            };
            return shared_node_id(section, file, (&enabling, named));
        }
        (_, Some(naming)) => section.refuse(naming.error(
            "only a node that shares the database has a name; write ha_enabled = \"true\", too, or \
             leave the line out",
        )),
        (Some(enabling), None) => section.notice(&enabling, ALONE),
        (None, None) => {}
    }
    None
}

/// Returns the name of a node that shares the database: the name of the block, or the host and the
/// port of `api_addr`.
fn shared_node_id(
    section: &ConfigSection<'_>,
    file: &ConfigSection<'_>,
    (enabling, named): (&ConfigValue<'_>, Option<String>),
) -> Option<String> {
    let Some(address) = file.value("api_addr") else {
        section.refuse(enabling.error(
            "each node that shares the database needs an address of its own: write api_addr = \
             \"https://node-1.example.com:8200\" at the top of the file",
        ));
        return None;
    };
    // The reader of the address keeps its error.
    let address = address.url().ok()?;
    match named.or_else(|| default_node_id(&address)) {
        Some(node_id) => Some(node_id),
        None => {
            section.refuse(enabling.error(format!(
                "host and port of api_addr {} cannot be the name of the node; write node_id = \
                 \"node-1\"",
                quoted(&address)
            )));
            None
        }
    }
}

/// Returns the host and the port of an address.
fn default_node_id(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    let host = uri.host()?.trim_matches(['[', ']']);
    let name = format!("{host}:{}", uri.port_u16().unwrap_or(usual));
    is_node_id(&name).then_some(name)
}

fn read_node_id(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    match is_node_id(text) {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} cannot be the name of a node; write 1 to {NODE_ID_MAX} letters, digits, \".\", \
             \"-\", \"_\" and \":\", such as \"node-1\"",
            quoted(text)
        ))),
    }
}

fn is_node_id(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    (1..=NODE_ID_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}
