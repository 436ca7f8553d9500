//! Every limit of a call and of the pool of instances, with the unit in the name, in a single
//! place.
//!
//! Knows numbers and their names in grant lines, and never the calls that are counted.

mod exceeded;
mod fixed;
mod line;
mod of_mount;

pub(crate) use bulkhead_outbound::limits::{
    CONNECTION_BYTES, CONNECTION_WAIT_TIMEOUT, CONNECTIONS, EFFECT_TIME, LDAP_SERVERS,
    METADATA_TIMEOUT, PEM_BYTES, SQL_ENDPOINTS, SQL_TARGET_BYTES,
};
pub(crate) use exceeded::ExceededLimit;
pub(crate) use fixed::*;
pub(crate) use line::{LimitLine, LimitWord, UNBOUNDED};
pub use of_mount::{MountLimits, ReuseBounds};
