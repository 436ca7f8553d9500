//! The words of Vault's and OpenBao's configuration that have no effect here.
//!
//! This file prevents a start that is less safe than the file says: a setting that protects, seals,
//! limits or replicates is refused. Every other setting is named in the log, so that a file of
//! Vault needs no change that changes nothing. Each sentence says the behaviour of this server, and
//! the advice for the line.

use super::section::{ForeignWord, harmless, refused};

const NO_UI: &str = "this server has no user interface; leave the line out";
const NO_CLUSTER: &str =
    "a single server has the data, and no port for other servers; leave the line out";
const NO_LOG_ROTATION: &str = "the server does not rotate its log; leave the line out, and let \
    logrotate move log_file and send SIGHUP";
const NO_REQUEST_LOG: &str = "requests are recorded by audit devices; leave the line out";
const NO_CACHE: &str = "the cache has a fixed size and is always on; leave the line out";
const NO_LICENCE: &str = "no licence is needed, and no use is reported; leave the line out";
const NO_REPORT: &str = "no use is reported; leave the block out";
const NO_ENDPOINT: &str = "this server has no such endpoint; leave the line out";
const NO_HEADER: &str = "answers have no such header; leave the line out";
const NO_PROCESS: &str = "a plugin is a component and not a process; leave the line out";
const FIXED_TIME: &str = "the times of connections are fixed; leave the line out";
const FIXED_DEPTH: &str = "the limits of JSON are fixed; max_request_size limits a body";
const REQUEST_TIME: &str = "the limit is called request_timeout here; \
    write listener \"tcp\" { request_timeout = \"90s\" }";
const ONE_STORAGE: &str =
    "a single server has the data, and no other takes over; leave the block out, and keep backups";
const NO_ENTROPY: &str = "random bytes come from the system only; leave the block out";

/// Words of the file.
pub(super) const ROOT: &[ForeignWord] = &[
    refused(
        "plugin_trusted_keys",
        "write plugin_signatures {\n  policy = \"require\"\n  trusted_keys = [\"…\"]\n}",
    ),
    refused("backend", "the block is called storage here; write storage instead of backend"),
    refused("ha_storage", ONE_STORAGE),
    refused("ha_backend", ONE_STORAGE),
    refused("entropy", NO_ENTROPY),
    refused("kms_library", "keys in hardware are not supported; leave the block out"),
    refused("sentinel", "there are no such policies; write rules of tokens instead"),
    refused(
        "user_lockout",
        "five refused logins lock a name for 15 minutes; leave the block out, and tune mounts \
         with user_lockout_config",
    ),
    refused("default_max_request_duration", REQUEST_TIME),
    refused("plugin", "plugins are registered by `bulkhead plugin register`; leave the block out"),
    refused("administrative_namespace_path", "there are no namespaces; leave the line out"),
    harmless(
        "unsafe_allow_api_audit_creation",
        "the API makes devices only with allow_api_audit = true and audit_directory; \
         write these two, or leave the line out",
    ),
    harmless("ui", NO_UI),
    harmless("enable_ui", NO_UI),
    harmless(
        "disable_mlock",
        "memory is not locked; switch off or encrypt swap, and leave the line out",
    ),
    harmless("cluster_addr", NO_CLUSTER),
    harmless("cluster_name", NO_CLUSTER),
    harmless("cluster_cipher_suites", NO_CLUSTER),
    harmless("disable_clustering", NO_CLUSTER),
    harmless("disable_performance_standby", NO_CLUSTER),
    harmless("enable_multiseal", NO_CLUSTER),
    harmless(
        "service_registration",
        "the server does not register itself; leave the block out, and let the service check \
         sys/health",
    ),
    harmless("log_requests_level", NO_REQUEST_LOG),
    harmless("log_rotate_bytes", NO_LOG_ROTATION),
    harmless("log_rotate_duration", NO_LOG_ROTATION),
    harmless("log_rotate_max_files", NO_LOG_ROTATION),
    harmless("disable_cache", NO_CACHE),
    harmless("cache_size", NO_CACHE),
    harmless("disable_printable_check", "every name is checked; leave the line out"),
    harmless("disable_sealwrap", "all data are encrypted with the same key; leave the line out"),
    harmless("disable_indexing", "there are no such indexes; leave the line out"),
    harmless("detect_deadlocks", "there are no such checks; leave the line out"),
    harmless("enable_post_unseal_trace", "there are no such traces; leave the line out"),
    harmless("post_unseal_trace_directory", "there are no such traces; leave the line out"),
    harmless("imprecise_lease_role_tracking", "lease quotas count exactly; leave the line out"),
    harmless("plugin_tmpdir", NO_PROCESS),
    harmless("plugin_file_uid", NO_PROCESS),
    harmless("plugin_file_permissions", NO_PROCESS),
    harmless("plugin_auto_download", "plugins are not downloaded; leave the line out"),
    harmless("plugin_auto_register", "plugins are not downloaded; leave the line out"),
    harmless("plugin_download_behavior", "plugins are not downloaded; leave the line out"),
    harmless("raw_storage_endpoint", NO_ENDPOINT),
    harmless("introspection_endpoint", NO_ENDPOINT),
    harmless("allow_audit_log_prefixing", "audit lines have no prefix; leave the line out"),
    harmless("enable_response_header_hostname", NO_HEADER),
    harmless("enable_response_header_raft_node_id", NO_HEADER),
    harmless("license_path", NO_LICENCE),
    harmless("license", NO_LICENCE),
    harmless("reporting", NO_REPORT),
    harmless("pid_file", "the service manager knows the process; leave the line out"),
    harmless("experiments", "there are no experiments to turn on; leave the line out"),
    harmless("adaptive_overload_protection", "limits are always on; leave the block out"),
    harmless("observations", "the audit records each request; leave the block out"),
];

const NO_PUSH: &str = "metrics are read from sys/metrics and not sent; leave the line out";
const FIXED_METRICS: &str =
    "the names and labels of metrics are fixed (docs/observability.md); leave the line out";

/// Words of `telemetry`.
pub(super) const TELEMETRY: &[ForeignWord] = &[
    harmless("statsite_address", NO_PUSH),
    harmless("statsd_address", NO_PUSH),
    harmless("dogstatsd_addr", NO_PUSH),
    harmless("dogstatsd_tags", NO_PUSH),
    harmless("circonus_api_token", NO_PUSH),
    harmless("circonus_api_app", NO_PUSH),
    harmless("circonus_api_url", NO_PUSH),
    harmless("circonus_submission_interval", NO_PUSH),
    harmless("circonus_submission_url", NO_PUSH),
    harmless("circonus_check_id", NO_PUSH),
    harmless("circonus_check_force_metric_activation", NO_PUSH),
    harmless("circonus_check_instance_id", NO_PUSH),
    harmless("circonus_check_search_tag", NO_PUSH),
    harmless("circonus_check_display_name", NO_PUSH),
    harmless("circonus_check_tags", NO_PUSH),
    harmless("circonus_broker_id", NO_PUSH),
    harmless("circonus_broker_select_tag", NO_PUSH),
    harmless("stackdriver_project_id", NO_PUSH),
    harmless("stackdriver_location", NO_PUSH),
    harmless("stackdriver_namespace", NO_PUSH),
    harmless("stackdriver_debug_logs", NO_PUSH),
    harmless("prometheus_retention_time", "counters stay until a seal; leave the line out"),
    harmless("disable_hostname", FIXED_METRICS),
    harmless("enable_hostname_label", FIXED_METRICS),
    harmless("metrics_prefix", FIXED_METRICS),
    harmless("prefix_filter", FIXED_METRICS),
    harmless("filter_default", FIXED_METRICS),
    harmless("usage_gauge_period", "gauges are counted at each read; leave the line out"),
    harmless("maximum_gauge_cardinality", FIXED_METRICS),
    harmless("lease_metrics_epsilon", FIXED_METRICS),
    harmless("num_lease_metrics_buckets", FIXED_METRICS),
    harmless("add_lease_metrics_namespace_labels", FIXED_METRICS),
    harmless("add_mount_point_rollback_metrics", FIXED_METRICS),
    harmless("rollback_metrics_include_mount_point", FIXED_METRICS),
];

const PROXIES: &str = "write trusted_proxies = [\"10.0.0.0/8\"] with the addresses of the \
    proxies; the client is the last hop outside these addresses";
const PROXY_PROTOCOL: &str =
    "the PROXY protocol is not read; leave the line out, and let the proxy send X-Forwarded-For";
const REDACTED: &str = "sys/health, sys/leader and sys/seal-status answer in full; \
    hide these paths at a proxy, and leave the line out";
const ACME: &str = "certificates are not ordered; write tls_cert_file and tls_key_file";

const NO_SEAL_NAME: ForeignWord =
    harmless("name", "a server has a single seal, without a name; leave the line out");
const NO_SEAL_PRIORITY: ForeignWord =
    harmless("priority", "a server has a single seal; leave the line out");
const NO_PROFILE: &str = "profiles are not read; write access_key and secret_key, with the places \
    of the credentials";
const NO_ROLE: &str = "the seal assumes no role; write access_key, secret_key and session_token, \
    and let an agent renew the files";

/// Words of any seal of a service.
pub(super) const OF_A_SEAL: &[ForeignWord] = &[NO_SEAL_NAME, NO_SEAL_PRIORITY];

/// Words of a seal of kind `awskms`.
pub(super) const AWS_KMS_SEAL: &[ForeignWord] = &[
    NO_SEAL_NAME,
    NO_SEAL_PRIORITY,
    harmless("max_retries", "the server tries again by itself; leave the line out"),
    refused("shared_creds_filename", NO_PROFILE),
    refused("shared_creds_profile", NO_PROFILE),
    refused("role_arn", NO_ROLE),
    refused("role_session_name", NO_ROLE),
    refused("web_identity_token_file", NO_ROLE),
];

/// Words of a listener.
pub(super) const LISTENER: &[ForeignWord] = &[
    refused("x_forwarded_for_authorized_addrs", PROXIES),
    refused("x_forwarded_for_hop_skips", PROXIES),
    refused("x_forwarded_for_reject_not_present", PROXIES),
    refused("x_forwarded_for_reject_not_authorized", PROXIES),
    refused("x_forwarded_for_client_cert_header", PROXIES),
    refused("x_forwarded_for_client_cert_header_decoders", PROXIES),
    refused("proxy_protocol_behavior", PROXY_PROTOCOL),
    refused("proxy_protocol_authorized_addrs", PROXY_PROTOCOL),
    refused("max_request_duration", "the limit is called request_timeout here"),
    refused("redact_addresses", REDACTED),
    refused("redact_cluster_name", REDACTED),
    refused("redact_version", REDACTED),
    refused("chroot_namespace", "there are no namespaces; leave the line out"),
    refused("require_request_header", "no listener asks for a header; leave the line out"),
    refused("agent_api", "this server is not an agent; leave the block out"),
    refused("role", "every listener serves the whole API; leave the line out"),
    refused("tls_acme_ca_directory", ACME),
    refused("tls_acme_domains", ACME),
    refused("tls_acme_email", ACME),
    refused("tls_acme_cache_path", ACME),
    refused("tls_acme_ca_root", ACME),
    harmless("cluster_address", NO_CLUSTER),
    harmless("tls_prefer_server_cipher_suites", "the server's order counts; leave the line out"),
    harmless("http_read_timeout", FIXED_TIME),
    harmless("http_read_header_timeout", FIXED_TIME),
    harmless("http_write_timeout", FIXED_TIME),
    harmless("http_idle_timeout", FIXED_TIME),
    harmless("max_json_depth", FIXED_DEPTH),
    harmless("max_json_string_value_length", FIXED_DEPTH),
    harmless("max_json_object_entry_count", FIXED_DEPTH),
    harmless("max_json_array_element_count", FIXED_DEPTH),
    harmless("custom_response_headers", "answers have fixed headers; add others at a proxy"),
    harmless("telemetry", "this listener serves a mount without metrics; leave the block out"),
    harmless("profiling", NO_ENDPOINT),
    harmless("inflight_requests_logging", "the audit records each request; leave the block out"),
    harmless("disable_replication_status_endpoints", NO_CLUSTER),
    harmless(
        "disable_unauthed_rekey_endpoints",
        "key holders need a token too unless allow_key_holders = true; leave the line out",
    ),
];

/// Words of the telemetry of a listener.
pub(super) const LISTENER_TELEMETRY: &[ForeignWord] = &[
    refused("disallow_metrics", "policies decide on sys/metrics; leave the line out"),
    refused("metrics_only", "this listener serves the whole API; leave the line out"),
    harmless(
        "unauthenticated_in_flight_request_access",
        "sys/in-flight-req needs a token; leave the line out",
    ),
    harmless("unauthenticated_pprof_access", NO_ENDPOINT),
];

/// Words of automated snapshots.
pub(super) const SNAPSHOT: &[ForeignWord] = &[
    refused("interval", "the times are called schedule here; write schedule = \"every 6h\""),
    refused("path_prefix", "the directory is called path here; write path = \"/var/backups/…\""),
    refused("file_prefix", "files begin with the name of the block; leave the line out"),
    refused(
        "storage_type",
        "snapshots are saved to a directory of this machine; leave the line out, and write path",
    ),
    refused(
        "local_max_space",
        "retain limits the number of files; leave the line out, and give the directory a disk \
         of its own",
    ),
];

/// Words of an audit device.
pub(super) const AUDIT: &[ForeignWord] = &[
    refused(
        "prefix",
        "a device writes lines of JSON and nothing else (decision P12); leave the line out",
    ),
    refused("format", "a device writes JSON, the only format of this version; leave the line out"),
    refused("file_path", "the file is called path here; write path = \"/var/log/…\""),
    refused(
        "options",
        "write the options directly into the block: path (for file_path), mode, log_raw, \
         hmac_accessor, elide_list_responses",
    ),
    refused("filter", "every request is recorded; leave the line out"),
    refused("exclude", "every member is recorded; leave the line out"),
    refused("fallback", "a request is recorded by all devices; leave the line out"),
    harmless("description", "a device of the file has no description; write a comment"),
    harmless(
        "local",
        "a single server has the data, and every device is local; leave the line out",
    ),
];
