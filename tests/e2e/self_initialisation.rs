//! A server that initialises itself by the blocks of its configuration.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::static_seal;
use bulkhead_tests::storage;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const PASSWORD: &str = "Tz4-Kp9-Wq2";

/// A server with a static seal and blocks in its configuration, not started yet.
struct UnattendedServer {
    server: Bulkhead,
    folder: Folder,
}

impl UnattendedServer {
    fn with(blocks: &str) -> Self {
        let folder = Folder::new("unattended");
        let server = Bulkhead::prepared(binary(), Folder::new("unattended-data"))
            .configured(folder.path().join("bulkhead.hcl"));
        let unattended = Self { server, folder };
        unattended.configure(blocks);
        unattended
    }

    fn configure(&self, blocks: &str) {
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {storage}\n\
             audit \"file\" \"main\" {{ path = {log:?} }}\n\
             {seal}{blocks}\n",
            storage = storage::block(self.server.data()),
            log = self.folder.path().join("audit.log"),
            seal = static_seal::block(self.folder.path(), &["1"]),
            blocks = blocks.replace("FOLDER", &self.folder.path().display().to_string()),
        );
        fs::write(self.folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
    }

    fn environment() -> [(&'static str, String); 1] {
        [("ADMIN_PASSWORD", PASSWORD.to_owned())]
    }

    #[track_caller]
    fn start(&mut self) {
        let started = self.server.start_with(&Self::environment());
        assert!(started.is_ok(), "{}", self.server.printed());
    }

    /// Logs in as the administrator of the blocks.
    #[track_caller]
    fn administrator(&self) -> bulkhead_tests::Client {
        let login = json!({ "password": PASSWORD });
        let answer = self.server.client(None).write("auth/userpass/login/admin", &login);
        let answer = answer.expect(200);
        self.server.client(answer.body["auth"]["client_token"].as_str())
    }
}

const ADMINISTRATOR: &str = r#"
initialize "administrator" {
  request "policy" {
    operation = "update"
    path      = "sys/policies/acl/admin"
    data      = { policy = { eval_source = "file", path = "FOLDER/admin.hcl" } }
  }
  request "enable" {
    operation = "update"
    path      = "sys/auth/userpass"
    data      = { type = "userpass" }
  }
  request "user" {
    operation = "update"
    path      = "auth/userpass/users/admin"
    data = {
      password       = { eval_source = "env", env_var = "ADMIN_PASSWORD" }
      token_policies = ["admin"]
    }
  }
}
"#;

const POLICY: &str = "path \"*\" { capabilities = \
    [\"create\", \"read\", \"update\", \"delete\", \"list\", \"sudo\"] }\n";

const MACHINES: &str = r#"
initialize "machines" {
  request "enable" {
    operation = "create"
    path      = "/v1/sys/auth/approle"
    data      = { type = "approle" }
  }
  request "role" {
    operation = "update"
    path      = "auth/approle/role/orders"
    data      = { token_policies = ["default"], secret_id_num_uses = 4 }
  }
  request "role-id" {
    operation = "read"
    path      = "auth/approle/role/orders/role-id"
  }
  request "secrets" {
    operation = "update"
    path      = "sys/mounts/secret"
    data      = { type = "kv", options = { version = "2" } }
  }
  request "absent" {
    operation     = "read"
    path          = "secret/data/absent"
    allow_failure = true
  }
  request "note" {
    operation = "update"
    path      = "secret/data/orders"
    data = {
      data = {
        role_id = {
          eval_source       = "response"
          initialize_name   = "machines"
          request_name      = "role-id"
          response_selector = "data.role_id"
        }
        flags = [true, 2]
      }
    }
  }
}
"#;

#[test]
fn empty_server_sets_itself_up_once() {
    let mut unattended = UnattendedServer::with(&[ADMINISTRATOR, MACHINES].concat());
    fs::write(unattended.folder.path().join("admin.hcl"), POLICY).expect("a policy");
    unattended.start();
    let status = seal_status(&unattended.server);
    assert_eq!((&status["sealed"], &status["n"]), (&json!(false), &json!(0)), "{status}");
    let admin = unattended.administrator();
    let role_id =
        admin.read("auth/approle/role/orders/role-id").expect(200).body["data"]["role_id"].clone();
    let note = admin.read("secret/data/orders").expect(200).body["data"]["data"].clone();
    assert_eq!(note, json!({ "role_id": role_id, "flags": [true, 2] }));

    let accessors = admin.list("auth/token/accessors").expect(200).body["data"]["keys"].clone();
    let policies = accessors.as_array().expect("accessors").iter().map(|accessor| {
        let fields = json!({ "accessor": accessor });
        let answer = admin.write("auth/token/lookup-accessor", &fields).expect(200);
        answer.body["data"]["policies"].clone()
    });
    let policies: Vec<Value> = policies.collect();
    assert_eq!(policies, [json!(["admin", "default"])], "no root token remains");
    let audit = fs::read_to_string(unattended.folder.path().join("audit.log")).expect("the log");
    assert!(audit.contains("auth/userpass/users/admin") && !audit.contains(PASSWORD), "{audit}");

    admin.delete("secret/metadata/orders").expect(204);
    unattended.server.kill();
    unattended.start();
    unattended.administrator().read("secret/data/orders").expect(404);
    unattended.server.assert_silent(PASSWORD);
    assert!(unattended.server.stop());
    fs::remove_file(unattended.folder.path().join("admin.hcl")).expect("the policy is removed");
    unattended.server.start_with(&[]).expect("a later start needs no source");
}

#[test]
fn failed_block_is_undone_and_run_again() {
    let enable = |name: &str| {
        format!(
            "request {name:?} {{ operation = \"update\" path = \"sys/mounts/{name}\" \
             data = {{ type = \"kv\" }} }}\n"
        )
    };
    let first = format!("initialize \"first\" {{\n{}}}\n", enable("one"));
    let wrong = enable("three").replace("\"kv\"", "\"kx\"");
    let second = |last: &str| format!("initialize \"second\" {{\n{}{last}}}\n", enable("two"));
    let blocks = |last: &str| {
        let first = format!("{ADMINISTRATOR}{first}");
        format!("{first}{}", second(last))
    };
    let mut unattended = UnattendedServer::with(&blocks(&wrong));
    fs::write(unattended.folder.path().join("admin.hcl"), POLICY).expect("a policy");
    for _ in 0..2 {
        let before = unattended.server.printed().len();
        let status = unattended.server.start_with(&UnattendedServer::environment()).unwrap_err();
        assert_eq!(status.code(), Some(1));
        let refusal = "request \"three\" of initialize \"second\": 400";
        unattended.server.wait_for_print_after(before, refusal);
    }
    assert!(storage::has_replaced_data(unattended.server.data()));
    unattended.configure(ADMINISTRATOR.split("initialize").next().unwrap_or_default());
    let before = unattended.server.printed().len();
    let status = unattended.server.start_with(&[]).unwrap_err();
    assert_eq!(status.code(), Some(1));
    unattended.server.wait_for_print_after(before, "the data are set up in part: 2 blocks");
    // A mount that was enabled already would be refused.
    unattended.configure(&blocks(&enable("three")));
    unattended.start();
    let mounts = unattended.administrator().read("sys/mounts").expect(200).body["data"].clone();
    for path in ["one/", "two/", "three/"] {
        assert_eq!(mounts[path]["type"], "kv", "{mounts}");
    }
    assert_eq!(storage::unfinished_data(unattended.server.data()), [""; 0]);
}

#[test]
fn missing_source_stops_start_before_first_request() {
    let mut unattended = UnattendedServer::with(ADMINISTRATOR);
    let refused = |unattended: &mut UnattendedServer, words: &str| {
        assert_eq!(unattended.server.start_with(&[]).unwrap_err().code(), Some(1));
        unattended.server.wait_for_print(words);
        assert!(!unattended.server.data().join("bulkhead.db").exists());
    };
    refused(&mut unattended, "admin.hcl cannot be read");
    fs::write(unattended.folder.path().join("admin.hcl"), POLICY).expect("a policy");
    refused(&mut unattended, "ADMIN_PASSWORD is not set");
    let file = unattended.folder.path().join("bulkhead.hcl");
    let check = |variable: &str| {
        let mut command = Command::new(binary());
        command.args(["server", "--check", "--config"]).arg(&file);
        command.env_clear().env(variable, PASSWORD);
        command.output().expect("the check runs")
    };
    assert_eq!(check("OTHER").status.code(), Some(1));
    let valid = check("ADMIN_PASSWORD");
    let text = String::from_utf8_lossy(&valid.stdout).into_owned();
    assert!(valid.status.success() && text.contains("initialises itself"), "{valid:?}");
    assert!(!text.contains(PASSWORD), "{text}");
}

#[test]
fn self_initialisation_leaves_initialised_data_alone() {
    let mut unattended = UnattendedServer::with("");
    unattended.start();
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    unattended.server.client(None).write("sys/init", &body).expect(200);
    assert!(unattended.server.stop());
    unattended.configure(ADMINISTRATOR);
    fs::write(unattended.folder.path().join("admin.hcl"), POLICY).expect("a policy");
    unattended.start();
    let login = json!({ "password": PASSWORD });
    // No mount is there, so that the path is not a login.
    let refused = unattended.server.client(None).write("auth/userpass/login/admin", &login);
    refused.refused(403, "this path needs a token");
}
