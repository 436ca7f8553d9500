//! Compiled code of uploaded components, while the code is in the store.
//!
//! Prevents the server from loading machine code that another program put into the store. Compiled
//! code is native code, so code from the store is loaded only with the tag that this cluster gave
//! it. The seal of the rows proves that each piece is where it was put. The tag proves that the
//! pieces are a single code, of this component, by this build of the compiler.

use crate::identity::digest as sha256;
use bulkhead_store::Store;
use std::sync::Arc;

pub use crate::wasmtime_engine::BUILD;

/// Purpose of these tags, separate from all other uses of the cluster's key.
const PURPOSE: &str = "compiled-code";

/// Compiled code that our own compiler made, either just now or before the code was stored.
#[derive(Clone)]
pub struct AuthenticCode(Arc<Vec<u8>>);

impl AuthenticCode {
    /// Accepts code from the store if `tag` is the tag of this code, for the component `digest`, by
    /// this build.
    #[must_use]
    pub fn open(store: &Store, digest: &str, code: Vec<u8>, tag: &str) -> Option<Self> {
        let right = tag_of(store, digest, &code);
        let is_right =
            aws_lc_rs::constant_time::verify_slices_are_equal(right.as_bytes(), tag.as_bytes())
                .is_ok();
        is_right.then(|| Self(Arc::new(code)))
    }

    /// Accepts code that a child of this process has just made.
    pub(crate) fn just_compiled(code: Vec<u8>) -> Self {
        Self(Arc::new(code))
    }

    /// Returns the tag to store with the code.
    #[must_use]
    pub fn tag(&self, store: &Store, digest: &str) -> String {
        tag_of(store, digest, &self.0)
    }

    /// Returns the code.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn tag_of(store: &Store, digest: &str, code: &[u8]) -> String {
    store.keyed_hash(PURPOSE, format!("{BUILD} {digest} {}", sha256(code)).as_bytes())
}
