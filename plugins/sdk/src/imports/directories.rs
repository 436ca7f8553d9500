//! LDAP directories, implemented with the import `ldap`.

use super::{Imports, import};
use crate::host::Ldap;
use crate::ldap::{
    AttributeChange, Condition, LdapEntry, LdapFault, LdapFaultCode, LdapTarget, Search,
    SearchScope,
};

impl Ldap for Imports {
    fn bind(&self, target: &LdapTarget) -> Result<(), LdapFault> {
        import::ldap::bind(&target_words(target)).map_err(fault)
    }

    fn search(&self, target: &LdapTarget, search: &Search) -> Result<Vec<LdapEntry>, LdapFault> {
        let found = import::ldap::search(&target_words(target), &query_words(search));
        Ok(found.map_err(fault)?.into_iter().map(entry).collect())
    }

    fn modify(
        &self,
        target: &LdapTarget,
        dn: &str,
        changes: &[AttributeChange],
    ) -> Result<(), LdapFault> {
        let changes: Vec<_> = changes.iter().map(change_words).collect();
        import::ldap::modify(&target_words(target), dn, &changes).map_err(fault)
    }

    fn change_password(
        &self,
        target: &LdapTarget,
        dn: &str,
        current: Option<&str>,
        new: &str,
    ) -> Result<(), LdapFault> {
        import::ldap::change_password(&target_words(target), dn, current, new).map_err(fault)
    }

    fn close(&self, target: &LdapTarget) {
        import::ldap::close(&target_words(target));
    }
}

fn target_words(target: &LdapTarget) -> import::ldap::Target {
    let tls = &target.tls;
    import::ldap::Target {
        urls: target.urls.clone(),
        tls: import::ldap::Tls {
            starttls: tls.starttls,
            insecure: tls.insecure,
            root_certificates: tls.root_certificates.clone(),
            client_certificate: tls.client_certificate.clone(),
            client_key: tls.client_key.clone(),
            server_name: tls.server_name.clone(),
            min_version: tls.min_version.clone(),
            max_version: tls.max_version.clone(),
            ext: Vec::new(),
        },
        bind_dn: target.bind_dn.clone(),
        password: target.password.clone(),
        connect_timeout: target.connect_timeout,
        request_timeout: target.request_timeout,
        ext: Vec::new(),
    }
}

fn query_words(search: &Search) -> import::ldap::Query {
    let condition = |one: &Condition| import::ldap::Condition {
        attribute: one.attribute.clone(),
        value: one.value.clone(),
        ext: Vec::new(),
    };
    let all_of = search.filter.all_of.iter();
    import::ldap::Query {
        base: search.base.clone(),
        scope: match search.scope {
            SearchScope::Base => import::ldap::Scope::Base,
            SearchScope::OneLevel => import::ldap::Scope::OneLevel,
            SearchScope::Subtree => import::ldap::Scope::Subtree,
        },
        filter: all_of.map(|any_of| any_of.iter().map(condition).collect()).collect(),
        attributes: search.attributes.clone(),
        limit: search.limit,
        ext: Vec::new(),
    }
}

fn change_words(change: &AttributeChange) -> import::ldap::Change {
    let (name, values) = change.attribute();
    let attribute = import::ldap::Attribute { name: name.to_owned(), values: values.to_vec() };
    match change {
        AttributeChange::Add(..) => import::ldap::Change::Add(attribute),
        AttributeChange::Delete(..) => import::ldap::Change::Delete(attribute),
        AttributeChange::Replace(..) => import::ldap::Change::Replace(attribute),
    }
}

fn entry(found: import::ldap::Entry) -> LdapEntry {
    let attributes = found.attributes.into_iter();
    LdapEntry {
        dn: found.dn,
        attributes: attributes.map(|attribute| (attribute.name, attribute.values)).collect(),
    }
}

fn fault(why: import::ldap::Failure) -> LdapFault {
    let data = why.ext.iter().find(|(name, _)| name == "data");
    LdapFault {
        data: data.and_then(|(_, code)| u32::from_str_radix(code, 16).ok()),
        code: LdapFaultCode::of_word(&why.code),
        message: why.message,
        result_code: why.result_code,
        may_have_happened: why.may_have_happened,
    }
}
