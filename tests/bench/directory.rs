//! `GET directory/creds/:name` of due roles, against the same operations of bare ldap3 on the same
//! OpenLDAP, in turns: a search, a password change, a login on a new connection, and a search.

mod figures;
mod load;

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::{Branch, Bulkhead, DirectoryKind, DirectoryServer};
use figures::quantile;
use ldap3::exop::PasswordModify;
use ldap3::{Ldap, LdapConnAsync, Scope};
use load::Connection;
use serde_json::json;
use std::time::Instant;

/// Total number of reads of due roles.
const READS: usize = 1_000;
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 16;
/// Minimum share of the rate of the bare operations.
const SHARE_GOAL: f64 = 0.5;
/// Initial password of the accounts.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";
const ATTRIBUTES: [&str; 5] =
    ["objectGUID", "entryUUID", "userPrincipalName", "pwdLastSet", "pwdChangedTime"];

/// Servers and accounts of one run.
struct Stage {
    branch: Branch,
    bulkhead: Bulkhead,
    engine: (String, String),
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let stage = stage();
    let mut shares = Vec::new();
    let mut rates = (0.0, 0.0);
    for round in 0..ROUNDS {
        let bare = rate(|| runtime.block_on(stage.bare(round)));
        let engine = rate(|| runtime.block_on(stage.engine(round)));
        rates = (engine, bare);
        shares.push(engine / bare);
    }
    let share = quantile(&mut shares, 0.5);
    let is_held = share >= SHARE_GOAL;
    println!("{READS} reads of due roles, of the bare operations' rate   {:.1} %", share * 100.0);
    println!("  in the last turn {:.0} a second against {:.0}", rates.0, rates.1);
    println!("  {} (goal 50 %)", if is_held { "held" } else { "MISSED" });
    let result = json!({ "share": share, "share_goal": SHARE_GOAL, "held": is_held });
    figures::save("directory", result);
}

/// Returns the number of reads in one turn.
const fn each() -> usize {
    READS / ROUNDS
}

fn rate(run: impl FnOnce()) -> f64 {
    let began = Instant::now();
    run();
    #[allow(clippy::cast_precision_loss, reason = "a thousand")]
    let count = each() as f64;
    count / began.elapsed().as_secs_f64()
}

/// Creates accounts for both sides, and a role for each of the engine's accounts.
fn stage() -> Stage {
    let branch = DirectoryServer::shared(DirectoryKind::OpenLdap).branch();
    let names = (0..READS).flat_map(|number| [format!("role{number}"), format!("bare{number}")]);
    branch.add_all(&names.map(|name| (name, FIRST)).collect::<Vec<_>>());
    let bulkhead = Bulkhead::start();
    let root = bulkhead.root();
    let mut config = branch.config();
    // Neither side uses TLS, which is not measured here.
    config["url"] = branch.server.clear_url().into();
    let text = |name: &str| config[name].as_str().expect("a text").to_owned();
    let engine = (text("binddn"), text("bindpass"));
    root.write("directory/config", &config).expect(204);
    for number in 0..READS {
        let role = json!({ "service_account_name": branch.dn_of(&format!("role{number}")) });
        root.write(&format!("directory/roles/role{number}"), &role).expect(204);
    }
    Stage { branch, bulkhead, engine }
}

impl Stage {
    /// Runs one turn of the engine. Roles that were never read are due.
    async fn engine(&self, round: usize) {
        let address = self.bulkhead.address();
        let tasks = (0..CONNECTIONS).map(|task| async move {
            let mut connection = Connection::open(address).await;
            for number in numbers(round, task) {
                let request = load::get(&format!("directory/creds/role{number}"), ROOT);
                let shown = connection.exchange(&request).await;
                assert!(shown.contains("current_password"), "{shown}");
            }
        });
        for task in tasks.map(tokio::spawn).collect::<Vec<_>>() {
            task.await.expect("no task panics");
        }
    }

    /// Runs one turn of the bare operations.
    async fn bare(&self, round: usize) {
        let tasks = (0..CONNECTIONS).map(|task| {
            let url = self.branch.server.clear_url();
            let (name, password) = self.engine.clone();
            let dns: Vec<String> = numbers(round, task)
                .map(|number| self.branch.dn_of(&format!("bare{number}")))
                .collect();
            tokio::spawn(async move {
                let mut own = login(&url, &name, &password).await;
                for dn in dns {
                    search(&mut own, &dn).await;
                    let change =
                        PasswordModify { user_id: Some(&dn), old_pass: None, new_pass: Some(NEW) };
                    let done = own.extended(change).await.expect("an answer");
                    done.success().expect("the change is made");
                    let mut proof = login(&url, &dn, NEW).await;
                    search(&mut own, &dn).await;
                    proof.unbind().await.expect("the session ends");
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no task panics");
        }
    }
}

/// New password of the bare operations, as long as the engine's.
const NEW: &str = "?@09AZ0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijkl";

/// Returns the numbers of a task's accounts in a turn.
fn numbers(round: usize, task: usize) -> impl Iterator<Item = usize> {
    (round * each() + task..(round + 1) * each()).step_by(CONNECTIONS)
}

async fn login(url: &str, name: &str, password: &str) -> Ldap {
    let (connection, mut ldap) = LdapConnAsync::new(url).await.expect("a connection");
    tokio::spawn(async move { connection.drive().await });
    let done = ldap.simple_bind(name, password).await.expect("an answer");
    done.success().expect("the login is taken");
    ldap
}

async fn search(ldap: &mut Ldap, dn: &str) {
    let found = ldap.search(dn, Scope::Base, "(objectClass=*)", ATTRIBUTES).await;
    let (entries, _) = found.expect("an answer").success().expect("the search is made");
    assert_eq!(entries.len(), 1);
}
