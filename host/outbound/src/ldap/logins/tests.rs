//! Tests of the logins sent after refusals, counted at a server that accepts a single password.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::sleep;

const SERVER: &str = "ldaps://dc1.corp.example:636";
const NAME: &str = "cn=engine,dc=corp";

/// An account at a server: the accepted password, and the number of wrong logins.
struct Bed {
    logins: MountLogins,
    right: Mutex<String>,
    wrong: AtomicUsize,
}

impl Bed {
    fn new() -> Self {
        let logins = LoginRecords::default().of("mount");
        Self { logins, right: Mutex::new("p0".to_owned()), wrong: AtomicUsize::new(0) }
    }

    fn set(&self, password: &str) {
        password.clone_into(&mut sync::lock(&self.right));
    }

    fn wrong(&self) -> usize {
        self.wrong.load(Ordering::Relaxed)
    }

    async fn ask_as(&self, name: &str, password: &str) -> Result<(), String> {
        let login = async {
            sleep(Duration::from_millis(1)).await;
            if *sync::lock(&self.right) == password {
                return Ok(());
            }
            self.wrong.fetch_add(1, Ordering::Relaxed);
            refused()
        };
        let answer = self.logins.run_login(SERVER, name, password, login).await;
        answer.map_err(|failure| format!("{} {}", failure.code, failure.message))
    }

    async fn ask(&self, password: &str) -> Result<(), String> {
        self.ask_as(NAME, password).await
    }
}

fn refused() -> Result<(), LdapFailure> {
    let refused = failed("refused", "the server refused the login");
    Err(LdapFailure { result_code: Some(INVALID_CREDENTIALS), ..refused })
}

#[tokio::test]
async fn concurrent_logins_with_replaced_password_send_one() {
    let bed = Bed::new();
    bed.ask("p0").await.unwrap();
    bed.set("p1");
    let all = futures_util::future::join_all((0..50).map(|_| bed.ask("p0"))).await;
    assert!(all.iter().all(|answer| answer.as_ref().unwrap_err().starts_with("refused ")));
    assert_eq!(bed.wrong(), 1);
    bed.ask("p1").await.unwrap();
    let again = bed.ask("p0").await.unwrap_err();
    assert!(again.contains("is not sent again for"), "{again}");
    assert!(again.contains("write the configuration"), "{again}");
    assert_eq!(bed.wrong(), 1);
}

#[test]
fn wrong_password_is_sent_thrice_then_quarter_hourly() {
    let (mut account, began, wrong) =
        (AccountRecord::new(), Instant::now(), password_digest("wrong"));
    let mut sent = Vec::new();
    for second in 0..2_000 {
        let now = began + Duration::from_secs(second);
        if account.check(&wrong, false, now).is_ok() {
            account.record_answer(wrong, &refused(), now);
            sent.push(second);
        }
    }
    assert_eq!(sent, [0, 10, 70, 970, 1_870]);
}

#[tokio::test]
async fn three_refusals_delay_all_but_accepted_password() {
    let bed = Bed::new();
    bed.ask("p0").await.unwrap();
    for wrong in ["a", "b", "c"] {
        bed.ask(wrong).await.unwrap_err();
    }
    let rests = bed.ask("d").await.unwrap_err();
    assert!(rests.starts_with("unreachable ") && rests.contains("3 logins"), "{rests}");
    assert_eq!(bed.wrong(), 3, "a new password is tried at the server");
    bed.ask("p0").await.unwrap();
    bed.ask("d").await.unwrap_err();
    assert_eq!(bed.wrong(), 4);
    bed.ask_as("cn=other,dc=corp", "a").await.unwrap_err();
    assert_eq!(bed.wrong(), 5, "another account has its own count");
}

#[tokio::test]
async fn password_or_configuration_change_allows_refused_password_again() {
    let bed = Bed::new();
    bed.ask("p1").await.unwrap_err();
    bed.set("p1");
    bed.logins.forget_passwords("uid=another,dc=corp", &["p0".to_owned()]);
    bed.ask("p1").await.unwrap_err();
    // An entry may have other names for logins than its DN.
    bed.logins.forget_passwords("uid=another,dc=corp", &["p1".to_owned()]);
    bed.ask("p1").await.unwrap();
    bed.set("p2");
    for wrong in ["p1", "p3", "p4", "p2"] {
        bed.ask(wrong).await.unwrap_err();
    }
    bed.logins.forget(&NAME.to_uppercase());
    bed.ask("p2").await.unwrap();
    for wrong in ["p1", "p3", "p4"] {
        bed.ask(wrong).await.unwrap_err();
    }
    bed.set("p5");
    bed.logins.forget_passwords(NAME, &["p5".to_owned()]);
    bed.ask("p5").await.unwrap();
    // The DN of the changed entry is another name, but the password is known and no guess.
    for wrong in ["p6", "p7", "p8"] {
        bed.ask(wrong).await.unwrap_err();
    }
    bed.set("p9");
    bed.logins.forget_passwords("uid=another,dc=corp", &["p9".to_owned()]);
    bed.ask("p9").await.unwrap();
}

/// A controller that has not yet received a change of the password receives the change.
#[tokio::test]
async fn refused_password_is_retried_after_accepted_is_refused() {
    let bed = Bed::new();
    bed.ask("p1").await.unwrap_err();
    bed.ask("p0").await.unwrap();
    bed.set("p1");
    bed.ask("p1").await.unwrap_err();
    bed.ask("p0").await.unwrap_err();
    bed.ask("p1").await.unwrap();
}

#[tokio::test]
async fn only_password_refusals_count_and_memory_is_bounded() {
    let bed = Bed::new();
    let busy = || async { Err(failed("unreachable", "busy")) };
    for _ in 0..10 {
        bed.logins.run_login(SERVER, NAME, "p0", busy()).await.unwrap_err();
    }
    bed.ask("p0").await.unwrap();
    for account in 0..2_000 {
        let key = (name_digest(&format!("cn={account}")), SERVER.to_owned());
        bed.logins.with(&key, |account| {
            account.record_answer(password_digest("a"), &refused(), Instant::now())
        });
    }
    let sizes = |record: &LoginRecord| (record.accounts.len(), record.given.len());
    for password in 0..100 {
        bed.logins.forget_passwords("cn=a", &[format!("{password}")]);
    }
    assert_eq!(bed.logins.logins.lock().get("mount").map(sizes), Some((ACCOUNTS, GIVEN_PASSWORDS)));
    let mut account = AccountRecord::new();
    for password in 0..40 {
        account.record_answer(password_digest(&format!("{password}")), &refused(), Instant::now());
    }
    assert_eq!(account.refused.len(), PASSWORDS);
    bed.logins.logins.forget_mount("mount");
    assert!(bed.logins.logins.lock().is_empty());
}
