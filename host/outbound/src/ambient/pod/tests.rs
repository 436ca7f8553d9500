//! Tests of the pod: its environment and its files.

use crate::addresses::{Origin, ServerHost};
use crate::ambient::AmbientSources;
use bulkhead_wire::failure::FailureKind;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

fn within(environment: &[(&str, &str)]) -> AmbientSources {
    let values: BTreeMap<String, OsString> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    AmbientSources {
        environment: Arc::new(move |name| values.get(name).cloned()),
        ..AmbientSources::default()
    }
}

/// Makes a separate folder for the files of a pod.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("bulkhead-pod-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn cluster_is_named_by_environment_or_absent() {
    assert!(within(&[]).pod().unwrap().is_none());
    assert!(within(&[("KUBERNETES_SERVICE_HOST", "")]).pod().unwrap().is_none());
    for (environment, cluster) in [
        (
            &[("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_SERVICE_PORT", "443")][..],
            "https://10.96.0.1:443",
        ),
        (
            &[
                ("KUBERNETES_SERVICE_HOST", "fd00::1"),
                ("KUBERNETES_SERVICE_PORT", "443"),
                ("KUBERNETES_SERVICE_PORT_HTTPS", "6443"),
            ],
            "https://[fd00::1]:6443",
        ),
        (
            &[("CLUSTER_SERVICE_HOST", "Api.Example"), ("CLUSTER_SERVICE_PORT_HTTPS", "8443")],
            "https://api.example:8443",
        ),
    ] {
        assert_eq!(within(environment).pod().unwrap().unwrap().cluster.to_string(), cluster);
    }
}

#[test]
fn unusable_cluster_address_error_names_environment_variable() {
    for (environment, says) in [
        (&[("KUBERNETES_SERVICE_HOST", "10.96.0.1")][..], "no KUBERNETES_SERVICE_PORT_HTTPS or"),
        (
            &[("KUBERNETES_SERVICE_HOST", "a b"), ("KUBERNETES_SERVICE_PORT", "443")],
            "KUBERNETES_SERVICE_HOST of the server's environment is not a host",
        ),
        (
            &[("CLUSTER_SERVICE_HOST", "a"), ("CLUSTER_SERVICE_PORT", "tcp://10.0.0.1:443")],
            "CLUSTER_SERVICE_PORT of the environment) is not a port",
        ),
        (&[("KUBERNETES_SERVICE_HOST", "a"), ("KUBERNETES_SERVICE_PORT", "0")], "is not a port"),
    ] {
        let refused = within(environment).pod().unwrap_err();
        assert_eq!(refused.kind, FailureKind::PreconditionFailed);
        assert!(refused.message.contains(says), "{}", refused.message);
    }
}

#[test]
fn origin_differing_from_cluster_is_refused() {
    let pod =
        within(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_SERVICE_PORT", "443")])
            .pod()
            .unwrap()
            .unwrap();
    let origin =
        |tls, host: &str, port| Origin { tls, host: ServerHost::parse(host).unwrap(), port };
    assert_eq!(pod.check(&origin(true, "10.96.0.1", 443)), Ok(()));
    assert_eq!(pod.check(&origin(true, "0x0a600001", 443)), Ok(()), "another spelling is it");
    for elsewhere in [
        origin(false, "10.96.0.1", 443),
        origin(true, "10.96.0.1", 6443),
        origin(true, "10.96.0.2", 443),
        origin(true, "kubernetes.default.svc", 443),
    ] {
        let refused = pod.check(&elsewhere).unwrap_err();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains("https://10.96.0.1:443"), "{}", refused.message);
    }
}

#[tokio::test]
async fn pod_file_is_read_in_current_state() {
    let folder = folder("read");
    let here = AmbientSources { pod_folder: folder.clone(), ..within(&[]) };
    assert_eq!(here.pod_namespace().await, None);
    fs::write(folder.join("token"), "one\n").unwrap();
    fs::write(folder.join("namespace"), "vault").unwrap();
    assert_eq!(here.pod_token().await.unwrap(), "one");
    assert_eq!(here.pod_namespace().await.as_deref(), Some("vault"));
    fs::write(folder.join("token"), "two").unwrap();
    assert_eq!(here.pod_token().await.unwrap(), "two");
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn long_or_non_text_file_is_refused_unquoted() {
    let folder = folder("bad");
    let here = AmbientSources { pod_folder: folder.clone(), ..within(&[]) };
    let refusal = async || here.pod_token().await.unwrap_err();
    assert!(refusal().await.message.contains("entity not found"));
    for (content, says) in [
        (&b"eyJ secret"[..], "no token"),
        (b" \n", "no token"),
        (b"\xff\xfe", "not text"),
        (&[b'x'; 70_000], "64 KiB"),
    ] {
        fs::write(folder.join("token"), content).unwrap();
        let refused = refusal().await;
        assert_eq!(refused.kind, FailureKind::PreconditionFailed);
        assert!(refused.message.contains(says), "{}", refused.message);
        assert!(!refused.message.contains("eyJ"), "{}", refused.message);
    }
    fs::remove_file(folder.join("token")).unwrap();
    fs::create_dir(folder.join("token")).unwrap();
    assert!(refusal().await.message.contains("not a file"));
    fs::remove_dir_all(&folder).unwrap();
}
