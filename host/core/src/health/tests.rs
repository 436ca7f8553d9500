//! Tests of the conditions of the service.

use super::*;

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        let code = pairs.first().map(|(_, code)| code.as_str()).unwrap_or_default();
        sync::lock(&self.0).push(format!("{} {event} {code}", level.word()));
    }
}

#[test]
fn each_condition_is_logged_at_beginning_and_end() {
    let lines = Arc::new(Lines::default());
    let log: Arc<dyn Log> = lines.clone();
    let watch = HealthWatch::new(&log);
    let mounts = |condition, mounts| HealthCondition::Mounts { condition, mounts };
    let clock = |seconds| HealthCondition::ClockBehind { seconds };
    for conditions in [
        &[][..],
        &[HealthCondition::DiskFull],
        &[HealthCondition::DiskFull, clock(60)],
        &[HealthCondition::DiskFull, clock(61)],
        &[clock(62)],
        &[HealthCondition::WritesStopped],
        &[HealthCondition::DatabaseUnconfirmed],
        &[HealthCondition::SnapshotFailing { failing: 1 }],
        &[HealthCondition::SnapshotFailing { failing: 2 }],
        &[mounts(MountCondition::Resting, 1)],
        &[mounts(MountCondition::Resting, 2), mounts(MountCondition::OnProbation, 1)],
        &[],
    ] {
        watch.report(&mut sync::lock(&watch.reported), conditions);
    }
    assert_eq!(
        *sync::lock(&lines.0),
        [
            "warn health-degraded disk-full",
            "warn health-degraded clock-behind",
            "info health-restored disk-full",
            "error health-degraded writes-stopped",
            "info health-restored clock-behind",
            "error health-degraded database-unconfirmed",
            "info health-restored writes-stopped",
            "warn health-degraded snapshot-failing",
            "info health-restored database-unconfirmed",
            "warn health-degraded mounts-resting",
            "info health-restored snapshot-failing",
            "info health-degraded mounts-on-probation",
            "info health-restored mounts-on-probation",
            "info health-restored mounts-resting",
        ]
    );
}

#[test]
fn failing_audit_devices_degrade_or_stop_the_service() {
    let degraded = HealthCondition::AuditDegraded { failing: 1, devices: 2 };
    for (failing, devices, expected) in [
        (0, 0, None),
        (0, 2, None),
        (1, 2, Some(degraded)),
        (1, 1, Some(HealthCondition::AuditStopped)),
        (2, 2, Some(HealthCondition::AuditStopped)),
    ] {
        assert_eq!(audit_condition(failing, devices), expected, "{failing} of {devices}");
    }
    assert!(!degraded.is_fatal() && HealthCondition::AuditStopped.is_fatal());
    assert!(degraded.message().starts_with("1 of 2 audit devices"), "{}", degraded.message());
}
