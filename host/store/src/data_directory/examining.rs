//! Questions about a store that this process does not hold. Nothing is created or changed.

use super::{DataDirectory, place_of};
use crate::identity;
use crate::options::StoreOptions;
use crate::server_report::DatabaseServerReport;
use bulkhead_record::fault::StoreFault;

impl DataDirectory {
    /// Checks that the database of a store without a running server can be opened by this version.
    /// Nothing is created or changed.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`].
    pub async fn examine(options: &StoreOptions) -> Result<(), StoreFault> {
        identity::examine(place_of(options)).await
    }

    /// Returns whether the database is initialised, by this version or by another.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`].
    pub async fn has_data(options: &StoreOptions) -> Result<bool, StoreFault> {
        Ok(place_of(options).examine().await?.is_some())
    }

    /// Examines the server of the database; `None` without a server. A running server of Bulkhead
    /// is not disturbed.
    ///
    /// # Errors
    /// [`StoreFault`] if the server cannot be reached or does not answer.
    pub async fn examine_server(
        options: &StoreOptions,
    ) -> Result<Option<DatabaseServerReport>, StoreFault> {
        place_of(options).examine_server().await
    }
}
