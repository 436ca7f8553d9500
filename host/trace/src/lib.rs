//! Traces: spans of requests and due work, the decision to sample, and the queue before the export.
//!
//! This crate knows spans and their ids. It never knows sockets, components, mounts or endpoints:
//! the server sends the batches, and the layers above begin and end the spans.
//!
//! This crate prevents a secret in a trace. A span's name and the names of its attributes are words
//! of this program; a value is a word, a number, or one of the few texts of
//! [`AttributeName`]: the request id, the path of a mount, the name and version of a plugin, and a
//! target as the log shows it.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! record → queue → sampler → tracer → span → root → scope → otlp
//! ```
//!
//! Start reading at `root.rs`: from the head of a request to its trace.

pub mod otlp;
mod queue;
mod record;
mod root;
mod sampler;
pub mod scope;
mod span;
mod tracer;

pub use queue::{BATCH_SPANS, TraceFigures};
pub use record::{AttributeName, AttributeValue, FinishedSpan, SpanKind, SpanOutcome};
pub use root::{CallerTrace, RequestTrace};
pub use span::{OpenSpan, SpanContext};
pub use tracer::{TraceClock, Tracer};
