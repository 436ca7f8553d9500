//! Conversions of contract types shared by secrets engines and auth methods.

#[cfg(all(feature = "auth-method", not(feature = "secrets-engine")))]
pub(crate) use crate::bindings::auth_method::bulkhead::plugin::types as words;
#[cfg(feature = "secrets-engine")]
pub(crate) use crate::bindings::secrets_engine::bulkhead::plugin::types as words;
use crate::call::{Call, Caller, Context, Mount};
use bulkhead_wire::call_limits::CallLimits;
use bulkhead_wire::description::Operation;
use bulkhead_wire::failure::{Failure, FailureKind};
use serde_json::{Map, Value};

pub(crate) fn call(given: words::Call) -> Result<Call, Failure> {
    let operation = operation(&given.operation)?;
    let fields: Map<String, Value> = serde_json::from_str(&given.fields)
        .map_err(|_| Failure::internal("the host sent fields other than an object"))?;
    Ok(Call {
        id: given.id,
        operation,
        route: given.route,
        captures: given.captures,
        fields,
        deadline: given.deadline,
        caller: Caller {
            entity: given.caller.entity,
            display_name: given.caller.display_name,
            id: given.caller.id,
            capabilities: given.caller.capabilities,
            remote_address: given.caller.remote_address,
        },
        mount: mount(given.mount),
    })
}

fn operation(word: &str) -> Result<Operation, Failure> {
    use Operation::{Create, Delete, List, Patch, Read, Update};
    let operations = [Create, Read, Update, Patch, Delete, List];
    operations.into_iter().find(|operation| operation.word() == word).ok_or_else(|| {
        Failure::new(
            FailureKind::UnsupportedOperation,
            format!("the operation {word:?} is newer than this plugin"),
        )
    })
}

pub(crate) fn mount(given: words::Mount) -> Mount {
    Mount {
        path: given.path,
        accessor: given.accessor,
        kind: given.kind,
        default_ttl: given.default_ttl,
        max_ttl: given.max_ttl,
        longest_lease: given.longest_lease,
        options: given.options,
    }
}

pub(crate) fn context(given: words::Context) -> Context {
    let limits = CallLimits::from_pairs(&given.ext);
    Context { mount: mount(given.mount), deadline: given.deadline, limits }
}

pub(crate) fn failure(why: Failure) -> words::Failure {
    words::Failure {
        code: why.kind.code().to_owned(),
        message: why.message,
        retry_after: why.retry_after,
        ext: Vec::new(),
    }
}
