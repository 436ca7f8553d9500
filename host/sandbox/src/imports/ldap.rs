//! The `ldap` import: the grant of every server.

use crate::bindings::secrets_engine::bulkhead::plugin::ldap::{
    Change, Entry, Failure, Host, Query, Target,
};
use crate::grants::{Act, Host as HostName, LdapServer};
use crate::state::CallState;

impl Host for CallState {
    async fn bind(&mut self, target: Target) -> wasmtime::Result<Result<(), Failure>> {
        ask(self, &target)
    }

    async fn search(
        &mut self,
        target: Target,
        _query: Query,
    ) -> wasmtime::Result<Result<Vec<Entry>, Failure>> {
        Ok(ask(self, &target)?.map(|()| Vec::new()))
    }

    async fn modify(
        &mut self,
        target: Target,
        _dn: String,
        _changes: Vec<Change>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        ask(self, &target)
    }

    async fn change_password(
        &mut self,
        target: Target,
        _dn: String,
        _current: Option<String>,
        _new: String,
    ) -> wasmtime::Result<Result<(), Failure>> {
        ask(self, &target)
    }

    fn close(&mut self, _target: Target) -> wasmtime::Result<()> {
        self.demand(&Act::Close)
    }
}

/// Asks the grant of each server. Sessions are not had yet, so that none answers.
fn ask(state: &mut CallState, target: &Target) -> wasmtime::Result<Result<(), Failure>> {
    state.enter()?;
    for url in &target.urls {
        let (tls, rest) = match url.split_once("://") {
            Some(("ldaps", rest)) => (true, rest),
            Some(("ldap", rest)) => (false, rest),
            _ => return Ok(failed("invalid-request", "a URL is ldap:// or ldaps://")),
        };
        let Some(host) = HostName::parse(rest) else {
            return Ok(failed("invalid-request", "a URL has no host"));
        };
        let server = LdapServer { tls, host, port: if tls { 636 } else { 389 } };
        let own = &state.resources.own_addresses;
        if let Err(refused) = state.context.grants.reach_of_directory(&server, own) {
            return Ok(failed("permission-denied", &refused.message));
        }
    }
    Ok(failed("unreachable", "no server answers"))
}

fn failed(code: &str, message: &str) -> Result<(), Failure> {
    Err(Failure {
        code: code.to_owned(),
        message: message.to_owned(),
        result_code: None,
        may_have_happened: false,
        ext: Vec::new(),
    })
}
