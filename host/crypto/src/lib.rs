//! Keys, signatures, certificates and password hashes: what the host computes for components, and
//! what the SDK's test bed computes in its place, by the same code.
//!
//! Knows bytes and the texts in which keys are written. Never knows components, mounts, grants,
//! storage or time: the caller says what time it is, and where and how often to compute.
//!
//! The attacks that it stops: an algorithm that the sender of a signature chose (a key is read for
//! one algorithm, and serves no other); keys too weak to prove anything; and keys, certificates and
//! hashes that were made to be slow. Each input is bounded before it is read, and everything that
//! comes out of a private key is wiped when it is dropped.
//!
//! ```text
//! limits → pem → asn1 → kind → x509 → jwk → public_key → private_key → algorithm
//!   → signature → certificate → chain, issue
//! ```

mod algorithm;
mod asn1;
mod certificate;
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

pub use algorithm::Algorithm;
pub use certificate::Certificate;
pub use chain::{Chain, Usage};
pub use digest::{digest, hmac};
pub use generate::{Form, Generated, Generation};
pub use issue::{Issuance, issue};
pub use kind::Kind;
pub use limits::MESSAGE_BYTES;
pub use password::{Cost, hash_password, verify_password};
pub use pem::armour;
pub use private_key::PrivateKey;
pub use public_key::PublicKey;
pub use secret::{is_private, secrets_of};
pub use signature::{SigningKey, VerifyingKey, sign};
