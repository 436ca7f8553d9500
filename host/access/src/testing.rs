//! A temporary store for the tests of this crate.

use bulkhead_store::{
    DataDirectory, DatabaseChoice, FirstKeys, SealConfig, Store, StoreOptions, dev_key,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the options of a store on the database of the environment.
pub(crate) fn options(directory: &Path) -> StoreOptions {
    let url = bulkhead_test_database::url_of(directory);
    let database = DatabaseChoice::of_url(url.as_deref()).unwrap();
    StoreOptions { database, ..StoreOptions::at(directory) }
}

/// A store in its own folder below the system's temporary folder.
pub(crate) struct TemporaryStore {
    directory: PathBuf,
    pub(crate) store: Arc<Store>,
}

impl TemporaryStore {
    /// Creates an empty store; `name` is the name of the test.
    pub(crate) async fn new(name: &str) -> Self {
        let folder = format!("bulkhead-core-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        let data = DataDirectory::hold(options(&directory)).await.unwrap();
        let key = dev_key(&data).unwrap();
        data.initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key), |_| Ok(Vec::new()))
            .await
            .unwrap();
        let store = data.open(key).await.unwrap();
        Self { directory, store }
    }

    /// Closes the store and removes the folder.
    pub(crate) async fn end(self) {
        self.store.close().await;
        std::fs::remove_dir_all(self.directory).unwrap();
    }
}
