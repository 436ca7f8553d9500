//! The transit engine of another server, as a key service of a seal: a real HTTP or HTTPS server on
//! a loopback address of its own, with tokens, namespaces, key versions and AES-256-GCM. The server
//! can be killed and come back at the same port.
//!
//! ```no_run
//! use bulkhead_tests::internet::Fault;
//! use bulkhead_tests::transit_server::{KEY, TransitServer};
//!
//! let mut transit = TransitServer::start();
//! let token = transit.issue(None); // may encrypt and decrypt with KEY, and nothing else
//! transit.fail("/v1/transit/decrypt", Fault::Hang, 1);
//! transit.rotate(); // version 2 encrypts; version 1 still decrypts
//! transit.lose_version(1);
//! transit.kill();
//! transit.start_again();
//! # let _ = (token, KEY);
//! ```

mod state;

use crate::key_service::KeyService;
use crate::static_seal;
use state::TransitState;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

/// Name of the key that every token of [`TransitServer::issue`] may use.
pub const KEY: &str = "unseal";

/// True lifetime of a token of [`TransitServer::issue_announcing`] after each renewal.
const TOKEN_LIFETIME: Duration = Duration::from_secs(120);

/// A running or killed transit server.
pub struct TransitServer(KeyService<TransitState>);

impl Deref for TransitServer {
    type Target = KeyService<TransitState>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for TransitServer {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Returns the state with one version of [`KEY`].
fn one_version() -> TransitState {
    let mut state = TransitState::default();
    state.rotate(KEY);
    state
}

impl TransitServer {
    /// Starts a server over plain HTTP, with one version of [`KEY`].
    pub fn start() -> Self {
        Self(KeyService::start(one_version()))
    }

    /// Starts a server over TLS, with one version of [`KEY`].
    pub fn start_with_tls() -> Self {
        Self(KeyService::start_with_tls(one_version()))
    }

    /// Starts another server over plain HTTP, with copies of the keys and tokens.
    pub fn copied(&self) -> Self {
        Self(KeyService::start(self.state().clone()))
    }

    /// Returns the block of the configuration for a seal with [`KEY`] of this server over plain
    /// HTTP, and writes the token into its file in `folder`.
    pub fn seal_block(&self, folder: &Path, token: &str) -> String {
        let file = folder.join("token");
        static_seal::write_key(&file, token.as_bytes(), 0o600);
        format!(
            "seal \"transit\" {{\n  address = {:?}\n  key_name = {KEY:?}\n  \
             token_file = {file:?}\n}}\n",
            self.url()
        )
    }

    /// Issues a token that may use [`KEY`]. With a TTL, the token can be renewed for the same time.
    pub fn issue(&self, ttl: Option<Duration>) -> String {
        self.issue_for(KEY, ttl)
    }

    /// Issues a token that may encrypt and decrypt with one key, and look up and renew itself.
    pub fn issue_for(&self, key: &str, ttl: Option<Duration>) -> String {
        self.state().issue(key, ttl)
    }

    /// Issues a token as [`TransitServer::issue`]. Every answer announces the lifetime `announced`.
    /// The token lives for [`TOKEN_LIFETIME`], so that the token does not end between two renewals
    /// of a machine under load.
    pub fn issue_announcing(&self, announced: Duration) -> String {
        let mut state = self.state();
        let token = state.issue(KEY, Some(TOKEN_LIFETIME));
        state.tokens.get_mut(&token).expect("the new token").announced = Some(announced);
        token
    }

    /// Ends a token at once.
    pub fn revoke(&self, token: &str) {
        self.state().tokens.remove(token).expect("a token of this server");
    }

    /// Returns how often the token was renewed.
    pub fn renewals(&self, token: &str) -> usize {
        self.state().tokens.get(token).map_or(0, |token| token.renewals)
    }

    /// Adds a version to [`KEY`], which encrypts from now on.
    pub fn rotate(&self) {
        self.state().rotate(KEY);
    }

    /// Refuses the decryption by versions below `version`.
    pub fn set_min_decryption_version(&self, version: u64) {
        self.state().key(KEY).min_decryption = version;
    }

    /// Deletes a version of [`KEY`] for ever.
    pub fn lose_version(&self, version: u64) {
        self.state().key(KEY).versions.remove(&version).expect("a version of the key");
    }

    /// Deletes [`KEY`] for ever.
    pub fn lose_key(&self) {
        self.state().keys.remove(KEY).expect("the key");
    }

    /// Seals or unseals the server: while sealed, requests are answered with 503.
    pub fn set_sealed(&self, sealed: bool) {
        self.state().sealed = sealed;
    }

    /// Makes engine and tokens those of a namespace.
    pub fn want_namespace(&self, namespace: &str) {
        self.state().namespace = namespace.to_owned();
    }
}

#[cfg(test)]
mod tests;
