//! The auth method of bearers of signed tokens, with a written key. The token of the login was
//! signed once, and ends in the year 2100.

use super::{EndpointCall, row};
use serde_json::{Value, json};

const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFeOdi6YjWY5Rt496oZZj7m4+viny\n\
    j6Hc5umhkSTyTZP2Hx6a9rfEPrdF+BfKVFYHrUS2B7cZysLzOedl3RN7uA==\n\
    -----END PUBLIC KEY-----";
const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.\
    eyJzdWIiOiJ3ZWIiLCJhdWQiOiJidWxraGVhZCIsImV4cCI6NDEwMjQ0NDgwMCwibmJmIjoxNzAwMDAwMDAwfQ.\
    nWURYEosW9fS7zr8NvdQ_cMi2qRxgSIomCrhCI_HY-MqbKNcg0h2-hzNx1R9jVeDQlRmwuRxRPl--OPlwqAE6g";

pub(super) fn rows() -> Vec<EndpointCall> {
    let config = json!({ "jwt_validation_pubkeys": [KEY], "default_role": "dev" });
    let role = json!({
        "role_type": "jwt", "user_claim": "sub", "bound_audiences": "bulkhead",
        "bound_claims": { "sub": ["web", "ops"] }, "claim_mappings": { "aud": "audience" },
        "token_policies": "dev", "token_ttl": "10m",
    });
    let dev = "auth/jwt/role/dev";
    let login = json!({ "role": "dev", "jwt": TOKEN });
    vec![
        row("auth-jwt-config.write", "auth/jwt/config", config, 204),
        row("auth-jwt-config.read", "auth/jwt/config", Value::Null, 200),
        row("auth-jwt-role-name.write", dev, role, 204),
        row("auth-jwt-role-name.read", dev, Value::Null, 200),
        row("auth-jwt-role.list", "auth/jwt/role", Value::Null, 200),
        row("auth-jwt-login.write", "auth/jwt/login", login, 200),
        row("auth-jwt-role-name.delete", dev, Value::Null, 204),
    ]
}
