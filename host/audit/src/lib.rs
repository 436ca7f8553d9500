//! Audit: records each request and each answer on the devices that the operator configured.
//!
//! This file prevents an act that leaves no trace. While a device exists, a request is executed
//! only after a device recorded the request, and an answer leaves only after a device recorded the
//! answer (`pipeline/audit_trail.rs` describes the exception: requests that close the service). A
//! configured device that does not work counts as a failing device; the server never skips a broken
//! device.
//!
//! Not recorded: the endpoints that answer while sealed (decision H21), which know no token, and
//! requests that the listener refuses before the caller and the path are known: bytes that are not
//! HTTP, unknown verbs, too many headers, two different tokens, paths without a canonical form. A
//! request is recorded like any other refusal if its body, query or header is refused after that
//! point.
//!
//! Its modules are ordered in the following line: a module imports only from modules to its left or
//! in lines above. `tests/tidy` reads the line from this file and checks the imports.
//!
//! ```text
//! json → hashing → digests → settings → group → flush → stored → file → bounds → redaction
//! → options → refusal → request_headers → subject → path → device → writer → line → audit
//! → unseals
//! ```

mod audit;
mod bounds;
mod device;
mod digests;
mod file;
mod flush;
mod group;
mod hashing;
mod json;
pub mod line;
mod options;
mod path;
mod redaction;
mod refusal;
mod request_headers;
mod settings;
mod stored;
pub mod subject;
mod unseals;
mod writer;

pub use audit::{Audit, AuditChange, AuditDevices, check};
pub use device::{AuditDevice, DeviceOrigin};
pub use options::option_fields;
pub use refusal::RefusalReason;
pub use request_headers::{LONGEST_HEADER_NAME, MOST_HEADERS, RecordedHeader};
pub use settings::{AuditSettings, DeviceRefusal, DeviceSetting, DeviceSettings, STDOUT};
pub use stored::StoredDevice;
pub use unseals::RefusedUnseals;
