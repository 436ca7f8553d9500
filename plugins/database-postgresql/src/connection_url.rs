//! Parser for both forms of `connection_url`.

use crate::codes::Code;
use crate::dsn;
use bulkhead_sdk::connection::{CONNECTION_URL, ConnectionParameters, read_url};
use bulkhead_sdk::database_plugin::Refusal;

/// Parses `connection_url` without interpreting the parameters.
pub(crate) fn read(connection_url: &str) -> Result<ConnectionParameters, Refusal> {
    let text = connection_url.trim();
    if text.is_empty() {
        return Err(Code::ConnectionUrlMissing.about(CONNECTION_URL));
    }
    let schemes = ["postgresql://", "postgres://"];
    if let Some(after_scheme) = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        return read_url(after_scheme);
    }
    match text.split_once('=') {
        Some((keyword, _)) if !keyword.contains("://") => dsn::read(text),
        _ => Err(Code::UrlScheme.about(CONNECTION_URL)),
    }
}
