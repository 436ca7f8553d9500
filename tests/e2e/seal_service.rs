//! Services that keep the key of a seal: the tests that all of them share. The service opens the
//! data, is lost, is dead or slow, and answers nonsense, which is named in the log and changes
//! nothing.

use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::key_service::{KeyService, ServiceState};
use bulkhead_tests::operators::{Operators, seal_status};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::sealed_server::{PATIENCE, SHAMIR, SealedServer, migrate, write_policy};
use bulkhead_tests::{Answer, wait};
use serde_json::{Value, json};
use std::fs;
use std::ops::DerefMut;
use std::time::Duration;

/// A server that can be killed, and whose answers can fail.
pub(crate) trait FaultyServer {
    fn kill(&mut self);
    fn start_again(&mut self);
    fn fail(&self, path: &str, fault: Fault, times: usize);
    fn heal(&self);
    fn authority(&self) -> &str;
}

impl<S: ServiceState> FaultyServer for KeyService<S> {
    fn kill(&mut self) {
        self.kill();
    }

    fn start_again(&mut self) {
        self.start_again();
    }

    fn fail(&self, path: &str, fault: Fault, times: usize) {
        self.fail(path, fault, times);
    }

    fn heal(&self) {
        self.heal();
    }

    fn authority(&self) -> &str {
        self.authority()
    }
}

/// A service with a key that opens the data.
pub(crate) trait KeyKeeper: DerefMut<Target: FaultyServer + Sized> + Sized {
    /// The word behind `seal`.
    const KIND: &'static str;
    /// Paths of the requests that open the data.
    const OPENING_PATHS: &'static [&'static str];
    type Credentials;

    /// Starts a service over plain HTTP.
    fn start() -> Self;

    /// Returns new credentials with all rights.
    fn issue(&self) -> Self::Credentials;

    /// Writes the credentials into their files, and returns the block of the seal.
    fn block(&self, folder: &Folder, credentials: &Self::Credentials, more: &str) -> String;

    /// Returns texts that no output may show.
    fn secrets(credentials: &Self::Credentials) -> Vec<String>;

    /// Loses the key that wrapped the seal key.
    fn lose_key(&self);

    /// Makes another key, or another version of the key, the one that encrypts.
    fn replace_key(&mut self);
}

/// A service, and a server that the service opens.
pub(crate) struct ServiceSeal<K: KeyKeeper> {
    pub(crate) service: K,
    pub(crate) sealed: SealedServer,
    pub(crate) credentials: K::Credentials,
}

impl<K: KeyKeeper> ServiceSeal<K> {
    /// Starts a server on empty data.
    pub(crate) fn uninitialised() -> Self {
        let service = K::start();
        let credentials = service.issue();
        Self::on(service, credentials)
    }

    /// Starts a server on empty data, with a service that runs.
    pub(crate) fn on(service: K, credentials: K::Credentials) -> Self {
        let sealed = SealedServer::start(|folder| service.block(folder, &credentials, ""));
        Self { service, sealed, credentials }
    }

    /// Initialises with two of three recovery keys, and writes the policy of the tests.
    pub(crate) fn initialised() -> (Self, Operators) {
        let seal = Self::uninitialised();
        let operators = seal.sealed.initialise(3, 2);
        write_policy(&operators.root(&seal.sealed.server));
        (seal, operators)
    }

    /// Writes the credentials, and returns the block of the seal.
    pub(crate) fn block(&self) -> String {
        self.block_with("")
    }

    /// As [`ServiceSeal::block`], with more lines.
    pub(crate) fn block_with(&self, more: &str) -> String {
        self.service.block(&self.sealed.folder, &self.credentials, more)
    }

    /// Kills the server, starts it again, and waits until it is open.
    #[track_caller]
    pub(crate) fn reopen(&mut self, operators: &Operators) {
        self.sealed.kill_and_start();
        self.sealed.wait_until_open(operators);
    }

    /// Starts the server again, and asserts that the log names the cause of the refusal.
    #[track_caller]
    pub(crate) fn assert_refused(&mut self, cause: &str) {
        let before = self.sealed.kill_and_start();
        let is_named = || {
            let printed = self.sealed.server.printed()[before..].to_owned();
            printed.lines().any(|line| line.contains(REFUSED) && line.contains(cause))
        };
        wait::until_true(&format!("{REFUSED} with {cause:?}"), PATIENCE, is_named);
        self.sealed.assert_sealed(K::KIND);
        self.assert_silent();
    }

    /// Asserts that no output shows a secret.
    #[track_caller]
    pub(crate) fn assert_silent(&self) {
        for secret in K::secrets(&self.credentials) {
            self.sealed.server.assert_silent(&secret);
        }
    }

    /// Asserts that the server opens after its initialisation, a kill and a stop.
    #[track_caller]
    pub(crate) fn assert_opens_after_init_and_stop(&mut self) {
        let status = seal_status(&self.sealed.server);
        assert_eq!((&status["type"], &status["initialized"]), (&json!(K::KIND), &json!(false)));
        let operators = self.sealed.initialise(3, 2);
        write_policy(&operators.root(&self.sealed.server));
        self.sealed.assert_open(&operators);
        self.reopen(&operators);
        let same = self.block();
        self.sealed.restart(&same);
        self.sealed.wait_until_open(&operators);
        for secret in operators.keys.iter().chain([&operators.token]) {
            self.sealed.server.assert_silent(secret);
        }
        self.assert_silent();
    }

    /// Asserts that a service over TLS opens the data only if its authority is trusted. Returns the
    /// line that trusts the authority.
    #[track_caller]
    pub(crate) fn assert_opens_over_tls(&mut self) -> (String, Operators) {
        let refused = self.try_init();
        assert!(matches!(refused.status, 400 | 502), "no authority is trusted: {refused:?}");
        let ca = self.sealed.folder.path().join("ca.pem");
        fs::write(&ca, self.service.authority()).expect("a file can be written");
        let ca = format!("  tls_ca_cert = {ca:?}\n");
        let trusted = self.block_with(&ca);
        self.sealed.restart(&trusted);
        let operators = self.sealed.initialise(1, 1);
        write_policy(&operators.root(&self.sealed.server));
        self.sealed.restart(&trusted);
        self.sealed.wait_until_open(&operators);
        self.assert_silent();
        (ca, operators)
    }

    /// Asserts that the recovery keys open the data of a lost key, with this cause in the log, and
    /// that the data migrate to another key of the service.
    #[track_caller]
    pub(crate) fn assert_left_to_recovery_keys(&mut self, operators: &Operators, cause: &str) {
        self.service.lose_key();
        self.assert_refused(cause);
        self.sealed.restart(SHAMIR);
        assert_eq!(seal_status(&self.sealed.server)["migration"], true);
        for key in &operators.keys[1..] {
            migrate(&self.sealed.server, key).expect(200);
        }
        self.sealed.assert_open(operators);
        self.service.replace_key();
        let back = self.block();
        self.sealed.restart(&back);
        for key in &operators.keys[1..] {
            migrate(&self.sealed.server, key).expect(200);
        }
        assert_eq!(seal_status(&self.sealed.server)["type"], K::KIND);
        self.reopen(operators);
    }

    /// Asserts that the server waits for a dead, a slow and a hanging service.
    #[track_caller]
    pub(crate) fn assert_waits_until_service_returns(&mut self, operators: &Operators) {
        self.service.kill();
        self.assert_awaits();
        self.service.start_again();
        self.sealed.wait_until_open(operators);
        self.service.fail("/", Fault::Delay(Duration::from_secs(1)), 2);
        self.reopen(operators);
        for path in K::OPENING_PATHS {
            self.service.fail(path, Fault::Hang, usize::MAX);
            self.assert_awaits();
            self.service.heal();
            self.sealed.wait_until_open(operators);
        }
    }

    #[track_caller]
    fn assert_awaits(&mut self) {
        let before = self.sealed.kill_and_start();
        self.sealed.server.wait_for_print_after(before, AWAITED);
        self.sealed.assert_sealed(K::KIND);
    }

    /// Sends an initialisation.
    fn try_init(&self) -> Answer {
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        self.sealed.nobody().write("sys/init", &body)
    }

    /// Asserts that an initialisation is refused and changes nothing.
    #[track_caller]
    pub(crate) fn assert_init_refused(&self) {
        let refused = self.try_init();
        assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
        assert_eq!(seal_status(&self.sealed.server)["initialized"], false);
    }

    /// Asserts that initialisations under these faults of a path, and of a dead service, change
    /// nothing.
    #[track_caller]
    pub(crate) fn assert_faults_refuse_init<const N: usize>(&mut self, faults: [(&str, Fault); N]) {
        for (path, fault) in faults {
            self.service.fail(path, fault, usize::MAX);
            self.assert_init_refused();
            self.service.heal();
        }
        self.service.kill();
        self.assert_init_refused();
        self.service.start_again();
        let operators = self.sealed.initialise(1, 1);
        write_policy(&operators.root(&self.sealed.server));
        self.sealed.assert_open(&operators);
        self.assert_silent();
    }
}

/// Returns the fault of an answer 200 with this body.
pub(crate) fn lie(body: &Value) -> Fault {
    Fault::Lie(Response::json(200, body))
}

/// Returns the fault of a page in place of an answer.
pub(crate) fn html() -> Fault {
    let page = Response::text(200, "<html>Please log in</html>");
    Fault::Lie(page.with("content-type", "text/html"))
}

/// Returns answers that no endpoint for access tokens gives.
pub(crate) fn wrong_tokens() -> Vec<WrongAnswer> {
    let empty = lie(&json!({ "access_token": "" }));
    let line = lie(&json!({ "access_token": "a\r\nx-injected: 1" }));
    [
        ("a page of a proxy", html(), AWAITED, "without an access token"),
        ("an empty token", empty, AWAITED, "without an access token"),
        ("a token with a line", line, AWAITED, "without an access token"),
        ("an invented token", lie(&json!({ "access_token": "a" })), REFUSED, "refuses the access"),
        ("a fault", Fault::Status(503), AWAITED, "no access token at present"),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/".into()), AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

/// A wrong answer to a request for decryption, and the expected line of the log.
pub(crate) struct WrongAnswer {
    pub(crate) name: &'static str,
    pub(crate) fault: Fault,
    pub(crate) event: &'static str,
    /// Words of the cause.
    pub(crate) cause: &'static str,
}

/// Events of failures that may pass, and of failures that last.
pub(crate) const AWAITED: &str = "seal-key-awaited";
pub(crate) const REFUSED: &str = "not-unsealed";

/// Starts the server of this kind of seal under each wrong answer, and asserts that a line of the
/// log has the cause. `fail` makes every decryption fail, `heal` ends the faults.
pub(crate) fn assert_each_named(
    (sealed, kind): (&mut SealedServer, &str),
    answers: Vec<WrongAnswer>,
    fail: &dyn Fn(Fault),
    heal: &dyn Fn(),
) {
    for WrongAnswer { name, fault, event, cause } in answers {
        fail(fault);
        let before = sealed.kill_and_start();
        let lines = |event: &str| -> Vec<String> {
            let printed = sealed.server.printed()[before..].to_owned();
            // The last line may be incomplete.
            let complete = printed.rsplit_once('\n').map_or("", |(complete, _)| complete);
            complete.lines().filter(|line| line.contains(event)).map(str::to_owned).collect()
        };
        let is_named = || lines(event).iter().any(|line| line.contains(cause));
        wait::until_true(&format!("{name}: {event} with {cause:?}"), PATIENCE, is_named);
        sealed.assert_sealed(kind);
        let lines = lines("cause=");
        assert!(!lines.is_empty(), "{name}: no line has a cause");
        assert!(lines.iter().all(|line| line.len() < 1_000), "{name}: {lines:?}");
        heal();
    }
}
