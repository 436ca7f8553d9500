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

/// Returns the folder of the test `name`.
pub(crate) fn folder_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()))
}

/// A store in its own folder below the system's temporary folder.
pub(crate) struct TemporaryStore {
    directory: PathBuf,
    pub(crate) store: Arc<Store>,
}

impl TemporaryStore {
    /// Creates an empty store; `name` is the name of the test.
    pub(crate) async fn new(name: &str) -> Self {
        let directory = folder_of(name);
        let options = options(&directory);
        Self::with(directory, options).await
    }

    /// Creates an empty store in `directory`, with these options.
    pub(crate) async fn with(directory: PathBuf, options: StoreOptions) -> Self {
        let data = DataDirectory::hold(options).await.unwrap();
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
