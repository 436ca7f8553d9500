//! `telemetry`: the collector that gets traces by OTLP over HTTP.
//!
//! This file prevents a credential in the configuration, and a credential on a connection that
//! other machines read: headers with a token are in a file of the server's user, and such headers
//! need TLS.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, SectionWords};
use super::vault;
use bulkhead_outbound::addresses::Origin;
use bulkhead_outbound::http::{self, ConfiguredServer, HttpHeader, HttpTls, Uri};
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_outbound::tls::TlsConfigs;
use bulkhead_tls::NamedFile;
use std::fmt;
use std::path::{Path, PathBuf};

const WORDS: SectionWords = SectionWords {
    keys: &[ENDPOINT, RATIO, CA_CERT, HEADERS_FILE],
    blocks: &[],
    foreign: vault::TELEMETRY,
};

const ENDPOINT: &str = "otlp_endpoint";
const RATIO: &str = "sample_ratio";
const CA_CERT: &str = "otlp_ca_cert";
const HEADERS_FILE: &str = "otlp_headers_file";

/// Example of a collector, in error messages.
const ENDPOINT_EXAMPLE: &str = "\"https://collector.example.com:4318\"";
/// Path of traces below the URL of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// Default part of the traces that are sampled.
const SAMPLE_RATIO: f64 = 0.01;
/// Maximum number of headers in the file.
const HEADERS_MAX: usize = 16;

/// The settings of the block.
#[derive(Clone, Debug)]
pub(crate) struct TelemetrySettings {
    /// `None`: no traces are exported.
    collector: Option<Collector>,
    /// Part of the traces that are sampled, from 0 to 1.
    pub(crate) sample_ratio: f64,
}

/// The collector, and the files of its connection.
#[derive(Clone, Debug)]
struct Collector {
    origin: Origin,
    path: Uri,
    ca_cert: Option<PathBuf>,
    headers_file: Option<PathBuf>,
}

/// Access to the collector, with the content of its files. There is no `Debug`, because the headers
/// may hold a token.
#[derive(Clone)]
pub(crate) struct CollectorAccess {
    /// The server.
    pub(crate) server: ConfiguredServer,
    /// Path of the requests.
    pub(crate) path: Uri,
    /// Headers of each request.
    pub(crate) headers: Vec<(String, String)>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self { collector: None, sample_ratio: SAMPLE_RATIO }
    }
}

/// Reads the block.
pub(super) fn settings(file: &ConfigSection<'_>) -> TelemetrySettings {
    let Some(block) = file.unlabelled_block("telemetry") else {
        return TelemetrySettings::default();
    };
    let section = block.section(&WORDS);
    let sample_ratio = section.read(RATIO, read_ratio).unwrap_or(SAMPLE_RATIO);
    let ca_cert = section.read(CA_CERT, ConfigValue::path);
    let headers_file = section.read(HEADERS_FILE, ConfigValue::path);
    let Some(value) = section.value(ENDPOINT) else {
        for key in [RATIO, CA_CERT, HEADERS_FILE] {
            if let Some(value) = section.value(key) {
                section.refuse(value.error(format!(
                    "there is no collector; write {ENDPOINT} = {ENDPOINT_EXAMPLE}, or leave the \
                     line out"
                )));
            }
        }
        return TelemetrySettings::default();
    };
    let Some((origin, path)) = section.keep(read_endpoint(&value)) else {
        return TelemetrySettings::default();
    };
    for key in [CA_CERT, HEADERS_FILE] {
        if let Some(value) = section.value(key)
            && !origin.tls
        {
            section
                .refuse(value.error(format!(
                    "{ENDPOINT} is plain HTTP; write https://, or leave {key} out"
                )));
        }
    }
    let collector = Collector { origin, path, ca_cert, headers_file };
    TelemetrySettings { collector: Some(collector), sample_ratio }
}

/// Reads the URL of the collector. The path of traces is appended, as clients of OTLP do.
fn read_endpoint(value: &ConfigValue<'_>) -> Result<(Origin, Uri), ConfigError> {
    let (origin, uri) = http::parse_url(value.text()?)
        .map_err(|why| value.error(format!("{why}; write for example {ENDPOINT_EXAMPLE}")))?;
    if uri.query().is_some() {
        let why = format!("the URL has a query; write for example {ENDPOINT_EXAMPLE}");
        return Err(value.error(why));
    }
    let base = uri.path().trim_end_matches('/');
    let base = base.strip_suffix(TRACES_PATH).unwrap_or(base);
    let path = format!("{base}{TRACES_PATH}").parse();
    path.map(|path| (origin, path)).map_err(|_| value.error("the path of the URL cannot be sent"))
}

fn read_ratio(value: &ConfigValue<'_>) -> Result<f64, ConfigError> {
    let ratio = value.decimal()?;
    if (0.0..=1.0).contains(&ratio) {
        return Ok(ratio);
    }
    Err(value.error(format!("{ratio} is not between 0 and 1; write 0.01 for each hundredth trace")))
}

impl TelemetrySettings {
    /// Reads the files. `None`: there is no collector.
    ///
    /// # Errors
    /// The unusable file, and the remedy. No header is quoted.
    pub(crate) fn load(
        &self,
        outbound: &OutboundNetwork,
    ) -> Result<Option<CollectorAccess>, String> {
        let Some(Collector { origin, path, ca_cert, headers_file }) = &self.collector else {
            return Ok(None);
        };
        let root_certificates = ca_cert.as_deref().map(read_authorities).transpose()?;
        let tls = HttpTls { root_certificates, ..HttpTls::default() };
        let configs = TlsConfigs::new(outbound.authorities());
        let secured = http::tls_settings(&configs, origin, origin.tls.then_some(&tls));
        let secured = secured.map_err(|why| format!("{CA_CERT}: {why}"))?;
        let headers = headers_file.as_deref().map(read_headers).transpose()?.unwrap_or_default();
        let proxy = outbound.proxy_to(origin);
        let server = ConfiguredServer { origin: origin.clone(), proxy, secured };
        let access = CollectorAccess { server, path: path.clone(), headers };
        // The headers are known to be sendable before the first span.
        access.prepare(Vec::new()).map_err(|why| format!("{HEADERS_FILE}: {why}"))?;
        Ok(Some(access))
    }

    /// Describes the settings for `--check`.
    pub(super) fn report(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Collector { origin, path, .. }) = &self.collector else { return Ok(()) };
        let ratio = self.sample_ratio;
        writeln!(f, "exports traces to {origin}{path}, a part of {ratio} of all traces")
    }
}

fn read_authorities(path: &Path) -> Result<String, String> {
    let file = NamedFile::new(CA_CERT, path);
    file.certificates()?;
    let text = file.content()?;
    let text = std::str::from_utf8(&text).map(str::to_owned);
    text.map_err(|_| format!("{CA_CERT} {} is not text", path.display()))
}

/// Reads the lines `name: value`.
fn read_headers(path: &Path) -> Result<Vec<(String, String)>, String> {
    let content = NamedFile::new(HEADERS_FILE, path).secret()?;
    let shown = path.display();
    let text =
        std::str::from_utf8(&content).map_err(|_| format!("{HEADERS_FILE} {shown} is not text"))?;
    let mut headers = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return Err(format!(
                "{HEADERS_FILE} {shown}: line {} is not a header; write for example \
                 Authorization: Bearer TOKEN",
                index + 1
            ));
        };
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    if headers.len() > HEADERS_MAX {
        return Err(format!(
            "{HEADERS_FILE} {shown} has {} headers; the most is {HEADERS_MAX}",
            headers.len()
        ));
    }
    Ok(headers)
}

impl CollectorAccess {
    /// Builds the request with `body`.
    ///
    /// # Errors
    /// A header cannot be sent. The text quotes no value.
    pub(crate) fn prepare(&self, body: Vec<u8>) -> Result<http::PreparedRequest, String> {
        let own = [("content-type", bulkhead_trace::otlp::MEDIA_TYPE)];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers = own.into_iter().chain(self.headers.iter().cloned());
        let request = http::HttpRequest {
            method: "POST".to_owned(),
            url: String::new(),
            headers: headers.map(|(name, value)| HttpHeader { name, value }).collect(),
            body,
            tls: None,
            secrets: Vec::new(),
            safe: false,
        };
        http::prepare(&self.server.origin, self.path.clone(), request)
    }
}

/// Returns an access to a collector at `origin`, for tests.
#[cfg(test)]
pub(crate) fn access_to(url: &str) -> CollectorAccess {
    let settings = telemetry_of(&format!("otlp_endpoint = \"{url}\""));
    settings.load(&OutboundNetwork::default()).unwrap().unwrap()
}

/// Returns the settings of a block with these lines, for tests.
#[cfg(test)]
pub(crate) fn telemetry_of(lines: &str) -> TelemetrySettings {
    let text = format!("storage \"sqlite\" {{ path = \"/d\" }}\ntelemetry {{\n{lines}\n}}");
    super::Config::of(&text).unwrap().telemetry
}

#[cfg(test)]
mod tests;
