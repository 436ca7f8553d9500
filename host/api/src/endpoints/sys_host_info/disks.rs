//! File systems on disks, with their size and free space.
//!
//! This file prevents a request that hangs: file systems of a network, which may not answer, are
//! left out.

use rustix::fs::statvfs;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// Maximum number of disks in the answer.
const DISKS_MAX: usize = 64;

/// A mounted file system.
#[derive(Debug, PartialEq)]
struct MountedDisk<'a> {
    device: &'a str,
    path: &'a str,
    kind: &'a str,
}

/// Returns the use of each disk. A disk that the process cannot look at is left out.
pub(super) fn read_disks() -> Vec<Value> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (mounts, kinds) = (read("/proc/self/mounts"), read("/proc/filesystems"));
    mounted_disks(&mounts, &kinds).iter().filter_map(describe_disk).collect()
}

/// Returns the first mount of each device. `kinds` are the lines of `/proc/filesystems`: a kind
/// without a device is marked.
fn mounted_disks<'a>(mounts: &'a str, kinds: &str) -> Vec<MountedDisk<'a>> {
    let kinds: BTreeSet<&str> =
        kinds.lines().filter(|line| !line.starts_with("nodev")).map(str::trim).collect();
    let mut seen = BTreeSet::new();
    let disks = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, path, kind) = (words.next()?, words.next()?, words.next()?);
        let is_first = kinds.contains(kind) && seen.insert(device);
        is_first.then_some(MountedDisk { device, path, kind })
    });
    disks.take(DISKS_MAX).collect()
}

fn describe_disk(disk: &MountedDisk<'_>) -> Option<Value> {
    let figures = statvfs(disk.path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(figures.f_frsize);
    let (total, free) = (bytes(figures.f_blocks), bytes(figures.f_bavail));
    let used = total.saturating_sub(bytes(figures.f_bfree));
    let inodes_used = figures.f_files.saturating_sub(figures.f_ffree);
    Some(json!({
        "path": disk.path,
        "fstype": disk.kind,
        "total": total,
        "free": free,
        "used": used,
        "usedPercent": percent_of(used, used.saturating_add(free)),
        "inodesTotal": figures.f_files,
        "inodesUsed": inodes_used,
        "inodesFree": figures.f_ffree,
        "inodesUsedPercent": percent_of(inodes_used, figures.f_files),
    }))
}

/// Returns the share of `part` in `total` in per cent, with two decimals; 0 of nothing.
pub(super) fn percent_of(part: u64, total: u64) -> f64 {
    let hundredths = u128::from(part) * 10_000 / u128::from(total.max(1));
    f64::from(u32::try_from(hundredths).unwrap_or_default()) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_devices_once_each() {
        let kinds = "nodev\tsysfs\nnodev\tnfs\n\text4\n";
        let mounts = "sysfs /sys sysfs rw 0 0\n/dev/a / ext4 rw 0 0\n/dev/a /b ext4 rw 0 0\n\
                      h:/x /n nfs rw 0 0\n";
        let root = MountedDisk { device: "/dev/a", path: "/", kind: "ext4" };
        assert_eq!(mounted_disks(mounts, kinds), [root]);
        assert_eq!(mounted_disks("", kinds), []);
    }

    #[test]
    fn shares_are_per_cent_with_two_decimals() {
        assert_eq!((percent_of(1, 3), percent_of(5, 5), percent_of(0, 0)), (33.33, 100.0, 0.0));
    }
}
