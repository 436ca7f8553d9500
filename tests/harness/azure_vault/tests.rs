//! Tests of the vault: tokens need secret, directory and audience, and versions have states.

use super::*;
use serde_json::{Value, json};
use ureq::Agent;

fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).proxy(None).build().into()
}

fn token(vault: &AzureVault, tenant: &str, form: [(&str, &str); 4]) -> Value {
    let url = format!("{}/{tenant}/oauth2/v2.0/token", vault.url());
    let mut answer = agent().post(url).send_form(form).expect("an answer");
    serde_json::from_str(&answer.body_mut().read_to_string().expect("a text")).expect("JSON")
}

/// Returns the form of a right request, with this change.
fn form<'a>(
    application: &'a Application,
    (name, value): (&'a str, &'a str),
) -> [(&'a str, &'a str); 4] {
    [
        ("grant_type", "client_credentials"),
        ("client_id", &application.client_id),
        ("client_secret", &application.client_secret),
        ("scope", "https://vault.azure.net/.default"),
    ]
    .map(|(field, right)| if field == name { (field, value) } else { (field, right) })
}

#[test]
fn token_needs_secret_directory_and_audience() {
    let vault = AzureVault::start();
    let application = vault.register();
    for (tenant, change, code) in [
        ("other", ("", ""), "AADSTS90002"),
        (TENANT, ("scope", "https://management.azure.com/.default"), "AADSTS500011"),
        (TENANT, ("client_id", "other"), "AADSTS700016"),
        (TENANT, ("client_secret", "other"), "AADSTS7000215"),
    ] {
        let answer = token(&vault, tenant, form(&application, change));
        let why = answer["error_description"].as_str().unwrap_or_default();
        assert!(why.starts_with(code), "{code}: {answer}");
    }
    assert!(token(&vault, TENANT, form(&application, ("", "")))["access_token"].is_string());
    vault.expire(&application);
    let answer = token(&vault, TENANT, form(&application, ("", "")));
    assert!(answer.to_string().contains("AADSTS7000222"), "{answer}");
}

#[test]
fn versions_unwrap_until_disabled_or_lost() {
    let vault = AzureVault::start();
    let application = vault.register();
    let token = token(&vault, TENANT, form(&application, ("", "")));
    let bearer = format!("Bearer {}", token["access_token"].as_str().expect("a token"));
    let call = |version: usize, operation: &str, value: &str| -> (u16, Value) {
        let path = format!("/keys/{KEY}/{version:032x}/{operation}?api-version=7.4");
        let request = agent().post(vault.url() + &path).header("authorization", &bearer);
        let body = json!({ "alg": "RSA-OAEP-256", "value": value });
        let mut answer = request.send(body.to_string()).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
    };
    let (status, wrapped) = call(1, "wrapkey", "YSBrZXk");
    assert_eq!(status, 200, "{wrapped}");
    let wrapped = wrapped["value"].as_str().expect("a text").to_owned();
    vault.rotate();
    assert_eq!(call(1, "unwrapkey", &wrapped).1["value"], "YSBrZXk");
    assert_eq!(call(2, "unwrapkey", &wrapped).0, 400);
    vault.disable_version(1);
    assert_eq!(call(1, "unwrapkey", &wrapped).0, 403);
    vault.enable_version(1);
    vault.lose_version(1);
    assert_eq!(call(1, "unwrapkey", &wrapped).0, 404);
    vault.deny(&application, "wrapkey");
    assert_eq!(call(2, "wrapkey", "YSBrZXk").0, 403);
}
