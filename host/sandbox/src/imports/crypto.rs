//! The `crypto` import: the host's randomness, and cryptography outside the sandbox.
//!
//! This file prevents a component from evading the limits on computing by letting the host compute.
//! Work of more than a millisecond runs beside the runtime's workers, and needs either a permit,
//! like a guest that computes, or a turn. All work is counted.

use crate::bindings::secrets_engine::bulkhead::plugin::crypto::{
    Certificate, CertificateRequest, Chain, GeneratedKey, Host, PublicKey,
};
use crate::contract::Failure;
use crate::crypto_words;
use crate::grants::{Act, CryptoVerb};
use crate::held_memory::{self, HostWorkMemory};
use crate::limits;
use crate::slow_work::SlowWorkPermit;
use crate::state::{CallState, refusal};
use aws_lc_rs::pbkdf2;
use bulkhead_crypto::{GeneratedKeyPair, HashCost, KeyParameters, PrivateKey};
use bulkhead_wire::failure::Failure as Refused;
use std::num::NonZeroU32;
use std::sync::Arc;
use wasmtime::{bail, format_err};
use zeroize::Zeroizing;

/// Result of an import: the component gets a failure, and an error ends the call.
type ImportResult<T> = wasmtime::Result<Result<T, Failure>>;

impl Host for CallState {
    fn random(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        self.require_grant(&Act::Random)?;
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
        self.require_grant(&Act::Derive)?;
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
        compute(self, move || derive(&password, &salt, rounds)).await
    }

    fn digest(&mut self, algorithm: String, data: Vec<u8>) -> ImportResult<Vec<u8>> {
        granted!(self, Act::Verify);
        self.charge_work(data.len())?;
        Ok(report_result(bulkhead_crypto::digest(&algorithm, &data)))
    }

    fn hmac(&mut self, algorithm: String, key: Vec<u8>, data: Vec<u8>) -> ImportResult<Vec<u8>> {
        granted!(self, Act::Verify);
        let key = Zeroizing::new(key);
        self.charge_work(key.len().saturating_add(data.len()))?;
        Ok(report_result(bulkhead_crypto::hmac(&algorithm, &key, &data)))
    }

    fn verify(
        &mut self,
        algorithm: String,
        public_key: String,
        message: Vec<u8>,
        signature: Vec<u8>,
    ) -> ImportResult<bool> {
        granted!(self, Act::Verify);
        self.charge_work(public_key.len().saturating_add(message.len()))?;
        let key = self.context.compartment.taken().keys().read(&algorithm, &public_key);
        Ok(report_result(key.and_then(|key| key.verify(&message, &signature))))
    }

    async fn sign(
        &mut self,
        algorithm: String,
        private_key: String,
        message: Vec<u8>,
    ) -> ImportResult<Vec<u8>> {
        granted!(self, Act::Crypto(CryptoVerb::Sign));
        let key = take_key(self, private_key)?;
        self.charge_work(limits::SIGNATURE_WORK_BYTES.saturating_add(message.len()))?;
        let tree = Arc::clone(&self.context.tree);
        let sign = move || tree.last_signer.read(&algorithm, &key)?.sign(&message);
        Ok(report_result(compute(self, sign).await?))
    }

    fn read_key(&mut self, key: String) -> ImportResult<PublicKey> {
        granted!(self, Act::Verify);
        let key = take_key(self, key)?;
        let read = match bulkhead_crypto::is_private(&key) {
            true => PrivateKey::read(&key).and_then(|key| key.public()),
            false => bulkhead_crypto::PublicKey::read(&key),
        };
        Ok(report_result(read.and_then(|key| crypto_words::public_key(&key))))
    }

    async fn generate_key(
        &mut self,
        kind: String,
        bits: u32,
        form: String,
    ) -> ImportResult<GeneratedKey> {
        granted!(self, Act::Crypto(CryptoVerb::GenerateKey));
        let generation = match KeyParameters::read(&kind, bits, &form) {
            Ok(generation) => generation,
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        let key_pair = match generate(self, generation).await? {
            Ok(key_pair) => key_pair,
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        keep_secret(self, &key_pair.private_key);
        Ok(report_result(crypto_words::generated(&key_pair)))
    }

    fn read_certificate(&mut self, pem: String) -> ImportResult<Certificate> {
        granted!(self, Act::Verify);
        self.charge_work(pem.len())?;
        let read = bulkhead_crypto::Certificate::read(&pem);
        Ok(report_result(read.and_then(crypto_words::certificate)))
    }

    async fn verify_chain(&mut self, chain: Chain) -> ImportResult<()> {
        granted!(self, Act::Verify);
        self.charge_work(limits::SIGNATURE_WORK_BYTES.saturating_add(chain.roots.len()))?;
        let now = self.resources.now();
        Ok(report_result(compute(self, move || crypto_words::chain(&chain, now)?.verify()).await?))
    }

    async fn issue_certificate(&mut self, request: CertificateRequest) -> ImportResult<String> {
        granted!(self, Act::Crypto(CryptoVerb::IssueCertificate));
        let mut request = request;
        let key = take_key(self, std::mem::take(&mut request.authority_key))?;
        self.charge_work(limits::SIGNATURE_WORK_BYTES.saturating_add(request.authority.len()))?;
        let issue = move || {
            let key = PrivateKey::read(&key)?;
            bulkhead_crypto::issue(&crypto_words::issuance(&request), &key)
        };
        Ok(report_result(compute(self, issue).await?))
    }

    async fn hash_password(&mut self, password: String) -> ImportResult<String> {
        granted!(self, Act::Derive);
        let password = take_password(self, password);
        let hash = move || bulkhead_crypto::hash_password(&password);
        Ok(report_result(hash_within(self, HashCost::OF_NEW, hash).await?))
    }

    async fn verify_password(&mut self, password: String, hash: String) -> ImportResult<bool> {
        granted!(self, Act::Derive);
        let password = take_password(self, password);
        let cost = match HashCost::of(&hash) {
            Ok(cost) => cost,
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        let verify = move || bulkhead_crypto::verify_password(&password, &hash);
        Ok(report_result(hash_within(self, cost, verify).await?))
    }
}

fn report_result<T>(done: Result<T, Refused>) -> Result<T, Failure> {
    done.map_err(|refused| refusal(&refused))
}

fn derive(password: &str, salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
    let mut key = vec![0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password.as_bytes(), &mut key);
    key
}

/// Takes a key from the component. A private key becomes a secret of the call before anything can
/// fail.
fn take_key(state: &mut CallState, key: String) -> wasmtime::Result<Zeroizing<String>> {
    let key = Zeroizing::new(key);
    state.charge_work(key.len())?;
    if bulkhead_crypto::is_private(&key) {
        keep_secret(state, &key);
    }
    Ok(key)
}

fn keep_secret(state: &CallState, key: &str) {
    for part in bulkhead_crypto::secrets_of(key) {
        state.context.tree.secrets.add(&part);
    }
}

fn take_password(state: &CallState, password: String) -> Zeroizing<String> {
    state.context.tree.secrets.add(&password);
    Zeroizing::new(password)
}

/// Computes beside the runtime's workers. Needs a permit to compute, like a guest.
async fn compute<T: Send + 'static>(
    state: &mut CallState,
    work: impl FnOnce() -> T + Send + 'static,
) -> wasmtime::Result<T> {
    let (permits, context) = (&state.resources.process.cpu_permits, &state.context);
    let permit = permits.acquire(&context.compartment, context.tree.caller()).await;
    run_blocking(permit, work).await
}

/// Computes beside the runtime's workers, and drops `guards` when the work is done, even if the
/// call was cut.
async fn run_blocking<T: Send + 'static>(
    guards: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> wasmtime::Result<T> {
    let computed = tokio::task::spawn_blocking(move || {
        let _guards = guards;
        work()
    });
    computed.await.map_err(|_| format_err!("the host's cryptography failed"))
}

async fn generate(
    state: &mut CallState,
    generation: KeyParameters,
) -> wasmtime::Result<Result<GeneratedKeyPair, Refused>> {
    let Some(bits) = generation.rsa_bits() else {
        state.charge_work(limits::SIGNATURE_WORK_BYTES)?;
        return compute(state, move || generation.generate_key()).await;
    };
    let times = (bits as usize).div_ceil(1_024).pow(2);
    state.charge_work((limits::RSA_KEY_WORK_BYTES / 4).saturating_mul(times))?;
    let turns = state.context.compartment.taken().turns();
    let turn = state.resources.process.slow_work.key(turns, state.context.tree.caller()).await;
    run_blocking(turn, move || generation.generate_key()).await
}

/// Hashes a password in the mount's turn. The memory counts for the mount and the process.
async fn hash_within<T: Send + 'static>(
    state: &mut CallState,
    cost: HashCost,
    work: impl FnOnce() -> T + Send + 'static,
) -> wasmtime::Result<T> {
    state.charge_work(cost.work() / limits::HASH_WORK_SHARE)?;
    let turns = state.context.compartment.taken().turns();
    let turn = state.resources.process.slow_work.hash(turns, state.context.tree.caller()).await;
    let guards: (Option<SlowWorkPermit>, HostWorkMemory) = (turn, lend(state, cost.memory())?);
    run_blocking(guards, work).await
}

fn lend(state: &mut CallState, bytes: usize) -> wasmtime::Result<HostWorkMemory> {
    let mount = state.context.compartment.taken().held();
    match held_memory::lend(bytes, mount, &state.resources.process.held_bytes) {
        Some(lent) => Ok(lent),
        None => {
            state.memory.starved = true;
            bail!("the host's memory for plugins is used up")
        }
    }
}
