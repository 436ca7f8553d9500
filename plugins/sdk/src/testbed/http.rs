//! Other servers in memory: answers that a test arranges, and requests that it may look at.

use super::script::Script;
use crate::host::Http;
use crate::http::{Request, Response};
use bulkhead_wire::failure::{Failure, Kind};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Answers by `METHOD url`, and what was asked.
pub(super) struct TestServers {
    script: Rc<Script>,
    answers: RefCell<BTreeMap<String, VecDeque<Response>>>,
    asked: RefCell<Vec<Request>>,
}

impl TestServers {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        Self { script: Rc::clone(script), answers: RefCell::default(), asked: RefCell::default() }
    }

    /// Arranges one more answer to `METHOD url`.
    pub(super) fn answer(&self, asked: &str, answer: Response) {
        self.answers.borrow_mut().entry(asked.to_owned()).or_default().push_back(answer);
    }

    /// Requests that were sent since the last look.
    pub(super) fn take_requests(&self) -> Vec<Request> {
        self.asked.take()
    }
}

impl Http for TestServers {
    /// Unreachable where no answer is arranged.
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let asked = format!("{} {}", request.method, request.url);
        self.script.step("send", Some(&asked), || {
            self.asked.borrow_mut().push(request.clone());
            let mut arranged = self.answers.borrow_mut();
            let answers = arranged.get_mut(&asked);
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
    use crate::testbed::script::Fate;

    #[test]
    fn answers_come_in_their_order_and_the_last_one_stays() {
        let script = Rc::new(Script::default());
        let servers = TestServers::new(&script);
        for status in [503, 200] {
            servers.answer("GET https://a/x", Response { status, ..Response::default() });
        }
        let status = |request: &Request| servers.send(request).map(|answer| answer.status);
        let asked = Request::get("https://a/x").header("x", "1");
        assert_eq!([status(&asked), status(&asked), status(&asked)], [Ok(503), Ok(200), Ok(200)]);
        assert_eq!(status(&Request::post("https://a/x")).unwrap_err().kind, Kind::Unreachable);
        assert!(servers.take_requests()[0] == asked);
        assert_eq!(script.take_steps()[3], "send POST https://a/x");
        script.arrange("send", Fate::Refuse(Failure::new(Kind::TimedOut, "slow")));
        assert_eq!(status(&asked).unwrap_err().kind, Kind::TimedOut);
    }
}
