//! `seal "transit"`: a server that opens by the transit engine of another server, which refuses,
//! rotates and loses its key.

mod faults;

use bulkhead_tests::internet::Fault;
use bulkhead_tests::operators::{Operators, give, seal_status};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::sealed_server::{PATIENCE, SHAMIR, SealedServer, migrate, write_policy};
use bulkhead_tests::transit_server::{KEY, TransitServer};
use bulkhead_tests::{static_seal, wait};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

/// A transit server, and a server that it opens, with the token in a file.
struct TransitSeal {
    transit: TransitServer,
    sealed: SealedServer,
    token: String,
}

impl TransitSeal {
    /// Starts a server on empty data, with a token without an end.
    fn uninitialised() -> Self {
        Self::with_token(|transit| transit.issue(None))
    }

    /// Starts a server on empty data, with this token.
    fn with_token(issue: impl Fn(&TransitServer) -> String) -> Self {
        let transit = TransitServer::start();
        let token = issue(&transit);
        let sealed = SealedServer::start(|folder| transit.seal_block(folder.path(), &token));
        Self { transit, sealed, token }
    }

    /// Initialises with two of three recovery keys, and writes the policy of the tests.
    fn initialised() -> (Self, Operators) {
        let seal = Self::uninitialised();
        let operators = seal.sealed.initialise(3, 2);
        write_policy(&operators.root(&seal.sealed.server));
        (seal, operators)
    }

    fn block(&self) -> String {
        self.transit.seal_block(self.sealed.folder.path(), &self.token)
    }

    /// Kills the server and starts it again. Returns the length of the output before.
    fn start_again(&mut self) -> usize {
        self.sealed.kill_and_start()
    }

    #[track_caller]
    fn wait_until_open(&self, operators: &Operators) {
        self.sealed.wait_until_open(operators);
    }

    /// Asserts that the server answers that it is sealed, in every form.
    #[track_caller]
    fn assert_sealed(&self) {
        self.sealed.assert_sealed("transit");
    }
}

#[test]
fn transit_seal_opens_after_init_kill_and_stop() {
    let mut seal = TransitSeal::uninitialised();
    let status = seal_status(&seal.sealed.server);
    assert_eq!((&status["type"], &status["initialized"]), (&json!("transit"), &json!(false)));
    let operators = seal.sealed.initialise(3, 2);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.assert_open(&operators);
    seal.start_again();
    seal.sealed.assert_open(&operators);
    let same = seal.block();
    seal.sealed.restart(&same);
    seal.sealed.assert_open(&operators);
    give(&seal.sealed.server, &operators.keys[0]).expect(200);
    for secret in operators.keys.iter().chain([&seal.token, &operators.token]) {
        seal.sealed.server.assert_silent(secret);
    }
    for request in seal.transit.requests() {
        assert_eq!(request.header("x-vault-token"), seal.token);
    }
}

#[test]
fn transit_seal_works_over_tls_with_namespace() {
    let transit = TransitServer::start_with_tls();
    transit.want_namespace("team/a");
    let token = transit.issue(None);
    let block = |folder: &Folder, more: &str| {
        let (ca, file) = (folder.path().join("ca.pem"), folder.path().join("token"));
        fs::write(&ca, transit.authority()).expect("a file can be written");
        static_seal::write_key(&file, token.as_bytes(), 0o600);
        format!(
            "seal \"transit\" {{\n  address = {:?}\n  key_name = {KEY:?}\n  \
             token_file = {file:?}\n  namespace = \"team/a\"\n  \
             mount_path = \"transit/\"\n{more}}}\n",
            transit.url()
        )
    };
    let mut sealed = SealedServer::start(|folder| block(folder, ""));
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    let refused = sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 400 | 502), "no authority is trusted: {refused:?}");
    assert_eq!(seal_status(&sealed.server)["initialized"], false);
    let ca = format!("  tls_ca_cert = {:?}\n", sealed.folder.path().join("ca.pem"));
    let trusted = block(&sealed.folder, &ca);
    sealed.restart(&trusted);
    let operators = sealed.initialise(1, 1);
    write_policy(&operators.root(&sealed.server));
    sealed.restart(&trusted);
    sealed.assert_open(&operators);
    sealed.server.assert_silent(&token);
}

#[test]
fn refused_token_is_named_and_replaced_in_file() {
    let (mut seal, operators) = TransitSeal::initialised();
    seal.transit.revoke(&seal.token);
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "not-unsealed");
    seal.sealed.server.wait_for_print_after(before, "operator unseal -migrate");
    seal.assert_sealed();
    seal.sealed.server.assert_silent(&seal.token);
    seal.token = seal.transit.issue_for("another-key", None);
    seal.block();
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "not-unsealed");
    seal.token = seal.transit.issue(None);
    seal.block();
    seal.start_again();
    seal.wait_until_open(&operators);
    seal.sealed.server.assert_silent(&seal.token);
}

#[test]
fn lost_key_version_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = TransitSeal::initialised();
    seal.transit.rotate();
    seal.transit.set_min_decryption_version(2);
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "not-unsealed");
    seal.sealed.server.wait_for_print_after(before, "operator unseal -migrate");
    seal.assert_sealed();
    let refused = migrate(&seal.sealed.server, &operators.keys[0]).expect(400);
    assert!(refused.errors().contains("no migration is awaited"), "{refused:?}");
    seal.transit.lose_key();
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "not-unsealed");
    seal.sealed.restart(SHAMIR);
    assert_eq!(seal_status(&seal.sealed.server)["migration"], true);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    seal.sealed.assert_open(&operators);
    seal.sealed.restart(SHAMIR);
    operators.unseal(&seal.sealed.server);
    seal.sealed.assert_open(&operators);
}

#[test]
fn rotated_transit_key_seals_anew_at_next_start() {
    let (mut seal, operators) = TransitSeal::initialised();
    seal.transit.rotate();
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.assert_open(&operators);
    seal.transit.set_min_decryption_version(2);
    seal.transit.lose_version(1);
    let before = seal.start_again();
    seal.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);

    // A new version that does not encrypt the key leaves the old one in use. The first request asks
    // for the newest version.
    seal.transit.rotate();
    seal.transit.fail("/v1/transit/encrypt", Fault::Delay(Duration::ZERO), 1);
    seal.transit.fail("/v1/transit/encrypt", Fault::Status(500), usize::MAX);
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "seal-key-not-replaced");
    seal.wait_until_open(&operators);
}

#[test]
fn token_is_renewed_and_read_again_from_file() {
    let issue = |transit: &TransitServer| transit.issue_announcing(Duration::from_secs(6));
    let mut seal = TransitSeal::with_token(issue);
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    let renewed = |seal: &TransitSeal, least: usize| {
        let what = format!("{least} renewals of the token");
        wait::until_true(&what, PATIENCE, || seal.transit.renewals(&seal.token) >= least);
    };
    renewed(&seal, 3);
    seal.token = issue(&seal.transit);
    seal.block();
    renewed(&seal, 2);
    seal.transit.kill();
    let health = || seal.sealed.nobody().read("sys/health").expect(200).body;
    let degraded = |health: &Value| health["degraded"][0]["code"] == "seal-unreachable";
    wait::until_true("the health names the seal", PATIENCE, || degraded(&health()));
    seal.sealed.assert_open(&operators);
    seal.sealed.server.wait_for_print("seal-credentials-not-renewed");
    seal.sealed.server.assert_silent(&seal.token);
}

#[test]
fn data_migrate_between_transit_and_other_seals() {
    let mut sealed = SealedServer::start(|_| SHAMIR.to_owned());
    let operators = Operators::initialise(&sealed.server, 3, 2);
    operators.unseal(&sealed.server);
    write_policy(&operators.root(&sealed.server));
    let mut transit = TransitServer::start();
    let token = transit.issue(None);
    let by_transit = transit.seal_block(sealed.folder.path(), &token);
    let by_key = static_seal::block(sealed.folder.path(), &["one"]);

    sealed.restart(&by_transit);
    migrate(&sealed.server, &operators.keys[0]).expect(200);
    transit.fail("/v1/", Fault::Status(500), usize::MAX);
    let refused = migrate(&sealed.server, &operators.keys[1]);
    assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
    let status = seal_status(&sealed.server);
    assert_eq!((&status["type"], &status["sealed"]), (&json!("shamir"), &json!(true)));
    transit.heal();
    let opened = migrate(&sealed.server, &operators.keys[1]).expect(200).body;
    assert_eq!((&opened["type"], &opened["sealed"]), (&json!("transit"), &json!(false)));
    for (seal, kind) in [(&by_key, "static"), (&by_transit, "transit")] {
        sealed.restart(seal);
        assert_eq!(seal_status(&sealed.server)["migration"], true);
        for key in &operators.keys[1..] {
            migrate(&sealed.server, key).expect(200);
        }
        assert_eq!(seal_status(&sealed.server)["type"], kind);
        sealed.assert_open(&operators);
        sealed.server.kill();
        sealed.server.start_again();
        sealed.assert_open(&operators);
    }
    // The transit server is lost for ever; the disabled block may stay.
    transit.kill();
    sealed.restart(&by_transit.replace("{\n", "{\n  disabled = \"true\"\n"));
    for key in &operators.keys[..2] {
        migrate(&sealed.server, key).expect(200);
    }
    sealed.assert_open(&operators);
    assert_eq!(seal_status(&sealed.server)["type"], "shamir");
}

#[test]
fn deliberate_seal_under_transit_holds_until_start() {
    let (mut seal, operators) = TransitSeal::initialised();
    operators.root(&seal.sealed.server).write("sys/seal", &json!({})).expect(204);
    seal.assert_sealed();
    let refused = give(&seal.sealed.server, &operators.keys[0]).expect(400);
    assert!(refused.errors().contains("opens by itself when the server starts"), "{refused:?}");
    seal.assert_sealed();
    seal.start_again();
    seal.wait_until_open(&operators);
}

#[test]
fn recovery_keys_check_snapshot_under_transit_seal() {
    let (seal, operators) = TransitSeal::initialised();
    let folder = seal.sealed.folder.path();
    let (file, keys) = (folder.join("a.snap"), folder.join("recovery.keys"));
    static_seal::write_key(&keys, operators.keys[..2].join("\n").as_bytes(), 0o600);
    let run = |arguments: &[&str]| -> Output {
        let mut command = seal.sealed.server.command(arguments);
        command.env("BULKHEAD_TOKEN", &operators.token).output().expect("the command runs")
    };
    let name = file.to_str().expect("a path in UTF-8");
    let saved = run(&["operator", "snapshot", "save", name]);
    assert!(saved.status.success(), "{saved:?}");
    let option = format!("-key-file={}", keys.display());
    let checked = run(&["operator", "check", "-format=json", &option, name]);
    assert!(checked.status.success(), "{checked:?}");
    let report: Value = serde_json::from_slice(&checked.stdout).expect("-format=json prints JSON");
    assert!(report["damages"] == 0 && report["opened"].as_u64() > Some(5), "{report}");
}

#[test]
fn check_of_configuration_warns_without_transit() {
    let (mut seal, _) = TransitSeal::initialised();
    let file = seal.sealed.folder.path().join("bulkhead.hcl");
    let check = || {
        let mut command = Command::new(binary());
        command.args(["server", "--check", "--config"]).arg(&file).env_clear();
        let done = command.output().expect("the check runs");
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        (done.status.code(), format!("{out}{err}"))
    };
    let (code, text) = check();
    assert!(code == Some(0) && text.contains("the key \"unseal\" of transit/"), "{text}");
    assert!(!text.contains("warning: seal"), "{text}");
    seal.transit.kill();
    let (code, text) = check();
    assert!(code == Some(0) && text.contains("warning: seal"), "{text}");
    assert!(!text.contains(&seal.token), "{text}");
    fs::remove_file(seal.sealed.folder.path().join("token")).expect("the token can be removed");
    let (code, text) = check();
    assert!(code == Some(1) && text.contains("token_file"), "{text}");
}
