//! Compiled code of uploaded components, while the code is in the store.
//!
//! This file prevents the server from loading machine code that another program put into the store.
//! Compiled code is native code, so code from the store is loaded only with the tag that this
//! cluster gave it. The seal of the rows proves that each piece is where it was put. The tag proves
//! that the pieces are a single code, of this component, by this build of the compiler.

use crate::sealed_file::SealedFile;
use bulkhead_store::Store;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub use crate::sealed_file::UnsealedFile;
pub use crate::wasmtime_engine::BUILD;

/// Purpose of these tags, separate from all other uses of the cluster's key.
const PURPOSE: &str = "compiled-code";

/// Compiled code that our own compiler made, either just now or before the code was stored. The
/// code is in a sealed file, so it stays what was checked.
#[derive(Clone)]
pub struct AuthenticCode(Arc<SealedFile>);

impl AuthenticCode {
    /// Accepts code from the store if `tag` is the tag of this code, for the component `digest`, by
    /// this build. Returns `None` for other code.
    ///
    /// # Errors
    /// If the system cannot seal the file.
    pub fn open(
        store: &Store,
        digest: &str,
        code: UnsealedFile,
        tag: &str,
    ) -> io::Result<Option<Self>> {
        let code = Self(Arc::new(code.seal()?));
        let right = code.tag(store, digest);
        let is_right =
            aws_lc_rs::constant_time::verify_slices_are_equal(right.as_bytes(), tag.as_bytes())
                .is_ok();
        Ok(is_right.then_some(code))
    }

    /// Accepts code that a child of this process has just made.
    ///
    /// # Errors
    /// If the system cannot make or seal the file.
    pub(crate) fn from_compiler(code: &[u8]) -> io::Result<Self> {
        let mut file = UnsealedFile::new()?;
        file.append(code)?;
        Ok(Self(Arc::new(file.seal()?)))
    }

    /// Returns the tag to store with the code.
    #[must_use]
    pub fn tag(&self, store: &Store, digest: &str) -> String {
        let code = self.0.sha256();
        store.keyed_hash(PURPOSE, format!("{BUILD} {digest} {code}").as_bytes())
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Reads a part of the code.
    ///
    /// # Errors
    /// If the range ends behind the end of the code.
    pub fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        self.0.read(range)
    }

    /// Returns the path of the sealed file, which lives as long as this value and each mapping.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path()
    }
}
