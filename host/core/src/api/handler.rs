//! The functions that serve the rows of the table: `async fn(Call<'_>) -> Result<Reply, Failure>`,
//! and the two kinds that ask for no token.

use super::call::{Call, PublicCall, SealedCall};
use super::reply::Reply;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use std::pin::Pin;

/// What a handler answers, once it is awaited. On the heap, because the table holds handlers of
/// every size.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// An `async fn` that serves calls of the kind `C`. Never implemented by hand.
pub(crate) trait Handle<'a, C, T>: Send + Sync {
    fn handle(&self, call: C) -> Answer<'a, T>;
}

impl<'a, C, T, Function, Answering> Handle<'a, C, T> for Function
where
    Function: Fn(C) -> Answering + Send + Sync,
    Answering: Future<Output = Result<T, Failure>> + Send + 'a,
{
    fn handle(&self, call: C) -> Answer<'a, T> {
        Box::pin(self(call))
    }
}

/// Serves callers whose policies allow the path.
pub(crate) type Handler = Box<dyn for<'a> Handle<'a, Call<'a>, Reply>>;

/// Serves every caller while the service is open.
pub(crate) type PublicHandler = Box<dyn for<'a> Handle<'a, PublicCall<'a>, Response>>;

/// Serves every caller, while sealed too.
pub(crate) type SealedHandler = Box<dyn for<'a> Handle<'a, SealedCall<'a>, Response>>;
