//! Types of the functions that serve the rows of the table: `async fn(Call<'_>) -> Result<Reply,
//! Failure>`, and two kinds for requests without a token.

use super::call::{PermittedCall, PresentQuestion, PublicCall, SealedCall};
use super::reply::Reply;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value};
use std::pin::Pin;

/// The future of a handler's answer. Boxed, because the table holds handlers of every size.
pub(crate) type HandlerFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// An `async fn` that serves calls of type `C`. Never implemented by hand.
pub(crate) trait AsyncHandler<'a, C, T>: Send + Sync {
    fn handle(&self, call: C) -> HandlerFuture<'a, T>;
}

impl<'a, C, T, Function, Answering> AsyncHandler<'a, C, T> for Function
where
    Function: Fn(C) -> Answering + Send + Sync,
    Answering: Future<Output = Result<T, Failure>> + Send + 'a,
{
    fn handle(&self, call: C) -> HandlerFuture<'a, T> {
        Box::pin(self(call))
    }
}

/// A handler for callers with permission for the path.
pub(crate) type PermittedHandler = Box<dyn for<'a> AsyncHandler<'a, PermittedCall<'a>, Reply>>;

/// A function that reads the values of an object before a change, by the names of the fields.
pub(crate) type PresentReader =
    Box<dyn for<'a> AsyncHandler<'a, PresentQuestion<'a>, Map<String, Value>>>;

/// A handler for every caller while the service is open.
pub(crate) type PublicHandler = Box<dyn for<'a> AsyncHandler<'a, PublicCall<'a>, Response>>;

/// A handler for every caller, also while sealed.
pub(crate) type SealedHandler = Box<dyn for<'a> AsyncHandler<'a, SealedCall<'a>, Response>>;
