//! `ambient`: where the machine's surroundings are, where that is not where they always are.
//!
//! The attack this file stops: a machine's token sent in the clear over a network. What stands for
//! a metadata service is of this machine or its link.

use super::section::{ConfigError, Section, Value, Words};
use bulkhead_sandbox::{Surroundings, is_near};
use bulkhead_wire::failure::quoted;
use std::net::SocketAddr;

const WORDS: Words = Words {
    keys: &["pod_folder", "azure_client_id", "azure_metadata", "google_metadata"],
    blocks: &[],
    unserved: &[],
};

/// The surroundings, as the file changes them.
pub(super) fn settings(file: &Section<'_>) -> Result<Surroundings, ConfigError> {
    let usual = Surroundings::default();
    let Some(block) = file.unlabelled_block("ambient")? else { return Ok(usual) };
    let section = block.section(&WORDS)?;
    let address = |key, usual| section.value(key).map_or(Ok(usual), |value| near(&value));
    Ok(Surroundings {
        pod_folder: section.value("pod_folder").map_or(Ok(usual.pod_folder), |it| it.path())?,
        azure_client_id: section
            .value("azure_client_id")
            .map_or(Ok(String::new()), |it| identifier(&it))?,
        azure_metadata: address("azure_metadata", usual.azure_metadata)?,
        google_metadata: address("google_metadata", usual.google_metadata)?,
        ..usual
    })
}

/// The address of a service that is asked in the clear.
fn near(value: &Value<'_>) -> Result<SocketAddr, ConfigError> {
    let text = value.text()?;
    let address = text.parse::<SocketAddr>().ok().filter(|address| is_near(address.ip()));
    address.ok_or_else(|| {
        value.error(format!(
            "{} is no loopback or link-local address with a port; write such as \
             \"169.254.169.254:80\"",
            quoted(text)
        ))
    })
}

/// The identifier of a client, as Azure writes it.
fn identifier(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_identifier = !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match is_identifier {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} is no client id; write such as \"00000000-0000-0000-0000-000000000000\"",
            quoted(text)
        ))),
    }
}
