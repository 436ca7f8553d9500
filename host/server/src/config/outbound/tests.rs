//! Precedence between the block and the environment.

use super::*;
use crate::config::{Config, ConfigRefusal};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const SECRET: &str = "hunter2";

fn read(block: &str) -> Result<OutboundSettings, ConfigRefusal> {
    let text = format!("storage \"sqlite\" {{ path = \"/d\" }}\noutbound {{\n{block}\n}}");
    Config::of(&text).map(|config| config.outbound)
}

fn load(block: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    let environment = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(value))
    };
    read(block).unwrap().load(&environment).map(|outbound| format!("{outbound:?}"))
}

#[test]
fn settings_missing_in_file_come_from_environment() {
    let both =
        [("HTTPS_PROXY", "http://user:hunter2@big:1"), ("NO_PROXY", "a.example, .b.example")];
    let small = [("https_proxy", "small:2"), ("no_proxy", "::1,10.0.0.0/8")];
    let shown = load("", &both).unwrap();
    assert!(shown.contains("Proxy(http://big:1)") && shown.contains("a.example"), "{shown}");
    assert!(shown.contains("Below(\"b.example\")") && !shown.contains(SECRET), "{shown}");
    assert!(load("", &small).unwrap().contains("Proxy(http://small:2)"));
    assert!(load("", &[both[0], small[0]]).unwrap().contains("http://big:1"));
    let shown = load("http_proxy = \"http://own:3\"\n no_proxy = []", &both).unwrap();
    assert!(shown.contains("Proxy(http://own:3)") && !shown.contains("example"), "{shown}");
    assert!(
        !load("http_proxy = \"\"", &both).unwrap().contains("Proxy("),
        "the empty text means no proxy"
    );
    for (variables, says) in [
        (&[("HTTPS_PROXY", "socks5://user:hunter2@p")][..], "HTTPS_PROXY of the environment"),
        (&[("no_proxy", "10.0.0.0/99")], "no_proxy of the environment"),
    ] {
        let why = load("", variables).unwrap_err();
        assert!(why.starts_with(says) && !why.contains(SECRET), "{why}");
    }
}

#[test]
fn outbound_block_error_names_line_without_password() {
    for (block, says) in [
        (
            "http_proxy = \"https://p\"",
            "line 3: http_proxy: the connection to a proxy is in the clear",
        ),
        ("http_proxy = \"http://user:hunter2@p\"", "mode 0600"),
        ("no_proxy = [\"a.example\",\n\"b c\"]", "line 4: no_proxy: \"b c\" is not a host"),
        ("no_proxy = \"a.example\"", "a list"),
        ("ca_file = \"\"", "not a path"),
        ("https_proxy = \"http://p\"", "http_proxy"),
        ("proxy = \"http://p\"", "proxy"),
    ] {
        let why = read(block).unwrap_err().errors.swap_remove(0).to_string();
        assert!(why.contains(says) && !why.contains(SECRET), "{why}");
    }
}

#[test]
fn files_that_are_named_are_read_and_checked() {
    let folder = std::env::temp_dir().join(format!("bulkhead-outbound-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("credentials");
    let block =
        format!("http_proxy = \"http://p\"\nhttp_proxy_credentials_file = \"{}\"", file.display());
    for (text, mode, says) in [
        ("user:hunter2\n", 0o644, Some("open to others")),
        ("hunter2\n", 0o600, Some("user:password")),
        ("user:hunter2\nmore\n", 0o600, Some("user:password")),
        ("user:hunter2\n", 0o600, None),
    ] {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        match (load(&block, &[]), says) {
            (Ok(shown), None) => assert!(!shown.contains(SECRET), "{shown}"),
            (Err(why), Some(says)) => assert!(why.contains(says) && !why.contains(SECRET), "{why}"),
            (other, says) => panic!("{other:?} {says:?}"),
        }
    }
    let alone = format!("http_proxy_credentials_file = \"{}\"", file.display());
    assert!(load(&alone, &[]).unwrap_err().contains("there is none"));
    let authority = format!("ca_file = \"{}\"", file.display());
    assert!(load(&authority, &[]).unwrap_err().contains("holds no certificate"));
    assert!(load("ca_file = \"/no/such.pem\"", &[]).unwrap_err().contains("cannot be read"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn config_check_reports_proxy_and_authorities() {
    let text = "http_proxy = \"http://p:1\"\nno_proxy = [\".corp.example\"]\nca_file = \"/ca.pem\"";
    let text = format!("storage \"sqlite\" {{ path = \"/d\" }}\noutbound {{\n{text}\n}}");
    let report = Config::of(&text).unwrap().to_string();
    for line in [
        "reaches web servers through the proxy http://p:1\n",
        "reaches past the proxy .corp.example\n",
        "trusts the authorities in /ca.pem besides the public authorities\n",
    ] {
        assert!(report.contains(line), "{report}");
    }
}
