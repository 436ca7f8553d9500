//! Requests with a file of any size as the body, which leaves piece by piece.
//!
//! This file prevents an upload of gigabytes before a refusal: the request asks for permission to
//! send the body (`Expect: 100-continue`), and the server decides by the head.

use crate::client::{
    ANSWER_MAX, AskError, RequestCaller, ServerAddress, ServerAnswer, ServerRequest, TIME,
    broken_connection, build_request, connect, parse_answer, refuse_redirect,
};
use crate::tls::TlsTrust;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Size of a piece of the file, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Time after which the body is sent without the permission of the server. A proxy may not know
/// how to ask for permission.
const PERMISSION_TIME: Duration = Duration::from_secs(1);

/// Timeout of the answer after the whole file was sent: the server reads the file first.
const ANSWER_TIME: Duration = Duration::from_secs(3_600);

/// Sends a request with the content of `file` as the body. Returns the answer of any status.
///
/// # Errors
/// [`AskError`], with a message for the user, if the file cannot be read, the connection makes no
/// progress, or the answer does not come.
pub(crate) fn upload(
    (server, trust): (&ServerAddress, &TlsTrust),
    caller: &RequestCaller,
    call: &ServerRequest,
    file: &Path,
) -> Result<ServerAnswer, AskError> {
    let unreadable = |error: io::Error| {
        AskError::Unreachable(format!("cannot read {}: {error}", file.display()))
    };
    let opened = File::open(file).map_err(unreadable)?;
    let length = opened.metadata().map_err(unreadable)?.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        AskError::Unreachable(format!("the network runtime cannot start: {error}"))
    })?;
    runtime.block_on(async {
        let request = build_request(server, caller, call).map_err(AskError::Unreachable)?;
        let progress = Arc::new(UploadProgress::of(length));
        let request = with_file(request.map(drop), opened, &progress);
        let response = send((server, trust), request, &progress).await?;
        refuse_redirect(server, &response)?;
        let status = response.status().as_u16();
        let body = timeout(TIME, Limited::new(response.into_body(), ANSWER_MAX).collect()).await;
        let body = body.map_err(|_| silent(server, TIME))?.map_err(|error| {
            AskError::Unreachable(format!("the answer of {server} ended early: {error}"))
        })?;
        parse_answer(status, &body.to_bytes(), server)
    })
}

/// Returns the request with the file as its body.
fn with_file(
    request: Request<()>,
    file: File,
    progress: &Arc<UploadProgress>,
) -> Request<FileBody> {
    let permission = Arc::new(Notify::new());
    let granted = Arc::clone(&permission);
    let wait = Box::pin(async move {
        // Without a permission in time, the body is sent as well.
        timeout(PERMISSION_TIME, granted.notified()).await.unwrap_or_default();
    });
    let progress = Arc::clone(progress);
    let mut request = request.map(|()| FileBody { permission: Some(wait), file, progress });
    hyper::ext::on_informational(&mut request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            permission.notify_one();
        }
    });
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
    request
}

async fn send(
    (server, trust): (&ServerAddress, &TlsTrust),
    request: Request<FileBody>,
    progress: &UploadProgress,
) -> Result<Response<Incoming>, AskError> {
    let broken = |error| broken_connection(server, &error);
    let stream = connect(server, trust).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // The task ends with the runtime.
    drop(tokio::spawn(connection));
    let mut sending = Box::pin(sender.send_request(request));
    loop {
        let before = progress.left();
        let patience = if before == 0 { ANSWER_TIME } else { TIME };
        match timeout(patience, &mut sending).await {
            Ok(answered) => return answered.map_err(broken),
            Err(_) if progress.left() == before => return Err(silent(server, patience)),
            Err(_) => {}
        }
    }
}

fn silent(server: &ServerAddress, time: Duration) -> AskError {
    let seconds = time.as_secs();
    AskError::Unreachable(format!("{server} neither read nor answered for {seconds} s"))
}

/// Number of bytes of a file that are not sent yet.
struct UploadProgress(AtomicU64);

impl UploadProgress {
    fn of(length: u64) -> Self {
        Self(AtomicU64::new(length))
    }

    fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The content of a file, read while it is sent.
struct FileBody {
    /// Ends with the permission to send; `None` afterwards.
    permission: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    file: File,
    progress: Arc<UploadProgress>,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(permission) = &mut self.permission {
            ready!(permission.as_mut().poll(context));
            self.permission = None;
        }
        let left = self.progress.left();
        if left == 0 {
            return Poll::Ready(None);
        }
        let size = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut piece = vec![0; size];
        // The process does nothing else meanwhile.
        let read = match self.file.read(&mut piece) {
            Ok(0) => Err(io::Error::other("the file became shorter while it was sent")),
            read => read,
        };
        Poll::Ready(Some(read.map(|read| {
            piece.truncate(read);
            let read = u64::try_from(read).unwrap_or(u64::MAX);
            self.progress.0.store(left.saturating_sub(read), Ordering::Relaxed);
            Frame::data(Bytes::from(piece))
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.progress.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.progress.left())
    }
}
