//! `outbound`: proxy and extra certificate authorities for the components' HTTP. Settings that the
//! file omits come from the environment variables that companies set for all programs.
//!
//! This file prevents a password in the configuration. Proxy credentials come from a separate file
//! or from the environment, and no message quotes them.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, SectionWords, refused};
use bulkhead_outbound::proxy::{HttpProxy, OutboundNetwork, ProxyBypass};
use bulkhead_tls::NamedFile;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

const WORDS: SectionWords = SectionWords {
    keys: &["http_proxy", "http_proxy_credentials_file", "no_proxy", "ca_file"],
    blocks: &[],
    foreign: &[refused(
        "https_proxy",
        "the same proxy serves both, with CONNECT for https; write http_proxy = \
         \"http://host:port\"",
    )],
};

const CA_FILE: &str = "ca_file";
const CREDENTIALS_FILE: &str = "http_proxy_credentials_file";

/// Environment variables, each with its lower-case form, which counts if the first is not set.
const PROXY_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const BYPASS_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A lookup of an environment variable.
type OutboundEnvironment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The settings of the file, before other files and the environment are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutboundSettings {
    /// Empty: no proxy, even if the environment names a proxy.
    http_proxy: Option<String>,
    credentials_file: Option<PathBuf>,
    no_proxy: Option<Vec<String>>,
    ca_file: Option<PathBuf>,
}

/// Reads the block's settings.
pub(super) fn settings(file: &ConfigSection<'_>) -> OutboundSettings {
    let Some(block) = file.unlabelled_block("outbound") else {
        return OutboundSettings::default();
    };
    let section = block.section(&WORDS);
    let no_proxy = section.read("no_proxy", ConfigValue::elements);
    OutboundSettings {
        http_proxy: section.read("http_proxy", proxy),
        credentials_file: section.read(CREDENTIALS_FILE, ConfigValue::path),
        no_proxy: no_proxy.map(|targets| section.each(&targets, bypass)),
        ca_file: section.read(CA_FILE, ConfigValue::path),
    }
}

fn proxy(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    if !text.is_empty() {
        let proxy = HttpProxy::parse(text).map_err(|why| value.error(why))?;
        if proxy.has_credentials() {
            return Err(value.error(format!(
                "the URL holds a user or password; write user:password to a file of mode 0600, and \
                 name the file by {CREDENTIALS_FILE}"
            )));
        }
    }
    Ok(text.to_owned())
}

/// Reads an element of the list of bypassed hosts.
fn bypass(element: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = element.text()?;
    ProxyBypass::parse(text).map_err(|why| element.error(why))?;
    Ok(text.to_owned())
}

impl OutboundSettings {
    /// Reads the named files, and takes omitted settings from `environment`.
    ///
    /// # Errors
    /// The error and its place. Credentials are not quoted.
    pub(crate) fn load(
        &self,
        environment: OutboundEnvironment<'_>,
    ) -> Result<OutboundNetwork, String> {
        let authorities = match &self.ca_file {
            Some(file) => NamedFile::new(CA_FILE, file).certificates()?,
            None => Vec::new(),
        };
        let outbound = OutboundNetwork::new(
            self.proxy(environment)?,
            self.bypasses(environment)?,
            authorities,
        );
        outbound.map_err(|place| {
            let file = self.ca_file.as_ref().map(|file| file.display().to_string());
            format!(
                "{CA_FILE} {}: certificate {place} is not an authority's; leave the certificate \
                 out",
                file.unwrap_or_default()
            )
        })
    }

    fn proxy(&self, environment: OutboundEnvironment<'_>) -> Result<Option<HttpProxy>, String> {
        let (text, wherefrom) = match &self.http_proxy {
            Some(text) => (text.clone(), "http_proxy".to_owned()),
            None => variable(environment, PROXY_VARIABLES)?.unwrap_or_default(),
        };
        let proxy = match text.as_str() {
            "" => None,
            text => Some(HttpProxy::parse(text).map_err(|why| format!("{wherefrom}: {why}"))?),
        };
        match (proxy, &self.credentials_file) {
            (proxy, None) => Ok(proxy),
            (None, Some(_)) => Err(format!(
                "{CREDENTIALS_FILE} is for a proxy, and there is none; write http_proxy, or leave \
                 {CREDENTIALS_FILE} out"
            )),
            (Some(proxy), Some(file)) => {
                let text = NamedFile::new(CREDENTIALS_FILE, file).secret()?;
                let line = text.strip_suffix(b"\n").unwrap_or(&text);
                let shown = proxy.with_credentials(line.strip_suffix(b"\r").unwrap_or(line));
                let named = |why| format!("{CREDENTIALS_FILE} {}: {why}", file.display());
                shown.map(Some).map_err(named)
            }
        }
    }

    fn bypasses(&self, environment: OutboundEnvironment<'_>) -> Result<Vec<ProxyBypass>, String> {
        if let Some(texts) = &self.no_proxy {
            return texts.iter().map(|text| ProxyBypass::parse(text)).collect();
        }
        let (list, wherefrom) = variable(environment, BYPASS_VARIABLES)?.unwrap_or_default();
        let texts = list.split([',', ' ']).filter(|text| !text.is_empty());
        texts
            .map(|text| ProxyBypass::parse(text).map_err(|why| format!("{wherefrom}: {why}")))
            .collect()
    }

    /// Describes the outbound settings for `--check`.
    pub(super) fn report(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.http_proxy.as_deref() {
            None => {}
            Some("") => writeln!(f, "reaches web servers past every proxy")?,
            Some(proxy) => writeln!(f, "reaches web servers through the proxy {proxy}")?,
        }
        if let Some(texts) = self.no_proxy.as_ref().filter(|texts| !texts.is_empty()) {
            writeln!(f, "reaches past the proxy {}", texts.join(", "))?;
        }
        if let Some(file) = &self.ca_file {
            writeln!(
                f,
                "trusts the authorities in {} besides the public authorities",
                file.display()
            )?;
        }
        Ok(())
    }
}

/// Returns the value of the first variable that is set and not empty, and the variable's name for
/// messages.
fn variable(
    environment: OutboundEnvironment<'_>,
    names: [&str; 2],
) -> Result<Option<(String, String)>, String> {
    for name in names {
        if let Some(value) = environment(name).filter(|value| !value.is_empty()) {
            let wherefrom = format!("{name} of the environment");
            let text = value.into_string().map_err(|_| format!("{wherefrom} is not text"))?;
            return Ok(Some((text.trim().to_owned(), wherefrom)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
