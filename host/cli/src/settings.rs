//! Settings of the client: server, TLS, namespace and token. The order is options, `BULKHEAD_`
//! variables, `VAULT_` variables, token file.

use crate::client::{ExtraHeader, ServerAddress};
use crate::option::split_pair;
use crate::options::{OutputFormat, ParsedOptions};
use crate::problem::CommandProblem;
use crate::tls::TlsTrust;
use crate::token_file;
use bulkhead_wire::secret::Secret;
use hyper::header::{HeaderName, HeaderValue};
use std::ffi::OsString;
use std::path::PathBuf;

/// Headers that `-header` cannot set.
const OWN_HEADERS: [&str; 3] = ["authorization", "host", "content-length"];

/// First letters of the API's headers, which only options and variables set. A header of all
/// requests would reach requests whose answers a command reads itself.
const OWN_PREFIXES: [&str; 3] = ["x-vault-", "x-bulkhead-", "x-secrets-"];

/// The header that asks for a wrapped answer.
pub(crate) const WRAP_HEADER: &str = "x-vault-wrap-ttl";

/// A lookup of an environment variable.
pub(crate) type EnvironmentLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the server of `-address`, `BULKHEAD_ADDR` or `VAULT_ADDR`; otherwise the default address
/// on this machine.
///
/// # Errors
/// An invalid address.
pub(crate) fn server(
    option: Option<&str>,
    env: EnvironmentLookup<'_>,
) -> Result<ServerAddress, CommandProblem> {
    let address = match option {
        Some(address) => address.to_owned(),
        None => read_variable(env, "ADDR")?.unwrap_or_else(|| "http://127.0.0.1:8200".to_owned()),
    };
    ServerAddress::parse(&address).map_err(CommandProblem::usage)
}

/// Returns the TLS settings from the options or the variables `BULKHEAD_CACERT`, `BULKHEAD_CAPATH`,
/// `BULKHEAD_CLIENT_CERT`, `BULKHEAD_CLIENT_KEY`, `BULKHEAD_TLS_SERVER_NAME`,
/// `BULKHEAD_SKIP_VERIFY`, and the same names with `VAULT_`.
///
/// # Errors
/// A value that is not UTF-8 or not valid.
pub(crate) fn read_trust(
    options: &ParsedOptions,
    env: EnvironmentLookup<'_>,
) -> Result<TlsTrust, CommandProblem> {
    let setting = |option, variable| match options.value(option) {
        Some(typed) => Ok(Some(typed.to_owned()).filter(|typed| !typed.is_empty())),
        None => read_variable(env, variable),
    };
    let path = |option, variable| setting(option, variable).map(|text| text.map(PathBuf::from));
    let skip_verify = match setting("tls-skip-verify", "SKIP_VERIFY")?.as_deref() {
        None | Some("false" | "False" | "FALSE" | "f" | "F" | "0") => false,
        Some("true" | "True" | "TRUE" | "t" | "T" | "1") => true,
        Some(other) => {
            return Err(CommandProblem::usage(format!(
                "BULKHEAD_SKIP_VERIFY (or VAULT_SKIP_VERIFY) is true or false, and not {other:?}"
            )));
        }
    };
    Ok(TlsTrust {
        ca_file: path("ca-cert", "CACERT")?,
        ca_folder: path("ca-path", "CAPATH")?,
        client_certificate: path("client-cert", "CLIENT_CERT")?,
        client_key: path("client-key", "CLIENT_KEY")?,
        server_name: setting("tls-server-name", "TLS_SERVER_NAME")?,
        skip_verify,
    })
}

/// Returns the namespace of `BULKHEAD_NAMESPACE` or `VAULT_NAMESPACE`. The server checks the name.
///
/// # Errors
/// A value that is not UTF-8.
pub(crate) fn namespace(env: EnvironmentLookup<'_>) -> Result<Option<String>, CommandProblem> {
    read_variable(env, "NAMESPACE")
}

/// Returns the header for the wrapping time of `-wrap-ttl`, `BULKHEAD_WRAP_TTL` or
/// `VAULT_WRAP_TTL`. The server checks the time. An empty `-wrap-ttl` switches the variables off.
///
/// # Errors
/// A value that cannot stand in a header.
pub(crate) fn wrapping(
    options: &ParsedOptions,
    env: EnvironmentLookup<'_>,
) -> Result<Option<ExtraHeader>, CommandProblem> {
    let time = match options.value("wrap-ttl") {
        Some(typed) => Some(typed.to_owned()).filter(|typed| !typed.is_empty()),
        None => read_variable(env, "WRAP_TTL")?,
    };
    let value = time.map(|time| HeaderValue::from_str(&time)).transpose();
    let value =
        value.map_err(|_| CommandProblem::usage("the wrapping time cannot stand in a header"))?;
    Ok(value.map(|value| (HeaderName::from_static(WRAP_HEADER), value)))
}

/// Returns the token of `BULKHEAD_TOKEN`, `VAULT_TOKEN`, `~/.bulkhead-token` or `~/.vault-token`.
///
/// # Errors
/// A token file that others can access or that cannot be read; an invalid token.
pub(crate) fn token(env: EnvironmentLookup<'_>) -> Result<Option<Secret>, CommandProblem> {
    if let Some(token) = read_variable(env, "TOKEN")? {
        return check_token(token, "BULKHEAD_TOKEN (or VAULT_TOKEN)").map(Some);
    }
    let Some(home) = home(env) else { return Ok(None) };
    let Some((text, path)) = token_file::read(&home)? else { return Ok(None) };
    check_token(text.trim().to_owned(), &path.display().to_string()).map(Some)
}

/// Returns the home directory.
fn home(env: EnvironmentLookup<'_>) -> Option<PathBuf> {
    env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Stores a token for the next commands and returns the file.
///
/// # Errors
/// No home directory; a file that cannot be written.
pub(crate) fn store_token(
    token: &Secret,
    env: EnvironmentLookup<'_>,
) -> Result<PathBuf, CommandProblem> {
    let home = home(env).ok_or_else(|| {
        CommandProblem::usage("HOME is not set, so the token has no place; give -no-store")
    })?;
    token_file::store(&home, token)
}

/// Returns the variable that overrides the stored token, if one is set.
pub(crate) fn token_variable(env: EnvironmentLookup<'_>) -> Option<&'static str> {
    let is_set = |name: &&str| env(name).is_some_and(|value| !value.is_empty());
    ["BULKHEAD_TOKEN", "VAULT_TOKEN"].into_iter().find(is_set)
}

/// Returns the format of `-format`, `BULKHEAD_FORMAT` or `VAULT_FORMAT`.
///
/// # Errors
/// An unknown format.
pub(crate) fn format(
    options: &ParsedOptions,
    env: EnvironmentLookup<'_>,
) -> Result<OutputFormat, CommandProblem> {
    match (options.format, read_variable(env, "FORMAT")?) {
        (Some(typed), _) => Ok(typed),
        (None, None) => Ok(OutputFormat::Table),
        (None, Some(name)) => OutputFormat::parse(&name).map_err(|why| {
            CommandProblem::usage(format!(
                "{why}; BULKHEAD_FORMAT (or VAULT_FORMAT) sets the format"
            ))
        }),
    }
}

/// Returns the headers of `-header`.
///
/// # Errors
/// A text that is not a header; a header that the client itself sets. The value is not repeated.
pub(crate) fn headers(options: &ParsedOptions) -> Result<Vec<ExtraHeader>, CommandProblem> {
    options.values("header").filter_map(split_pair).map(header).collect()
}

fn header((name, value): (&str, &str)) -> Result<ExtraHeader, CommandProblem> {
    let invalid = || CommandProblem::usage(format!("-header {name:?} is not a header of HTTP"));
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
    let is_own = |prefix: &str| parsed.as_str().starts_with(prefix);
    if OWN_HEADERS.contains(&parsed.as_str()) || OWN_PREFIXES.into_iter().any(is_own) {
        return Err(CommandProblem::usage(format!(
            "-header cannot set {name}: the token comes from `bulkhead login` or BULKHEAD_TOKEN, \
             and the wrapping time from -wrap-ttl"
        )));
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// Refuses options for parts that this version does not have: without them, a request would act on
/// other data, or with another proof, than the caller means. No value is repeated, because some
/// are secrets.
///
/// # Errors
/// A namespace other than the root; `-mfa`, `-unlock-key` and `-agent-address`.
pub(crate) fn refuse_unserved(options: &ParsedOptions) -> Result<(), CommandProblem> {
    let is_given = |name: &str| match options.value(name).map(|value| value.trim_matches('/')) {
        None | Some("") => false,
        Some(value) => !(value == "root" && ["namespace", "ns"].contains(&name)),
    };
    match UNSERVED.into_iter().find(|(name, _)| is_given(name)) {
        None => Ok(()),
        Some((name, reason)) => Err(CommandProblem::usage(format!("-{name} is refused: {reason}"))),
    }
}

/// Options that are refused, with the reason and the way out.
const UNSERVED: [(&str, &str); 5] = [
    ("namespace", NO_NAMESPACES),
    ("ns", NO_NAMESPACES),
    ("mfa", "this version checks no second factor; leave -mfa out"),
    ("unlock-key", "this version has no namespaces to lock; leave -unlock-key out"),
    ("agent-address", "there is no agent; give the address of the server with -address"),
];

const NO_NAMESPACES: &str = "this version has no namespaces; give each team mounts and policies \
                             of its own, and leave the option out";

/// Reads a variable. `BULKHEAD_x` takes precedence over `VAULT_x` (decision P16). An empty variable
/// counts as unset.
fn read_variable(env: EnvironmentLookup<'_>, name: &str) -> Result<Option<String>, CommandProblem> {
    for prefix in ["BULKHEAD", "VAULT"] {
        let variable = format!("{prefix}_{name}");
        if let Some(value) = env(&variable).filter(|value| !value.is_empty()) {
            let text = value.into_string();
            return text.map(Some).map_err(|_| {
                CommandProblem::usage(format!("the value of {variable} is not UTF-8"))
            });
        }
    }
    Ok(None)
}

fn check_token(text: String, origin: &str) -> Result<Secret, CommandProblem> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret::new(text));
    }
    Err(CommandProblem::usage(format!(
        "{origin} holds no token: tokens are printable ASCII without spaces"
    )))
}

#[cfg(test)]
mod tests;
