//! The plugin directory of the configuration: components that callers of the API register by name.

use super::folder::ProtectedFolder;
use super::image_layout;
use super::origin::ComponentOrigin;
use bulkhead_wire::failure::Failure;
use std::path::{Path, PathBuf};

/// The plugin directory of the configuration.
#[derive(Clone, Debug)]
pub struct PluginDirectory(PathBuf);

impl PluginDirectory {
    /// Names the directory, without opening it.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Checks that components can be read from the directory.
    ///
    /// # Errors
    /// The reason why the directory cannot be used, and the remedy.
    pub fn check(&self) -> Result<(), Failure> {
        self.open().map(|_| ())
    }

    /// Reads the component that `origin` names.
    ///
    /// # Errors
    /// As [`Folder::file`] and [`image_layout::component`].
    pub async fn component(&self, origin: &ComponentOrigin, most: u64) -> Result<Vec<u8>, Failure> {
        let (directory, origin) = (self.clone(), origin.clone());
        let read = move || {
            let opened = directory.open()?;
            match origin.oci_image.as_str() {
                "" => opened.file(&origin.command, most),
                image => image_layout::component(&opened.folder(image)?, most),
            }
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err(Failure::internal("reading the plugin directory ended early")))
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// 400 for a directory that is missing, is a symbolic link, or is writable by every user.
    pub(super) fn open(&self) -> Result<ProtectedFolder, Failure> {
        ProtectedFolder::open(&self.0)
    }
}

#[cfg(test)]
mod tests;
