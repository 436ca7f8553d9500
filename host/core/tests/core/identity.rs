//! One alias is one entity; what entities and groups may do counts at once; what was taken from
//! them is gone at once.

use crate::bed::{Bed, error};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const OWN: &str = "auth/token/lookup-self";

impl Bed {
    /// A token for the entity with that alias at `auth/token`, which is made where there is none.
    async fn signed_in(&self, alias: &str) -> Value {
        let role = json!({"allowed_entity_aliases": "*", "allowed_policies": "default"});
        assert_eq!(self.write("auth/token/roles/people", role).await.0, 204);
        let asked = json!({"entity_alias": alias});
        let (status, answer) = self.write("auth/token/create/people", asked).await;
        assert_eq!(status, 200, "{answer}");
        answer["auth"].clone()
    }

    async fn status_as(&self, token: &Value, verb: Verb, path: &str) -> u16 {
        self.call_as(token.as_str().unwrap(), verb, path, json!({})).await.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_first_logins_of_one_alias_at_once_make_one_entity() {
    let bed = Arc::new(Bed::new("first-logins").await);
    let role = json!({"allowed_entity_aliases": "eve", "allowed_policies": "default"});
    assert_eq!(bed.write("auth/token/roles/people", role).await.0, 204);
    let logins: Vec<_> = (0..50)
        .map(|_| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move {
                bed.write("auth/token/create/people", json!({"entity_alias": "eve"})).await
            })
        })
        .collect();
    let mut entities = BTreeSet::new();
    for login in logins {
        let (status, answer) = login.await.unwrap();
        assert_eq!(status, 200, "{answer}");
        entities.insert(answer["auth"]["entity_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(entities.len(), 1, "{entities:?}");
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test]
async fn a_token_stands_for_the_alias_that_its_role_allows() {
    let bed = Bed::new("role-alias").await;
    let role = json!({"allowed_entity_aliases": ["eve", "build-*"], "allowed_policies": "default"});
    assert_eq!(bed.write("auth/token/roles/people", role).await.0, 204);
    for (alias, allowed) in [("eve", true), ("build-7", true), ("eva", false), ("", true)] {
        let asked = json!({"entity_alias": alias});
        let (status, answer) = bed.write("auth/token/create/people", asked).await;
        assert_eq!(status, if allowed { 200 } else { 400 }, "{alias}: {answer}");
        let entity = answer["auth"]["entity_id"].as_str().unwrap_or_default();
        assert_eq!(!entity.is_empty(), allowed && !alias.is_empty(), "{alias}: {answer}");
    }
    for path in ["auth/token/create", "auth/token/create-orphan"] {
        let refused = bed.write(path, json!({"entity_alias": "eve"})).await;
        assert_eq!(refused.0, 400, "{refused:?}");
        assert!(error(&refused.1).contains("allowed_entity_aliases"), "{refused:?}");
    }
    bed.end().await;
}

#[tokio::test]
async fn the_same_alias_is_the_same_entity_and_a_child_stands_for_it_too() {
    let bed = Bed::new("same-alias").await;
    let (one, again) = (bed.signed_in("eve").await, bed.signed_in("eve").await);
    assert_eq!(one["entity_id"], again["entity_id"]);
    assert_ne!(one["entity_id"], bed.signed_in("Eve").await["entity_id"], "letter by letter");
    assert_eq!(bed.status_as(&one["client_token"], Verb::Read, OWN).await, 200);
    bed.end().await;
}
