//! Tests of the fixture: the same refusals as the real services.

use super::*;
use hyper::{HeaderMap, Method};

fn request(method: Method, path: &str, bearer: &str, body: &str) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Request {
        method,
        host: String::new(),
        path: path.to_owned(),
        raw_query: query.to_owned(),
        headers,
        body: body.as_bytes().to_vec(),
    }
}

fn json_body(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

/// Asks for an access token with an assertion that this key signs.
fn access(cloud: &CloudB, email: &str, key: &Signer) -> Response {
    let claims = json!({
        "iss": email, "aud": "https://oauth2.googleapis.com/token", "iat": now(),
        "exp": now() + 3_600, "scope": "https://www.googleapis.com/auth/cloud-platform",
    });
    let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let body = format!("grant_type={grant}&assertion={}", key.token(&claims));
    tokens::for_assertions(cloud, &request(Method::POST, "/token", "", &body))
}

#[test]
fn account_key_gives_token_and_eleventh_is_refused() {
    let internet = Internet::start();
    let cloud = CloudB::on(&internet);
    let own = cloud.account("vault", "host");
    let key = cloud.key_of(&own.email);
    let given = json_body(&access(&cloud, &own.email, &key));
    let bearer = given["access_token"].as_str().unwrap();
    assert_eq!(access(&cloud, &own.email, &key.named("other")).status, 400);
    let path = format!("/v1/projects/-/serviceAccounts/{}/keys", own.email);
    cloud.propagate_in(Duration::from_secs(3_600));
    let create = || accounts::answer(&cloud, &request(Method::POST, &path, bearer, "{}"));
    for _ in 1..10 {
        assert_eq!(create().status, 200);
    }
    assert_eq!((create().status, cloud.keys(&own.email).len()), (429, 10));
    let newest = cloud.key_of(&own.email);
    assert_eq!(access(&cloud, &own.email, &newest).status, 400, "a new key does not work yet");
    let gone = format!("{path}/{}", newest.kid);
    assert_eq!(accounts::answer(&cloud, &request(Method::DELETE, &gone, bearer, "")).status, 200);
    assert_eq!(accounts::answer(&cloud, &request(Method::GET, &path, "x", "")).status, 401);
}

#[test]
fn groups_are_paged_and_members_filtered() {
    let internet = Internet::start();
    let cloud = CloudB::on(&internet);
    let own = cloud.account("vault", "p");
    let given = json_body(&access(&cloud, &own.email, &cloud.key_of(&own.email)));
    let bearer = given["access_token"].as_str().unwrap();
    let vm = cloud.start_instance(Instance::new("p", "us-east1-b", "i1", &own).labelled("k", "v"));
    for place in ["zones/us-east1-b", "regions/us-east1"] {
        cloud.group("p", place, "g", &[&vm]);
    }
    let list = "/compute/v1/projects/p/aggregated/instanceGroups";
    let page = |query: &str| {
        json_body(&compute::answer(
            &cloud,
            &request(Method::GET, &format!("{list}{query}"), bearer, ""),
        ))
    };
    assert_eq!(page("")["nextPageToken"], "2");
    assert_eq!(page("?fields=items/*/instanceGroups/name")["nextPageToken"], Value::Null);
    assert!(page("?pageToken=2")["items"]["zones/us-east1-b"]["instanceGroups"][0]["name"] == "g");
    let of = "/compute/v1/projects/p/zones/us-east1-b/instanceGroups/g/listInstances?filter=";
    let ask = |filter: &str| {
        let path = format!("{of}{filter}");
        json_body(&compute::answer(&cloud, &request(Method::POST, &path, bearer, "{}")))
    };
    assert_eq!(ask(&format!("instance+eq+{}", vm.link()))["items"][0]["instance"], vm.link());
    assert_eq!(ask("instance+eq+other"), json!({}));
}
