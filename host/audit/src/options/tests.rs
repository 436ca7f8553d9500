//! Tests of the options of audit devices.

use super::*;
use serde_json::json;

fn read_options(options: &Value) -> Result<(DeviceSettings, AuditTarget), Failure> {
    read("main", options.as_object().unwrap(), Path::new("/var/log/audit"))
}

#[test]
fn device_options_are_texts_and_path_alone_suffices() {
    let (settings, place) = read_options(&json!({ "file_path": "/var/log/audit/a.log" })).unwrap();
    let file = Path::new("/var/log/audit/a.log").to_path_buf();
    let usual = DeviceSettings {
        name: "main".to_owned(),
        file,
        mode: 0o600,
        log_raw: false,
        hmac_accessor: true,
        elide_list_responses: false,
        sync: false,
    };
    assert_eq!(settings, usual);
    let AuditTarget::Within { directory, name } = place else { panic!("{place:?}") };
    assert_eq!((directory.as_path(), name.as_str()), (Path::new("/var/log/audit"), "a.log"));
    let all = json!({
        "path": "a.log", "mode": "0640", "log_raw": "true", "hmac_accessor": "false",
        "elide_list_responses": "1", "sync": "true", "format": "json", "prefix": "",
    });
    let all_settings = DeviceSettings {
        mode: 0o640,
        log_raw: true,
        hmac_accessor: false,
        elide_list_responses: true,
        sync: true,
        ..usual
    };
    assert_eq!(read_options(&all).unwrap().0, all_settings);
}

#[test]
fn stdout_device_is_no_file_and_keeps_permissions() {
    let (settings, place) = read_options(&json!({ "file_path": "stdout" })).unwrap();
    assert_eq!((settings.file.to_str(), settings.mode), (Some("/dev/stdout"), 0));
    assert!(matches!(place, AuditTarget::File(file) if file == settings.file));
}

#[test]
fn file_outside_audit_directory_cannot_be_named() {
    for path in [
        "/etc/passwd",
        "../a.log",
        "/var/log/audit/../a.log",
        "/var/log/audit",
        "/var/log/audit/",
        ".",
        "..",
        "below/a.log",
        "/var/log/audit/below/a.log",
        "/var/log/audit2/a.log",
        "a.log/..",
        ".hidden",
        "a\0b",
        "discard",
        "a.log/",
        "/dev/stdout",
        "~/a.log",
        "$HOME",
        "a b",
        "",
    ] {
        let refused = read_options(&json!({ "file_path": path })).unwrap_err();
        assert_eq!(refused.kind.status(), 400, "{path}: {refused}");
    }
}

#[test]
fn no_mode_lets_a_file_be_executed() {
    for mode in ["0700", "755", "0601", "4600", "8", "0o600", "+600", "-1", "99999999999", "u=rw"] {
        let refused = read_options(&json!({ "file_path": "a.log", "mode": mode })).unwrap_err();
        assert_eq!(refused.kind.status(), 400, "{mode}: {refused}");
    }
    assert_eq!(read_options(&json!({ "file_path": "a.log", "mode": "0000" })).unwrap().0.mode, 0);
}

#[test]
fn unsupported_options_of_a_device_are_refused() {
    let refusals = [
        (json!({ "prefix": "#!/bin/sh" }), "prefix is not supported"),
        (json!({ "format": "jsonx" }), "use json"),
        (json!({ "filter": "operation == read" }), "\"filter\" is not known"),
        (json!({ "log_raw": "perhaps" }), "log_raw: "),
    ];
    for (mut options, why) in refusals {
        options.as_object_mut().unwrap().insert("file_path".to_owned(), json!("a.log"));
        let refused = read_options(&options).unwrap_err();
        assert!(refused.kind.status() == 400 && refused.message.contains(why), "{refused}");
    }
    assert!(read_options(&json!({})).unwrap_err().message.contains("file_path is required"));
}
