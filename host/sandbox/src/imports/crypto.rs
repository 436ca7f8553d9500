//! The `crypto` import: randomness of the host.

use crate::bindings::secrets_engine::bulkhead::plugin::crypto::Host;
use crate::limits;
use crate::state::CallState;
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
}
