//! `docs/host-endpoints.md`: the tables of the page are generated from the tables that dispatch
//! requests, and `make golden` rewrites them.
//!
//! This file prevents a page that omits an endpoint, or that states the wrong callers.

use super::inspected::{ANSWER_SEALED, Endpoint, endpoints};
use bulkhead_tests::paths::repository;
use serde_json::Value;
use std::fs;

const PAGE: &str = "docs/host-endpoints.md";

/// A table of the page. The table stands between the marks `<!-- NAME:begin -->` and
/// `<!-- NAME:end -->`.
struct PageTable {
    name: &'static str,
    table: String,
}

/// The folders of the host's endpoints. An endpoint outside of these folders fails a test.
const FOLDERS: [(&str, &str); 4] = [
    ("sys", "sys/"),
    ("auth-token", "auth/token/"),
    ("identity", "identity/"),
    ("cubbyhole", "cubbyhole"),
];

fn is_in(endpoint: &Endpoint, folder: &str) -> bool {
    endpoint.is_of_host && endpoint.path.starts_with(folder)
}

/// Returns the callers of an endpoint, as the page states them.
fn callers(endpoint: &Endpoint) -> String {
    let callers = match (endpoint.unauthenticated, endpoint.sudo) {
        (true, _) if ANSWER_SEALED.contains(&endpoint.path.as_str()) => "all, also while sealed",
        (true, _) => "all",
        (false, true) => "token with `sudo`",
        (false, false) => "token",
    };
    match sudo_fields("", &endpoint.fields).join(", ") {
        fields if fields.is_empty() || endpoint.sudo => callers.to_owned(),
        fields => format!("{callers}; `sudo` for changes of {fields}"),
    }
}

/// Returns the fields of a change that needs `sudo`. A setting inside a group is written with its
/// group.
fn sudo_fields(group: &str, fields: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for field in fields {
        let name = format!("{group}{}", field["name"].as_str().expect("every field has a name"));
        if field["sudo"] == true {
            found.push(format!("`{name}`"));
        } else if let Some(members) = field["members"].as_array() {
            found.extend(sudo_fields(&format!("{name}."), members));
        }
    }
    found
}

/// Returns the description of an endpoint as a sentence.
fn sentence(endpoint: &Endpoint) -> String {
    let mut letters = endpoint.about.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str().trim_end_matches('.'))
}

/// Returns a table of these endpoints, by path.
fn table<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> String {
    let mut endpoints: Vec<&Endpoint> = endpoints.collect();
    endpoints.sort_by(|one, other| (&one.path, &one.verb).cmp(&(&other.path, &other.verb)));
    let row = |endpoint: &&Endpoint| {
        let (verb, path) = (&endpoint.verb, &endpoint.path);
        format!("| {verb} | `{path}` | {} | {} |\n", callers(endpoint), sentence(endpoint))
    };
    let rows: String = endpoints.iter().map(row).collect();
    format!("| operation | path | callers | description |\n|---|---|---|---|\n{rows}")
}

fn blocks() -> Vec<PageTable> {
    let of_folder = |(name, folder): (&'static str, &str)| PageTable {
        name,
        table: table(endpoints().iter().filter(|endpoint| is_in(endpoint, folder))),
    };
    let open = |is_of_host: bool| {
        let is_open = move |endpoint: &&Endpoint| {
            endpoint.unauthenticated && endpoint.is_of_host == is_of_host
        };
        table(endpoints().iter().filter(is_open))
    };
    let has_sudo_field = |endpoint: &&Endpoint| {
        !endpoint.is_of_host && !sudo_fields("", &endpoint.fields).is_empty()
    };
    let open_blocks = [
        PageTable { name: "open-host", table: open(true) },
        PageTable { name: "open-components", table: open(false) },
        PageTable {
            name: "fields-components",
            table: table(endpoints().iter().filter(has_sudo_field)),
        },
    ];
    open_blocks.into_iter().chain(FOLDERS.into_iter().map(of_folder)).collect()
}

/// Returns the page with the block's table between the marks of the block.
fn replaced(page: &str, block: &PageTable) -> String {
    let [begin, end] = ["begin", "end"].map(|mark| format!("<!-- {}:{mark} -->\n", block.name));
    let (before, rest) = page.split_once(&begin).expect("the page has the begin mark");
    let (_, after) = rest.split_once(&end).expect("the page has the end mark");
    format!("{before}{begin}{}{end}{after}", block.table)
}

#[test]
fn host_endpoint_page_matches_program_tables() {
    let path = repository().join(PAGE);
    let page = fs::read_to_string(&path).expect("the page exists");
    let current = blocks().iter().fold(page.clone(), |page, block| replaced(&page, block));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, current).expect("the page can be written");
        return;
    }
    let differing = current.lines().filter(|line| !page.lines().any(|row| row == *line));
    assert!(
        page == current,
        "{PAGE} differs from the program; run `make golden`. Rows that the page lacks: {:#?}",
        differing.collect::<Vec<_>>()
    );
}

#[test]
fn every_host_endpoint_is_in_one_page_table() {
    for endpoint in endpoints().iter().filter(|endpoint| endpoint.is_of_host) {
        let tables = FOLDERS.iter().filter(|(_, folder)| is_in(endpoint, folder)).count();
        assert_eq!(tables, 1, "{}: add its folder to the page", endpoint.path);
    }
}

#[test]
fn a_changed_row_changes_the_page() {
    let page = "a\n<!-- x:begin -->\n| old |\n<!-- x:end -->\nb\n";
    let block = PageTable { name: "x", table: "| new |\n".to_owned() };
    assert_eq!(replaced(page, &block), page.replace("old", "new"));
}
