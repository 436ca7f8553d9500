//! The `crypto` import: the host's randomness, and key derivation outside the sandbox.

use crate::bindings::secrets_engine::bulkhead::plugin::crypto::Host;
use crate::grants::Act;
use crate::limits;
use crate::state::CallState;
use aws_lc_rs::pbkdf2;
use std::num::NonZeroU32;
use wasmtime::{bail, format_err};
use zeroize::Zeroizing;

impl Host for CallState {
    fn random(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        self.demand(&Act::Random)?;
        if length > limits::RANDOM_BYTES {
            bail!(
                "crypto.random was asked for {length} bytes; the most is {}",
                limits::RANDOM_BYTES
            );
        }
        let mut bytes = vec![0; length as usize];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| format_err!("the host's random generator failed"))?;
        Ok(bytes)
    }

    async fn pbkdf2_sha256(
        &mut self,
        password: String,
        salt: Vec<u8>,
        iterations: u32,
    ) -> wasmtime::Result<Vec<u8>> {
        self.demand(&Act::Derive)?;
        let rounds =
            NonZeroU32::new(iterations).filter(|rounds| rounds.get() <= limits::DERIVATION_ROUNDS);
        let Some(rounds) = rounds else {
            bail!(
                "pbkdf2-sha256 was asked for {iterations} rounds; give 1 to {}",
                limits::DERIVATION_ROUNDS
            );
        };
        let work =
            usize::try_from(iterations).unwrap_or(usize::MAX).saturating_mul(limits::ROUND_BYTES);
        self.charge_work(work.saturating_add(password.len()))?;
        self.context.tree.secrets.add(&password);
        let password = Zeroizing::new(password);
        if iterations <= limits::DERIVATION_ROUNDS_AT_ONCE {
            return Ok(derive(&password, &salt, rounds));
        }
        // It computes as a guest would, and so needs a permit as a guest does.
        let permit = self.resources.process.cpu_permits.acquire().await;
        let derived = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            derive(&password, &salt, rounds)
        });
        derived.await.map_err(|_| format_err!("the host's key derivation failed"))
    }
}

fn derive(password: &str, salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
    let mut key = vec![0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password.as_bytes(), &mut key);
    key
}
