//! A finished span, as the collector gets it.

/// Maximum length of a text in a span, in bytes. Longer texts are cut.
const TEXT_BYTES: usize = 256;
/// Memory of a span without its texts, in bytes.
const SPAN_BYTES: usize = 192;
/// Memory of an attribute without its text, in bytes.
const ATTRIBUTE_BYTES: usize = 48;

/// The side of a call that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside of the server.
    Internal,
    /// A request that the server answers.
    Server,
    /// A call to a target.
    Client,
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    /// The step gave its result.
    Answered,
    /// The step failed or refused.
    Failed,
    /// The step did not reach its end: the call was stopped.
    Cut,
}

impl SpanOutcome {
    /// Returns the outcome of a step that succeeded or not.
    #[must_use]
    pub fn of(is_answered: bool) -> Self {
        if is_answered { Self::Answered } else { Self::Failed }
    }

    /// Returns the value of the attribute.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Cut => "cut",
        }
    }
}

/// The attributes that a span may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeName {
    /// The id of the request in answer, audit and log.
    RequestId,
    /// The path of the mount.
    Mount,
    /// The class of the request: `read`, `write`, `login` or `plain`.
    Operation,
    /// The end of the span.
    Outcome,
    /// The HTTP status of the answer.
    Status,
    /// The name of the plugin.
    Plugin,
    /// The version of the plugin.
    PluginVersion,
    /// The interface of a host call.
    Interface,
    /// The server that a component calls, as the log shows the server.
    Target,
    /// The kind of due work.
    DueWork,
}

impl AttributeName {
    /// Returns the name in the trace.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::RequestId => "bulkhead.request_id",
            Self::Mount => "bulkhead.mount",
            Self::Operation => "bulkhead.operation",
            Self::Outcome => "bulkhead.outcome",
            Self::Status => "http.response.status_code",
            Self::Plugin => "bulkhead.plugin",
            Self::PluginVersion => "bulkhead.plugin_version",
            Self::Interface => "bulkhead.interface",
            Self::Target => "bulkhead.target",
            Self::DueWork => "bulkhead.due_work",
        }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A word of this program.
    Word(&'static str),
    /// A name; never a part of a request's path below its mount, of a body or of a query.
    Text(Box<str>),
    /// A number.
    Number(i64),
}

impl AttributeValue {
    /// Returns a text, cut to the maximum length.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let end = text.floor_char_boundary(TEXT_BYTES);
        Self::Text(text.get(..end).unwrap_or_default().into())
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Word(_) | Self::Number(_) => 0,
        }
    }
}

impl From<&'static str> for AttributeValue {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<u16> for AttributeValue {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

/// A finished span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSpan {
    /// Id of the trace; never 0.
    pub trace_id: u128,
    /// Id of the span; never 0.
    pub span_id: u64,
    /// Id of the span above; 0 for the root of a trace.
    pub parent_id: u64,
    /// Name of the step.
    pub name: &'static str,
    /// The side of a call.
    pub kind: SpanKind,
    /// Begin, in nanoseconds since 1970.
    pub begin: u64,
    /// End, in nanoseconds since 1970.
    pub end: u64,
    /// Attributes, each name once.
    pub attributes: Vec<(AttributeName, AttributeValue)>,
    /// The step failed.
    pub is_failed: bool,
}

impl FinishedSpan {
    /// Returns the memory that the span takes in the queue, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |(_, value): &(AttributeName, AttributeValue)| {
            value.bytes().saturating_add(ATTRIBUTE_BYTES)
        };
        self.attributes.iter().map(bytes).fold(SPAN_BYTES, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let AttributeValue::Text(text) = AttributeValue::text(&"é".repeat(200)) else {
            panic!("a text stays a text")
        };
        assert_eq!(text.len(), TEXT_BYTES);
        let odd = format!("x{}", "é".repeat(200));
        assert_eq!(AttributeValue::text(&odd).bytes(), TEXT_BYTES - 1);
    }
}
