//! Tests of settings as clients send them: accepted values, refusals and warnings.

use super::*;
use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_core::mounts::RunningPlugin;
use serde_json::json;

const ENGINE: TuneTarget<'_> = TuneTarget {
    class: MountClass::Secret,
    builtin: None,
    kind: "database",
    running: RunningPlugin {
        version: "1.2.3",
        digest: "",
        is_official: false,
        usual: &[],
        ceiling: None,
    },
    system: Lifetimes { default: 100, max: 1_000 },
};
const TOKEN: TuneTarget<'_> = TuneTarget {
    class: MountClass::Auth,
    builtin: Some(BuiltinMount::Token),
    kind: "token",
    ..ENGINE
};
const SYSTEM: TuneTarget<'_> =
    TuneTarget { builtin: Some(BuiltinMount::System), kind: "system", ..ENGINE };

fn changed(
    subject: &TuneTarget<'_>,
    config: Value,
) -> Result<(MountSettings, Vec<String>), Failure> {
    let (values, _) = of_config(Some(&config))?;
    let mut settings = MountSettings::default();
    let warnings = change(&mut settings, &values, subject)?;
    Ok((settings, warnings))
}

fn refused(subject: &TuneTarget<'_>, config: Value) -> String {
    changed(subject, config).unwrap_err().message
}

#[test]
fn lifetimes_come_in_every_form_that_clients_use() {
    for (value, seconds) in [
        (json!("10m"), 600),
        (json!(600), 600),
        (json!("600"), 600),
        (json!("system"), 0),
        (json!(""), 0),
    ] {
        let (settings, _) = changed(&ENGINE, json!({ "max_lease_ttl": value })).unwrap();
        assert_eq!(settings.max_ttl, seconds, "{value}");
    }
    for (value, says) in
        [(json!(-1), "-1"), (json!("9999999999h"), "9999999999h"), (json!([1]), "a list")]
    {
        let why = refused(&ENGINE, json!({ "default_lease_ttl": value }));
        assert!(
            why.starts_with("default_lease_ttl: ") && why.contains(says) && why.contains("system"),
            "{why}"
        );
    }
    assert!(refused(&ENGINE, json!({ "default_lease_ttl": 1_001 })).contains("system's maximum"));
    assert!(
        changed(&ENGINE, json!({ "default_lease_ttl": 1_001, "max_lease_ttl": 2_000 })).is_ok()
    );
}

#[test]
fn missing_settings_stay_and_options_are_added() {
    let (mut settings, _) =
        changed(&ENGINE, json!({ "options": {"a": 1, "b": "x"}, "max_lease_ttl": 9 })).unwrap();
    let (values, _) =
        of_config(Some(&json!({ "options": {"b": "", "c": true}, "description": "d" }))).unwrap();
    assert!(change(&mut settings, &values, &ENGINE).unwrap().is_empty());
    assert_eq!((settings.max_ttl, settings.description.as_str()), (9, "d"));
    assert_eq!(json!(settings.options), json!({"a": "1", "c": "true"}));
}

#[test]
fn an_empty_text_changes_nothing_and_system_resets() {
    let of_go = json!({ "options": null, "default_lease_ttl": "", "max_lease_ttl": "",
                        "description": "new" });
    let nothing = json!({ "grants": "", "token_type": "", "force_no_cache": "", "options": "",
                          "plugin_probation": "", "user_lockout_config": "" });
    let (before, _) = changed(
        &ENGINE,
        json!({ "default_lease_ttl": 60, "max_lease_ttl": 90, "grants": ["limit:memory=64MiB"],
                "audit_non_hmac_request_keys": "a", "force_no_cache": true,
                "options": {"a": "b"}, "identity_token_key": "k" }),
    )
    .unwrap();
    let tuned = |sent: &Value| {
        let (values, _) = of_config(Some(sent)).unwrap();
        let mut settings = before.clone();
        change(&mut settings, &said(&values, sent.as_object().unwrap()), &ENGINE).unwrap();
        settings
    };
    let described = MountSettings { description: "new".to_owned(), ..before.clone() };
    assert_eq!(tuned(&of_go), described);
    assert_eq!(tuned(&nothing), before);
    for reset in [json!("system"), json!(0), json!("0")] {
        let settings = tuned(&json!({ "default_lease_ttl": reset, "max_lease_ttl": reset }));
        assert_eq!((settings.default_ttl, settings.max_ttl), (0, 0), "{reset}");
    }
    let emptied = tuned(&json!({ "grants": [], "audit_non_hmac_request_keys": [] }));
    assert_eq!(emptied.grants, Some(Vec::new()));
    assert!(emptied.audit_non_hmac_request_keys.is_empty());
    assert_eq!(tuned(&json!({ "listing_visibility": "" })), before);
    let taken_back =
        tuned(&json!({ "audit_non_hmac_request_keys": " ", "identity_token_key": "" }));
    assert!(taken_back.audit_non_hmac_request_keys.is_empty());
    assert_eq!(taken_back.identity_token_key, "");
}

#[test]
fn nonempty_settings_without_effect_are_stored_with_warning() {
    let (settings, warnings) = changed(
        &ENGINE,
        json!({
            "passthrough_request_headers": "X-Trace, X-Team", "force_no_cache": true,
            "allowed_response_headers": ["X-A"],
            "delegated_auth_accessors": ["auth_x_1"],
        }),
    )
    .unwrap();
    assert_eq!(settings.passthrough_request_headers, ["X-Trace", "X-Team"]);
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings.iter().all(|warning| warning.contains("has no effect")), "{warnings:?}");
    let empty = json!({
        "passthrough_request_headers": [], "force_no_cache": false, "token_type": "",
        "user_lockout_config": {}, "plugin_version": "", "plugin_name": "",
        "default_lease_ttl": "", "options": null,
    });
    for subject in [&ENGINE, &TOKEN, &SYSTEM] {
        let (settings, warnings) = changed(subject, empty.clone()).unwrap();
        assert_eq!((settings, warnings), (MountSettings::default(), Vec::new()));
    }
}

#[test]
fn ignorable_setting_that_would_widen_access_is_refused() {
    for name in ["Authorization", "X-Vault-Token", "cookie", "x-nomad-token"] {
        let why = refused(&ENGINE, json!({ "passthrough_request_headers": ["X-Ok", name] }));
        assert!(why.contains(name), "{why}");
    }
    let lockout = json!({ "user_lockout_config": {"lockout_threshold": 3} });
    assert!(refused(&ENGINE, lockout).contains("user_lockout_config"));
    assert!(refused(&ENGINE, json!({ "token_type": "batch" })).contains("auth methods only"));
    assert!(refused(&ENGINE, json!({ "listing_visibility": "all" })).contains("\"all\""));
}

#[test]
fn mount_accepts_only_available_version_and_own_plugin() {
    for version in ["1.2.3", "v1.2.3", ""] {
        assert!(
            changed(&ENGINE, json!({ "plugin_version": version, "plugin_name": "database" }))
                .is_ok()
        );
    }
    assert!(refused(&ENGINE, json!({ "plugin_version": "v9" })).contains("there is 1.2.3"));
    assert!(refused(&ENGINE, json!({ "plugin_name": "kv" })).contains("\"kv\""));
}

#[test]
fn builtin_mounts_accept_supported_settings_only() {
    let (settings, _) = changed(
        &TOKEN,
        json!({
            "default_lease_ttl": "5m", "max_lease_ttl": 900, "description": "d",
            "listing_visibility": "unauth", "audit_non_hmac_request_keys": "a,b",
            "audit_non_hmac_response_keys": ["c"],
        }),
    )
    .unwrap();
    assert_eq!((settings.default_ttl, settings.max_ttl), (300, 900));
    assert_eq!(settings.audit_non_hmac_request_keys, ["a", "b"]);
    assert_eq!(settings.listing_visibility, ListingVisibility::Unauth);
    for (subject, config) in [
        (&SYSTEM, json!({ "max_lease_ttl": 9 })),
        (&TOKEN, json!({ "token_type": "batch" })),
        (&TOKEN, json!({ "options": {"a": "b"} })),
        (&SYSTEM, json!({ "grants": ["limit:log=1KiB"] })),
        (&SYSTEM, json!({ "passthrough_request_headers": "x" })),
    ] {
        let why = refused(subject, config);
        assert!(why.contains("part of the server"), "{why}");
    }
}

#[test]
fn config_must_be_object_and_unknown_members_warn() {
    for nothing in
        [None, Some(json!(null)), Some(json!("")), Some(json!({ "max_lease_ttl": null }))]
    {
        assert_eq!(of_config(nothing.as_ref()).unwrap(), (Map::new(), None));
    }
    let (values, warning) =
        of_config(Some(&json!({ "zeta": 1, "alpha": null, "force_no_cache": "true" }))).unwrap();
    assert_eq!(Value::Object(values), json!({ "force_no_cache": true }));
    assert_eq!(warning.unwrap(), "Endpoint ignored these unrecognized parameters: [config.zeta]");
    for wrong in [json!([1]), json!("x"), json!(7)] {
        assert!(of_config(Some(&wrong)).unwrap_err().message.contains("config must be an object"));
    }
    let why = of_config(Some(&json!({ "force_no_cache": "perhaps" }))).unwrap_err().message;
    assert!(why.starts_with("config.force_no_cache: \"perhaps\""), "{why}");
}
