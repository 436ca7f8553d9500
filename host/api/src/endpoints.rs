//! Table of the endpoints of the host itself.
//!
//! Each file named after a path holds the rows and the functions of the endpoints; this file lists
//! the files. A row states the callers: `handled_by` answers callers with policies that allow the
//! request, `without_a_token` every caller while the service is open, `while_sealed` every caller
//! at any time. Nothing here knows the pipeline, which checks the policies before each call of a
//! handler.

mod after_commit;
mod auth_token;
mod auth_token_create;
mod auth_token_roles;
mod body_check;
mod call;
mod cubbyhole;
mod envelope;
mod handler;
mod identity_entity;
mod identity_entity_alias;
mod identity_group;
mod identity_group_alias;
mod identity_lookup;
mod identity_oidc;
mod identity_oidc_key;
mod identity_oidc_role;
mod identity_oidc_token;
mod identity_shown;
mod key_holder_paths;
mod reply;
mod row;
mod serve;
mod sys_audit;
mod sys_auth;
mod sys_capabilities;
mod sys_config_auditing_request_headers;
mod sys_config_state;
mod sys_generate_root;
mod sys_health;
mod sys_host_info;
mod sys_in_flight_req;
mod sys_init;
mod sys_internal_counters;
mod sys_internal_help;
mod sys_internal_specs_openapi;
mod sys_internal_ui_mounts;
mod sys_internal_ui_resultant_acl;
mod sys_leader;
mod sys_leases;
mod sys_locked_users;
mod sys_loggers;
mod sys_metrics;
mod sys_monitor;
mod sys_mounts;
mod sys_plugins_catalog;
mod sys_plugins_pins;
mod sys_plugins_reload;
mod sys_plugins_runtimes;
mod sys_policies;
mod sys_policies_password;
mod sys_quotas;
mod sys_quotas_lease_count;
mod sys_quotas_rate_limit;
mod sys_rekey;
mod sys_release;
mod sys_remount;
mod sys_rotate;
mod sys_seal_status;
mod sys_storage_snapshot;
mod sys_tools;
mod sys_unseal;
mod sys_version_history;
mod sys_wrapping;
mod table;

pub(crate) use auth_token::auth;
pub(crate) use body_check::{check_body, unread_failure};
use bulkhead_access::policies::spelling;
use bulkhead_wire::request::Request;
pub(crate) use call::{PermittedCall, PresentQuestion, RequestFields};
pub(crate) use cubbyhole::EXISTENCE as CUBBYHOLE_EXISTENCE;
pub(crate) use envelope::{respond, respond_enveloped, respond_listed};
pub(crate) use row::{Endpoint, EndpointHandler};
pub(crate) use serve::{
    PublicEndpoint, PublicRequest, read_public_fields, refuse_wrapping, serve_open_metrics,
    serve_while_sealed, serve_without_a_token,
};
use std::borrow::Cow;
pub(crate) use sys_metrics::OpenScrapes;
pub use sys_metrics::metric_tables;
pub(crate) use sys_wrapping::{answers_own_data, is_opened_by_caller, not_wrapping};
pub(crate) use table::{FoundEndpoint, HostTable, unsupported};

/// Builds the host's table.
///
/// # Errors
/// A description of the faulty row, for the developer of the row.
pub(crate) fn table() -> Result<HostTable, String> {
    HostTable::new(endpoints())
}

/// Returns the endpoints of every file of this folder.
fn endpoints() -> Vec<Endpoint> {
    [
        sys_health::rows(),
        sys_leader::rows(),
        sys_seal_status::rows(),
        sys_init::rows(),
        sys_unseal::rows(),
        sys_rotate::rows(),
        sys_generate_root::rows(),
        sys_rekey::rows(),
        sys_audit::rows(),
        sys_config_auditing_request_headers::rows(),
        sys_mounts::rows(),
        sys_auth::rows(),
        sys_remount::rows(),
        sys_release::rows(),
        sys_internal_ui_mounts::rows(),
        sys_internal_help::rows(),
        sys_internal_ui_resultant_acl::rows(),
        sys_host_info::rows(),
        sys_in_flight_req::rows(),
        sys_version_history::rows(),
        sys_loggers::rows(),
        sys_config_state::rows(),
        sys_internal_specs_openapi::rows(),
        sys_leases::rows(),
        sys_locked_users::rows(),
        sys_metrics::rows(),
        sys_monitor::rows(),
        sys_internal_counters::rows(),
        sys_storage_snapshot::rows(),
        sys_policies::rows(),
        sys_policies_password::rows(),
        sys_quotas_lease_count::rows(),
        sys_quotas_rate_limit::rows(),
        sys_plugins_catalog::rows(),
        sys_plugins_pins::rows(),
        sys_plugins_reload::rows(),
        sys_plugins_runtimes::rows(),
        sys_tools::rows(),
        sys_wrapping::rows(),
        cubbyhole::rows(),
        sys_capabilities::rows(),
        identity_entity::rows(),
        identity_entity_alias::rows(),
        identity_group::rows(),
        identity_group_alias::rows(),
        identity_lookup::rows(),
        auth_token::rows(),
        auth_token_create::rows(),
        auth_token_roles::rows(),
        identity_oidc::rows(),
        identity_oidc_key::rows(),
        identity_oidc_role::rows(),
        identity_oidc_token::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the request with the object's name in the server's spelling, so that policy and audit
/// see the right object. `None` if the path already has the server's spelling, as nearly always.
pub(crate) fn canonical(request: &Request) -> Option<Request> {
    match spelling::fold(&request.path) {
        Cow::Borrowed(_) => None,
        Cow::Owned(path) => Some(Request { path, ..request.clone() }),
    }
}
