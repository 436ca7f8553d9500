//! The grants of a mount as clients send them: `grants` replaces the list, `add_grants` and
//! `remove_grants` change it.
//!
//! The attack this file stops: a line that is taken and not kept, or revoked and still there. A
//! line that is no grant, and one that is to be removed and is not among the grants, is refused
//! with its value.

use super::mount_settings::Subject;
use super::row::field;
use bulkhead_sandbox::Grant;
use bulkhead_sandbox::grants::ceiling;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};

/// Most grants of one mount, and lines of one ceiling.
pub(super) const MOST: usize = 256;

/// The field that replaces the list.
pub(super) fn whole() -> Field {
    field(
        "grants",
        FieldKind::TextList,
        "what its plugin may do, a line each, such as limit:memory=64MiB",
    )
}

/// The fields that change the list.
pub(super) fn changes() -> [Field; 2] {
    [
        field(
            "add_grants",
            FieldKind::TextList,
            "grants besides those there are; a limit takes the place of the old one",
        ),
        field("remove_grants", FieldKind::TextList, "grants that are taken away"),
    ]
}

/// Changes the list as `values` say. Returns warnings.
///
/// # Errors
/// 400 that names the field and the line, also where the plugin's entry in the catalog rules it
/// out.
pub(super) fn change(
    grants: &mut Option<Vec<Grant>>,
    values: &Map<String, Value>,
    subject: &Subject<'_>,
) -> Result<Vec<String>, Failure> {
    let (whole, added, removed) =
        (lines(values, "grants")?, lines(values, "add_grants")?, lines(values, "remove_grants")?);
    if whole.is_some() && (added.is_some() || removed.is_some()) {
        let message = "grants replaces the list, add_grants and remove_grants change it: give grants, or the others";
        return Err(Failure::invalid(message));
    }
    let new: Vec<Grant> = [&whole, &added].into_iter().flatten().flatten().cloned().collect();
    let is_change = !new.is_empty() || removed.as_ref().is_some_and(|removed| !removed.is_empty());
    if whole.is_none() && !is_change {
        return Ok(Vec::new());
    }
    let before = grants.take().unwrap_or_else(|| subject.running.usual.to_vec());
    // A ceiling may have been lowered since: what is there already gives no more than the ceiling
    // does.
    new.iter()
        .filter(|line| !before.contains(line))
        .try_for_each(|line| check_ceiling(line, subject))?;
    let mut list = if whole.is_some() { Vec::new() } else { before };
    for line in removed.into_iter().flatten() {
        let place =
            list.iter().position(|known| *known == line).ok_or_else(|| not_there(&line, &list))?;
        list.remove(place);
    }
    for line in &new {
        list.retain(|known| known != line && !known.is_of_same_limit(line));
        list.push(line.clone());
    }
    if list.len() > MOST {
        return Err(Failure::invalid(format!(
            "grants: {} lines; a mount has at most {MOST}",
            list.len()
        )));
    }
    *grants = Some(list);
    let idle = |line: &Grant| {
        line.without_effect().map(|why| format!("grant {line} is stored and has no effect: {why}"))
    };
    Ok(new.iter().filter_map(idle).collect())
}

fn lines(values: &Map<String, Value>, name: &str) -> Result<Option<Vec<Grant>>, Failure> {
    let Some(texts) = values.get(name).and_then(Value::as_array) else { return Ok(None) };
    let mut lines: Vec<Grant> = Vec::new();
    for text in texts.iter().filter_map(Value::as_str) {
        let line: Grant = text.parse().map_err(|why| Failure::invalid(format!("{name}: {why}")))?;
        if let Some(other) =
            lines.iter().find(|other| other.is_of_same_limit(&line) && **other != line)
        {
            return Err(Failure::invalid(format!(
                "{name}: {other} and {line} are one limit; give one of them"
            )));
        }
        lines.push(line);
    }
    Ok(Some(lines))
}

fn check_ceiling(line: &Grant, subject: &Subject<'_>) -> Result<(), Failure> {
    let Some(ceiling) = subject.running.ceiling else { return Ok(()) };
    ceiling::check(ceiling, line).map_err(|allowed| {
        let kind = subject.kind;
        Failure::invalid(format!(
            "grant {line} is above the ceiling of plugin {kind} in the catalog, which allows {allowed}; grant no more \
             than that, or register the plugin with --grant '{line}' besides what it has"
        ))
    })
}

fn not_there(line: &Grant, list: &[Grant]) -> Failure {
    let there: Vec<String> = list.iter().map(Grant::to_string).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Failure::invalid(format!(
        "remove_grants: {line} is not among the grants of the mount; there are: {there}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetimes::Lifetimes;
    use crate::mounts::{Class, Running};
    use bulkhead_sandbox::Ask;
    use serde_json::json;

    /// The list after a change of `before`, and the warnings.
    fn changed(
        before: Option<&[&str]>,
        values: Value,
    ) -> Result<(Option<Vec<String>>, Vec<String>), String> {
        below(None, before, values)
    }

    /// The same below a ceiling.
    fn below(
        ceiling: Option<&[Ask]>,
        before: Option<&[&str]>,
        values: Value,
    ) -> Result<(Option<Vec<String>>, Vec<String>), String> {
        let parse =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Grant>>();
        let (mut grants, usual) = (before.map(parse), parse(&["database:*"]));
        let running = Running { version: "1.0.0", digest: "", usual: &usual, ceiling };
        let system = Lifetimes { default: 1, max: 1 };
        let subject =
            Subject { class: Class::Secret, builtin: None, kind: "third", running, system };
        let warnings = change(&mut grants, values.as_object().unwrap(), &subject);
        let warnings = warnings.map_err(|failure| failure.message)?;
        Ok((grants.map(|grants| grants.iter().map(Grant::to_string).collect()), warnings))
    }

    fn list(before: Option<&[&str]>, values: Value) -> Option<Vec<String>> {
        changed(before, values).unwrap().0
    }

    #[test]
    fn what_says_nothing_keeps_what_there_is() {
        for nothing in [json!({}), json!({"add_grants": [], "remove_grants": []})] {
            assert_eq!(list(None, nothing.clone()), None);
            assert_eq!(list(Some(&["database:x"]), nothing).unwrap(), ["database:x"]);
        }
        assert_eq!(
            list(None, json!({"grants": []})).unwrap(),
            [""; 0],
            "an empty list grants nothing"
        );
    }

    #[test]
    fn lines_are_added_to_what_a_mount_is_granted_unsaid_and_stored_in_their_one_spelling() {
        let added = list(None, json!({"add_grants": ["sql:postgres://DB.example"]}));
        assert_eq!(added.unwrap(), ["database:*", "sql:postgres://db.example:5432"]);
        let again = list(
            Some(&["database:x", "database:y"]),
            json!({"add_grants": ["database:x", "database:x"]}),
        );
        assert_eq!(again.unwrap(), ["database:y", "database:x"]);
        assert_eq!(list(None, json!({"remove_grants": ["database:*"]})).unwrap(), [""; 0]);
        assert_eq!(
            list(Some(&["database:x"]), json!({"grants": ["address:10.1.2.3"]})).unwrap(),
            ["address:10.1.2.3/32"]
        );
    }

    #[test]
    fn a_limit_takes_the_place_of_the_one_before() {
        let before: &[&str] = &["limit:memory=64MiB", "limit:log=1KiB"];
        let after = list(Some(before), json!({"add_grants": ["limit:memory=128MiB"]}));
        assert_eq!(after.unwrap(), ["limit:log=1KiB", "limit:memory=128MiB"]);
    }

    #[test]
    fn what_would_be_taken_and_not_kept_is_refused() {
        for (values, says) in [
            (json!({"grants": ["htp:https://a"]}), "grants: \"htp:https://a\" is not a grant"),
            (json!({"add_grants": ["database:x", ""]}), "add_grants: \"\" is not a grant"),
            (json!({"remove_grants": ["database:y"]}), "there are: database:x"),
            (json!({"grants": [], "add_grants": ["database:y"]}), "give grants, or the others"),
            (json!({"grants": ["limit:log=1KiB", "limit:log=2KiB"]}), "one limit"),
            (json!({"grants": ["limit:memory=1GiB"]}), "the most is memory=256MiB"),
        ] {
            let why = changed(Some(&["database:x"]), values).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        let many: Vec<String> = (0..257).map(|number| format!("database:x{number}")).collect();
        assert!(changed(None, json!({"grants": many})).unwrap_err().contains("at most 256"));
    }

    #[test]
    fn a_grant_above_the_catalogs_ceiling_is_refused_with_both_and_one_that_was_there_before_is_kept()
     {
        let ceiling = ["database:x", "limit:memory=96MiB"].map(|line| line.parse::<Ask>().unwrap());
        for (line, allows) in [
            ("database:y", "which allows database:x, limit:memory=96MiB;"),
            ("limit:memory=128MiB", "which allows limit:memory=96MiB;"),
            ("limit:log=1MiB", "which allows limit:log=64KiB;"),
        ] {
            for field in ["grants", "add_grants"] {
                let why = below(Some(&ceiling), None, json!({ field: [line] })).unwrap_err();
                assert!(
                    why.starts_with(&format!("grant {line} is above")) && why.contains(allows),
                    "{why}"
                );
                assert!(
                    why.contains("plugin third") && why.contains(&format!("--grant '{line}'")),
                    "{why}"
                );
            }
            let kept =
                below(Some(&ceiling), Some(&[line]), json!({ "add_grants": ["database:x"] }));
            assert_eq!(kept.unwrap().0.unwrap(), [line, "database:x"]);
        }
        let fits =
            json!({ "grants": ["database:x", "limit:memory=96MiB", "sql:postgres://db:5432"] });
        assert_eq!(below(Some(&ceiling), None, fits).unwrap().0.unwrap().len(), 3);
    }

    #[test]
    fn a_grant_that_no_import_of_this_version_asks_for_is_stored_with_a_warning() {
        let (list, warnings) =
            changed(None, json!({"grants": ["crypto:sign", "database:x"]})).unwrap();
        assert_eq!(list.unwrap(), ["crypto:sign", "database:x"]);
        assert!(
            matches!(warnings.as_slice(), [one] if one.contains("crypto:sign") && one.contains("no effect"))
        );
    }
}
