//! Tests of the fixture: the same refusals as the real services.

use super::*;
use crate::internet::Request;
use crate::internet::message::decoded;
use hyper::{HeaderMap, Method};

fn request(method: Method, path: &str, query: &str, bearer: &str, body: &str) -> Request {
    let mut headers = HeaderMap::new();
    let form = "application/x-www-form-urlencoded";
    headers.insert("content-type", form.parse().unwrap());
    headers.insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    Request {
        method,
        host: String::new(),
        path: path.to_owned(),
        raw_query: query.to_owned(),
        headers,
        body: body.as_bytes().to_vec(),
    }
}

fn access(cloud: &CloudA, client: &str, secret: &str, audience: &str) -> (u16, String) {
    let body = format!(
        "grant_type=client_credentials&client_id={client}&client_secret={secret}&\
         scope={audience}/.default"
    );
    let path = format!("/{TENANT}/oauth2/v2.0/token");
    let answer = directory::answer(cloud, &request(Method::POST, &path, "", "", &body));
    let reply: Value = serde_json::from_slice(&answer.body).unwrap();
    (answer.status, reply["access_token"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn graph_manages_secret_that_gives_single_audience_token() {
    let internet = Internet::start();
    let cloud = CloudA::on(&internet);
    let Application { client_id, secret } = cloud.application();
    let vm = cloud.add(Machine::vm("Group", "vm1"));
    let get = |token: &str, version: &str| {
        let id = vm.id.to_uppercase().replace("/SUBSCRIPTIONS", "/subscriptions");
        resources::answer(&cloud, &request(Method::GET, &id, version, token, "")).status
    };
    let (_, arm) = access(&cloud, &client_id, &secret, "https://management.azure.com");
    let (_, graph) = access(&cloud, &client_id, &secret, "https://graph.microsoft.com");
    assert_eq!(get(&arm, "api-version=2023-07-01"), 200);
    assert_eq!(
        [get(&arm, ""), get(&arm, "api-version=1"), get(&graph, "api-version=1")],
        [400, 400, 401]
    );
    cloud.propagate_in(Duration::from_secs(3_600));
    let filter = format!("$filter=appId%20eq%20%27{client_id}%27");
    let found =
        graph::answer(&cloud, &request(Method::GET, "/v1.0/applications", &filter, &graph, ""));
    let found: Value = serde_json::from_slice(&found.body).unwrap();
    let object = found["value"][0]["id"].as_str().unwrap();
    let add = format!("/v1.0/applications/{object}/addPassword");
    let body = r#"{"passwordCredential":{"displayName":"two"}}"#;
    let added = graph::answer(&cloud, &request(Method::POST, &add, "", &graph, body));
    let added: Value = serde_json::from_slice(&added.body).unwrap();
    let new = added["secretText"].as_str().unwrap();
    assert_eq!(
        access(&cloud, &client_id, new, "https://management.azure.com").0,
        401,
        "a new secret does not work yet"
    );
    assert_eq!(cloud.secrets(&client_id).len(), 2);
    assert_eq!(decoded("a%2Fb+c"), "a/b c");
    let token = cloud.token(&cloud.claims(&vm));
    assert!(cloud.signer().claims(&token).is_some());
}
