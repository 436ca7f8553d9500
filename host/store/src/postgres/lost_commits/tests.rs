//! Differences between the rows of a read and the known commits.

use super::*;

const OWN: (i64, &[u8]) = (7, b"own");

fn row(commits: i64, kept: i64, holder: Option<&str>) -> ReadRow {
    ReadRow { commits, kept, holder: holder.map(|holder| holder.as_bytes().to_vec()) }
}

/// Returns the known commits of the own row, of `a` with a claim, and of `b` without one.
fn known_commits() -> KnownCommits {
    let mut commits = KnownCommits::of_node("own".to_owned());
    commits.numbers.extend([("a".to_owned(), 20), ("b".to_owned(), 30)]);
    commits.holders.insert("a".to_owned(), b"first".to_vec());
    commits.holders.insert("own".to_owned(), b"own".to_vec());
    commits
}

fn rows(of_a: ReadRow) -> BTreeMap<String, ReadRow> {
    [("own", row(7, 3, Some("own"))), ("a", of_a)].map(|(name, row)| (name.to_owned(), row)).into()
}

#[test]
fn later_commits_and_openings_are_no_loss() {
    for of_a in [
        row(20, 3, Some("first")),
        row(25, 3, Some("first")),
        row(20, 3, None),
        row(21, 22, Some("second")),
        row(29, 25, Some("second")),
    ] {
        assert_eq!(difference(&rows(of_a), &known_commits(), OWN, false), None);
    }
}

#[test]
fn fewer_commits_and_other_openings_are_loss() {
    let node = || "a".to_owned();
    for (of_a, fault) in [
        (
            row(19, 3, Some("first")),
            HistoryFault::ReadCommits { node: node(), found: 19, known: 20 },
        ),
        (row(19, 3, None), HistoryFault::ReadCommits { node: node(), found: 19, known: 20 }),
        (row(20, 21, Some("second")), HistoryFault::OtherHistory { node: node(), known: 20 }),
        (row(24, 19, Some("second")), HistoryFault::OtherHistory { node: node(), known: 20 }),
    ] {
        assert_eq!(difference(&rows(of_a), &known_commits(), OWN, false), Some(fault));
    }
}

#[test]
fn missing_rows_and_own_losses_are_found() {
    let commits = known_commits();
    let mut found = rows(row(20, 3, Some("first")));
    let missing = HistoryFault::ReadCommits { node: "b".to_owned(), found: 0, known: 30 };
    assert_eq!(difference(&found, &commits, OWN, true), Some(missing));
    assert_eq!(difference(&found, &commits, (8, b"own"), false), {
        Some(HistoryFault::OwnCommits { found: 7, known: 8 })
    });
    assert_eq!(difference(&found, &commits, (7, b"new"), false), Some(HistoryFault::OwnClaim));
    found.remove("own");
    let lost = HistoryFault::OwnCommits { found: 0, known: 7 };
    assert_eq!(difference(&found, &commits, OWN, false), Some(lost));
}
