//! `bulkhead operator members · step-down`: the nodes of the service. Every node answers, and a
//! node that steps down is drained for a minute (decision H16).

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Value, json};

pub(crate) const MEMBERS: Command = Command {
    words: "operator members",
    takes: "",
    about: "list the nodes of the service",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: members,
};

pub(crate) const STEP_DOWN: Command = Command {
    words: "operator step-down",
    takes: "",
    about: "drain the node for a minute: load balancers choose other nodes",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: step_down,
};

/// The columns of Vault's table: the heading, and the member of a node.
const COLUMNS: [(&str, &str); 8] = [
    ("Host Name", "hostname"),
    ("API Address", "api_address"),
    ("Cluster Address", "cluster_address"),
    ("Active Node", "active_node"),
    ("Version", "version"),
    ("Upgrade Version", "upgrade_version"),
    ("Redundancy Zone", "redundancy_zone"),
    ("Last Echo", "last_echo"),
];

fn members(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer =
        session.ask("listing the nodes", &ServerRequest::new(Method::GET, "sys/ha-status"))?;
    let nodes = answer.body.pointer("/data/nodes").cloned().unwrap_or_else(|| json!([]));
    let table = table(&nodes);
    // Vault's command prints the list with a capital letter, and scripts read the list so.
    session.show_part(&answer, &json!({ "Nodes": nodes }), &table)
}

fn table(nodes: &Value) -> String {
    let cell = |node: &Value, name: &str| match node.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(value) => output::text(value),
    };
    let rows: Vec<Vec<String>> = nodes
        .as_array()
        .into_iter()
        .flatten()
        .map(|node| COLUMNS.iter().map(|(_, name)| cell(node, name)).collect())
        .collect();
    output::columns(&COLUMNS.map(|(head, _)| head), &rows)
}

fn step_down(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer: ServerAnswer =
        session.ask("stepping down", &ServerRequest::new(Method::PUT, "sys/step-down"))?;
    session.show_or(
        &answer,
        "the node still answers requests; nodes of a shared database are drained for 60 s",
    )
}
