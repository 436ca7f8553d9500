//! End to end: the built server, a real PostgreSQL, and what each of them shows to the outside.
//!
//! One binary, one module an area. Every test has servers of its own, so that "no user is left" can
//! be asked of the whole database.

mod ambient;
mod audit;
mod bad_components;
mod bad_input;
mod clock;
mod cloud_a;
mod cloud_b;
mod cluster;
mod command_line;
mod configuration;
mod containment;
mod credential_life;
mod credential_types;
mod directory;
mod due_work;
mod endpoints;
mod foreign_files;
mod full_disk;
mod grants;
mod hostile_callers;
mod hostile_names;
mod identity_tokens;
mod initialise;
mod leases;
mod logins;
mod many_addresses;
mod mounts;
mod mysql;
mod outbound;
mod pooled_sessions;
mod postgres;
mod processes;
mod quotas;
mod readme;
mod refusals;
mod restored;
mod root_rotation;
mod scheduler;
mod sealed;
mod sealed_process;
mod secrecy;
mod static_roles;
mod storm;
mod targets;
mod template;
mod tls;
mod tokens;
mod unseal;
mod unverified_passwords;
mod uploads;
mod versions;
mod world;
