//! The seal over a keeper that refuses and answers nonsense.

use super::*;
use bulkhead_wire::sync;
use std::sync::Mutex;

/// A keeper with one behaviour, and the keys that it wrapped, by the number in the blob.
struct FaultyKeeper {
    fault: Fault,
    wrapped: Mutex<Vec<[u8; 32]>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    Refusal(FailureKind),
    OtherKey,
    LongName,
    NoBlob,
    HugeBlob,
}

#[async_trait]
impl KeyWrapper for FaultyKeeper {
    async fn wrap(&self, key: &SealKey) -> Result<WrappedKey, Failure> {
        let mut wrapped = WrappedKey { key_id: "1".to_owned(), blob: vec![0] };
        match self.fault {
            Fault::Refusal(kind) => return Err(Failure::new(kind, "the keeper refused")),
            Fault::LongName => wrapped.key_id = "n".repeat(KEY_ID_MAX + 1),
            Fault::NoBlob => wrapped.blob.clear(),
            Fault::HugeBlob => wrapped.blob = vec![0; WRAPPED_KEY_MAX + 1],
            Fault::OtherKey | Fault::Nothing => {}
        }
        sync::lock(&self.wrapped).push(*key.bytes());
        Ok(wrapped)
    }

    async fn unwrap(&self, _: &[u8]) -> Result<OpenedKey, Failure> {
        let mut bytes = *sync::lock(&self.wrapped).last().unwrap();
        bytes[0] ^= u8::from(self.fault == Fault::OtherKey);
        Ok(OpenedKey { key: SealKey::from_bytes(bytes), newest_key_id: "1".to_owned() })
    }

    async fn renew(&self) -> Result<Option<Duration>, Failure> {
        Ok(None)
    }

    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

async fn generate(fault: Fault) -> Result<AutomaticSeal, Failure> {
    let keeper = FaultyKeeper { fault, wrapped: Mutex::default() };
    let seal = ExternalSeal::new("transit", Arc::new(keeper));
    seal.generate().await.map(|(seal, _)| seal)
}

#[tokio::test]
async fn new_seal_key_is_proven_to_open() {
    let seal = generate(Fault::Nothing).await.unwrap();
    assert_eq!((seal.kind.as_str(), seal.key_id.as_str()), ("transit", "1"));
    for (fault, words) in [
        (Fault::OtherKey, "opens to another key"),
        (Fault::LongName, "257 bytes"),
        (Fault::NoBlob, "wrapped key of 0 bytes"),
        (Fault::HugeBlob, "wrapped key of 65537 bytes"),
    ] {
        let failure = generate(fault).await.unwrap_err();
        assert!(failure.message.contains(words), "{failure}");
        assert_eq!(failure.kind, FailureKind::InvalidRequest);
    }
}

#[tokio::test]
async fn failure_of_keeper_is_named_with_kind() {
    for (kind, shown) in [
        (FailureKind::Unreachable, FailureKind::Unreachable),
        (FailureKind::Unavailable, FailureKind::Unavailable),
        (FailureKind::PermissionDenied, FailureKind::InvalidRequest),
        (FailureKind::NotFound, FailureKind::InvalidRequest),
        (FailureKind::Internal, FailureKind::InvalidRequest),
    ] {
        let failure = generate(Fault::Refusal(kind)).await.unwrap_err();
        assert_eq!(failure.kind, shown);
        assert_eq!(failure.message, "seal \"transit\": the keeper refused");
        assert_eq!(failure.recorded, failure.message);
    }
}
