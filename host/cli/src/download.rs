//! Requests with an answer of any length, which goes to a file or to standard output piece by
//! piece.

use crate::client::{
    ANSWER_MAX, AskError, RequestCaller, ServerAddress, ServerAnswer, ServerRequest, TIME,
    broken_connection, build_request, connect, parse_answer, refuse_redirect,
};
use crate::tls::TlsTrust;
use http_body_util::{BodyExt, Limited};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io::Write;

/// The pace of the bytes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerPace {
    /// The next bytes come within the time for an answer.
    Steady,
    /// The next bytes may come at any time.
    AsItHappens,
}

/// Sends a request, and writes the bytes of a successful answer to `sink`. Returns an answer
/// without a body; any other answer is returned with its body, and nothing is written.
///
/// # Errors
/// [`AskError`], with a message for the user, if the answer does not come, breaks off, or cannot be
/// written. `sink` may then have a part of the answer.
pub(crate) fn download(
    (server, trust): (&ServerAddress, &TlsTrust),
    caller: &RequestCaller,
    call: &ServerRequest,
    (sink, pace): (&mut dyn Write, AnswerPace),
) -> Result<ServerAnswer, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        AskError::Unreachable(format!("the network runtime cannot start: {error}"))
    })?;
    runtime.block_on(async {
        let response = in_time(server, request((server, trust), caller, call)).await??;
        let status = response.status().as_u16();
        if response.status().is_success() {
            write_body(server, response, (sink, pace)).await?;
            return Ok(ServerAnswer { status, body: Value::Null });
        }
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
        let body = in_time(server, body).await?.map_err(|error| {
            AskError::Unreachable(format!("the answer of {server} ended early: {error}"))
        })?;
        parse_answer(status, &body.to_bytes(), server)
    })
}

async fn request(
    (server, trust): (&ServerAddress, &TlsTrust),
    caller: &RequestCaller,
    call: &ServerRequest,
) -> Result<Response<Incoming>, AskError> {
    let request = build_request(server, caller, call).map_err(AskError::Unreachable)?;
    let broken = |error| broken_connection(server, &error);
    let stream = connect(server, trust).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // The task ends with the runtime.
    drop(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(broken)?;
    refuse_redirect(server, &response)?;
    Ok(response)
}

async fn write_body(
    server: &ServerAddress,
    response: Response<Incoming>,
    (sink, pace): (&mut dyn Write, AnswerPace),
) -> Result<(), AskError> {
    let mut body = response.into_body();
    loop {
        let frame = match pace {
            AnswerPace::Steady => in_time(server, body.frame()).await?,
            AnswerPace::AsItHappens => body.frame().await,
        };
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| broken_connection(server, &error))?;
        if let Some(bytes) = frame.data_ref() {
            let written = sink.write_all(bytes).and_then(|()| sink.flush());
            written.map_err(|error| AskError::InvalidAnswer(error.to_string()))?;
        }
    }
}

/// Waits for a step as long as for an answer.
async fn in_time<T>(server: &ServerAddress, step: impl Future<Output = T>) -> Result<T, AskError> {
    let seconds = TIME.as_secs();
    let late = |_| AskError::Unreachable(format!("{server} sent nothing within {seconds} s"));
    tokio::time::timeout(TIME, step).await.map_err(late)
}
