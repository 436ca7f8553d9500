//! Replication of more records of each kind than a round fetches, with default grants.
//!
//! `REPLICATED_RECORDS=10000` makes several pages, and lists above the size of an answer. The suite
//! makes fewer records, because its unoptimised server needs minutes to create so many.

use super::super::RULES;
use super::Regions;
use bulkhead_tests::metrics;
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest, Scheduler};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of records of each kind in the suite: more than a round fetches.
const RECORDS: usize = 1_200;
/// Connections that create the records.
const WRITERS: usize = 16;
/// Longest time until all records arrived, on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

/// Returns the request that creates the record `number` of a table.
fn creation(table: &str, number: usize) -> PlainRequest {
    // Long texts, so that a list of 10,000 records does not fit into an answer of 4 MiB.
    let long = "x".repeat(250);
    let (path, body) = match table {
        "policies" => {
            let name = format!("policy-{number}");
            let body = json!({ "Name": name, "Description": long, "Rules": RULES });
            (format!("/v1/acl/policy/{name}"), body)
        }
        "roles" => {
            let body = json!({
                "Name": format!("role-{number}"), "Description": long,
                "Policies": [{ "Name": "readonly" }],
            });
            ("/v1/acl/role".to_owned(), body)
        }
        _ => {
            let body = json!({
                "Name": long, "Type": "client", "Policies": ["readonly"], "Global": true,
            });
            ("/v1/acl/token".to_owned(), body)
        }
    };
    PlainRequest { body: body.to_string().into_bytes(), ..PlainRequest::new("PUT", &path) }
}

/// Creates the records of a table on several connections.
fn fill(region: &Scheduler, table: &str, records: usize) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let mut stream = PlainRequest::new("PUT", "/").connect(region.address());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= records {
                        break;
                    }
                    let request = creation(table, number).with_token(&region.management);
                    request.begin_on(&mut stream, "keep-alive");
                    let answer = PlainAnswer::receive_next(&mut stream);
                    assert_eq!(answer.status, 200, "{table} {number}: {}", answer.text());
                }
            });
        }
    });
}

/// Returns the value of a metric of replication for a table; `None` if there is none.
fn metric(region: &Scheduler, name: &str, table: &str) -> Option<f64> {
    let text = metrics::scrape(&region.server);
    let name = format!("bulkhead_scheduler_{name}{{");
    let label = format!("table=\"{table}\"");
    let line = text.lines().find(|line| line.starts_with(&name) && line.contains(&label))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Reads all records of a table in pages.
fn listed(region: &Scheduler, token: &str, table: &str) -> Vec<Value> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/acl/{table}?paged=true&global=true&per_page=2000{next}");
        let page = region.ask("GET", &path, token, &Value::Null);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        all.extend(page.json().as_array().expect("a list").iter().cloned());
        match page.header("x-nomad-nexttoken") {
            Some(begin) => next = format!("&next_token={begin}"),
            None => return all,
        }
    }
}

/// Returns the number of records of each kind.
fn record_count() -> usize {
    let given = std::env::var("REPLICATED_RECORDS").ok();
    given.map_or(RECORDS, |text| text.parse().expect("REPLICATED_RECORDS is a number"))
}

#[test]
fn many_records_arrive_with_default_grants() {
    let regions = Regions::apart();
    let records = record_count();
    let begun = Instant::now();
    for table in ["policies", "roles", "tokens"] {
        fill(&regions.global, table, records);
    }
    println!("{records} records of each kind were created in {:.1?}", begun.elapsed());
    let begun = Instant::now();
    regions.follow(regions.token());
    for table in ["policies", "roles", "tokens"] {
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        let expected = records as f64;
        bulkhead_tests::wait::until_true(table, LONGEST, || {
            metric(&regions.west, "replicated_total", table) >= Some(expected)
        });
        println!("{records} {table} arrived within {:.1?}", begun.elapsed());
    }
    bulkhead_tests::wait::until_true("global tokens hold in west", LONGEST, || {
        regions.read("/v1/acl/token/self").status == 200
    });
    for table in ["policies", "roles", "tokens"] {
        let there = without_indexes(listed(&regions.global, regions.token(), table));
        assert!(there.len() >= records, "{table}: {}", there.len());
        bulkhead_tests::wait::until_true("both regions have the same records", LONGEST, || {
            without_indexes(listed(&regions.west, regions.token(), table)) == there
        });
    }
}

/// Removes the indexes, which each region counts by itself.
fn without_indexes(mut records: Vec<Value>) -> Vec<Value> {
    for record in &mut records {
        for name in ["CreateIndex", "ModifyIndex"] {
            record.as_object_mut().expect("a record").remove(name);
        }
    }
    records
}
