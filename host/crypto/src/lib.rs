//! Keys, signatures, certificates and password hashes. The host computes these for components, and
//! the SDK's test bed runs the same code.
//!
//! The crate knows bytes and the text formats of keys. It never knows components, mounts, grants,
//! storage or time: the caller supplies the time, and decides on threads and rate limits.
//!
//! The attacks this crate prevents: an algorithm chosen by the sender of a signature (a key is read
//! for a single algorithm and works with no other); keys too weak to prove anything; and keys,
//! certificates and hashes constructed to be slow. Each input is limited before parsing, and all
//! data from a private key is wiped when dropped.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! asn1 → certificate_members → kind → limits → algorithm → digest → jwk → password → pem → secret
//! → x509 → chain → public_key → certificate → private_key → generate → signature → issue
//! ```

mod algorithm;
mod asn1;
mod certificate;
mod certificate_members;
mod chain;
mod digest;
mod generate;
mod issue;
mod jwk;
mod kind;
mod limits;
mod password;
mod pem;
mod private_key;
mod public_key;
mod secret;
mod signature;
mod x509;

pub use algorithm::SignatureAlgorithm;
pub use certificate::Certificate;
pub use certificate_members::CertificateMembers;
pub use chain::{CertificateUsage, ChainVerification};
pub use digest::{digest, hmac, sha256};
pub use generate::{GeneratedKeyPair, KeyFormat, KeyParameters};
pub use issue::{CertificateIssuance, issue};
pub use kind::KeyKind;
pub use limits::MESSAGE_BYTES;
pub use password::{HashCost, hash_password, verify_password};
pub use pem::encode_pem;
pub use private_key::PrivateKey;
pub use public_key::PublicKey;
pub use secret::{is_private, secrets_of};
pub use signature::{SigningKey, VerifyingKey, sign};
