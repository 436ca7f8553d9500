//! Parser for the rules of generated roles.

use bulkhead_sdk::Failure;
use bulkhead_sdk::document::{ObjectMembers, parse};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

/// Maximum number of rules in a role.
const MOST_RULES: usize = 256;

/// Parses the rules in `text`, for a `ClusterRole` or a `Role`.
///
/// # Errors
/// The reason, and the rule. Rules the cluster would refuse at every use are refused when written.
pub(crate) fn read(text: &str, is_cluster_wide: bool) -> Result<Vec<PolicyRule>, Failure> {
    let unfit = |why: String| Failure::invalid(format!("generated_role_rules: {why}"));
    let mut members = ObjectMembers::of(parse(text).map_err(unfit)?).map_err(unfit)?;
    let rules = members.take("rules");
    // Operators may paste a whole Role; only its rules are used.
    for member in ["apiVersion", "kind", "metadata"] {
        members.take(member);
    }
    members.refuse_others().map_err(unfit)?;
    let Some(Value::Array(rules)) = rules else {
        return Err(unfit("a list under the key rules is required".to_owned()));
    };
    if rules.is_empty() || rules.len() > MOST_RULES {
        return Err(unfit(format!("there must be 1 to {MOST_RULES} rules")));
    }
    let read = |(index, value)| {
        rule(value, is_cluster_wide).map_err(|why| unfit(format!("rules[{index}]: {why}")))
    };
    rules.into_iter().enumerate().map(read).collect()
}

fn rule(value: Value, is_cluster_wide: bool) -> Result<PolicyRule, String> {
    let mut members = ObjectMembers::of(value)?;
    let verbs = members.take_texts("verbs")?;
    let groups = members.take_texts("apiGroups")?;
    let resources = members.take_texts("resources")?;
    let names = members.take_texts("resourceNames")?;
    let urls = members.take_texts("nonResourceURLs")?;
    members.refuse_others()?;
    if verbs.is_empty() {
        return Err("verbs are required".to_owned());
    }
    if urls.is_empty() && (groups.is_empty() || resources.is_empty()) {
        return Err("apiGroups and resources are required ('' is the core group)".to_owned());
    }
    let has_resources = !groups.is_empty() || !resources.is_empty() || !names.is_empty();
    if !urls.is_empty() && has_resources {
        return Err("nonResourceURLs stand alone, in a separate rule".to_owned());
    }
    if !urls.is_empty() && !is_cluster_wide {
        return Err("nonResourceURLs need cluster_role_type ClusterRole".to_owned());
    }
    let non_empty = |list: Vec<String>| (!list.is_empty()).then_some(list);
    Ok(PolicyRule {
        verbs,
        api_groups: non_empty(groups),
        resources: non_empty(resources),
        resource_names: non_empty(names),
        non_resource_urls: non_empty(urls),
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    const PODS: &str = "rules: [{apiGroups: [''], resources: [pods], verbs: [list]}]";

    #[test]
    fn rules_are_read_whole() {
        let text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x}\n\
                    rules:\n- apiGroups: [apps]\n  resources: [deployments]\n  resourceNames: \
                    [a]\n  verbs: [get, list]\n\
                    - {apiGroups: [''], resources: [pods], verbs: [x]}\n";
        let rules = read(text, false).unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].verbs, ["get", "list"]);
        assert_eq!(rules[0].resource_names.as_deref(), Some(["a".to_owned()].as_slice()));
        assert_eq!(rules[1].api_groups.as_deref(), Some([String::new()].as_slice()));
        let urls = "rules: [{nonResourceURLs: [/healthz], verbs: [get]}]";
        assert!(read(urls, true).unwrap()[0].non_resource_urls.is_some());
    }

    #[test]
    fn rules_refused_or_ignored_by_cluster_are_refused() {
        let many =
            format!("rules: [{}]", "{apiGroups: [''], resources: [a], verbs: [b]},".repeat(257));
        for (text, expected) in [
            ("{\"role\":[]}", "\"role\""),
            ("rules: []", "1 to 256"),
            ("kind: Role", "key rules"),
            ("[]", "not an object"),
            ("rules: {a: 1}", "key rules"),
            ("rules: [[[", "neither JSON nor YAML"),
            ("rules: [{apiGroups: [''], resources: [pods]}]", "rules[0]: verbs"),
            ("rules: [{resources: [pods], verbs: [list]}]", "apiGroups"),
            ("rules: [{apiGroups: [''], verbs: [list]}]", "resources"),
            ("rules: [{apiGroups: [''], resources: [pods], verb: [list]}]", "\"verb\""),
            ("rules: [{apiGroups: [''], resources: [pods], verbs: [1]}]", "list of texts"),
            ("rules: [{nonResourceURLs: [/x], verbs: [get]}]", "ClusterRole"),
            (many.as_str(), "1 to 256"),
        ] {
            let why = read(text, false).unwrap_err().message;
            assert!(why.starts_with("generated_role_rules: ") && why.contains(expected), "{why}");
        }
        let both = "rules: [{nonResourceURLs: [/x], resources: [a], apiGroups: [b], verbs: [get]}]";
        assert!(read(both, true).unwrap_err().message.contains("a separate rule"));
        assert!(read(PODS, false).is_ok());
    }
}
