//! The request in which the current task works, for the log.
//!
//! A log line of a request names the request by the id that the answer and the audit lines carry.
//! The id travels with the task instead of through each function: a function in the middle that
//! forgets the id must not lose the id.

use std::sync::Arc;

tokio::task_local! {
    static REQUEST: Arc<str>;
}

/// Runs `work` as part of the request `id`.
pub async fn in_request<F: Future>(id: &str, work: F) -> F::Output {
    REQUEST.scope(id.into(), work).await
}

/// Returns the id of the request in which the current task works; `None` outside of requests.
#[must_use]
pub fn current_request() -> Option<Arc<str>> {
    REQUEST.try_with(Arc::clone).ok()
}

/// Returns `work` as part of the current request, if there is one: for a task of its own.
pub fn of_current_request<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let request = current_request();
    async move {
        match request {
            Some(request) => REQUEST.scope(request, work).await,
            None => work.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_of_request_keep_its_id() {
        assert_eq!(current_request(), None);
        let id = || async { current_request() };
        let (own, bare) = in_request("5e1c", async {
            let own = tokio::spawn(of_current_request(id()));
            let bare = tokio::spawn(id());
            assert_eq!(current_request().as_deref(), Some("5e1c"));
            (own.await.unwrap(), bare.await.unwrap())
        })
        .await;
        assert_eq!(own.as_deref(), Some("5e1c"));
        assert_eq!(bare, None);
        assert_eq!(of_current_request(id()).await, None);
    }
}
