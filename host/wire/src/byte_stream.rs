//! Bytes of an answer that are made while the answer is sent.

use crate::failure::Failure;
use crate::sync;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// A source of bytes.
pub trait ByteSource: Send {
    /// Returns the next bytes; `None` after the last bytes. A failure means that the rest will
    /// never come: the receiver must not take the bytes so far for the complete answer.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>>;
}

/// Bytes that one receiver reads. Clones share the source: bytes that a clone has read are gone for
/// the others.
#[derive(Clone)]
pub struct ByteStream(Arc<Mutex<dyn ByteSource>>);

impl ByteStream {
    /// Creates a stream of the bytes of `source`. The source is dropped with the last clone.
    pub fn new(source: impl ByteSource + 'static) -> Self {
        Self(Arc::new(Mutex::new(source)))
    }

    /// As [`ByteSource::poll_chunk`].
    pub fn poll_chunk(&self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>> {
        sync::lock(&self.0).poll_chunk(context)
    }
}

impl PartialEq for ByteStream {
    /// Two streams are equal if they share their source.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}
