//! The server dies, or meets an error, in each write of the scheduler's API: afterwards answered
//! records exist, and no role, token or link is incomplete.

use crate::injected::{FaultObserved, InjectedFault};
use crate::points;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest, scheduler_address};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ROLE: &str = "/v1/acl/role";
const TOKEN: &str = "/v1/acl/token";

/// Names that the roles of a life have had.
const NAMES: [&str; 2] = ["dev", "renamed"];

/// A server, and the records known from its answers.
struct SchedulerLife {
    server: Bulkhead,
    management: String,
    /// The last answered record at each path; `None` if it was deleted.
    known: BTreeMap<String, Option<Value>>,
    /// The path of the unanswered write.
    doubtful: Option<String>,
}

impl SchedulerLife {
    /// Starts a server with the environment; `None` if the server died during the start.
    fn begin(environment: &[(&str, String)]) -> Option<Self> {
        let server = Bulkhead::prepared(fault_binary(), Folder::new("scheduler"));
        let (management, known) = (String::new(), BTreeMap::new());
        let mut life = Self { server, management, known, doubtful: None };
        life.start(environment).then_some(life)
    }

    fn start(&mut self, environment: &[(&str, String)]) -> bool {
        let listener = ("BULKHEAD_DEV_SCHEDULER_LISTEN_ADDRESS", "127.0.0.1:0".to_owned());
        let environment: Vec<_> = environment.iter().cloned().chain([listener]).collect();
        self.server.start_with(&environment).is_ok()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Option<PlainAnswer> {
        let mut request = PlainRequest::new(method, path).with_token(&self.management);
        if !body.is_null() {
            request.body = body.to_string().into_bytes();
        }
        request.attempt(scheduler_address(&self.server))
    }

    /// Returns the record at a path of a server without faults; `None` if there is none.
    #[track_caller]
    fn read(&self, path: &str) -> Option<Value> {
        let answer = self.ask("GET", path, &Value::Null).expect("an answer");
        assert!([200, 404].contains(&answer.status), "{path}: {}", answer.text());
        (answer.status == 200).then(|| answer.json())
    }

    /// Sends a write that a fault may hit.
    fn write(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<PlainAnswer, FaultObserved> {
        self.doubtful = Some(path.to_owned());
        let answer = self.ask(method, path, body).filter(|answer| answer.status < 500);
        let answer = answer.ok_or(FaultObserved)?;
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        self.doubtful = None;
        Ok(answer)
    }

    /// Writes a record, and remembers the answer under the record's own path.
    fn save(&mut self, path: &str, id: &str, body: &Value) -> Result<Value, FaultObserved> {
        let record = self.write("PUT", path, body)?.json();
        let own = record[id].as_str().expect("an identifier");
        let kind = if id == "ID" { ROLE } else { TOKEN };
        self.known.insert(format!("{kind}/{own}"), Some(record.clone()));
        Ok(record)
    }

    fn delete(&mut self, path: &str) -> Result<(), FaultObserved> {
        self.write("DELETE", path, &Value::Null)?;
        self.known.insert(path.to_owned(), None);
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), FaultObserved> {
        let token = self.write("PUT", "/v1/acl/bootstrap", &json!({}))?.json();
        self.management = token["SecretID"].as_str().expect("a secret").to_owned();
        let policy = json!({ "Name": "readonly", "Rules": "" });
        self.write("PUT", "/v1/acl/policy/readonly", &policy).map(drop)
    }

    /// Creates, changes and deletes a role and a token that links to the role.
    fn live(&mut self) -> Result<(), FaultObserved> {
        let links = json!([{ "Name": "readonly" }]);
        let role = self.save(ROLE, "ID", &json!({ "Name": NAMES[0], "Policies": links }))?;
        let linked = json!({ "Type": "client", "Name": "ci", "Roles": [{ "ID": role["ID"] }] });
        let token = self.save(TOKEN, "AccessorID", &linked)?;
        let path = format!("{ROLE}/{}", role["ID"].as_str().expect("an identifier"));
        let renamed = json!({ "ID": role["ID"], "Name": NAMES[1], "Policies": links });
        self.save(&path, "ID", &renamed)?;
        self.delete(&path)?;
        let accessor = token["AccessorID"].as_str().expect("an accessor");
        self.delete(&format!("{TOKEN}/{accessor}"))
    }

    /// Restarts the server and checks records, names and tokens.
    fn check(&mut self) {
        assert!(self.start(&[]), "{}", self.server.printed());
        if self.management.is_empty() {
            return;
        }
        self.check_known();
        let roles = self.read("/v1/acl/roles").expect("a list");
        for role in roles.as_array().expect("a list") {
            let (id, name) = (role["ID"].as_str(), role["Name"].as_str());
            let (id, name) = (id.expect("an identifier"), name.expect("a name"));
            assert_eq!(self.read(&format!("{ROLE}/{id}")).as_ref(), Some(role));
            assert_eq!(self.read(&format!("{ROLE}/name/{name}")).as_ref(), Some(role));
        }
        self.check_names();
        self.check_tokens();
    }

    /// Asserts that every answered record exists unchanged.
    fn check_known(&self) {
        let certain = self.known.iter().filter(|(path, _)| self.doubtful.as_ref() != Some(path));
        for (path, record) in certain {
            let found = self.read(path);
            for key in ["Name", "Hash", "CreateIndex", "ModifyIndex"] {
                let of = |record: &Option<Value>| record.as_ref().map(|record| record[key].clone());
                assert_eq!(of(&found), of(record), "{key} of {path}");
            }
        }
    }

    /// Asserts that each name is free or belongs to a role with the same name.
    fn check_names(&self) {
        for name in NAMES {
            match self.read(&format!("{ROLE}/name/{name}")) {
                Some(role) => assert_eq!(role["Name"], name),
                None => {
                    let answer =
                        self.ask("PUT", ROLE, &json!({ "Name": name })).expect("an answer");
                    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
                }
            }
        }
    }

    /// Asserts that each token's secret works and that the token's links lead to roles.
    fn check_tokens(&self) {
        let tokens = self.read("/v1/acl/tokens").expect("a list");
        for token in tokens.as_array().expect("a list") {
            let path = format!("{TOKEN}/{}", token["AccessorID"].as_str().expect("an accessor"));
            let token = self.read(&path).expect("a token that is listed");
            let secret = token["SecretID"].as_str().expect("a secret");
            let own = PlainRequest::new("GET", "/v1/acl/token/self").with_token(secret);
            assert_eq!(own.send(scheduler_address(&self.server)).json(), token);
            for link in token["Roles"].as_array().into_iter().flatten() {
                let role = self.read(&format!("{ROLE}/{}", link["ID"].as_str().expect("a link")));
                assert_eq!(role.expect("a role behind a link")["Name"], link["Name"]);
            }
        }
    }
}

#[test]
fn crash_at_any_failpoint_keeps_scheduler_records_complete() {
    every_point("abort");
}

#[test]
fn error_at_any_failpoint_keeps_scheduler_records_complete() {
    every_point("fail");
}

fn every_point(fault: &str) {
    let first = points::passed_by(fault, |environment| {
        let mut life =
            SchedulerLife::begin(environment).expect("the server starts without a fault");
        assert!(life.prepare().is_ok(), "{}", life.server.printed());
        life
    });
    points::each_behind("scheduler", fault, first, |number| live(fault, number));
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(fault: &str, number: u32) -> bool {
    let fault = InjectedFault::at(fault, number);
    let Some(mut life) = SchedulerLife::begin(&fault.environment()) else { return true };
    let lived = life.prepare().and_then(|()| life.live());
    let came = fault.end(&mut life.server, &lived);
    life.check();
    came
}
