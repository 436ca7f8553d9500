//! SCRAM-SHA-256 verifiers, which keep new passwords out of the connection to the database and out
//! of the database's log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::database_plugin::SqlHost;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// PostgreSQL's default iteration count (`SCRAM_SHA_256_DEFAULT_ITERATIONS`).
const ITERATIONS: u32 = 4096;

/// Length of a salt in bytes, as in PostgreSQL.
pub(crate) const SALT: u32 = 16;

/// Sample verifier for checks of statements. Every verifier has the same characters in the same
/// places, except for letters, digits, `+` and `/`.
pub(crate) const SHAPE: &str = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAA\
                                AAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Tells if `password` can have a verifier. Clients normalise passwords beyond printable ASCII
/// (SASLprep) before hashing, so a verifier of the raw bytes would lock the user out.
pub(crate) fn has_verifier(password: &str) -> bool {
    password.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns PostgreSQL's stored form of `password`, as accepted by `ALTER ROLE … PASSWORD`.
///
/// `None` if the password can have no verifier; see [`has_verifier`].
pub(crate) fn verifier(host: &dyn SqlHost, password: &str, salt: &[u8]) -> Option<String> {
    if !has_verifier(password) {
        return None;
    }
    let salted = host.pbkdf2_sha256(password, salt, ITERATIONS);
    let stored = Sha256::digest(mac(&salted, b"Client Key")?);
    let server = mac(&salted, b"Server Key")?;
    let [salt, stored, server] = [salt, &stored, &server].map(|bytes| STANDARD.encode(bytes));
    Some(format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored}:{server}"))
}

fn mac(key: &[u8], message: &[u8]) -> Option<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(message);
    Some(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::sql_script::SqlScript;

    /// The exchange of RFC 7677, section 3.
    const AUTH_MESSAGE: &str = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                                r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,\
                                r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    #[test]
    fn a_verifier_answers_the_exchange_of_rfc_7677() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = verifier(&SqlScript::default(), "pencil", &salt).unwrap();
        let keys = verifier.strip_prefix("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$").unwrap();
        let (stored, server) = keys.split_once(':').unwrap();
        let decode = |text: &str| STANDARD.decode(text).unwrap();

        let signature = mac(&decode(server), AUTH_MESSAGE.as_bytes()).unwrap();
        assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");

        let proof = decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let client_signature = mac(&decode(stored), AUTH_MESSAGE.as_bytes()).unwrap();
        let client_key: Vec<u8> =
            proof.iter().zip(client_signature).map(|(one, other)| one ^ other).collect();
        assert_eq!(Sha256::digest(client_key).as_slice(), decode(stored));
    }

    #[test]
    fn every_verifier_has_the_same_shape() {
        let verifier = verifier(&SqlScript::default(), "pencil", &[7; 16]).unwrap();
        let as_shape = |text: &str| -> String {
            let plain = |one: char| one.is_ascii_alphanumeric() || "+/".contains(one);
            text.chars().map(|one| if plain(one) { 'A' } else { one }).collect()
        };
        assert_eq!(as_shape(&verifier), as_shape(SHAPE));
    }

    #[test]
    fn passwords_that_clients_would_normalise_have_no_verifier() {
        assert_eq!(verifier(&SqlScript::default(), "pä", &[1; 16]), None);
        assert_eq!(verifier(&SqlScript::default(), "a\nb", &[1; 16]), None);
        assert!(verifier(&SqlScript::default(), "a'\"\\$% {{name}}", &[1; 16]).is_some());
    }
}
