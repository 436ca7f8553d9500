//! A mount with roles, for the tests of this crate.

use crate::Approle;
use bulkhead_sdk::testbed::{AuthBed, Reply};
use bulkhead_sdk::{Failure, Login};
use serde_json::{Value, json};

/// A mount with the role `web`.
pub(crate) struct TestMount {
    pub(crate) bed: AuthBed<Approle>,
}

impl TestMount {
    pub(crate) fn new(role: &Value) -> Self {
        let mut bed = AuthBed::new().unwrap();
        bed.caller.remote_address = "10.1.2.3".to_owned();
        let stage = Self { bed };
        stage.role("web", role);
        stage
    }

    pub(crate) fn role(&self, name: &str, fields: &Value) {
        self.bed.write(&format!("role/{name}"), fields).ok().unwrap();
    }

    pub(crate) fn role_id(&self, name: &str) -> String {
        let shown = self.bed.read(&format!("role/{name}/role-id")).ok().unwrap().data;
        shown["role_id"].as_str().unwrap().to_owned()
    }

    /// Generates a secret id; returns the answer's data.
    pub(crate) fn secret_id(&self, role: &str, fields: &Value) -> Value {
        let answer = self.bed.write(&format!("role/{role}/secret-id"), fields).ok().unwrap();
        Value::Object(answer.data)
    }

    pub(crate) fn login(&self, role: &str, secret_id: &Value) -> Result<Login, Failure> {
        self.log_in(&self.role_id(role), &secret_id["secret_id"])
    }

    pub(crate) fn log_in(&self, role_id: &str, secret_id: &Value) -> Result<Login, Failure> {
        self.bed.login("login", &json!({"role_id": role_id, "secret_id": secret_id}))
    }

    /// Returns the accessors of the role, or none.
    pub(crate) fn accessors(&self, role: &str) -> Vec<String> {
        let listed = self.bed.list(&format!("role/{role}/secret-id"));
        let keys = listed.ok().map(|listed| listed.data["keys"].clone()).unwrap_or_default();
        let names = keys.as_array().cloned().unwrap_or_default();
        names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    pub(crate) fn of_accessor(
        &self,
        role: &str,
        act: &str,
        accessor: &Value,
    ) -> Result<Reply, Failure> {
        let path = format!("role/{role}/secret-id-accessor/{act}");
        self.bed.write(&path, &json!({"secret_id_accessor": accessor}))
    }

    pub(crate) fn of_secret(
        &self,
        role: &str,
        act: &str,
        secret_id: &Value,
    ) -> Result<Reply, Failure> {
        let path = format!("role/{role}/secret-id/{act}");
        self.bed.write(&path, &json!({"secret_id": secret_id}))
    }
}
