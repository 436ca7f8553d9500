//! Tests of the precedence between several lines for a limit.

use super::*;

const MIB: usize = 1 << 20;

/// Returns the memory limit in MiB of a mount with these lines. An empty `granted` means no grants.
fn memory(maker: Publisher, patterns: &str, ceiling: Option<&str>, granted: &str) -> usize {
    let lines = |text: &str| -> Vec<GrantPattern> {
        text.split_whitespace().map(|line| line.parse().unwrap()).collect()
    };
    let granted: Vec<Grant> =
        granted.split_whitespace().map(|line| line.parse().unwrap()).collect();
    let (patterns, ceiling) = (lines(patterns), ceiling.map(lines));
    let rights = GrantLayers {
        mount: "m/",
        maker,
        asked: &patterns,
        ceiling: ceiling.as_deref(),
        granted: (!granted.is_empty()).then_some(&granted),
    };
    MountLimits::of(&rights).memory_bytes / MIB
}

#[test]
fn ceiling_bounds_limits_and_asks_widen_officials_only() {
    use Publisher::{Official, Uploaded};
    let table = [
        (Official, "", None, "", 64),
        (Official, "limit:memory=128MiB", None, "", 128),
        (Official, "limit:memory=128MiB", None, "limit:memory=16MiB", 16),
        (Official, "", None, "limit:memory=256MiB", 256),
        (Uploaded, "", None, "", 64),
        (Uploaded, "limit:memory=128MiB", None, "", 64),
        (Uploaded, "limit:memory=32MiB", None, "", 32),
        (Uploaded, "limit:memory=128MiB", None, "limit:memory=128MiB", 128),
        (Uploaded, "limit:memory=128MiB", Some("limit:memory=96MiB"), "", 96),
        (Uploaded, "", Some("limit:memory=96MiB"), "limit:memory=128MiB", 96),
        (Uploaded, "", Some("sql"), "limit:memory=128MiB", 64),
        (Uploaded, "", Some("limit:memory=8MiB"), "", 8),
    ];
    for (row, (maker, patterns, ceiling, granted, expected)) in table.into_iter().enumerate() {
        assert_eq!(memory(maker, patterns, ceiling, granted), expected, "row {row}");
    }
}

#[test]
fn without_lines_the_limits_are_the_defaults() {
    let rights = GrantLayers {
        mount: "m/",
        maker: Publisher::Official,
        asked: &[],
        ceiling: None,
        granted: None,
    };
    assert_eq!(MountLimits::of(&rights), MountLimits::default());
}

#[test]
fn every_limit_word_sets_and_prints_its_limit() {
    for word in LimitWord::all() {
        let line = LimitLine::new(word, word.get(&MountLimits::CEILING));
        let name = line.to_string();
        assert_eq!(LimitLine::parse(&name), Ok(line));
        let granted = [Grant::Limit(line)];
        let rights = GrantLayers {
            mount: "m/",
            maker: Publisher::Uploaded,
            asked: &[],
            ceiling: None,
            granted: Some(&granted),
        };
        let limits = MountLimits::of(&rights);
        assert_eq!(word.get(&limits), word.get(&MountLimits::CEILING), "{name}");
        let mut others = LimitWord::all().filter(|other| *other != word);
        assert!(
            others.all(|other| other.get(&limits) == other.get(&MountLimits::default())),
            "{name}"
        );
    }
}

#[test]
fn suggested_limit_doubles_up_to_ceiling() {
    let raised =
        |limits: &MountLimits, name: &str| limits.raised_limit(name).map(|line| line.to_string());
    let usual = MountLimits::default();
    assert_eq!(raised(&usual, "host-calls").as_deref(), Some("limit:host-calls=200000"));
    assert_eq!(raised(&usual, "answer").as_deref(), Some("limit:answer=7MiB"));
    assert_eq!(
        raised(&MountLimits { memory_bytes: 3 * MIB, ..usual }, "memory").as_deref(),
        Some("limit:memory=6MiB")
    );
    assert_eq!(raised(&usual, "deadline"), None, "there is none");
    assert_eq!(raised(&usual, "warnings"), None, "no line sets it");
    for word in LimitWord::all() {
        let line = LimitLine::new(word, 1).to_string();
        let (name, _) = line.split_once('=').unwrap();
        assert!(MountLimits::CEILING.raised_limit(name).is_none(), "{name}");
    }
}
