//! The two ways of a request into the service: the API, and plain HTTP for a component.
//!
//! This file prevents a protection that holds on one way only. A step of the first way is a call of
//! the code in [`WAYS`]; the second way must make the same call, or a reason is stated.

use crate::sources::{Source, all, assert_none};
use std::collections::BTreeSet;

/// The code of both ways, on one layer.
struct PipelinePair {
    /// Files of the first way.
    first: &'static [&'static str],
    /// Files, or folders that end in `/`, of the second way.
    second: &'static [&'static str],
    /// Modules and values whose functions are steps.
    roots: &'static [&'static str],
    /// Steps that the second way does not make, with the reason.
    absent: &'static [(&'static str, &'static str)],
}

const NO_TOKEN: &str = "the component, not the host, authenticates the caller";
const NO_ROW: &str = "a path without a row of a table";
const NO_ENVELOPE: &str = "the answer has no envelope";
const NO_LEASE: &str = "a call of plain HTTP cannot issue a lease";
const NO_METRICS: &str = "sys/metrics is a path of the API";
const ONLY_API: &str = "reaches the handlers of the API";

const WAYS: [PipelinePair; 2] = [
    PipelinePair {
        first: &["host/api/src/pipeline.rs", "host/api/src/pipeline/component_call.rs"],
        second: &["host/api/src/pipeline/raw.rs", "host/api/src/pipeline/raw/"],
        roots: &["admission", "core", "mount", "services", "trail", "AuditTrail"],
        absent: &[
            ("core.log.line", "logs a failure to undo a reservation; plain HTTP has no leases"),
            ("core.quotas.admit", NO_LEASE),
            ("core.rights_of", NO_TOKEN),
            ("core.tokens.authenticate", NO_TOKEN),
            ("core.tokens.finish_request", NO_TOKEN),
            ("core.tokens.identify", NO_TOKEN),
            ("mount.record.below", NO_LEASE),
            ("services.take_reserved", NO_LEASE),
            ("trail.permit", "no policy decides"),
            ("trail.record_entity_policies", NO_TOKEN),
        ],
    },
    PipelinePair {
        first: &["host/server/src/http.rs"],
        second: &["host/server/src/raw.rs"],
        roots: &["headers", "target", "body", "self"],
        absent: &[
            ("body::receive", "the body is bytes, and is read by read_body within the same limits"),
            ("headers.insert", "the component sets the content type"),
            ("headers::check_patch", NO_ROW),
            ("headers::prefers_metrics_text", NO_METRICS),
            ("headers::refuse_unserved", "headers of the API have no meaning here"),
            ("headers::required_states", "the answers of plain HTTP name no state"),
            ("headers::token", NO_TOKEN),
            ("headers::wrap_ttl", NO_ENVELOPE),
            ("self.answer", ONLY_API),
            ("self.answerer.admit_body", "identify_raw asks the component about the caller"),
            ("self.answerer.has_token", "identify_raw asks the component about the caller"),
            ("self.config.opens_metrics_to", NO_METRICS),
            ("self.config.proxies.is_proxy", "both ways call trusts"),
            ("self.metrics_terms", NO_METRICS),
            ("self.raw_place", "the second way itself"),
            ("self.receive", "the body is received by receive_raw_body"),
            ("self.serve_raw", "the second way itself"),
            ("self.work.clone", "a seal, and so the end of the process, waits for the run"),
            ("target::query", "the component reads the query"),
        ],
    },
];

/// Returns the code of a file without comments, unit tests and white space.
fn dense_code(file: &Source) -> String {
    let lines = file.code().map(|(_, line)| line);
    let product = lines.take_while(|line| *line != "mod tests {" && *line != "mod tests;");
    product.flat_map(|line| line.split_whitespace()).collect()
}

/// Returns the code of the named files and folders.
fn code_of(files: &[Source], names: &[&str]) -> String {
    let is_named = |path: &str| {
        names.iter().any(|name| *name == path || (name.ends_with('/') && path.starts_with(name)))
    };
    let named = files.iter().filter(|file| is_named(&file.path));
    named.map(dense_code).collect()
}

/// Returns the calls of functions of `roots`, as written from the root on.
fn calls(code: &str, roots: &[&str]) -> BTreeSet<String> {
    let is_of_path = |c: char| c.is_alphanumeric() || "_.:".contains(c);
    let mut found = BTreeSet::new();
    for (end, _) in code.match_indices('(') {
        let before = &code[..end];
        let begin = before.rfind(|c| !is_of_path(c)).map_or(0, |at| at + 1);
        // The character before may have several bytes only in a text.
        let Some(path) = before.get(begin..) else { continue };
        for root in roots {
            let from = path.match_indices(root).map(|(at, _)| at).find(|at| {
                let is_begin = *at == 0 || path[..*at].ends_with(['.', ':']);
                is_begin && path[at + root.len()..].starts_with(['.', ':'])
            });
            found.extend(from.map(|at| path[at..].to_owned()));
        }
    }
    found
}

#[test]
fn both_pipelines_have_every_step() {
    let files = all();
    let mut offences = Vec::new();
    for way in &WAYS {
        let (first, second) = (code_of(&files, way.first), code_of(&files, way.second));
        let steps = calls(&first, way.roots);
        assert!(steps.len() > 10, "only {steps:?} were found in {:?}", way.first);
        let reason = |step: &str| way.absent.iter().find(|(absent, _)| *absent == step);
        for step in &steps {
            let is_made = second.contains(&format!("{step}("));
            match (is_made, reason(step)) {
                (true, None) | (false, Some(_)) => {}
                (false, None) => offences.push(format!("{:?} does not call {step}", way.second)),
                (true, Some(_)) => offences.push(format!("{step} has a needless reason")),
            }
        }
        let unused = way.absent.iter().filter(|(step, _)| !steps.contains(*step));
        offences.extend(unused.map(|(step, _)| format!("{step} is not called in the first way")));
    }
    assert_none(
        offences,
        "make the step in both ways, or state the reason in tests/tidy/pipelines.rs",
    );
}

#[test]
fn steps_are_found_in_code() {
    let code = "letx=self.core.load(mount,core.log.line());trail.enter(y);other.core(z)";
    let found = calls(code, &["core", "trail"]);
    let expected = ["core.load", "core.log.line", "trail.enter"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected));
}
