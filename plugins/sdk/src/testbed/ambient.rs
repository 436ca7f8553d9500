//! Surroundings in memory: only values set by a test, and nothing of the machine that runs the
//! test.

use super::script::Script;
use crate::host::{Ambient, MachineToken, Pod};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The pod set by a test. Shared with the HTTP servers, which check requests made with the pod's
/// identity.
pub(super) type SharedPod = Rc<RefCell<Option<Pod>>>;

/// The environment, tokens and pod set by a test.
pub(super) struct TestAmbient {
    script: Rc<Script>,
    environment: RefCell<BTreeMap<String, String>>,
    /// Tokens by cloud and audience.
    tokens: RefCell<BTreeMap<(String, String), MachineToken>>,
    pod: SharedPod,
}

impl TestAmbient {
    pub(super) fn new(script: &Rc<Script>, pod: &SharedPod) -> Self {
        Self {
            script: Rc::clone(script),
            environment: RefCell::default(),
            tokens: RefCell::default(),
            pod: Rc::clone(pod),
        }
    }

    pub(super) fn set_environment(&self, name: &str, value: &str) {
        self.environment.borrow_mut().insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn set_cloud_token(&self, cloud: &str, audience: &str, token: MachineToken) {
        self.tokens.borrow_mut().insert((cloud.to_owned(), audience.to_owned()), token);
    }

    pub(super) fn set_pod(&self, pod: Option<Pod>) {
        *self.pod.borrow_mut() = pod;
    }
}

impl Ambient for TestAmbient {
    fn environment(&self, name: &str) -> Result<Option<String>, Failure> {
        self.script.step("environment", None, || {
            let set = self.environment.borrow().get(name).cloned();
            Ok(set.filter(|value| !value.is_empty()))
        })
    }

    /// Unreachable if no token is set.
    fn cloud_token(&self, cloud: &str, audience: &str) -> Result<MachineToken, Failure> {
        self.script.step("cloud-token", Some(&format!("of {cloud} for {audience}")), || {
            if !["azure", "google"].contains(&cloud) || audience.is_empty() {
                return Err(Failure::invalid("a cloud token is of azure or google, and for one"));
            }
            let set = self.tokens.borrow().get(&(cloud.to_owned(), audience.to_owned())).cloned();
            set.ok_or_else(|| {
                let message = format!("no token of {cloud} is set for {audience}");
                Failure::new(FailureKind::Unreachable, message)
            })
        })
    }

    fn pod(&self) -> Result<Option<Pod>, Failure> {
        self.script.step("find-pod", None, || Ok(self.pod.borrow().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::script::StepFate;

    #[test]
    fn only_set_values_are_present() {
        let script = Rc::new(Script::default());
        let ambient = TestAmbient::new(&script, &SharedPod::default());
        assert_eq!(ambient.environment("PATH"), Ok(None));
        ambient.set_environment("CLOUDA_TENANT_ID", "contoso");
        ambient.set_environment("CLOUDA_AD_RESOURCE", "");
        assert_eq!(ambient.environment("CLOUDA_TENANT_ID"), Ok(Some("contoso".to_owned())));
        assert_eq!(ambient.environment("CLOUDA_AD_RESOURCE"), Ok(None));
        assert_eq!(ambient.pod(), Ok(None));
        let pod = Pod { host: "10.96.0.1".to_owned(), port: 443, namespace: None };
        ambient.set_pod(Some(pod.clone()));
        assert_eq!(ambient.pod(), Ok(Some(pod)));
    }

    #[test]
    fn refusable_cloud_token_fits_one_cloud_and_audience() {
        let script = Rc::new(Script::default());
        let ambient = TestAmbient::new(&script, &SharedPod::default());
        let token = MachineToken { token: "azure-token".to_owned(), expires: 7 };
        ambient.set_cloud_token("azure", "https://vault.example", token.clone());
        assert_eq!(ambient.cloud_token("azure", "https://vault.example"), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("azure"));
        for (cloud, audience, kind) in [
            ("google", "https://vault.example", FailureKind::Unreachable),
            ("azure", "https://other.example", FailureKind::Unreachable),
            ("amazon", "https://vault.example", FailureKind::InvalidRequest),
            ("azure", "", FailureKind::InvalidRequest),
        ] {
            assert_eq!(ambient.cloud_token(cloud, audience).unwrap_err().kind, kind, "{cloud}");
        }
        script.arrange("cloud-token", StepFate::Refuse(Failure::denied("without a grant")));
        assert!(ambient.cloud_token("azure", "https://vault.example").is_err());
        assert_eq!(script.take_steps()[0], "cloud-token of azure for https://vault.example");
    }

    #[test]
    fn ipv6_address_is_bracketed_in_url() {
        let pod = |host: &str| Pod { host: host.to_owned(), port: 6443, namespace: None }.url();
        assert_eq!(pod("fd00::1"), "https://[fd00::1]:6443");
        assert_eq!(pod("10.96.0.1"), "https://10.96.0.1:6443");
    }
}
