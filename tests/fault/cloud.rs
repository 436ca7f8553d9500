//! The server dies, or meets an error, at each failpoint of a rotation of its own cloud credential:
//! afterwards the provider has exactly one credential of the mount, and this credential works.
//!
//! A rotation has two halves. The first half creates a credential. The second half, minutes later,
//! puts the new credential in force and deletes the old credential. Each half has separate
//! faults; the tests set the clock ahead instead of waiting (`clock.rs` of the harness).
//! `cuts/cloud.rs` cuts the connections to the provider in the same lives.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use crate::stage::SOON;
use bulkhead_tests::cloud_a::{self, CloudA, Machine};
use bulkhead_tests::cloud_b::{self, CloudB};
use bulkhead_tests::internet::Online;
use bulkhead_tests::paths::fault_binary;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Clock, Internet};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clock offset at which the second half is due, and offset at which the rotation is over.
pub const DUE: Duration = Duration::from_secs(300);
const OVER: Duration = Duration::from_secs(1_500);
/// Longest wait for the second half before the tests look at the server.
const A_WHILE: Duration = Duration::from_secs(10);
/// Longest wait for work that is due at a start, before the clock is set ahead again.
const A_MOMENT: Duration = Duration::from_secs(5);

/// The service account of the mount at Google, and the account that logs in.
const OWN: &str = "bulkhead@home.iam.gserviceaccount.com";
const APP: &str = "app@p1.iam.gserviceaccount.com";

/// A simulated provider with the configuration of the mount at `auth/cloud`.
pub trait Provider: Sync + Sized {
    /// The type of the mount, and the path of its rotation.
    const TYPE: &'static str;
    const ROTATE: &'static str;
    /// Time in which the server stores the second half after [`Provider::has_finished`].
    const STORING: Duration;

    fn on(internet: &Internet) -> Self;
    fn config(&self) -> Value;
    fn role(&self) -> Value;
    /// A login that succeeds only if the mount can call the provider with its own credential. The
    /// server's clock is ahead by `later`.
    fn login(&self, later: Duration) -> Value;
    /// The names of the mount's credentials at the provider.
    fn credentials(&self) -> Vec<String>;
    /// Returns true if the second half of a rotation is over, so that the start with this log
    /// leaves no more credentials to await.
    fn has_finished(&self, log: &str) -> bool;
}

pub struct Azure {
    cloud: Arc<CloudA>,
    application: cloud_a::Application,
    machine: Machine,
}

impl Provider for Azure {
    const TYPE: &'static str = "azure";
    const ROTATE: &'static str = "auth/cloud/rotate-root";
    const STORING: Duration = Duration::from_millis(500);

    fn on(internet: &Internet) -> Self {
        let cloud = CloudA::on(internet);
        let (application, machine) = (cloud.application(), cloud.add(Machine::vm("apps", "vm1")));
        Self { cloud, application, machine }
    }

    fn config(&self) -> Value {
        json!({
            "tenant_id": cloud_a::TENANT, "resource": cloud_a::AUDIENCE,
            "client_id": self.application.client_id, "client_secret": self.application.secret,
            "max_retries": 0,
        })
    }

    fn role(&self) -> Value {
        json!({ "bound_locations": "westus2" })
    }

    fn login(&self, _: Duration) -> Value {
        json!({ "role": "app", "jwt": self.cloud.token(&self.cloud.claims(&self.machine)) })
    }

    fn credentials(&self) -> Vec<String> {
        let secrets = self.cloud.secrets(&self.application.client_id);
        secrets.into_iter().map(|(name, _)| name).collect()
    }

    fn has_finished(&self, _: &str) -> bool {
        self.credentials().len() == 1
    }
}

pub struct Google {
    cloud: Arc<CloudB>,
    key: String,
}

impl Provider for Google {
    const TYPE: &'static str = "gcp";
    const ROTATE: &'static str = "auth/cloud/config/rotate-root";
    /// Long enough for a second attempt after an error.
    const STORING: Duration = Duration::from_secs(2);

    fn on(internet: &Internet) -> Self {
        let cloud = CloudB::on(internet);
        cloud.account("bulkhead", "home");
        cloud.account("app", "p1");
        let key = cloud.credentials(OWN);
        Self { cloud, key }
    }

    fn config(&self) -> Value {
        json!({ "credentials": self.key })
    }

    fn role(&self) -> Value {
        json!({ "type": "iam", "bound_service_accounts": APP })
    }

    fn login(&self, later: Duration) -> Value {
        let end = cloud_b::now() + later.as_secs() + 600;
        let claims = json!({ "sub": APP, "aud": "vault/app", "exp": end });
        json!({ "role": "app", "jwt": self.cloud.signed(APP, &claims) })
    }

    fn credentials(&self) -> Vec<String> {
        self.cloud.keys(OWN)
    }

    /// The former key ends a minute after the new key is in force, which is after a later start.
    fn has_finished(&self, log: &str) -> bool {
        self.credentials().len() == 1 || log.contains("event=root-rotated")
    }
}

pub struct CloudLife<P> {
    provider: P,
    pub online: Online,
    clock: Clock,
    /// Offset of the clock at the latest start.
    later: Duration,
    /// Length of the server's log before the latest start.
    logged: usize,
    _internet: Internet,
}

impl<P: Provider> CloudLife<P> {
    /// Configures the mount of a server with failpoints, and stops the server.
    fn begin() -> Self {
        let internet = Internet::start();
        let online = internet.server_of(fault_binary(), "", &[]);
        let mut life = Self::configured(internet, online);
        life.online.server.kill();
        life
    }

    /// Configures the mount of a server.
    pub fn configured(internet: Internet, online: Online) -> Self {
        let provider = P::on(&internet);
        online.root.write("sys/auth/cloud", &json!({ "type": P::TYPE })).expect(204);
        online.root.write("auth/cloud/config", &provider.config()).expect(204);
        online.root.write("auth/cloud/role/app", &provider.role()).expect_success();
        let (clock, later, logged) = (Clock::right(), Duration::ZERO, 0);
        Self { provider, online, clock, later, logged, _internet: internet }
    }

    /// Starts the server with a fault and a clock offset, and unseals the server.
    pub fn open(&mut self, later: Duration, fault: &[(&str, String)]) -> Result<(), FaultObserved> {
        (self.later, self.logged) = (later, self.log_text().len());
        self.clock.set_ahead(i64::try_from(later.as_secs()).expect("a while"));
        let environment = [self.clock.over().as_slice(), fault].concat();
        self.online.server.start_with(&environment).map_err(|_| FaultObserved)?;
        self.online.root = self.online.operators.root(&self.online.server);
        for key in &self.online.operators.keys {
            write(&self.online.root, "sys/unseal", &json!({ "key": key }))?;
        }
        Ok(())
    }

    /// The first half: the provider creates a credential.
    pub fn rotate(&self) -> Result<(), FaultObserved> {
        write(&self.online.root, P::ROTATE, &json!({})).map(drop)
    }

    /// The second half: the new credential replaces the old credential, which is deleted.
    pub fn finish(&mut self) -> Result<(), FaultObserved> {
        let end = Instant::now() + A_WHILE;
        while !self.has_finished() && Instant::now() < end {
            if self.online.server.ended(Duration::from_millis(50)).is_some() {
                return Err(FaultObserved);
            }
        }
        self.online.server.ended(P::STORING).map_or(Ok(()), |_| Err(FaultObserved))
    }

    fn has_finished(&self) -> bool {
        self.provider.has_finished(&self.log_text()[self.logged..])
    }

    /// Writes the configuration with its first credential. A cut may fail the write.
    pub fn overwrite(&self) {
        self.online.root.write("auth/cloud/config", &self.provider.config());
    }

    /// Sends a login that needs the mount's own credential.
    pub fn login(&self) -> Answer {
        let stranger = self.online.server.client(None);
        stranger.write("auth/cloud/login", &self.provider.login(self.later))
    }

    /// Restarts the server and asserts that the mount has one working credential.
    pub fn check(&mut self) {
        // A credential that comes into force here ends its predecessor a minute later.
        for later in [OVER, OVER + DUE, OVER + DUE + DUE] {
            assert!(self.open(later, &[]).is_ok(), "{}", self.log_text());
            let end = Instant::now() + A_MOMENT;
            // The start with the first offset may put a credential in force, the later ones do not.
            let is_over = |life: &Self| match later == OVER {
                true => life.has_finished(),
                false => life.provider.credentials().len() == 1,
            };
            while !is_over(self) && Instant::now() < end {
                self.online.server.ended(Duration::from_millis(20));
            }
            if self.provider.credentials().len() == 1 {
                break;
            }
            assert!(self.online.server.stop(), "{}", self.log_text());
        }
        let left = self.provider.credentials();
        assert_eq!(left.len(), 1, "{left:?} are left: {}", self.log_text());
        let login = self.login();
        assert_eq!(login.status, 200, "{login:?}: {}", self.log_text());
        until_true("no rotation is unfinished", SOON, || {
            let rotated = self.online.root.write(P::ROTATE, &json!({}));
            rotated.status < 300
        });
    }

    pub fn log_text(&self) -> String {
        self.online.server.printed()
    }
}

#[derive(Clone, Copy)]
enum RotationHalf {
    First,
    Second,
}

impl RotationHalf {
    /// Returns a life at the beginning of this half, with the server down.
    fn prepared<P: Provider>(self) -> CloudLife<P> {
        let mut life = CloudLife::<P>::begin();
        if matches!(self, Self::Second) {
            assert!(
                life.open(Duration::ZERO, &[]).and_then(|()| life.rotate()).is_ok(),
                "{}",
                life.log_text()
            );
            life.online.server.kill();
        }
        life
    }

    /// Clock offset at which the half begins.
    fn later(self) -> Duration {
        match self {
            Self::First => Duration::ZERO,
            Self::Second => DUE,
        }
    }

    fn live<P: Provider>(self, life: &mut CloudLife<P>) -> Result<(), FaultObserved> {
        match self {
            Self::First => life.rotate(),
            Self::Second => life.finish(),
        }
    }
}

fn every_point<P: Provider>(fault: &str) {
    for (half, name) in [(RotationHalf::First, "made"), (RotationHalf::Second, "in force")] {
        let first = points::passed_by(fault, |environment| {
            let mut life = RotationHalf::First.prepared::<P>();
            assert!(life.open(Duration::ZERO, environment).is_ok(), "{}", life.log_text());
            life
        });
        let what = format!("a root credential of {} is {name}", P::TYPE);
        points::each_behind(&what, fault, first, |number| live::<P>(half, fault, number));
    }
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live<P: Provider>(half: RotationHalf, fault: &str, number: u32) -> bool {
    let fault = InjectedFault::at(fault, number);
    let mut life = half.prepared::<P>();
    let opened = life.open(half.later(), &fault.environment());
    let lived = opened.and_then(|()| half.live(&mut life));
    let came = fault.end(&mut life.online.server, &lived);
    life.check();
    came
}

#[test]
fn crash_at_any_failpoint_leaves_one_azure_secret() {
    every_point::<Azure>("abort");
}

#[test]
fn error_at_any_failpoint_leaves_one_azure_secret() {
    every_point::<Azure>("fail");
}

#[test]
fn crash_at_any_failpoint_leaves_one_google_key() {
    every_point::<Google>("abort");
}

#[test]
fn error_at_any_failpoint_leaves_one_google_key() {
    every_point::<Google>("fail");
}
