//! A simulated API server that creates and removes objects, and answers with [`Fault`]s that a real
//! server does not produce on demand.

use bulkhead_tests::internet::{Fault, Internet, Online, Request, Response};
use bulkhead_tests::paths::Folder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub const HOST: &str = "api.example";

/// A server that should never receive the engine's token.
pub const THIEF: &str = "thief.example";

/// The engine's own token.
pub const OWN: &str = "eyJhIjoxfQ.eyJzdWIiOiJlbmdpbmUifQ.Zq9_xW7_kJ4_vB2_nR8_Xw6_Jq3_Bz1";

/// The end of [`OWN`], which is unique enough for a search.
pub const SIGNATURE: &str = "Zq9_xW7_kJ4_vB2_nR8_Xw6_Jq3_Bz1";

/// An issued token whose `exp` is 3,600 seconds after its `iat`.
const TOKEN: &str = "eyJhIjoxfQ.eyJpYXQiOjEwMDAsImV4cCI6NDYwMH0.gT5_hY8_mK1_pL7_sD3_fW9_cV4";

/// Paths of the namespace's bindings and accounts.
pub const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/apps/rolebindings";
pub const ACCOUNTS: &str = "/api/v1/namespaces/apps/serviceaccounts";

/// Objects by path, with the uid that each was given.
type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// The simulated API server, and a Bulkhead server that is configured with it.
pub struct LyingApiServer {
    pub internet: Internet,
    pub online: Online,
    objects: Objects,
    audit: Folder,
}

impl LyingApiServer {
    /// Starts both, with a role `one` of mode 1 and a role `two` of mode 2, whose objects are named
    /// `v-1`.
    pub fn start() -> Self {
        let internet = Internet::start();
        let objects = Objects::default();
        let served = Arc::clone(&objects);
        internet.serve(HOST, move |request| answer(&served, request));
        internet.serve(THIEF, |_| Response::json(201, &json!({ "metadata": { "uid": "u" } })));
        let audit = Folder::new("audit");
        let file = audit.path().join("audit.log");
        let online = internet.server(&format!("audit \"file\" \"main\" {{ path = {file:?} }}"));
        let root = &online.root;
        root.write("sys/mounts/cluster", &json!({ "type": "cluster" })).expect(204);
        let config = json!({
            "cluster_host": format!("https://{HOST}"), "service_account_jwt": OWN,
        });
        root.write("cluster/config", &config).expect(204);
        for (role, field, of) in
            [("one", "service_account_name", "app"), ("two", "cluster_role_name", "pods")]
        {
            let fields = json!({
                "allowed_cluster_namespaces": "apps", "name_template": "v-1", field: of,
            });
            root.write(&format!("cluster/roles/{role}"), &fields).expect(204);
        }
        Self { internet, online, objects, audit }
    }

    /// The paths of all existing objects.
    pub fn objects(&self) -> Vec<String> {
        self.objects.lock().expect("no test panics with it").keys().cloned().collect()
    }

    pub fn audited(&self) -> String {
        std::fs::read_to_string(self.audit.path().join("audit.log"))
            .expect("the audit file is readable")
    }

    /// Injects the fault into the next request whose path begins with `path`.
    pub fn fail(&self, path: &str, fault: Fault) {
        self.internet.fail(HOST, path, fault, 1);
    }
}

fn answer(objects: &Objects, request: &Request) -> Response {
    let mut objects = objects.lock().expect("no test panics with it");
    if request.bearer() != Some(OWN) {
        return refusal(401, "Unauthorized");
    }
    match request.method.as_str() {
        "POST" if request.path.ends_with("/token") => {
            let status = json!({ "token": TOKEN, "expirationTimestamp": "2030-01-01T00:00:00Z" });
            Response::json(201, &json!({ "status": status }))
        }
        "POST" if request.path.ends_with("/selfsubjectaccessreviews") => {
            Response::json(201, &json!({ "status": { "allowed": true } }))
        }
        "POST" => {
            let mut object = request.json();
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            object["metadata"]["uid"] = format!("u-{}", request.path.len()).into();
            objects.insert(format!("{}/{name}", request.path), object.clone());
            Response::json(201, &object)
        }
        "GET" => match objects.get(&request.path) {
            Some(object) => Response::json(200, object),
            None => refusal(404, "not found"),
        },
        _ => remove(&mut objects, request),
    }
}

fn remove(objects: &mut BTreeMap<String, Value>, request: &Request) -> Response {
    let wanted = &request.json()["preconditions"]["uid"];
    match objects.get(&request.path) {
        Some(object) if object["metadata"]["uid"] == *wanted => {
            objects.remove(&request.path);
            Response::json(200, &json!({ "kind": "Status" }))
        }
        Some(_) => refusal(409, "the UID in the precondition does not match"),
        None => refusal(404, "not found"),
    }
}

/// A refusal in the format of the API server.
pub fn refusal(status: u16, message: &str) -> Response {
    let reason = if status == 404 { "NotFound" } else { "Forbidden" };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": reason,
    });
    Response::json(status, &body)
}
