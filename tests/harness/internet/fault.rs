//! What a test lets go wrong between a site and who asks it.

use super::held;
use super::message::{Request, Response};
use std::sync::Mutex;
use std::time::Duration;

/// Bytes of an answer that no client wants whole.
const HUGE: usize = 8 << 20;

/// What goes wrong. The site is asked in any case but for `Status`, `Redirect` and `Hang`: what it
/// changes is changed, and only its answer suffers.
#[derive(Clone, Debug)]
pub enum Fault {
    /// That status with a body of the provider's own kind of error, and nothing is asked of the
    /// site.
    Status(u16),
    /// The same with `Retry-After`, in seconds.
    RetryAfter(u16, u64),
    /// To that URL, with 302.
    Redirect(String),
    /// No answer.
    Hang,
    /// The site's answer, later.
    Delay(Duration),
    /// Half of the site's answer, and the end of the connection.
    Truncate,
    /// The site's status, and JSON that ends halfway, of a length that is right.
    Malform,
    /// The site's status, and 8 MiB.
    Huge,
    /// That very answer in place of the site's.
    Lie(Response),
}

/// The faults to come, by host and path.
#[derive(Default)]
pub(super) struct Faults(Mutex<Vec<Expected>>);

struct Expected {
    host: String,
    path: String,
    fault: Fault,
    times: usize,
}

impl Faults {
    pub(super) fn add(&self, host: &str, path: &str, fault: Fault, times: usize) {
        let expected = Expected { host: host.to_owned(), path: path.to_owned(), fault, times };
        held(&self.0).push(expected);
    }

    pub(super) fn clear(&self) {
        held(&self.0).clear();
    }

    /// The fault that `request` meets.
    pub(super) fn take(&self, request: &Request) -> Option<Fault> {
        let mut all = held(&self.0);
        let fits = |it: &&mut Expected| {
            it.times > 0 && it.host == request.host && request.path.starts_with(&it.path)
        };
        let found = all.iter_mut().find(fits)?;
        found.times -= 1;
        Some(found.fault.clone())
    }
}

/// An answer on its way out.
pub(super) struct Sent {
    pub(super) response: Response,
    /// How many bytes are claimed to follow those that do.
    pub(super) missing: usize,
}

impl From<Response> for Sent {
    fn from(response: Response) -> Self {
        Self { response, missing: 0 }
    }
}

impl Fault {
    /// The answer to `request` under this fault. `site` asks for the true one.
    pub(super) async fn answer(self, site: impl FnOnce() -> Response) -> Sent {
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
                let whole = response.body.len().max(2);
                response.body.truncate(whole / 2);
                Sent { missing: whole - response.body.len(), response }
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

/// As a provider's front end refuses, before the service behind it is asked.
fn refused(status: u16) -> Response {
    let code = if status == 429 { "TooManyRequests" } else { "InternalError" };
    let error = serde_json::json!({ "error": { "code": code, "message": "try again later" } });
    Response::json(status, &error)
}
