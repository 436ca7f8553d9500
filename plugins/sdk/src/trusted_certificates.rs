//! Certificates in PEM that an engine stores: authorities that connections trust, and certificates
//! that prove the engine's own identity.
//!
//! This file prevents the trust in an authority that has ended, which the verification of a chain
//! alone does not notice. The host refuses such an authority at each use; an engine refuses the
//! authority at the write of its configuration, where the operator sees the refusal.

use crate::host::Host;
use bulkhead_wire::failure::Failure;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// First and last line of a certificate in PEM.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Checks that every certificate of the text can be read and has not ended. An empty text is
/// accepted. `setting` is the name of the text in messages.
///
/// # Errors
/// Invalid request with the position of the first certificate that cannot be read or has ended, and
/// with its end.
pub fn check(host: &dyn Host, setting: &str, pem: &str) -> Result<(), Failure> {
    if pem.trim().is_empty() {
        return Ok(());
    }
    let about = |why: Failure| Failure { message: format!("{setting}: {}", why.message), ..why };
    if !is_certificate(pem) {
        // The host's refusal tells how a certificate looks.
        return host.crypto().read_certificate(pem).map(drop).map_err(about);
    }
    // A private key may stand between the certificates; the host's reader is not shown the key.
    let blocks = pem.split(BEGIN).skip(1).map(|block| match block.split_once(END) {
        Some((inside, _)) => format!("{BEGIN}{inside}{END}\n"),
        None => format!("{BEGIN}{block}"),
    });
    for (index, block) in blocks.enumerate() {
        let certificate = host.crypto().read_certificate(&block).map_err(about)?;
        if certificate.not_after < host.clock().now() {
            return Err(Failure::invalid(format!(
                "{setting}: certificate {} ended at {}; give the successor",
                index + 1,
                shown(certificate.not_after)
            )));
        }
    }
    Ok(())
}

/// Returns true if the text contains a certificate in PEM, with lines of its own. A certificate
/// inside another format, such as JSON, does not count.
#[must_use]
pub fn is_certificate(text: &str) -> bool {
    text.lines().any(|line| line.trim() == BEGIN)
}

fn shown(milliseconds: u64) -> String {
    let seconds = i64::try_from(milliseconds / 1_000).ok();
    let time = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
