//! What a record holds: bytes that are wiped with their last handle, and what they were parsed to.
//!
//! A record that every request needs is kept by the cache, and would be parsed by every request;
//! here the result stands beside the bytes and goes with them, so that no reader has to find out
//! whether it is still theirs.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use zeroize::Zeroizing;

/// The bytes of a record. Cheap to clone.
#[derive(Clone)]
pub struct Body(Arc<Shared>);

struct Shared {
    bytes: Zeroizing<Vec<u8>>,
    parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Body {
    /// Takes the bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self::from(Zeroizing::new(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0.bytes
    }

    /// What `parse` makes of the bytes. Where they are still in memory from the last time it is not
    /// asked again: it is to be a function of the bytes alone.
    ///
    /// # Errors
    /// Those of `parse`, which is asked again the next time.
    pub fn parsed<T, E>(&self, parse: impl FnOnce(&[u8]) -> Result<T, E>) -> Result<Arc<T>, E>
    where
        T: Send + Sync + 'static,
    {
        if let Some(parsed) = self.0.parsed.get()
            && let Ok(known) = Arc::downcast(Arc::clone(parsed))
        {
            return Ok(known);
        }
        let parsed = Arc::new(parse(self)?);
        // What was kept first stays, also where it has another type.
        let _ = self.0.parsed.set(Arc::clone(&parsed) as Arc<dyn Any + Send + Sync>);
        Ok(parsed)
    }
}

impl From<Zeroizing<Vec<u8>>> for Body {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(Arc::new(Shared { bytes, parsed: OnceLock::new() }))
    }
}

impl Deref for Body {
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
    fn what_was_parsed_once_is_not_parsed_again() {
        let body = Body::new(b"7".to_vec());
        let first = body.parsed(number).unwrap();
        let again = body.clone().parsed(|_| Err::<u64, _>("asked again")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn another_type_is_parsed_each_time_and_a_failure_is_not_kept() {
        let body = Body::new(b"7".to_vec());
        body.parsed(number).unwrap();
        assert_eq!(*body.parsed(|bytes| Ok::<_, ()>(bytes.len())).unwrap(), 1);
        let broken = Body::new(b"x".to_vec());
        broken.parsed(number).unwrap_err();
        broken.parsed(number).unwrap_err();
    }
}
