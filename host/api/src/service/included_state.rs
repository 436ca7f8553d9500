//! The state that an answer includes: changes of other nodes, and states that the request requires.

use bulkhead_core::{Core, lifecycle, required_state};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;

/// Waits until this node includes the changes that other nodes have answered, and the states that
/// the request requires. The states of a request without a token are ignored: a stranger must not
/// make this node read the database more often.
///
/// # Errors
/// As [`required_state::await_states`] and [`lifecycle::catch_up`].
pub(super) async fn catch_up(core: &Core, request: &Request) -> Result<(), Failure> {
    if request.token.is_some() {
        required_state::await_states(core, &request.required_states).await?;
    }
    lifecycle::catch_up(core).await
}

/// Adds the state that an answer includes. Without a state, a client requires nothing of its next
/// answer: an answer to a committed change is not lost because the state is not known.
pub(super) async fn mark(core: &Core, mut response: Response) -> Response {
    response.state = required_state::present_state(core).await.unwrap_or_default();
    response
}
