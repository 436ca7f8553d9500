//! The test harness: starts the built server and real databases, and uses them as an operator
//! would.
//!
//! The harness links no product code. It uses HTTP, the files from `make build`, `psql`, and
//! processes. [`client`] checks the rules for every answer. Functions panic if a program that they
//! need is missing, refuses or gives no answer in time.

pub mod authority;
pub mod aws_kms;
pub mod azure_vault;
pub mod bulkhead;
pub mod client;
pub mod clock;
pub mod cloud_a;
pub mod cloud_b;
pub mod collector;
pub mod concurrent_requests;
pub mod counts;
pub mod cutting_relay;
pub mod database_nodes;
pub mod database_proxy;
pub mod directory_server;
pub mod disk;
pub mod documents;
pub mod encoding;
pub mod gcp_kms;
pub mod golden;
pub mod haproxy;
pub mod internet;
pub mod key_service;
pub mod kubernetes;
pub mod leaks;
pub mod mariadb;
pub mod metrics;
pub mod node_deployment;
pub mod operators;
pub mod paths;
pub mod postgres;
pub mod postgres_storage;
pub mod preload;
pub mod prometheus;
pub mod scheduler;
pub mod sealed_server;
pub mod server_script;
pub mod signer;
pub mod socket;
pub mod static_seal;
pub mod storage;
pub mod tls_client;
pub mod transit_server;
pub mod wait;

pub use authority::Authority;
pub use bulkhead::Bulkhead;
pub use client::{Answer, Client};
pub use clock::Clock;
pub use database_nodes::DatabaseNodes;
pub use database_proxy::DatabaseProxy;
pub use directory_server::{Branch, DirectoryKind, DirectoryServer};
pub use haproxy::HaProxy;
pub use internet::Internet;
pub use kubernetes::{Kubernetes, Namespace};
pub use mariadb::MariaDb;
pub use node_deployment::NodeDeployment;
pub use operators::Operators;
pub use postgres::Postgres;
pub use signer::Signer;
pub use socket::Socket;
