//! The block `telemetry`: usable collectors, refused settings and the files of a collector.

use super::*;
use crate::config::Config;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const SECRET: &str = "hunter2-token";

fn read(block: &str) -> Result<Config, String> {
    let text = format!("storage \"sqlite\" {{ path = \"/d\" }}\ntelemetry {{\n{block}\n}}");
    Config::of(&text).map_err(|refusal| refusal.message(Path::new("/f")))
}

#[test]
fn collector_gets_traces_below_its_url() {
    for (url, origin, path) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318", "/v1/traces"),
        ("https://c.example/otlp/", "https://c.example:443", "/otlp/v1/traces"),
        ("https://c.example:4318/v1/traces", "https://c.example:4318", "/v1/traces"),
    ] {
        let access = access_to(url);
        assert_eq!(access.server.origin.to_string(), origin);
        assert_eq!(access.path.to_string(), path);
        assert_eq!(access.server.secured.is_some(), url.starts_with("https"));
    }
    let config = read("otlp_endpoint = \"http://[::1]:4318\"\nsample_ratio = 0.25").unwrap();
    assert!((config.telemetry.sample_ratio - 0.25).abs() < f64::EPSILON);
    let report = config.to_string();
    assert!(report.contains("exports traces to http://[::1]:4318/v1/traces, a part of 0.25"));
    let off = read("disable_hostname = true").unwrap();
    assert!(off.telemetry.load(&OutboundNetwork::default()).unwrap().is_none());
    assert!(!off.to_string().contains("traces") && off.notices.len() == 1, "{off}");
}

#[test]
fn unusable_collector_refuses_file_by_line() {
    for (block, says) in [
        ("otlp_endpoint = \"collector:4318\"", "line 3: otlp_endpoint: "),
        ("otlp_endpoint = \"grpc://c:4317\"", "neither https:// nor http://"),
        ("otlp_endpoint = \"https://u:p@c:4318\"", "user or password"),
        ("otlp_endpoint = \"https://c:4318?key=1\"", "the URL has a query"),
        ("otlp_endpoint = \"http://c\"\nsample_ratio = 1.5", "line 4: sample_ratio: 1.5 is not"),
        ("otlp_endpoint = \"http://c\"\nsample_ratio = -0.1", "is not between 0 and 1"),
        ("otlp_endpoint = \"http://c\"\nsample_ratio = \"half\"", "sample_ratio: "),
        ("otlp_endpoint = \"http://c\"\nsample_ratio = \"NaN\"", "sample_ratio: "),
        ("sample_ratio = 0.5", "there is no collector; write otlp_endpoint"),
        ("otlp_endpoint = \"http://c\"\notlp_headers_file = \"/h\"", "is plain HTTP"),
        ("otlp_endpoint = \"http://c\"\notlp_ca_cert = \"/h\"", "is plain HTTP"),
        ("otlp_endpiont = \"http://c\"", "otlp_endpoint"),
    ] {
        let why = read(block).unwrap_err();
        assert!(why.contains(says), "{block}: {why}");
    }
}

#[test]
fn files_of_collector_are_read_without_quoting_headers() {
    let name = format!("bulkhead-telemetry-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("headers");
    let block = format!(
        "otlp_endpoint = \"https://c.example\"\notlp_headers_file = \"{}\"",
        file.display()
    );
    let load = |content: &str, mode: u32| {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let settings = read(&block).unwrap().telemetry;
        settings.load(&OutboundNetwork::default()).map(Option::unwrap)
    };
    let good = format!("Authorization: Bearer {SECRET}\n\nX-Scope: a\n");
    let access = load(&good, 0o600).unwrap();
    assert_eq!(access.headers[1], ("X-Scope".to_owned(), "a".to_owned()));
    for (content, mode, says) in [
        (good.as_str(), 0o644, "is open to others"),
        (SECRET, 0o600, "line 1 is not a header"),
        (&format!("a b: {SECRET}"), 0o600, "is not a header's name"),
        (&format!("Host: {SECRET}"), 0o600, "set by the host"),
        (&format!("a: {SECRET}\n").repeat(17), 0o600, "the most is 16"),
    ] {
        let why = load(content, mode).err().unwrap();
        assert!(why.contains(says) && !why.contains(SECRET), "{why}");
    }
    fs::remove_dir_all(&folder).unwrap();
    let block = "otlp_endpoint = \"https://c.example\"\notlp_ca_cert = \"/nonexistent\"";
    let settings = read(block).unwrap().telemetry;
    let why = settings.load(&OutboundNetwork::default()).err().unwrap();
    assert!(why.contains("otlp_ca_cert /nonexistent cannot be read"), "{why}");
}
