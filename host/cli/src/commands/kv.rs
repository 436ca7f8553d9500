//! `bulkhead kv`: secrets of key-value mounts, versioned (2) and unversioned (1).

mod enable_versioning;
mod get;
mod list;
mod metadata;
mod patch;
mod put;
mod remove;
mod rollback;
mod secret_location;
mod sections;

pub(super) use enable_versioning::ENABLE_VERSIONING;
pub(super) use get::GET;
pub(super) use list::LIST;
pub(super) use metadata::{
    DELETE as METADATA_DELETE, GET as METADATA_GET, PATCH as METADATA_PATCH, PUT as METADATA_PUT,
};
pub(super) use patch::PATCH;
pub(super) use put::PUT;
pub(super) use remove::{DELETE, DESTROY, UNDELETE};
pub(super) use rollback::ROLLBACK;
