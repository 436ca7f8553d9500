//! Bridge between a component and a [`RawEngine`]: translates types of the contract, decides
//! nothing.

use crate::bindings::secrets_engine::exports::bulkhead::plugin::raw as words;
use crate::engine_component::EngineComponent;
use crate::imports::Imports;
use crate::raw::{RawEngine, RawReply, RawRequest, RunReason};
use crate::translation::{failure, mount, words as types};

impl<E: RawEngine> words::Guest for EngineComponent<E> {
    fn serve(given: words::Request) -> Result<words::Reply, types::Failure> {
        E::serve(&Imports, &request(given)).map(reply).map_err(failure)
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

fn reply(made: RawReply) -> words::Reply {
    let headers = made.headers.into_iter().map(|(name, value)| words::Header { name, value });
    let park = made.park.map(|park| words::Park {
        keys: park.keys,
        after: park.after,
        wait: u32::try_from(park.wait.as_millis()).unwrap_or(u32::MAX),
    });
    words::Reply {
        status: made.status,
        headers: headers.collect(),
        body: made.body,
        park,
        ext: Vec::new(),
    }
}
