//! The values of `storage "postgresql"` besides the connection URL.
//!
//! This file prevents a setting in both the block and the URL, of which one would have no effect.

use bulkhead_store::{PasswordSource, PostgresPlace, PostgresSetting};

/// Maximum of `max_parallel`.
pub(super) const PARALLEL_MOST: u64 = 256;

/// The values of the block; `None` for a value that the block does not have.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceValues {
    /// Settings with the meaning of a parameter in the URL.
    pub(super) settings: Vec<PostgresSetting>,
    pub(super) table: Option<String>,
    pub(super) password: Option<PasswordSource>,
    pub(super) max_parallel: Option<u32>,
}

impl PlaceValues {
    /// Returns the place at `url` with the values.
    ///
    /// # Errors
    /// The part of the URL that cannot be read, the setting that is given twice, or settings that
    /// contradict each other. The text repeats no value of the URL.
    pub(super) fn place_at(&self, url: &str) -> Result<PostgresPlace, String> {
        let place = PostgresPlace::from_url_beside(url, &self.settings);
        let mut place = place.map_err(|fault| fault.to_string())?;
        if let Some(password) = &self.password {
            if !matches!(place.password, PasswordSource::Missing) {
                return Err("the connection URL has a password or a passfile, and password_file \
                            or passfile is given, too; leave one of the two out"
                    .to_owned());
            }
            place.password = password.clone();
        }
        if let Some(table) = &self.table {
            place.table.clone_from(table);
        }
        place.max_parallel = self.max_parallel.unwrap_or(place.max_parallel);
        Ok(place)
    }
}
