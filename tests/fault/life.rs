//! The life of an API: one connection with roles, and credentials that are renewed, revoked or left
//! to expire.
//!
//! The model records each call twice: before the call as a possible change, and after the answer as
//! the change that the answer reports. So the model is right whenever the server dies.

use crate::model::{Credential, Model, RevocationState};
use crate::stage::{SOON, postgres, users};
use bulkhead_tests::leaks::CANARY;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A creation of two roles: the end of a lease ends both.
const CREATION: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL \
                        '{{expiration}}' IN ROLE readers; CREATE ROLE \"{{name}}-second\"";

/// End of the name of the second role.
pub const SECOND: &str = "-second";

/// Interval between two looks at the database, each of which starts a program.
const LOOK: Duration = Duration::from_millis(100);

/// Longest wait for the end of a lease before the life sends another write.
const A_WHILE: Duration = Duration::from_secs(4);

/// Attempts per call: a client retries a 5xx.
const TRIES: u32 = 2;

/// Reason for an early end of a life.
#[derive(Debug)]
pub enum EarlyEnd {
    /// The server gave no complete answer.
    Broken(String),
    /// [`Trouble`] ended the life.
    Enough,
}

/// Called at each 5xx answer, before the retry.
type Trouble<'a> = Box<dyn FnMut(&Answer) -> Result<(), EarlyEnd> + 'a>;

pub struct Life<'a> {
    name: String,
    server: &'a mut Bulkhead,
    root: Client,
    model: Model,
    troubled: bool,
    trouble: Trouble<'a>,
    disk_log: Option<PathBuf>,
    history: Vec<(u64, Model)>,
    answered_at: u64,
}

impl<'a> Life<'a> {
    /// A life whose objects and users contain `name`: a few letters and digits, unique in this
    /// program.
    pub fn new(name: &str, server: &'a mut Bulkhead) -> Self {
        let root = server.root();
        Self {
            name: name.to_owned(),
            server,
            root,
            model: Model::default(),
            troubled: false,
            trouble: Box::new(|_| Ok(())),
            disk_log: None,
            history: Vec::new(),
            answered_at: 0,
        }
    }

    /// Calls `trouble` at each 5xx answer.
    pub fn in_trouble(mut self, trouble: impl FnMut(&Answer) -> Result<(), EarlyEnd> + 'a) -> Self {
        self.trouble = Box::new(trouble);
        self
    }

    /// Records the length of the disk's log at each answer.
    pub fn on_disk(mut self, log: PathBuf) -> Self {
        self.disk_log = Some(log);
        self
    }

    /// Returns true if an answer was 5xx.
    pub fn was_troubled(&self) -> bool {
        self.troubled
    }

    /// Runs the whole life.
    ///
    /// # Errors
    /// The reason for an early end. The model is right then, too.
    pub fn run(&mut self) -> Result<(), EarlyEnd> {
        self.configure()?;
        let (Some(first), Some(second)) = (self.token()?, self.token()?) else { return Ok(()) };
        let brief = self.credential("b", &first)?;
        let renewed = self.credential("k", &first)?;
        let revoked = self.credential("k", &first)?;
        let taken_along = self.credential("k", &second)?;
        self.renew(renewed.as_ref())?;
        self.revoke(revoked.as_ref())?;
        self.change_configuration()?;
        self.end_token(&second)?;
        self.read_back()?;
        self.see_out(brief.as_ref())?;
        self.see_out(taken_along.as_ref())
    }

    /// Sends more writes to the restarted server.
    ///
    /// # Errors
    /// As [`Life::run`].
    pub fn go_on(&mut self) -> Result<(), EarlyEnd> {
        self.root = self.server.root();
        self.role("k", 10_800)?;
        self.role("late", 60)?;
        let Some(token) = self.token()? else { return Ok(()) };
        let keyed = self.credential("k", &token)?;
        self.renew(keyed.as_ref())?;
        self.read_back()
    }

    pub fn server(&mut self) -> &mut Bulkhead {
        self.server
    }

    /// Returns the model at the end of the life.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// Returns the models of this life, each with the length of the disk's log from which it holds.
    pub fn history(mut self) -> Vec<(u64, Model)> {
        self.history.push((self.answered_at, self.model));
        self.history
    }

    fn configure(&mut self) -> Result<(), EarlyEnd> {
        self.connection(&json!({ "allowed_roles": ["*"] }))?;
        for (role, seconds) in [("b", 1), ("k", 3600), ("gone", 60)] {
            self.role(role, seconds)?;
        }
        let name = self.name.clone();
        let policy = format!("path \"database/creds/{name}*\" {{ capabilities = [\"read\"] }}");
        self.write(
            &format!("sys/policies/acl/{name}"),
            &json!({ "policy": policy }),
            &json!({ "policy": policy }),
        )
    }

    fn change_configuration(&mut self) -> Result<(), EarlyEnd> {
        self.role("k", 7200)?;
        let allowed = [format!("{}b", self.name), format!("{}k", self.name)];
        self.connection(&json!({ "allowed_roles": allowed }))?;
        self.delete(&format!("database/roles/{}gone", self.name))
    }

    fn connection(&mut self, shown: &Value) -> Result<(), EarlyEnd> {
        let body = json!({
            "plugin_name": "postgresql-database-plugin",
            "connection_url": postgres().url(),
            "username": "bulkhead",
            "password": CANARY,
            "allowed_roles": shown["allowed_roles"],
        });
        self.write(&format!("database/config/{}", self.name), &body, shown)
    }

    fn role(&mut self, role: &str, seconds: u64) -> Result<(), EarlyEnd> {
        let body = json!({
            "db_name": self.name, "creation_statements": [CREATION], "default_ttl": seconds,
        });
        self.write(&format!("database/roles/{}{role}", self.name), &body, &body)
    }

    fn write(&mut self, path: &str, body: &Value, shown: &Value) -> Result<(), EarlyEnd> {
        let bytes = body.to_string();
        let call = SentCall { method: "POST", path, body: bytes.as_bytes(), token: None };
        let value = || Some(shown.clone());
        self.call(
            &call,
            |model| model.may_write(path, value()),
            |model, _, _| model.wrote(path, value()),
        )?;
        Ok(())
    }

    fn delete(&mut self, path: &str) -> Result<(), EarlyEnd> {
        let call = SentCall { method: "DELETE", path, body: b"", token: None };
        self.call(
            &call,
            |model| model.may_write(path, None),
            |model, _, _| model.wrote(path, None),
        )?;
        Ok(())
    }

    fn token(&mut self) -> Result<Option<String>, EarlyEnd> {
        let body =
            json!({ "policies": [self.name], "no_default_policy": true, "ttl": "1h" }).to_string();
        let call = SentCall {
            method: "POST",
            path: "auth/token/create",
            body: body.as_bytes(),
            token: None,
        };
        let token_in = |answer: &Answer| {
            answer.body["auth"]["client_token"].as_str().unwrap_or_default().to_owned()
        };
        let answer = self.call(
            &call,
            |_| (),
            |model, _, answer| model.token(&token_in(answer), RevocationState::No),
        )?;
        Ok(answer.as_ref().map(token_in))
    }

    fn credential(&mut self, role: &str, token: &str) -> Result<Option<Credential>, EarlyEnd> {
        let path = format!("database/creds/{}{role}", self.name);
        let call = SentCall { method: "GET", path: &path, body: b"", token: Some(token) };
        let credential_in = |answer: &Answer, sent: Instant| {
            let left =
                Duration::from_secs(answer.body["lease_duration"].as_u64().unwrap_or_default());
            Credential {
                username: answer.text("username").to_owned(),
                password: answer.text("password").to_owned(),
                lease: answer.lease().to_owned(),
                token: token.to_owned(),
                end: (sent + left, Instant::now() + left),
                revoked: RevocationState::No,
            }
        };
        let sent = Instant::now();
        let perhaps = |model: &mut Model| model.unanswered += 1;
        let surely =
            |model: &mut Model, sent, answer: &Answer| model.granted(credential_in(answer, sent));
        Ok(self.call(&call, perhaps, surely)?.map(|answer| credential_in(&answer, sent)))
    }

    fn renew(&mut self, credential: Option<&Credential>) -> Result<(), EarlyEnd> {
        let Some(lease) = credential.map(|credential| credential.lease.as_str()) else {
            return Ok(());
        };
        let increment = Duration::from_secs(7200);
        let body = json!({ "lease_id": lease, "increment": increment.as_secs() }).to_string();
        let call = SentCall {
            method: "POST",
            path: "sys/leases/renew",
            body: body.as_bytes(),
            token: None,
        };
        let surely = |model: &mut Model, sent, answer: &Answer| {
            let left =
                Duration::from_secs(answer.body["lease_duration"].as_u64().unwrap_or_default());
            model.renewed(lease, sent, left);
        };
        self.call(&call, |model| model.may_renew(lease, increment), surely)?;
        Ok(())
    }

    fn revoke(&mut self, credential: Option<&Credential>) -> Result<(), EarlyEnd> {
        let Some(lease) = credential.map(|credential| credential.lease.as_str()) else {
            return Ok(());
        };
        let body = json!({ "lease_id": lease }).to_string();
        let call = SentCall {
            method: "POST",
            path: "sys/leases/revoke",
            body: body.as_bytes(),
            token: None,
        };
        let ended = |ended| move |model: &mut Model| model.revoke(lease, ended);
        self.call(&call, ended(RevocationState::Perhaps), |model, _, _| {
            ended(RevocationState::Yes)(model)
        })?;
        Ok(())
    }

    fn end_token(&mut self, token: &str) -> Result<(), EarlyEnd> {
        let body = json!({ "token": token }).to_string();
        let call = SentCall {
            method: "POST",
            path: "auth/token/revoke",
            body: body.as_bytes(),
            token: None,
        };
        let ended = |ended| move |model: &mut Model| model.token(token, ended);
        self.call(&call, ended(RevocationState::Perhaps), |model, _, _| {
            ended(RevocationState::Yes)(model)
        })?;
        Ok(())
    }

    /// Reads every object. A server in trouble may refuse a read, but must not return a value that
    /// was never written.
    fn read_back(&mut self) -> Result<(), EarlyEnd> {
        let paths: Vec<String> = self.model.registers().map(|(path, _)| path.clone()).collect();
        for path in &paths {
            let answer = self.root.attempt("GET", path, b"").map_err(EarlyEnd::Broken)?;
            if answer.status >= 500 {
                self.troubled = true;
                (self.trouble)(&answer)?;
                continue;
            }
            let seen = (answer.status != 404).then_some(&answer.body["data"]);
            let (_, register) = self
                .model
                .registers()
                .find(|(known, _)| *known == path)
                .expect("the path is in the model");
            assert!(
                register.admits(seen),
                "I1: {path} is {seen:?}, possible were {}",
                register.possible()
            );
        }
        Ok(())
    }

    /// Waits until the user is gone because its lease expired.
    ///
    /// The fault may have hit due work, which reports to no caller. A write now and then meets the
    /// same trouble and reports it.
    fn see_out(&mut self, credential: Option<&Credential>) -> Result<(), EarlyEnd> {
        let Some(Credential { username, .. }) = credential else { return Ok(()) };
        let mut last_write = Instant::now();
        let began = last_write;
        while users(&self.name).contains(username) {
            if self.server.ended(LOOK).is_some() {
                return Err(EarlyEnd::Broken("the server ended".to_owned()));
            }
            assert!(began.elapsed() < SOON, "waited in vain: a user goes when its lease ends");
            if last_write.elapsed() > A_WHILE {
                self.role("k", 7200)?;
                last_write = Instant::now();
            }
        }
        Ok(())
    }

    /// Sends a call, and retries a 5xx. `None`: the call had no effect, or its outcome is unknown.
    fn call(
        &mut self,
        asked: &SentCall<'_>,
        perhaps: impl Fn(&mut Model),
        surely: impl Fn(&mut Model, Instant, &Answer),
    ) -> Result<Option<Answer>, EarlyEnd> {
        let client =
            asked.token.map_or_else(|| self.root.clone(), |token| self.server.client(Some(token)));
        for _ in 0..TRIES {
            let before = self.model.clone();
            perhaps(&mut self.model);
            self.history.push((self.answered_at, self.model.clone()));
            let sent = Instant::now();
            let answer =
                client.attempt(asked.method, asked.path, asked.body).map_err(EarlyEnd::Broken)?;
            self.answered_at = self.disk_log.as_ref().map_or(0, length);
            match answer.status {
                200..300 => {
                    self.model = before;
                    surely(&mut self.model, sent, &answer);
                    return Ok(Some(answer));
                }
                300..500 => {
                    assert!(self.troubled, "refused although nothing had failed: {answer:?}");
                    self.model = before;
                    return Ok(None);
                }
                _ => {
                    self.troubled = true;
                    (self.trouble)(&answer)?;
                }
            }
        }
        Ok(None)
    }
}

/// A request; without a `token`, the root token sends it.
struct SentCall<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a [u8],
    token: Option<&'a str>,
}

fn length(log: &PathBuf) -> u64 {
    std::fs::metadata(log).expect("the disk keeps its log").len()
}
