//! Bridge between a component and a [`RawEngine`]: translates types of the contract, decides
//! nothing.

use crate::bindings::secrets_engine::exports::bulkhead::plugin::raw as words;
use crate::engine_component::EngineComponent;
use crate::imports::Imports;
use crate::raw::{RawCaller, RawEngine, RawReply, RawRequest, RunReason};
use crate::translation::{failure, mount, words as types};

/// Word of the run that asks for the caller alone.
const IDENTIFY: &str = "identify";

impl<E: RawEngine> words::Guest for EngineComponent<E> {
    fn serve(given: words::Request) -> Result<words::Reply, types::Failure> {
        let is_identification = given.run == IDENTIFY;
        let request = request(given);
        let answered = match is_identification {
            true => E::identify(&Imports, &request).map(identified),
            false => E::serve(&Imports, &request),
        };
        answered.map(reply).map_err(failure)
    }
}

fn request(given: words::Request) -> RawRequest {
    let headers = given.headers.into_iter().map(|header| (header.name, header.value));
    RawRequest {
        id: given.id,
        method: given.method,
        base: given.base,
        path: given.path,
        query: given.query,
        headers: headers.collect(),
        body: given.body,
        run: RunReason::of_word(&given.run),
        deadline: given.deadline,
        remote_address: given.remote_address,
        mount: mount(given.mount),
    }
}

/// Returns the reply to the run that asks for the caller.
fn identified(caller: Option<RawCaller>) -> RawReply {
    let status = if caller.is_some() { 200 } else { 403 };
    RawReply { status, caller: caller.map(Box::new), ..RawReply::default() }
}

fn reply(reply: RawReply) -> words::Reply {
    let headers = reply.headers.into_iter().map(|(name, value)| words::Header { name, value });
    let park = reply.park.map(|park| words::Park {
        keys: park.keys,
        after: park.after,
        wait: u32::try_from(park.wait.as_millis()).unwrap_or(u32::MAX),
    });
    let named = reply.caller.map(|caller| {
        let RawCaller { accessor, display_name } = *caller;
        [("caller-accessor", accessor), ("caller-name", display_name)]
            .map(|(name, value)| (name.to_owned(), value))
    });
    words::Reply {
        status: reply.status,
        headers: headers.collect(),
        body: reply.body,
        park,
        ext: named.into_iter().flatten().collect(),
    }
}
