//! Other servers in memory: arranged answers, and recorded requests.

use super::ambient::SharedPod;
use super::script::Script;
use crate::host::Http;
use crate::http::{POD, Request, Response};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Answers by `METHOD url`, and the requests received.
pub(super) struct TestServers {
    script: Rc<Script>,
    pod: SharedPod,
    answers: RefCell<BTreeMap<String, VecDeque<Response>>>,
    asked: RefCell<Vec<Request>>,
}

impl TestServers {
    pub(super) fn new(script: &Rc<Script>, pod: &SharedPod) -> Self {
        Self {
            script: Rc::clone(script),
            pod: Rc::clone(pod),
            answers: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    /// Arranges a further answer to `METHOD url`.
    pub(super) fn answer(&self, request: &str, answer: Response) {
        self.answers.borrow_mut().entry(request.to_owned()).or_default().push_back(answer);
    }

    /// Returns the requests since the last call.
    pub(super) fn take_requests(&self) -> Vec<Request> {
        self.asked.take()
    }
}

impl TestServers {
    /// Refuses requests that the host would not send with the pod's identity.
    fn check_identity(&self, request: &Request) -> Result<(), Failure> {
        match request.identity.as_deref() {
            None => return Ok(()),
            Some(POD) => {}
            Some(_) => return Err(Failure::invalid("the only identity of a request is pod")),
        }
        let pod = self.pod.borrow();
        let Some(pod) = &*pod else {
            return Err(Failure::new(FailureKind::PreconditionFailed, "this server is not a pod"));
        };
        let cluster = pod.url();
        let rest = request.url.strip_prefix(&cluster).or_else(|| {
            cluster.strip_suffix(":443").and_then(|usual| request.url.strip_prefix(usual))
        });
        match rest {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '?']) => Ok(()),
            _ => Err(Failure::invalid(format!("in the pod's name only {cluster} is asked"))),
        }
    }
}

impl Http for TestServers {
    /// Unreachable if no answer is arranged.
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let target = format!("{} {}", request.method, request.url);
        self.script.step("send", Some(&target), || {
            self.script.spend(|used| used.http_calls += 1)?;
            self.check_identity(request)?;
            self.asked.borrow_mut().push(request.clone());
            let mut arranged = self.answers.borrow_mut();
            let answers = arranged.get_mut(&target);
            let answer = answers.and_then(|answers| match answers.len() {
                0 | 1 => answers.front().cloned(),
                _ => answers.pop_front(),
            });
            let bytes = answer.as_ref().map_or(0, |answer| answer.body.len());
            let sent = request.url.len() + request.body.len();
            self.script.spend(|used| used.http_bytes += sent + bytes)?;
            answer.ok_or_else(|| {
                Failure::new(
                    FailureKind::Unreachable,
                    format!("no answer is arranged for {target}"),
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Pod;
    use crate::testbed::script::StepFate;

    #[test]
    fn http_answers_come_in_order_and_last_repeats() {
        let script = Rc::new(Script::default());
        let servers = TestServers::new(&script, &SharedPod::default());
        for status in [503, 200] {
            servers.answer("GET https://a/x", Response { status, ..Response::default() });
        }
        let status = |request: &Request| servers.send(request).map(|answer| answer.status);
        let request = Request::get("https://a/x").header("x", "1");
        assert_eq!(
            [status(&request), status(&request), status(&request)],
            [Ok(503), Ok(200), Ok(200)]
        );
        assert_eq!(
            status(&Request::post("https://a/x")).unwrap_err().kind,
            FailureKind::Unreachable
        );
        assert!(servers.take_requests()[0] == request);
        assert_eq!(script.take_steps()[3], "send POST https://a/x");
        script.arrange("send", StepFate::Refuse(Failure::new(FailureKind::TimedOut, "slow")));
        assert_eq!(status(&request).unwrap_err().kind, FailureKind::TimedOut);
    }

    #[test]
    fn pod_identity_request_reaches_only_pod_cluster() {
        let pod = SharedPod::default();
        let servers = TestServers::new(&Rc::default(), &pod);
        for url in ["https://10.96.0.1:443/api", "https://10.96.0.1/api", "https://other/api"] {
            servers.answer(&format!("GET {url}"), Response { status: 200, ..Response::default() });
        }
        let send = |url: &str| {
            let answer = servers.send(&Request::get(url).as_pod());
            answer.map(|answer| answer.status).map_err(|why| why.kind)
        };
        assert_eq!(send("https://10.96.0.1/api"), Err(FailureKind::PreconditionFailed));
        let cluster = Pod { host: "10.96.0.1".to_owned(), port: 443, namespace: None };
        *pod.borrow_mut() = Some(cluster);
        assert_eq!(send("https://10.96.0.1:443/api"), Ok(200));
        assert_eq!(send("https://10.96.0.1/api"), Ok(200));
        for elsewhere in
            ["https://other/api", "http://10.96.0.1:443/api", "https://10.96.0.1:4433/"]
        {
            assert_eq!(send(elsewhere), Err(FailureKind::InvalidRequest), "{elsewhere}");
        }
        let other =
            Request { identity: Some("root".to_owned()), ..Request::get("https://other/api") };
        assert_eq!(
            servers.send(&other).err().map(|why| why.kind),
            Some(FailureKind::InvalidRequest)
        );
    }
}
