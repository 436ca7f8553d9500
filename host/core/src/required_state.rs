//! `X-Vault-Index`: an answer names the state that it includes, and a later request on any node
//! waits until that node includes the state, too.
//!
//! This file prevents a client from reading an earlier version of its own write because a load
//! balancer chose another node. A state is a moment of store time, which is one clock for all
//! nodes; the text has the form that published clients compare and merge (decision T70). The text
//! needs no signature: a forged state makes its own request wait for one read of changes.

use crate::core::Core;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_store::CLOCK_TOLERANCE_MS;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use std::fmt;

/// First part of each state.
const VERSION: &str = "v1";

/// The state of a cluster at a moment.
#[derive(Debug, PartialEq, Eq)]
struct ClusterState {
    cluster: String,
    /// Store time in milliseconds.
    time: u64,
}

impl fmt::Display for ClusterState {
    /// Clients expect the index of a replicated cluster after the own index, and a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, time } = self;
        f.write_str(&STANDARD.encode(format!("{VERSION}:{cluster}:{time}:0:")))
    }
}

impl ClusterState {
    /// Parses a state, of any cluster and with any signature; `None` for any other text.
    fn parse(text: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
        let parts: Vec<&str> = text.split(':').collect();
        let [VERSION, cluster, time, replicated, _] = parts[..] else { return None };
        replicated.parse::<u64>().ok()?;
        let time = time.parse().ok()?;
        (!cluster.is_empty()).then(|| Self { cluster: cluster.to_owned(), time })
    }
}

/// Returns the state that an answer of this moment includes; `None` on a node that works alone:
/// each of its answers includes all earlier answers.
///
/// # Errors
/// 503 if the cluster is not known and cannot be read.
pub async fn present_state(core: &Core) -> Result<Option<String>, Failure> {
    if !core.store.is_shared() {
        return Ok(None);
    }
    let cluster = core.process.directory.cluster_id().await?;
    let time = core.store.now();
    Ok(cluster.map(|cluster| ClusterState { cluster, time }.to_string()))
}

/// Waits until this node includes the required states of this cluster. The states of other
/// clusters, which a client of several clusters sends along, require nothing.
///
/// # Errors
/// 400 for a text that is not a state; 412 for a state later than the present, which published
/// clients send again; 503 if the changes of other nodes cannot be read.
pub async fn await_states(core: &Core, required: &[String]) -> Result<(), Failure> {
    if required.is_empty() || !core.store.is_shared() {
        return Ok(());
    }
    let cluster = core.process.directory.cluster_id().await?.unwrap_or_default();
    let mut latest = None;
    for text in required {
        let state = ClusterState::parse(text).ok_or_else(|| malformed(text))?;
        latest = latest.max((state.cluster == cluster).then_some(state.time));
    }
    let Some(time) = latest else { return Ok(()) };
    if time > core.store.now().saturating_add(CLOCK_TOLERANCE_MS) {
        return Err(Failure::new(
            FailureKind::PreconditionFailed,
            format!(
                "X-Vault-Index requires the state of {time} ms after 1970, and this cluster has \
                 not reached that time; leave the header out, or send a state of an answer of this \
                 cluster"
            ),
        ));
    }
    Ok(core.store.await_time(time).await?)
}

fn malformed(text: &str) -> Failure {
    Failure::invalid(format!(
        "X-Vault-Index {} is not a state; send the value of the header of an earlier answer, or \
         leave the header out",
        quoted(text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn state_is_read_as_written() {
        let state = ClusterState { cluster: "0c5e".to_owned(), time: 1_795_984_000_123 };
        assert_eq!(state.to_string(), encoded("v1:0c5e:1795984000123:0:"));
        assert_eq!(ClusterState::parse(&state.to_string()), Some(state));
    }

    #[test]
    fn states_of_published_servers_are_parsed() {
        let signed = ClusterState::parse(&encoded("v1:0c5e:7:9:00ff"));
        assert_eq!(signed, Some(ClusterState { cluster: "0c5e".to_owned(), time: 7 }));
    }

    #[test]
    fn other_texts_are_no_states() {
        for text in [
            "",
            "v1",
            "v1:c:1:0",
            "v2:c:1:0:",
            "v1::1:0:",
            "v1:c:x:0:",
            "v1:c:1:x:",
            "v1:c:-1:0:",
            "v1:c:1:0::",
        ] {
            assert_eq!(ClusterState::parse(&encoded(text)), None, "{text}");
        }
        assert_eq!(ClusterState::parse("v1:c:1:0:"), None, "not in base64");
    }
}
