//! The body of a record: bytes that are wiped with their last handle, and the value parsed from the
//! bytes.
//!
//! The cache keeps a record that every request needs, but without this file every request would
//! parse the bytes again. The parsed value lives beside the bytes and is dropped with the bytes, so
//! that no reader has to check whether the value is still current.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use zeroize::Zeroizing;

/// The bytes of a record. Cheap to clone.
#[derive(Clone)]
pub struct RecordBody(Arc<BodyBytes>);

struct BodyBytes {
    bytes: Zeroizing<Vec<u8>>,
    parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl RecordBody {
    /// Creates a body of `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self::from(Zeroizing::new(bytes))
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Returns the value that `parse` makes of the bytes. A value still in memory from an earlier
    /// call is returned without calling `parse`, so `parse` must depend on the bytes alone.
    ///
    /// # Errors
    /// The error of `parse`; the next call parses again.
    pub fn parsed<T, E>(&self, parse: impl FnOnce(&[u8]) -> Result<T, E>) -> Result<Arc<T>, E>
    where
        T: Send + Sync + 'static,
    {
        if let Some(parsed) = self.0.parsed.get()
            && let Ok(value) = Arc::downcast(Arc::clone(parsed))
        {
            return Ok(value);
        }
        let parsed = Arc::new(parse(self)?);
        // The first value stays, even if the type differs.
        let _ = self.0.parsed.set(Arc::clone(&parsed) as Arc<dyn Any + Send + Sync>);
        Ok(parsed)
    }
}

impl From<Zeroizing<Vec<u8>>> for RecordBody {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(Arc::new(BodyBytes { bytes, parsed: OnceLock::new() }))
    }
}

impl Deref for RecordBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::ParseIntError;

    fn number(bytes: &[u8]) -> Result<u64, ParseIntError> {
        str::from_utf8(bytes).unwrap().parse()
    }

    #[test]
    fn a_parsed_record_is_not_parsed_again() {
        let body = RecordBody::new(b"7".to_vec());
        let first = body.parsed(number).unwrap();
        let again = body.clone().parsed(|_| Err::<u64, _>("asked again")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn other_types_and_failures_are_parsed_each_time() {
        let body = RecordBody::new(b"7".to_vec());
        body.parsed(number).unwrap();
        assert_eq!(*body.parsed(|bytes| Ok::<_, ()>(bytes.len())).unwrap(), 1);
        let broken = RecordBody::new(b"x".to_vec());
        broken.parsed(number).unwrap_err();
        broken.parsed(number).unwrap_err();
    }
}
