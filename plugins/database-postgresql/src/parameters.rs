//! What a `connection_url` says, in either of its forms, before anything is made of it.

use crate::refusal::{Code, with};
use bulkhead_sdk::database_plugin::Refusal;
use percent_encoding::percent_decode_str;

/// The setting that holds it all.
pub(crate) const CONNECTION_URL: &str = "connection_url";

/// Hosts in order, and everything else by libpq's keywords. No `Debug`: it may hold a password.
#[derive(Default)]
pub(crate) struct Parameters {
    /// Host and port as written; an absent port is the default one.
    pub(crate) hosts: Vec<(Text, Option<Text>)>,
    /// Keyword and value.
    pub(crate) named: Vec<(String, Text)>,
}

/// A value as written. No `Debug`: it may be a password.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) written: String,
    /// Percent-encoded, as in a URL.
    pub(crate) encoded: bool,
}

/// What placeholders of a connection stand for. No `Debug`: it holds the password.
pub(crate) struct Credentials<'a> {
    pub(crate) username: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    /// Values are put in before percent-decoding, because they are encoded already.
    pub(crate) disable_escaping: bool,
}

impl Parameters {
    /// Reads either form.
    pub(crate) fn read(connection_url: &str) -> Result<Self, Refusal> {
        let text = connection_url.trim();
        if text.is_empty() {
            return Err(Code::ConnectionUrlMissing.about(CONNECTION_URL));
        }
        let url =
            ["postgresql://", "postgres://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        match url {
            Some(url) => crate::url::read(url),
            None if text.split('=').next().is_none_or(|keyword| keyword.contains("://"))
                || !text.contains('=') =>
            {
                Err(Code::UrlScheme.about(CONNECTION_URL))
            }
            None => crate::dsn::read(text),
        }
    }

    /// The value of `keyword`; the last one counts.
    pub(crate) fn last(&self, keyword: &str) -> Option<&Text> {
        self.named.iter().rev().find(|(name, _)| name == keyword).map(|(_, value)| value)
    }

    /// The value of `keyword` where no placeholder may stand; empty is absent.
    pub(crate) fn plain(&self, keyword: &str) -> Result<Option<String>, Refusal> {
        let value = self.last(keyword).map(Text::plain).transpose()?;
        Ok(value.filter(|value| !value.is_empty()))
    }
}

impl Text {
    /// The value of a part that holds no credential.
    pub(crate) fn plain(&self) -> Result<String, Refusal> {
        if self.written.contains("{{") {
            return Err(Code::PlaceholderMisplaced.about(CONNECTION_URL));
        }
        self.decoded(&self.written)
    }

    /// The value with its placeholders filled, in one pass: a password that looks like a
    /// placeholder stays.
    pub(crate) fn filled(&self, credentials: &Credentials<'_>) -> Result<String, Refusal> {
        let mut filled = String::new();
        let mut rest = self.written.as_str();
        while let Some((fixed, braces)) = rest.split_once("{{") {
            let (name, after) = braces
                .split_once("}}")
                .ok_or_else(|| Code::PlaceholderUnknown.about(CONNECTION_URL))?;
            let (value, setting) = match name {
                "username" | "name" => (credentials.username, "username"),
                "password" => (credentials.password, "password"),
                _ => return Err(Code::PlaceholderUnknown.about(CONNECTION_URL)),
            };
            let value = value.ok_or_else(|| Code::CredentialMissing.about(setting))?;
            if credentials.disable_escaping {
                filled.push_str(fixed);
            } else {
                filled.push_str(&self.decoded(fixed)?);
            }
            filled.push_str(value);
            rest = after;
        }
        if credentials.disable_escaping {
            filled.push_str(rest);
            return self.decoded(&filled);
        }
        filled.push_str(&self.decoded(rest)?);
        Ok(filled)
    }

    fn decoded(&self, text: &str) -> Result<String, Refusal> {
        if !self.encoded {
            return Ok(text.to_owned());
        }
        let refused = || Code::UrlEscaping.about(CONNECTION_URL);
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

/// A refusal that counts pairs instead of naming one: a wrong name may be a piece of a password.
pub(crate) fn in_place(code: Code, place: usize) -> Refusal {
    with(code.about(CONNECTION_URL), "position", (place + 1).to_string())
}
