//! The description of a node, for other nodes of its database and for operators.
//!
//! This file prevents a row of a node that a node of the next release cannot read: unknown members
//! are ignored, and missing members are empty.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::node_files::host_name;

/// The description of a node, as the row of the node has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDescription {
    /// Name that the operator gave the node. Empty: the node has no name.
    pub node_id: String,
    /// URL at which clients reach the node.
    pub api_address: String,
    /// Name of the machine.
    pub hostname: String,
    /// Version that the node reports to clients.
    pub version: String,
    /// Version of the binary.
    pub bulkhead_version: String,
}

impl NodeDescription {
    /// Describes the node `node_id` on this machine. `versions` are the reported version and the
    /// version of the binary.
    pub fn on_this_machine(
        (node_id, api_address): (&str, &str),
        versions: (&str, &str),
    ) -> NodeDescription {
        NodeDescription {
            node_id: node_id.to_owned(),
            api_address: api_address.to_owned(),
            hostname: host_name(),
            version: versions.0.to_owned(),
            bulkhead_version: versions.1.to_owned(),
        }
    }

    /// Returns the description as a JSON text.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Parses a description. A text of another kind describes a node without a name.
    #[must_use]
    pub fn parse(text: &str) -> NodeDescription {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns whether both nodes have the same name.
    #[must_use]
    pub fn is_namesake(&self, other: &NodeDescription) -> bool {
        !self.node_id.is_empty() && self.node_id == other.node_id
    }
}

/// A node with a claim on the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivingNode {
    /// The description in the row of the node.
    pub description: NodeDescription,
    /// The node is this process.
    pub is_self: bool,
    /// Time since the node took its claim.
    pub age: Duration,
    /// Time since the last commit or renewal of the claim.
    pub silence: Duration,
    /// Number of the last commit of the node.
    pub last_commit: i64,
    /// Number of commits of other living nodes that the node has not read, as far as it has
    /// written what it read: at most a few on a healthy node.
    pub unread_commits: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_survives_other_members_and_texts() {
        let node = NodeDescription::on_this_machine(("a", "https://a:8200"), ("1.21.0", "0.1.0"));
        assert!(!node.hostname.is_empty());
        assert_eq!(NodeDescription::parse(&node.to_text()), node);
        let later = NodeDescription::parse(r#"{"node_id":"a","zone":{"of":"a later release"}}"#);
        assert!(later.is_namesake(&node) && later.api_address.is_empty());
        let unnamed = NodeDescription::parse("");
        assert_eq!(unnamed, NodeDescription::default());
        assert!(!unnamed.is_namesake(&unnamed), "nodes without names");
    }
}
