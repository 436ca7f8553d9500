//! The parts of a `connection_url`, in a representation that both of its forms share, before any
//! interpretation.

use super::faults::Fault;
use crate::database_plugin::Refusal;
use percent_encoding::percent_decode_str;

/// The setting that holds host, login and parameters.
pub const CONNECTION_URL: &str = "connection_url";

/// Keywords with secret values.
const SECRET_KEYWORDS: [&str; 7] = [
    "password",
    "sslpassword",
    "sslkey",
    "passwd",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
];

/// Maximum length of a keyword that a refusal repeats, in bytes.
const LONGEST_KEYWORD: usize = 64;

/// Hosts in order, and all other parts by libpq's keywords. No `Debug`: the value may hold a
/// password.
#[derive(Default)]
pub struct ConnectionParameters {
    /// Hosts and ports as written; an absent port means the default port.
    pub hosts: Vec<(WrittenValue, Option<WrittenValue>)>,
    /// Pairs of keyword and value.
    pub named: Vec<(String, WrittenValue)>,
    /// Number of leading pairs that are parts of a URL and were not written as `keyword=value`.
    pub written_from: usize,
    /// True if the pairs may be the tail of a password with a bare `?` or `/`.
    pub is_doubtful: bool,
}

/// A value as written. No `Debug`: it may be a password.
#[derive(Clone)]
pub struct WrittenValue {
    /// The text as it stands in the setting.
    pub written: String,
    /// True if the text is percent-encoded, as in a URL.
    pub encoded: bool,
}

/// Values for the placeholders of a `connection_url`. No `Debug`: the type holds the password.
pub struct UrlCredentials<'a> {
    /// The setting `username`.
    pub username: Option<&'a str>,
    /// The setting `password`.
    pub password: Option<&'a str>,
    /// True if the values are percent-encoded already, so that decoding happens after the values
    /// are put in.
    pub disable_escaping: bool,
}

impl ConnectionParameters {
    /// Returns the value of `keyword`; the last occurrence counts.
    #[must_use]
    pub fn last(&self, keyword: &str) -> Option<&WrittenValue> {
        self.named.iter().rev().find(|(name, _)| name == keyword).map(|(_, value)| value)
    }

    /// Returns the value of a `keyword` that permits no placeholder; an empty value counts as
    /// absent.
    ///
    /// # Errors
    /// If the value cannot be read.
    pub fn plain(&self, keyword: &str) -> Result<Option<String>, Refusal> {
        let value = self.last(keyword).map(WrittenValue::plain).transpose()?;
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Returns the refusal of the unknown parameter at index `place` of [`named`](Self::named). The
    /// refusal gives the position instead of the name if the name may be part of a password: the
    /// tail of a password that is neither quoted nor encoded reads as further pairs.
    #[must_use]
    pub fn unknown(&self, place: usize) -> Refusal {
        let (before, rest) = self.named.split_at_checked(place).unwrap_or_default();
        let keyword = rest.first().map_or("", |(keyword, _)| keyword);
        let is_secret = |(name, value): &(String, WrittenValue)| {
            SECRET_KEYWORDS.contains(&name.as_str()) && !is_placeholder(&value.written)
        };
        let is_behind_secret = before.iter().skip(self.written_from).any(is_secret);
        match is_word(keyword) && !self.is_doubtful && !is_behind_secret {
            true => Fault::ParameterUnknown.about(CONNECTION_URL).with("parameter", keyword),
            false => in_place(Fault::ParameterUnreadable, place.saturating_sub(self.written_from)),
        }
    }

    /// Applies hosts and ports that are given by keyword, each a comma list; a single port serves
    /// all hosts.
    ///
    /// # Errors
    /// If there are several ports, but not exactly one per host.
    pub fn take_named_hosts(&mut self) -> Result<(), Refusal> {
        let ports = self.plain("port")?;
        if let Some(hosts) = self.plain("host")? {
            self.hosts = hosts.split(',').map(|host| (WrittenValue::bare(host), None)).collect();
        }
        let Some(ports) = ports else { return Ok(()) };
        let ports: Vec<&str> = ports.split(',').collect();
        for (place, (_, port)) in self.hosts.iter_mut().enumerate() {
            let given = if ports.len() == 1 { ports.first() } else { ports.get(place) };
            *port = Some(WrittenValue::bare(
                given.ok_or_else(|| Fault::UrlPort.about(CONNECTION_URL))?,
            ));
        }
        if ports.len() > 1 && ports.len() != self.hosts.len() {
            return Err(Fault::UrlPort.about(CONNECTION_URL));
        }
        Ok(())
    }
}

impl WrittenValue {
    /// Wraps a percent-encoded part of a URL.
    #[must_use]
    pub fn encoded(written: &str) -> Self {
        Self { written: written.to_owned(), encoded: true }
    }

    /// Wraps a value without encoding; spaces around the value are removed.
    #[must_use]
    pub fn bare(written: &str) -> Self {
        Self { written: written.trim().to_owned(), encoded: false }
    }

    /// Wraps a value without encoding; every character counts.
    #[must_use]
    pub fn exact(written: &str) -> Self {
        Self { written: written.to_owned(), encoded: false }
    }

    /// Returns the value of a part that contains no credential.
    ///
    /// # Errors
    /// If the part contains a placeholder, or cannot be decoded.
    pub fn plain(&self) -> Result<String, Refusal> {
        if self.written.contains("{{") {
            return Err(Fault::PlaceholderMisplaced.about(CONNECTION_URL));
        }
        self.decode(&self.written)
    }

    /// Fills the placeholders of the value in one pass: a password that looks like a placeholder
    /// stays unchanged.
    ///
    /// # Errors
    /// If a placeholder is unknown or has no value, or the value cannot be decoded.
    pub fn fill(&self, credentials: &UrlCredentials<'_>) -> Result<String, Refusal> {
        let mut filled = String::new();
        let mut rest = self.written.as_str();
        while let Some((fixed, braces)) = rest.split_once("{{") {
            let (name, after) = braces
                .split_once("}}")
                .ok_or_else(|| Fault::PlaceholderUnknown.about(CONNECTION_URL))?;
            let (value, setting) = match name {
                "username" | "name" => (credentials.username, "username"),
                "password" => (credentials.password, "password"),
                _ => return Err(Fault::PlaceholderUnknown.about(CONNECTION_URL)),
            };
            let value = value.ok_or_else(|| Fault::CredentialMissing.about(setting))?;
            if credentials.disable_escaping {
                filled.push_str(fixed);
            } else {
                filled.push_str(&self.decode(fixed)?);
            }
            filled.push_str(value);
            rest = after;
        }
        if credentials.disable_escaping {
            filled.push_str(rest);
            return self.decode(&filled);
        }
        filled.push_str(&self.decode(rest)?);
        Ok(filled)
    }

    fn decode(&self, text: &str) -> Result<String, Refusal> {
        if !self.encoded {
            return Ok(text.to_owned());
        }
        let refused = || Fault::UrlEscaping.about(CONNECTION_URL);
        let well_formed = text.split('%').skip(1).all(|escape| {
            let digits: Vec<u8> = escape.bytes().take(2).collect();
            digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit)
        });
        if !well_formed {
            return Err(refused());
        }
        let decoded = percent_decode_str(text).decode_utf8().map_err(|_| refused())?;
        if decoded.contains('\0') { Err(refused()) } else { Ok(decoded.into_owned()) }
    }
}

/// Returns the refusal of a pair without a keyword, by its position among the pairs.
#[must_use]
pub fn in_place(fault: Fault, place: usize) -> Refusal {
    fault.about(CONNECTION_URL).with("position", (place + 1).to_string())
}

/// Returns true if a keyword is a plain word, which a refusal can repeat.
fn is_word(keyword: &str) -> bool {
    (1..=LONGEST_KEYWORD).contains(&keyword.len())
        && keyword.starts_with(|first: char| first.is_ascii_alphabetic())
        && keyword.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Returns true if a value is exactly one placeholder, and so contains no password.
fn is_placeholder(written: &str) -> bool {
    let name = written.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::{ConnectionParameters, WrittenValue};

    fn reported(named: &[(&str, &str)], is_doubtful: bool) -> Vec<(String, String)> {
        let named =
            named.iter().map(|(name, value)| ((*name).to_owned(), WrittenValue::bare(value)));
        let parameters = ConnectionParameters {
            named: named.collect(),
            is_doubtful,
            ..ConnectionParameters::default()
        };
        parameters.unknown(parameters.named.len() - 1).ext
    }

    fn pair(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn unknown_parameter_is_named_unless_possible_password_part() {
        let name = pair("parameter", "sslmod");
        assert_eq!(reported(&[("sslmod", "require")], false), name);
        assert_eq!(reported(&[("user", "a"), ("sslmod", "require")], false), name);
        assert_eq!(reported(&[("password", "{{password}}"), ("sslmod", "require")], false), name);
        let place = pair("position", "2");
        assert_eq!(reported(&[("password", "hunter"), ("sslmod", "require")], false), place);
        assert_eq!(reported(&[("sslpassword", "hunter"), ("sslmod", "require")], false), place);
        assert_eq!(reported(&[("user", "a"), ("sslmod", "require")], true), place);
        for odd in ["", "a b", "hunt!er", "1a", "ü", &"a".repeat(65)] {
            assert_eq!(reported(&[("user", "a"), (odd, "x")], false), place, "{odd}");
        }
    }

    #[test]
    fn url_parts_before_query_are_not_counted() {
        let text = |written: &str| WrittenValue::encoded(written);
        let named = [("user", "a"), ("password", "hunter"), ("sslmod", "x")];
        let named = named.map(|(name, value)| (name.to_owned(), text(value)));
        let parameters = ConnectionParameters {
            named: named.into(),
            written_from: 2,
            ..ConnectionParameters::default()
        };
        assert_eq!(parameters.unknown(2).ext, pair("parameter", "sslmod"));
        let parameters = ConnectionParameters { is_doubtful: true, ..parameters };
        assert_eq!(parameters.unknown(2).ext, pair("position", "1"));
    }
}
