//! Root generation: a quorum of key holders makes a root token, readable only with the one-time
//! password (OTP) of the caller that began.

use super::{GivenShare, KeyHolders, check_nonce, check_optional_nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bulkhead_access::quorum::Quorum;
use bulkhead_access::random;
use bulkhead_access::tokens::{self, keys};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Length of an OTP in characters: the length of a root token.
pub const OTP_LENGTH: usize = keys::SERVICE_LENGTH;

/// Path that shows the progress and the nonce.
const STATUS: &str = "sys/generate-root/attempt or sys/generate-root-token/attempt";

/// A root generation in progress.
pub(super) struct RootGeneration {
    nonce: String,
    otp: Secret,
    quorum: Quorum,
}

/// The progress of a root generation.
pub struct GenerationStatus {
    /// Empty if no root generation is in progress.
    pub nonce: String,
    /// Number of different shares given; reaches `required` only with the encoded token.
    pub progress: u8,
    /// Threshold of the unseal key in use: number of shares for a root token.
    pub required: u8,
    /// The OTP that the server chose. Shown once, at the start.
    pub otp: Option<Secret>,
    /// The root token, encoded with the OTP. Shown once, at the end.
    pub encoded_token: Option<Secret>,
}

impl KeyHolders {
    /// Returns the progress of the root generation.
    ///
    /// # Errors
    /// If the seal's configuration cannot be read.
    pub async fn generation_status(&self) -> Result<GenerationStatus, Failure> {
        let procedures = self.procedures.lock().await;
        self.status_of(procedures.generation.as_ref()).await
    }

    /// Begins a root generation with this OTP; empty: the server chooses an OTP.
    ///
    /// # Errors
    /// 400 for an OTP that does not fit a token, and if a root generation is in progress.
    pub async fn start_generation(
        &self,
        otp: &str,
        remote: IpAddr,
    ) -> Result<GenerationStatus, Failure> {
        let chosen = (!otp.is_empty()).then(|| check_otp(otp)).transpose()?;
        let mut procedures = self.procedures.lock().await;
        if let Some(running) = &procedures.generation {
            return Err(Failure::invalid(format!(
                "a root generation is in progress, with nonce {}: give shares, or cancel the root \
                 generation first",
                running.nonce
            )));
        }
        let new_otp = if chosen.is_some() { None } else { Some(random::base62(OTP_LENGTH)?) };
        let shown = new_otp.as_ref().map(Secret::new);
        let otp = chosen.or(new_otp.map(Secret::new)).unwrap_or_else(|| Secret::new(""));
        let quorum = Quorum::new(self.config().await?)?;
        let generation = RootGeneration { nonce: random::uuid()?, otp, quorum };
        let status = self.status_of(Some(&generation)).await?;
        procedures.generation = Some(generation);
        self.log_act(remote, "root-generation-started");
        Ok(GenerationStatus { otp: shown, ..status })
    }

    /// Cancels the root generation, if there is one.
    ///
    /// # Errors
    /// 400 for a nonce of another root generation.
    pub async fn cancel_generation(&self, nonce: &str, remote: IpAddr) -> Result<(), Failure> {
        let mut procedures = self.procedures.lock().await;
        if let Some(running) = &procedures.generation {
            check_optional_nonce(nonce, &running.nonce, STATUS)?;
            procedures.generation = None;
            self.log_act(remote, "root-generation-cancelled");
        }
        Ok(())
    }

    /// Takes a share. If the share completes a correct set, creates the root token and ends the
    /// root generation.
    ///
    /// # Errors
    /// 400 for a wrong nonce, for a text that is not a share of this seal, and if enough shares of
    /// this client are not the unseal key.
    pub async fn give_to_generation(
        &self,
        share: GivenShare<'_>,
    ) -> Result<GenerationStatus, Failure> {
        let _its_turn = self.clients.acquire(share.client()).await;
        let step = self.advance_generation(share).await;
        self.log_refusal(share.remote, step)
    }

    async fn advance_generation(&self, share: GivenShare<'_>) -> Result<GenerationStatus, Failure> {
        let mut procedures = self.procedures.lock().await;
        let Some(running) = &mut procedures.generation else {
            return Err(Failure::invalid(format!(
                "no root generation is in progress; begin one at {STATUS}"
            )));
        };
        check_nonce(share.nonce, &running.nonce, STATUS)?;
        if !self.try_share(&mut running.quorum, share).await? {
            return self.status_of(procedures.generation.as_ref()).await;
        }
        let token = self.create_root_token().await?;
        let encoded_token = Some(encode(&token, &running.otp));
        let status = self.status_of(Some(running)).await?;
        procedures.generation = None;
        self.log_act(share.remote, "root-token-generated");
        Ok(GenerationStatus { progress: status.required, encoded_token, ..status })
    }

    async fn create_root_token(&self) -> Result<Secret, Failure> {
        let token = keys::generate_text()?;
        let row = tokens::root_token_row(self.store.hashes(), &token, self.store.now())?;
        let (address, body, index) = row;
        let mut unit = self.store.begin();
        unit.put(address, body, index);
        unit.commit().await?;
        Ok(token)
    }

    async fn status_of(
        &self,
        running: Option<&RootGeneration>,
    ) -> Result<GenerationStatus, Failure> {
        Ok(GenerationStatus {
            nonce: running.map(|generation| generation.nonce.clone()).unwrap_or_default(),
            progress: running.map_or(0, |generation| generation.quorum.progress()),
            required: self.config().await?.threshold,
            otp: None,
            encoded_token: None,
        })
    }
}

/// Checks an OTP that the caller chose.
fn check_otp(otp: &str) -> Result<Secret, Failure> {
    if otp.len() == OTP_LENGTH && otp.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret::new(otp));
    }
    Err(Failure::invalid(format!(
        "this otp of {} bytes does not fit a token: give {OTP_LENGTH} random letters and digits, \
         or leave otp out, and the server chooses an otp",
        otp.len()
    )))
}

/// Returns the token combined with the OTP by XOR, in base64 as clients of this API decode it.
fn encode(token: &Secret, otp: &Secret) -> Secret {
    let mixed = exclusive_or(token.expose().as_bytes(), otp.expose().as_bytes());
    Secret::new(STANDARD_NO_PAD.encode(&*mixed))
}

/// Returns the token of an encoded token and its OTP.
///
/// # Errors
/// 400 if the two do not fit together.
pub fn decode_token(encoded: &str, otp: &str) -> Result<Secret, Failure> {
    let padded = encoded.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(padded).map(Zeroizing::new).map_err(|_| {
        Failure::invalid(
            "encoded_token is not base64; give the encoded token as printed by the server",
        )
    })?;
    if bytes.len() != otp.len() || otp.is_empty() {
        return Err(Failure::invalid(format!(
            "the encoded token has {} bytes and the otp {}: they do not belong together; give the \
             otp from the start of this root generation",
            bytes.len(),
            otp.len()
        )));
    }
    let token = exclusive_or(&bytes, otp.as_bytes());
    std::str::from_utf8(&token).map(Secret::new).map_err(|_| {
        Failure::invalid(
            "the otp does not belong to this encoded token: the result is not text; give the otp \
             from the start of this root generation",
        )
    })
}

fn exclusive_or(one: &[u8], other: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(one.iter().zip(other).map(|(one, other)| one ^ other).collect())
}
