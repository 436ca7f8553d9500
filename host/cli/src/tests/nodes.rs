//! `bulkhead operator members` and `step-down`: the table and the document of Vault's commands.

use super::*;

fn nodes() -> Value {
    json!([{"hostname": "box", "api_address": "https://b:8200", "cluster_address": "",
        "active_node": true, "last_echo": null, "version": "1.21.0"}])
}

#[test]
fn operator_members_prints_table_or_vault_json() {
    let body = json!({"request_id": "r", "nodes": nodes(), "data": {"nodes": nodes()}});
    let (ran, (line, _, _)) = against(200, &body, &["operator", "members"], "");
    assert_eq!((ran.code, line.as_str()), (0, "GET /v1/sys/ha-status HTTP/1.1"));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("Host Name    API Address"), "{}", ran.out);
    assert!(lines[0].ends_with("Redundancy Zone    Last Echo"), "{}", ran.out);
    assert!(lines[2].starts_with("box") && lines[2].contains("true"), "{}", ran.out);
    assert!(!lines[2].contains("null") && lines.len() == 3, "{}", ran.out);
    let (ran, _) = against(200, &body, &["operator", "members", "-format=json"], "");
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown, json!({ "Nodes": nodes() }));
}

#[test]
fn stepping_down_says_that_the_node_answers() {
    let (ran, (line, _, _)) = against(204, &Value::Null, &["operator", "step-down"], "");
    assert_eq!((ran.code, line.as_str()), (0, "PUT /v1/sys/step-down HTTP/1.1"));
    assert!(ran.out.contains("still answers requests"), "{}", ran.out);
    assert_eq!(run_with(&["operator", "step-down", "x"], "", &[]).code, 2);
}
