//! The types of the `ldap` import, translated to the types of `bulkhead-outbound` and back.

use crate::bindings::secrets_engine::bulkhead::plugin::ldap as contract;
use bulkhead_outbound::ldap::{
    AttributeChange, DirectoryAttribute, DirectoryEntry, DirectoryQuery, DirectoryTarget,
    DirectoryTls, FilterCondition, LdapFailure, SearchScope,
};

/// Key of Active Directory's own code for a refused login, in a failure's `ext`.
const LOGIN_DATA: &str = "data";

impl From<contract::Target> for DirectoryTarget {
    fn from(target: contract::Target) -> Self {
        Self {
            urls: target.urls,
            tls: target.tls.into(),
            bind_dn: target.bind_dn,
            password: target.password,
            connect_timeout: target.connect_timeout,
            request_timeout: target.request_timeout,
        }
    }
}

impl From<contract::Tls> for DirectoryTls {
    fn from(tls: contract::Tls) -> Self {
        Self {
            starttls: tls.starttls,
            insecure: tls.insecure,
            root_certificates: tls.root_certificates,
            client_certificate: tls.client_certificate,
            client_key: tls.client_key,
            server_name: tls.server_name,
            min_version: tls.min_version,
            max_version: tls.max_version,
        }
    }
}

impl From<contract::Query> for DirectoryQuery {
    fn from(query: contract::Query) -> Self {
        let condition =
            |contract::Condition { attribute, value, .. }| FilterCondition { attribute, value };
        let any_of = |conditions: Vec<_>| conditions.into_iter().map(condition).collect();
        Self {
            base: query.base,
            scope: match query.scope {
                contract::Scope::Base => SearchScope::Base,
                contract::Scope::OneLevel => SearchScope::OneLevel,
                contract::Scope::Subtree => SearchScope::Subtree,
            },
            filter: query.filter.into_iter().map(any_of).collect(),
            attributes: query.attributes,
            limit: query.limit,
        }
    }
}

impl From<contract::Change> for AttributeChange {
    fn from(change: contract::Change) -> Self {
        let attribute = |contract::Attribute { name, values }| DirectoryAttribute { name, values };
        match change {
            contract::Change::Add(changed) => Self::Add(attribute(changed)),
            contract::Change::Delete(changed) => Self::Delete(attribute(changed)),
            contract::Change::Replace(changed) => Self::Replace(attribute(changed)),
        }
    }
}

impl From<DirectoryEntry> for contract::Entry {
    fn from(entry: DirectoryEntry) -> Self {
        let attribute = |DirectoryAttribute { name, values }| contract::Attribute { name, values };
        let attributes = entry.attributes.into_iter().map(attribute).collect();
        Self { dn: entry.dn, attributes, ext: Vec::new() }
    }
}

impl From<LdapFailure> for contract::Failure {
    fn from(failure: LdapFailure) -> Self {
        let data = failure.login_data.map(|data| (LOGIN_DATA.to_owned(), data));
        Self {
            code: failure.code,
            message: failure.message,
            result_code: failure.result_code,
            may_have_happened: failure.may_have_happened,
            ext: data.into_iter().collect(),
        }
    }
}
