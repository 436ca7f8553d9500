//! The health of a running server with the same data, as the server's own `sys/health` tells.
//!
//! The request goes over the Unix socket or over plain HTTP. A certificate seldom names the address
//! that the configuration names, so that TLS is left to the operator's own client.

use super::findings::{CheckStatus, Diagnosis, RUNNING};
use crate::config::{Config, ListenerConfig, ListenerTransport};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of each read and write.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of an answer, in bytes.
const HEALTH_ANSWER_MAX: usize = 64 << 10;

const REQUEST: &[u8] =
    b"GET /v1/sys/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Adds the conditions of the running server. A listener on a port that only the server knows is
/// not asked.
pub(super) fn check(config: &Config, diagnosis: &mut Diagnosis) {
    match ask(&config.listener) {
        None => {}
        Some(Ok(answer)) => add_answer(&answer, diagnosis),
        Some(Err(error)) => {
            let message = format!("sys/health does not answer: {error}; see the server's log");
            diagnosis.add(RUNNING, CheckStatus::Fail, message);
        }
    }
}

/// Returns the answer of `sys/health`; `None` if the server cannot be asked from here.
fn ask(listener: &ListenerConfig) -> Option<io::Result<String>> {
    if let Some(unix) = &listener.unix {
        return Some(ask_unix(unix.path.as_path()));
    }
    let address = listener.address.as_ref().filter(|address| !address.ends_with(":0"))?;
    let is_plain = !matches!(listener.transport, ListenerTransport::Tls(_));
    is_plain.then(|| ask_address(address))
}

fn ask_unix(path: &Path) -> io::Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
    stream.set_write_timeout(Some(HEALTH_TIMEOUT))?;
    exchange(stream)
}

fn ask_address(address: &str) -> io::Result<String> {
    let stream = dial(address)?;
    stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
    stream.set_write_timeout(Some(HEALTH_TIMEOUT))?;
    exchange(stream)
}

/// Connects to the first address that accepts within the timeout.
///
/// # Errors
/// The failure of the last address.
pub(super) fn dial(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, HEALTH_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn exchange(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    let end = Instant::now() + HEALTH_TIMEOUT;
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into());
        }
        answer.extend_from_slice(piece.get(..length).unwrap_or_default());
        // Each read has a timeout, so that a slow peer exceeds the whole by one timeout at most.
        if Instant::now() > end || answer.len() > HEALTH_ANSWER_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Adds a finding for each condition in the answer, or one finding without a condition.
fn add_answer(answer: &str, diagnosis: &mut Diagnosis) {
    let Some(health) = body_of(answer) else {
        let message = "sys/health answers without a document; is the server another program?";
        diagnosis.add(RUNNING, CheckStatus::Fail, message);
        return;
    };
    let is_of_use = health.get("writes") != Some(&Value::Bool(false));
    let status = if is_of_use { CheckStatus::Warn } else { CheckStatus::Fail };
    let conditions = health.get("degraded").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let text = |name| condition.get(name).and_then(Value::as_str).unwrap_or_default();
        diagnosis.add(RUNNING, status, format!("{}: {}", text("code"), text("message")));
    }
    if conditions.is_none_or(Vec::is_empty) {
        let is_sealed = health.get("sealed") == Some(&Value::Bool(true));
        let message =
            if is_sealed { "the server is sealed" } else { "sys/health reports no fault" };
        diagnosis.add(RUNNING, CheckStatus::Ok, message);
    }
}

/// Returns the document of an answer in HTTP/1.1.
fn body_of(answer: &str) -> Option<Value> {
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(answer: &str) -> String {
        let (mut diagnosis, mut out) = (Diagnosis::default(), Vec::new());
        add_answer(answer, &mut diagnosis);
        diagnosis.print_lines(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn conditions_of_running_server_become_findings() {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        let degraded = "\"degraded\":[{\"code\":\"disk-full\",\"message\":\"make room\"},\
                        {\"code\":\"clock-behind\",\"message\":\"set the clock\"}]";
        let text = printed(&format!("{head}{{\"writes\":true,{degraded}}}"));
        assert!(text.contains("[ warn ] running server: disk-full: make room\n"), "{text}");
        assert!(text.contains("[ warn ] running server: clock-behind: set the clock\n"), "{text}");
        let text = printed(&format!("{head}{{\"writes\":false,{degraded}}}"));
        assert!(text.contains("[ fail ] running server: disk-full"), "{text}");
        let text = printed(&format!("{head}{{\"writes\":true,\"sealed\":false}}"));
        assert!(text.contains("[ ok ]   running server: sys/health reports no fault"), "{text}");
        let text = printed(&format!("{head}{{\"writes\":true,\"sealed\":true}}"));
        assert!(text.contains("running server: the server is sealed"), "{text}");
        for foreign in ["", "SSH-2.0", "HTTP/1.1 200 OK\r\n\r\n<html>"] {
            let text = printed(foreign);
            assert!(text.contains("[ fail ] running server: "), "{foreign}: {text}");
        }
    }
}
