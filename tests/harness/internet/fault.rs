//! Faults that a test injects between a client and a site.

use super::held;
use super::message::{Request, Response};
use std::sync::Mutex;
use std::time::Duration;

/// Bytes of an answer above every client's limit.
const HUGE: usize = 8 << 20;

/// A fault. Except for `Status`, `Redirect` and `Hang`, the site still receives the request and
/// changes its state; only the answer is affected.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status with an error in the provider's form.
    Status(u16),
    /// Like `Status`, with `Retry-After` in seconds.
    RetryAfter(u16, u64),
    /// A redirect with status 302 to this URL.
    Redirect(String),
    Hang,
    /// The site's answer after a delay.
    Delay(Duration),
    /// Half of the site's answer, then the end of the connection.
    Truncate,
    /// The site's status with truncated JSON of a correct length.
    Malform,
    /// The site's status with 8 MiB.
    Huge,
    /// This answer in place of the site's answer.
    Lie(Response),
}

/// The pending faults, by host and path.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<PendingFault>>);

struct PendingFault {
    host: String,
    path: String,
    fault: Fault,
    times: usize,
}

impl Faults {
    pub(crate) fn add(&self, host: &str, path: &str, fault: Fault, times: usize) {
        let expected = PendingFault { host: host.to_owned(), path: path.to_owned(), fault, times };
        held(&self.0).push(expected);
    }

    pub(crate) fn clear(&self) {
        held(&self.0).clear();
    }

    /// Takes the fault that matches `request`.
    pub(crate) fn take(&self, request: &Request) -> Option<Fault> {
        let mut all = held(&self.0);
        let fits = |it: &&mut PendingFault| {
            it.times > 0 && it.host == request.host && request.path.starts_with(&it.path)
        };
        let found = all.iter_mut().find(fits)?;
        found.times -= 1;
        Some(found.fault.clone())
    }
}

/// An answer to be sent.
pub(crate) struct PreparedAnswer {
    pub(crate) response: Response,
    /// Bytes that the length announces and that are not sent.
    pub(crate) missing: usize,
}

impl From<Response> for PreparedAnswer {
    fn from(response: Response) -> Self {
        Self { response, missing: 0 }
    }
}

impl Fault {
    /// Returns the answer under this fault. `site` asks the site.
    pub(crate) async fn answer(self, site: impl FnOnce() -> Response) -> PreparedAnswer {
        match self {
            Self::Status(status) => refused(status).into(),
            Self::RetryAfter(status, seconds) => {
                refused(status).with("retry-after", &seconds.to_string()).into()
            }
            Self::Redirect(url) => Response::empty(302).with("location", &url).into(),
            Self::Hang => std::future::pending().await,
            Self::Delay(time) => {
                let answer = site();
                tokio::time::sleep(time).await;
                answer.into()
            }
            Self::Truncate => {
                let mut response = site();
                let length = response.body.len().max(2);
                response.body.truncate(length / 2);
                PreparedAnswer { missing: length - response.body.len(), response }
            }
            Self::Malform => {
                let mut response = site();
                response.body.truncate(response.body.len() / 2);
                response.body.insert(0, b'{');
                response.into()
            }
            Self::Huge => {
                let mut response = site();
                response.body = vec![b'x'; HUGE];
                response.into()
            }
            Self::Lie(response) => {
                site();
                response.into()
            }
        }
    }
}

/// A refusal of a provider's front end, which never reaches the service.
fn refused(status: u16) -> Response {
    let code = if status == 429 { "TooManyRequests" } else { "InternalError" };
    let error = serde_json::json!({ "error": { "code": code, "message": "try again later" } });
    Response::json(status, &error)
}
