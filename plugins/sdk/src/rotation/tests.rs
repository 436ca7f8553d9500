//! Rotation settings as callers write them, and the due times that follow.

use super::*;
use crate::answer::Answer;
use crate::engine::SecretsEngine;
use crate::host::Host;
use crate::mounted_plugin::MountedPlugin;
use crate::table::{Row, read, write};
use crate::testbed::TestBed;

/// An engine that stores only rotation settings.
struct Keeper;

const NAME: &[Field] = &[Field::name_of("name", "which")];

impl MountedPlugin for Keeper {
    const NAME: &'static str = "keeper";
    const VERSION: &'static str = "0.1.0";
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Keeps settings.";
    const TABLE: &'static [Row] = &[
        write("config/{name}", configure).fields(&[NAME, CONFIG_FIELDS]),
        read("config/{name}", show).fields(&[NAME]),
        write("role/{name}", configure_role).fields(&[NAME, ROLE_FIELDS]),
    ];
}

impl SecretsEngine for Keeper {}

fn stored_settings(host: &dyn Host) -> Result<RotationSettings, Failure> {
    let bytes = host.storage().get_bytes("settings")?.unwrap_or_else(|| b"{}".to_vec());
    serde_json::from_slice(&bytes).map_err(|why| Failure::internal(why.to_string()))
}

fn keep(host: &dyn Host, call: &Call, bounds: RotationBounds) -> Result<Answer, Failure> {
    let mut settings = stored_settings(host)?;
    let is_changed = settings.merge(call, bounds)?;
    let bytes = serde_json::to_vec(&settings).map_err(|why| Failure::internal(why.to_string()))?;
    host.storage().put_bytes("settings", bytes)?;
    Answer::data(&json!({ "changed": is_changed }))
}

fn configure(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    keep(host, call, RotationBounds::CONFIG)
}

fn configure_role(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    keep(host, call, RotationBounds::STATIC_ROLE)
}

fn show(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    Answer::data(&stored_settings(host)?.show())
}

fn shown(bed: &TestBed<Keeper>) -> Value {
    Value::Object(bed.read("config/it").unwrap().data)
}

/// Writes the bodies in turn. Expects the last write to be refused with a message that contains
/// `says`, and to change nothing.
fn refused_with(path: &str, bodies: &[Value], says: &str) {
    let bed = TestBed::<Keeper>::new().unwrap();
    let (last, before) = bodies.split_last().unwrap();
    for body in before {
        bed.write(path, body).unwrap_or_else(|why| panic!("{body}: {}", why.message));
    }
    let before = shown(&bed);
    let refused = bed.write(path, last).err().unwrap_or_else(|| panic!("{last} was taken"));
    assert_eq!(refused.kind, crate::FailureKind::InvalidRequest);
    assert!(refused.message.contains(says), "{last}: {}", refused.message);
    assert_eq!(shown(&bed), before, "{last}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let nightly = || json!({"rotation_schedule": "0 3 * * *"});
    let daily = || json!({"rotation_period": "24h"});
    let both = json!({"rotation_period": 60, "rotation_schedule": "0 3 * * *"});
    let window = |seconds: u64| json!({"rotation_window": seconds});
    refused_with("config/it", std::slice::from_ref(&both), "mutually exclusive");
    refused_with("role/it", &[both], "mutually exclusive");
    let windowed = json!({"rotation_period": 60, "rotation_window": "2h"});
    refused_with("config/it", std::slice::from_ref(&windowed), "rotation_window does not apply");
    refused_with("config/it", &[nightly(), windowed], "rotation_window does not apply");
    refused_with("config/it", &[window(7_200)], "without rotation_schedule");
    refused_with("config/it", &[daily(), window(7_200)], "without rotation_schedule");
    let ended = json!({"rotation_schedule": "", "rotation_window": 7200});
    refused_with("config/it", &[nightly(), ended], "without rotation_schedule");
    refused_with("config/it", &[nightly(), window(3_599)], "3600 seconds or more");
}

#[test]
fn periods_have_a_minimum_and_schedules_are_read() {
    refused_with("config/it", &[json!({"rotation_period": 9})], "must be 10 seconds or more");
    refused_with("role/it", &[json!({"rotation_period": 4})], "must be 5 seconds or more");
    for wrong in ["foo", "@daily", "0 0 3 * * *", "0 0 30 2 *", "CRON_TZ=Nowhere 0 0 * * *"] {
        let body = json!({"rotation_schedule": wrong});
        refused_with("config/it", &[body], "could not parse rotation_schedule");
    }
    let bed = TestBed::<Keeper>::new().unwrap();
    bed.write("config/it", &json!({"rotation_period": 10})).unwrap();
    bed.write("role/it", &json!({"rotation_period": 5})).unwrap();
}

#[test]
fn static_role_needs_schedule_or_period_unlike_configuration() {
    refused_with("role/it", &[json!({})], "one of rotation_schedule or rotation_period");
    let ended = json!({"rotation_period": 0});
    refused_with("role/it", &[json!({"rotation_period": 60}), ended], "one of rotation_schedule");
    let bed = TestBed::<Keeper>::new().unwrap();
    bed.write("config/it", &json!({})).unwrap();
    assert_eq!(
        shown(&bed),
        json!({"rotation_period": 0, "rotation_schedule": "", "rotation_window": 0,
               "disable_automated_rotation": false})
    );
}

#[test]
fn rotation_period_and_schedule_replace_each_other() {
    let bed = TestBed::<Keeper>::new().unwrap();
    for (body, period, schedule, window, disabled) in [
        (json!({"rotation_period": "1h"}), 3_600, "", 0, false),
        (json!({"disable_automated_rotation": true}), 3_600, "", 0, true),
        (json!({"rotation_schedule": " 0 3 * * * "}), 0, "0 3 * * *", 0, true),
        (json!({"rotation_window": "2h"}), 0, "0 3 * * *", 7_200, true),
        (json!({"rotation_schedule": "0 4 * * *"}), 0, "0 4 * * *", 7_200, true),
        (json!({"rotation_period": 0}), 0, "0 4 * * *", 7_200, true),
        (json!({"rotation_window": 0}), 0, "0 4 * * *", 0, true),
        (json!({"rotation_window": 3_600}), 0, "0 4 * * *", 3_600, true),
        (json!({"rotation_period": 90, "rotation_schedule": ""}), 90, "", 0, true),
        (json!({"rotation_period": 0, "rotation_schedule": "0 5 * * *"}), 0, "0 5 * * *", 0, true),
        (json!({"rotation_schedule": ""}), 0, "", 0, true),
    ] {
        let before = shown(&bed);
        let changed = bed.write("config/it", &body).unwrap().data["changed"].clone();
        assert_eq!(changed, shown(&bed) != before, "{body}");
        let expected = json!({
            "rotation_period": period, "rotation_schedule": schedule, "rotation_window": window,
            "disable_automated_rotation": disabled,
        });
        assert_eq!(shown(&bed), expected, "{body}");
        assert_eq!(bed.write("config/it", &body).unwrap().data["changed"], false, "{body} again");
    }
}

const HOUR: u64 = 3_600_000;
/// 2026-01-01T00:00:00Z.
const NEW_YEAR: StoreTime = 1_767_225_600_000;

fn nightly(window: u64) -> RotationSettings {
    RotationSettings { schedule: "0 3 * * *".to_owned(), window, ..RotationSettings::default() }
}

#[test]
fn change_rotates_nothing_and_counts_from_last_rotation() {
    let hourly = RotationSettings { period: 3_600, ..RotationSettings::default() };
    let times = hourly.rotated_at(NEW_YEAR).unwrap();
    let later = NEW_YEAR + 10 * HOUR;
    let changed = |settings: &RotationSettings| settings.changed_at(&times, later).unwrap();
    assert_eq!(changed(&hourly).due, Some(NEW_YEAR + HOUR), "due already");
    assert_eq!(changed(&nightly(0)).due, Some(NEW_YEAR + 3 * HOUR));
    assert_eq!(changed(&nightly(0)).last, Some(NEW_YEAR));
    let disabled = RotationSettings { is_disabled: true, ..hourly.clone() };
    assert_eq!(changed(&disabled).due, None);
    let never = RotationTimes::default();
    assert_eq!(hourly.changed_at(&never, later).unwrap().due, Some(later + HOUR));
}

#[test]
fn missed_window_waits_and_no_window_misses_nothing() {
    let due = NEW_YEAR + 3 * HOUR;
    let times = RotationTimes { last: None, due: Some(due) };
    let windowed = nightly(3_600);
    let decide = |settings: &RotationSettings, now| settings.decide(&times, now).unwrap();
    assert_eq!(decide(&windowed, due - 1), RotationDecision::Wait(due));
    assert_eq!(decide(&windowed, due), RotationDecision::Rotate);
    assert_eq!(decide(&windowed, due + HOUR - 1), RotationDecision::Rotate);
    assert_eq!(decide(&windowed, due + HOUR), RotationDecision::Missed(Some(due + 24 * HOUR)));
    assert_eq!(decide(&windowed, due + 25 * HOUR), RotationDecision::Missed(Some(due + 48 * HOUR)));
    assert_eq!(decide(&nightly(0), due + 1_000 * HOUR), RotationDecision::Rotate);
    let weekly = RotationSettings { period: 604_800, ..RotationSettings::default() };
    assert_eq!(decide(&weekly, due + 10_000 * HOUR), RotationDecision::Rotate);
}

#[test]
fn rotation_decision_is_off_without_automatic_rotation() {
    let times = RotationTimes { last: Some(NEW_YEAR), due: Some(NEW_YEAR) };
    let off = |settings: RotationSettings| settings.decide(&times, NEW_YEAR + HOUR).unwrap();
    assert_eq!(off(RotationSettings::default()), RotationDecision::Off);
    assert_eq!(off(RotationSettings { is_disabled: true, ..nightly(0) }), RotationDecision::Off);
    let none = RotationTimes { last: Some(NEW_YEAR), due: None };
    assert_eq!(nightly(0).decide(&none, NEW_YEAR).unwrap(), RotationDecision::Off);
}

#[test]
fn a_late_rotation_does_not_move_the_schedule() {
    let late = NEW_YEAR + 5 * HOUR;
    assert_eq!(nightly(0).rotated_at(late).unwrap().due, Some(NEW_YEAR + 27 * HOUR));
    let period = RotationSettings { period: 60, ..RotationSettings::default() };
    assert_eq!(period.rotated_at(late).unwrap().due, Some(late + 60_000));
    let huge = RotationSettings { period: u64::MAX, ..RotationSettings::default() };
    assert_eq!(huge.rotated_at(late).unwrap().due, Some(StoreTime::MAX));
}

#[test]
fn a_static_role_shows_the_chosen_settings() {
    let shown = |settings: RotationSettings| Value::Object(settings.show_chosen());
    let period = RotationSettings { period: 60, ..RotationSettings::default() };
    assert_eq!(shown(period), json!({"rotation_period": 60}));
    assert_eq!(shown(nightly(0)), json!({"rotation_schedule": "0 3 * * *"}));
    assert_eq!(
        shown(nightly(7_200)),
        json!({"rotation_schedule": "0 3 * * *", "rotation_window": 7200})
    );
}

#[test]
fn window_is_lost_only_with_its_schedule() {
    let period = RotationSettings { period: 60, ..RotationSettings::default() };
    let warning = period.lost_window(&nightly(7_200)).unwrap();
    assert!(warning.contains("rotation_window of 2h"), "{warning}");
    assert!(RotationSettings::default().lost_window(&nightly(3_600)).is_some());
    for (now, before) in [
        (period.clone(), nightly(0)),
        (period.clone(), period),
        (nightly(0), nightly(7_200)),
        (nightly(3_600), nightly(7_200)),
    ] {
        assert_eq!(now.lost_window(&before), None);
    }
}

#[test]
fn rotation_times_show_seconds_under_both_names() {
    let times = RotationTimes { last: Some(NEW_YEAR + 1_500), due: Some(NEW_YEAR + 10_499) };
    assert_eq!([0, 1, 10_000, 20_000].map(|later| times.ttl(NEW_YEAR + later)), [10, 10, 0, 0]);
    let at = "2026-01-01T00:00:01.5Z";
    assert_eq!(
        Value::Object(times.show_last()),
        json!({"last_service_rotation": at, "last_vault_rotation": at})
    );
    assert!(RotationTimes::default().show_last().is_empty());
    assert_eq!(RotationTimes::default().ttl(NEW_YEAR), 0);
}

/// Engines store the settings in one record with other fields, of this release or an older one.
#[test]
fn settings_and_times_are_read_despite_missing_parts() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Role {
        username: String,
        #[serde(flatten)]
        rotation: RotationSettings,
        #[serde(flatten)]
        times: RotationTimes,
    }
    let old: Role = serde_json::from_value(json!({"username": "app"})).unwrap();
    assert_eq!(
        (&old.rotation, &old.times),
        (&RotationSettings::default(), &RotationTimes::default())
    );
    let times = nightly(7_200).rotated_at(NEW_YEAR).unwrap();
    let role = Role { username: "app".to_owned(), rotation: nightly(7_200), times };
    let stored = serde_json::to_string(&role).unwrap();
    assert_eq!(serde_json::from_str::<Role>(&stored).unwrap(), role);
}
