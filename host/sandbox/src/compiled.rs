//! Compiled code of components that callers brought, while it lies in the store.
//!
//! The attack this file stops: machine code that another program put there. Compiled code is native
//! code, so that of what comes back from the store only that is loaded which bears the tag that
//! this cluster gave it. The seal of the rows says that each of its pieces is where it was put; the
//! tag says that they are one code, of this component, by this build of the compiler.

use crate::identity::digest as sha256;
use bulkhead_store::Store;

pub use crate::wasmtime_engine::BUILD;

/// Separates these tags from everything else that the cluster's key names.
const PURPOSE: &str = "compiled-code";

/// Compiled code that our own compiler made, either just now or before it was stored.
pub struct AuthenticCode(Vec<u8>);

impl AuthenticCode {
    /// Code that came from the store with `tag`; `None` where the tag is not that of this code for
    /// the component `digest` by this build.
    #[must_use]
    pub fn open(store: &Store, digest: &str, code: Vec<u8>, tag: &str) -> Option<Self> {
        let right = tag_of(store, digest, &code);
        let is_right =
            aws_lc_rs::constant_time::verify_slices_are_equal(right.as_bytes(), tag.as_bytes())
                .is_ok();
        is_right.then_some(Self(code))
    }

    /// Code that a child of this process has just made.
    pub(crate) fn just_compiled(code: Vec<u8>) -> Self {
        Self(code)
    }

    /// The tag to store it with.
    #[must_use]
    pub fn tag(&self, store: &Store, digest: &str) -> String {
        tag_of(store, digest, &self.0)
    }

    /// The code.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn tag_of(store: &Store, digest: &str, code: &[u8]) -> String {
    store.keyed_hash(PURPOSE, format!("{BUILD} {digest} {}", sha256(code)).as_bytes())
}
