//! Syntax check of semantic versions (semver.org, version 2.0.0).

/// Returns `true` if `text` is a semantic version, with or without a leading `v`.
pub(crate) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = cut(text, '+');
    let (core, stage) = cut(text, '-');
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && build.is_none_or(|build| build.split('.').all(is_identifier))
        && stage.is_none_or(|stage| {
            stage.split('.').all(|part| is_identifier(part) && is_canonical(part))
        })
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && is_canonical(text)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns `false` for a number with leading zeros, so that a version has only a single spelling.
fn is_canonical(text: &str) -> bool {
    text == "0" || !text.starts_with('0') || text.bytes().any(|byte| !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions_with_stage_build_and_v_are_versions() {
        for text in [
            "0.0.0",
            "1.2.3",
            "v1.2.3",
            "10.20.30",
            "1.0.0-rc.1",
            "1.0.0-0a.b-c+linux.007",
            "1.0.0+7",
        ] {
            assert!(is_version(text), "{text}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "", "v", "1", "1.2", "1.2.3.4", "1..3", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-01",
            "1.2.3+", " 1.2.3",
        ] {
            assert!(!is_version(text), "{text:?}");
        }
    }
}
