//! The values of `storage "postgresql"` besides the connection URL.
//!
//! This file prevents a setting in both the block and the URL, of which one would have no effect.

use bulkhead_store::{PasswordSource, PostgresPlace, PostgresTlsMode, SessionTarget};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum of `max_parallel`.
pub(super) const PARALLEL_MOST: u64 = 256;
/// Maximum of `connect_timeout`, in seconds.
pub(super) const CONNECT_TIMEOUT_MOST: u64 = 300;

/// The values of the block; `None` for a value that the block does not have.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceValues {
    pub(super) schema: Option<String>,
    pub(super) table: Option<String>,
    pub(super) password: Option<PasswordSource>,
    pub(super) tls_mode: Option<PostgresTlsMode>,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) client_certificate: Option<PathBuf>,
    pub(super) client_key: Option<PathBuf>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) session_target: Option<SessionTarget>,
    pub(super) max_parallel: Option<u32>,
}

impl PlaceValues {
    /// Returns the place at `url` with the values.
    ///
    /// # Errors
    /// The part of the URL that cannot be read, or the setting that is given twice. The text
    /// repeats no value of the URL.
    pub(super) fn place_at(&self, url: &str) -> Result<PostgresPlace, String> {
        let mut place = PostgresPlace::from_url(url).map_err(|fault| fault.to_string())?;
        for (word, parameters, is_given) in self.given_words() {
            let twice = parameters.iter().find(|name| is_given && has_parameter(url, name));
            if let Some(parameter) = twice {
                return Err(format!(
                    "the connection URL has {parameter}, and {word} is given, too; leave one of \
                     the two out"
                ));
            }
        }
        if let Some(password) = &self.password {
            if !matches!(place.password, PasswordSource::Missing) {
                return Err(
                    "the connection URL has a password or a passfile, and password_file or \
                            passfile is given, too; leave one of the two out"
                        .to_owned(),
                );
            }
            place.password = password.clone();
        }
        self.add_to(&mut place);
        if place.tls.client_certificate.is_some() != place.tls.client_key.is_some() {
            return Err("sslcert and sslkey belong together; write both".to_owned());
        }
        Ok(place)
    }

    /// Returns each word with its parameters in URLs, and whether the block has the word.
    fn given_words(&self) -> [(&'static str, &'static [&'static str], bool); 7] {
        [
            ("schema", &["search_path", "options"], self.schema.is_some()),
            ("sslmode", &["sslmode"], self.tls_mode.is_some()),
            ("sslrootcert", &["sslrootcert"], self.root_certificates.is_some()),
            ("sslcert", &["sslcert"], self.client_certificate.is_some()),
            ("sslkey", &["sslkey"], self.client_key.is_some()),
            ("connect_timeout", &["connect_timeout"], self.connect_timeout.is_some()),
            ("target_session_attrs", &["target_session_attrs"], self.session_target.is_some()),
        ]
    }

    fn add_to(&self, place: &mut PostgresPlace) {
        fn set<T: Clone>(to: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                to.clone_from(value);
            }
        }
        set(&mut place.schema, self.schema.as_ref());
        set(&mut place.table, self.table.as_ref());
        set(&mut place.tls.mode, self.tls_mode.as_ref());
        set(&mut place.connect_timeout, self.connect_timeout.as_ref());
        set(&mut place.session_target, self.session_target.as_ref());
        set(&mut place.max_parallel, self.max_parallel.as_ref());
        for (to, value) in [
            (&mut place.tls.root_certificates, &self.root_certificates),
            (&mut place.tls.client_certificate, &self.client_certificate),
            (&mut place.tls.client_key, &self.client_key),
        ] {
            if value.is_some() {
                to.clone_from(value);
            }
        }
    }
}

/// Returns whether the URL, or the text in the form `name=value name=value`, has the parameter.
fn has_parameter(url: &str, wanted: &str) -> bool {
    let parameters = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('?').map_or("", |(_, parameters)| parameters),
        None => url,
    };
    let is_separator = |c: char| c == '&' || c.is_whitespace();
    let named = |part: &str| part.split_once('=').is_some_and(|(name, _)| name == wanted);
    parameters.split(is_separator).any(named)
}
