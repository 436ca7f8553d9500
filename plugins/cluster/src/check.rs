//! `check`: whether the server's own pod can complete a configuration.

use bulkhead_sdk::kubernetes::own_url;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// Returns the API server of the own pod, or a failure with the missing variables.
pub(crate) fn read(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    match own_url(host)? {
        Some(url) => Answer::data(&json!({"cluster_host": url, "kubernetes_host": url})),
        None => Err(Failure::invalid(
            "the server is not a pod: the environment lacks KUBERNETES_SERVICE_HOST and \
             KUBERNETES_SERVICE_PORT_HTTPS; give cluster_host, cluster_ca_cert and \
             service_account_jwt",
        )),
    }
}
