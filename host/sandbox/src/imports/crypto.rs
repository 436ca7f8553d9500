//! The `crypto` import: the host's randomness, and key derivation outside the sandbox.

use crate::bindings::secrets_engine::bulkhead::plugin::crypto::Host;
use crate::limits;
use crate::state::CallState;
use aws_lc_rs::pbkdf2;
use std::num::NonZeroU32;
use wasmtime::{bail, format_err};

impl Host for CallState {
    fn random(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        self.enter()?;
        if length > limits::RANDOM_BYTES {
            bail!("crypto.random was asked for {length} bytes; the most is {}", limits::RANDOM_BYTES);
        }
        let mut bytes = vec![0; length as usize];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| format_err!("the host's random generator failed"))?;
        Ok(bytes)
    }

    fn pbkdf2_sha256(&mut self, password: String, salt: Vec<u8>, iterations: u32) -> wasmtime::Result<Vec<u8>> {
        self.enter()?;
        let rounds = NonZeroU32::new(iterations).filter(|rounds| rounds.get() <= limits::DERIVATION_ROUNDS);
        let Some(rounds) = rounds else {
            bail!("pbkdf2-sha256 was asked for {iterations} rounds; give 1 to {}", limits::DERIVATION_ROUNDS);
        };
        self.charge(usize::try_from(iterations).unwrap_or(usize::MAX).saturating_mul(limits::ROUND_BYTES))?;
        self.scope.root.secrets.add(&password);
        let mut key = vec![0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut key);
        Ok(key)
    }
}
