//! Causes of a refused login: each has its own text, and none rests the lane of a server that
//! answers. `mysql.rs` has the causes of expired, locked and blocked accounts.

use super::MysqlStage;
use crate::world::with;
use serde_json::{Value, json};

const PASSWORD: &str = "Kp4-Zt8-Vn2-Qs6";

#[test]
fn every_refused_login_cause_has_own_text() {
    let sea = MysqlStage::new(&[]);
    sea.mariadb.query(&format!(
        "CREATE USER 'keeper'@'%' IDENTIFIED BY '{PASSWORD}' WITH MAX_CONNECTIONS_PER_HOUR 1"
    ));
    sea.mariadb.query("GRANT SELECT ON demo.orders TO 'keeper'@'%'");
    let refused = |fields: Value, status: u16, said: &[&str]| {
        let body = with(json!({ "username": "keeper", "password": PASSWORD }), fields);
        let shown = body.to_string();
        let refused = sea.connect(body);
        assert_eq!(refused.status, status, "{shown}: {refused:?}");
        let refused = refused.errors();
        for said in said {
            assert!(refused.contains(said), "{refused}");
        }
    };
    refused(json!({ "password": "wrong" }), 400, &["refused user keeper", "1045"]);
    let elsewhere = json!({
        "tls_server_name": "elsewhere.example",
        "tls_ca": sea.mariadb.authority.certificate(),
    });
    refused(elsewhere, 503, &["but TLS failed:", "certificate", "check the parameter tls"]);
    // The first login of the hour is the last one.
    sea.mariadb.query("FLUSH USER_RESOURCES");
    sea.mariadb.login("keeper", PASSWORD, "SELECT 1").expect("the account is good");
    refused(json!({}), 503, &["no free session for user keeper", "1226", "raise the limit"]);
}
