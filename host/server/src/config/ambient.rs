//! `ambient`: addresses of the machine's metadata services and files, if they differ from the
//! defaults.
//!
//! This file prevents a machine's token from crossing a network in the clear: the address of a
//! metadata service must be loopback or link-local.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, SectionWords};
use bulkhead_outbound::ambient::{AmbientSources, is_near};
use bulkhead_wire::failure::quoted;
use std::net::SocketAddr;

const WORDS: SectionWords = SectionWords {
    keys: &["pod_folder", "azure_client_id", "azure_metadata", "google_metadata"],
    blocks: &[],
    foreign: &[],
};

/// Reads the ambient sources: the defaults with the changes of the file.
pub(super) fn settings(file: &ConfigSection<'_>) -> AmbientSources {
    let usual = AmbientSources::default();
    let Some(block) = file.unlabelled_block("ambient") else { return usual };
    let section = block.section(&WORDS);
    let address = |key, usual| section.read(key, read_near_address).unwrap_or(usual);
    AmbientSources {
        pod_folder: section.read("pod_folder", ConfigValue::path).unwrap_or(usual.pod_folder),
        azure_client_id: section.read("azure_client_id", identifier).unwrap_or_default(),
        azure_metadata: address("azure_metadata", usual.azure_metadata),
        google_metadata: address("google_metadata", usual.google_metadata),
        ..usual
    }
}

/// Reads the address of a service that uses plain HTTP.
fn read_near_address(value: &ConfigValue<'_>) -> Result<SocketAddr, ConfigError> {
    let text = value.text()?;
    let address = text.parse::<SocketAddr>().ok().filter(|address| is_near(address.ip()));
    address.ok_or_else(|| {
        value.error(format!(
            "{} is not a loopback or link-local address with a port; write for example \
             \"169.254.169.254:80\"",
            quoted(text)
        ))
    })
}

/// Reads a client id of Azure.
fn identifier(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_identifier = !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match is_identifier {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} is not a client id; write for example \"00000000-0000-0000-0000-000000000000\"",
            quoted(text)
        ))),
    }
}
