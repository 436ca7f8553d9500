//! Other servers in memory: answers that a test arranges, and requests that it may look at.

use super::host::TestHost;
use crate::host::Http;
use crate::http::{Request, Response};
use bulkhead_wire::failure::{Failure, Kind};
use std::collections::{BTreeMap, VecDeque};

/// Answers by `METHOD url`, and what was asked.
#[derive(Default)]
pub(super) struct Servers {
    answers: BTreeMap<String, VecDeque<Response>>,
    asked: Vec<Request>,
}

impl TestHost {
    /// Arranges an answer to `METHOD url`, such as `GET https://a.example/x`. Several are given in
    /// their order, and the last one again and again.
    pub fn answer(&self, asked: &str, answer: Response) {
        self.state
            .borrow_mut()
            .servers
            .answers
            .entry(asked.to_owned())
            .or_default()
            .push_back(answer);
    }

    /// Requests that were sent, in order and since the last look.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.borrow_mut().servers.asked)
    }
}

impl Http for TestHost {
    /// Unreachable where no answer is arranged.
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let asked = format!("{} {}", request.method, request.url);
        self.step("send", Some(&asked), |state| {
            state.servers.asked.push(request.clone());
            let answers = state.servers.answers.get_mut(&asked);
            let answer = answers.and_then(|answers| match answers.len() {
                0 | 1 => answers.front().cloned(),
                _ => answers.pop_front(),
            });
            answer.ok_or_else(|| {
                Failure::new(Kind::Unreachable, format!("no answer is arranged for {asked}"))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_their_order_and_the_last_one_stays() {
        let host = TestHost::default();
        for status in [503, 200] {
            host.answer("GET https://a/x", Response { status, ..Response::default() });
        }
        let status = |request: &Request| host.send(request).map(|answer| answer.status);
        let asked = Request::get("https://a/x").header("x", "1");
        assert_eq!([status(&asked), status(&asked), status(&asked)], [Ok(503), Ok(200), Ok(200)]);
        assert_eq!(status(&Request::post("https://a/x")).unwrap_err().kind, Kind::Unreachable);
        assert!(host.requests()[0] == asked);
        assert_eq!(host.steps()[3], "send POST https://a/x");
        host.refuse("send", Failure::new(Kind::TimedOut, "slow"));
        assert_eq!(status(&asked).unwrap_err().kind, Kind::TimedOut);
    }
}
