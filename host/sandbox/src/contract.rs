//! The words of `wit/types.wit`, plain data that the layers above use too.

pub use crate::bindings::secrets_engine::bulkhead::plugin::types::{
    Answer, Call, Caller, Context, Failure, Lease, Mount, Outcome, RawAnswer, Secret,
};
pub use crate::bindings::secrets_engine::exports::bulkhead::plugin::leased::Renewal;
