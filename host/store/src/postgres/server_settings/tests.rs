//! Settings of a server that could lose commits.

use super::*;

#[test]
fn weak_commits_are_doubted_only_with_standbys() {
    let doubt = standby_doubt("ANY 1 (a, b)", "local").unwrap();
    assert!(doubt.contains("synchronous_commit = local"), "{doubt}");
    assert!(standby_doubt("a", "remote_write").is_some());
    for value in ["on", "remote_apply"] {
        assert_eq!(standby_doubt("a", value), None);
    }
    assert_eq!(standby_doubt(" ", "local"), None);
}

#[test]
fn versions_before_the_oldest_are_refused() {
    assert!(refused_version("120022").unwrap().contains("version 12,"));
    for version in ["130000", "150018", "180001", "development"] {
        assert_eq!(refused_version(version), None, "{version}");
    }
}
