//! Checks of the listeners: certificate and key, the end of the certificate, and the address.

use super::findings::{CheckStatus, CollectedLog, Diagnosis, LoggedLine, RUNNING};
use super::running;
use crate::config::{Config, ListenerConfig, ListenerTransport};
use crate::handed_sockets::ListenerSockets;
use crate::listener::BoundSocket;
use crate::tls;
use bulkhead_access::log::Log;
use bulkhead_tls::machine_time;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use time::Duration;
use time::format_description::well_known::Rfc3339;

/// Remaining validity below which a certificate is a warning: most issuers renew earlier.
const SOON: Duration = Duration::days(30);

/// Checks the listeners. With `is_in_use`, a server runs with the same data directory, and must
/// have the addresses.
pub(super) async fn check(config: &Config, is_in_use: bool, diagnosis: &mut Diagnosis) {
    let listeners =
        [("listener", Some(&config.listener)), ("scheduler", config.scheduler.as_ref())];
    for (check, listener) in listeners {
        let Some(listener) = listener else { continue };
        let collected = Arc::new(CollectedLog::default());
        let log: Arc<dyn Log> = collected.clone();
        let checked = if is_in_use {
            check_served(listener, &log)
        } else {
            let elsewhere = format!("in {check} of the configuration");
            let opened =
                BoundSocket::open_all(listener, ListenerSockets::default(), &elsewhere, &log).await;
            opened.map(|sockets| {
                let urls: Vec<String> = sockets.iter().map(BoundSocket::url).collect();
                format!("{} can be served", urls.join(" and "))
            })
        };
        diagnosis.add_result(check, checked);
        for line in collected.take() {
            check_line(&line, check, diagnosis);
        }
    }
}

/// Checks the listeners for a start. With `is_in_use`, a server runs with the same data directory:
/// an address at which a server answers is taken by that server.
pub(super) async fn check_start(config: &Config, is_in_use: bool, diagnosis: &mut Diagnosis) {
    let listeners =
        [("listener", Some(&config.listener)), ("scheduler", config.scheduler.as_ref())];
    let mut is_served = false;
    for (check, listener) in listeners {
        let Some(listener) = listener else { continue };
        let collected = Arc::new(CollectedLog::default());
        let log: Arc<dyn Log> = collected.clone();
        if is_in_use && let Ok(served) = check_served(listener, &log) {
            is_served = true;
            diagnosis.add(RUNNING, CheckStatus::Ok, served);
        } else {
            check_free(check, listener, &log, diagnosis).await;
        }
        collected.take().iter().for_each(|line| check_line(line, check, diagnosis));
    }
    if is_in_use && !is_served {
        let message = format!(
            "{} is in use by a process that does not answer at the addresses of this file; stop \
             that process, or choose another directory",
            config.data.display()
        );
        diagnosis.add("storage", CheckStatus::Fail, message);
    }
}

/// Binds the addresses for a moment. If the certificate or the key is refused, the addresses are
/// tried all the same, so that the operator learns of both.
async fn check_free(
    check: &'static str,
    listener: &ListenerConfig,
    log: &Arc<dyn Log>,
    diagnosis: &mut Diagnosis,
) {
    let mut listener = listener.clone();
    if let ListenerTransport::Tls(settings) = &listener.transport
        && let Err(why) = settings.check()
    {
        diagnosis.add(check, CheckStatus::Fail, why);
        listener.transport = ListenerTransport::Plain;
    }
    let elsewhere = format!("in {check} of the configuration");
    let opened =
        BoundSocket::open_all(&listener, ListenerSockets::default(), &elsewhere, log).await;
    diagnosis.add_result(check, opened.map(|_| "can be served".to_owned()));
}

/// Checks the files and the addresses of a listener that a running server has.
fn check_served(listener: &ListenerConfig, log: &Arc<dyn Log>) -> Result<String, String> {
    if let ListenerTransport::Tls(settings) = &listener.transport {
        tls::load(settings.clone(), log, &Arc::default())?;
    }
    let mut served = Vec::new();
    if let Some(address) = &listener.address {
        // The port 0 stands for a port that only the running server knows.
        if !address.ends_with(":0") {
            let dialled = running::dial(address);
            dialled.map_err(|error| not_served(address, &error))?;
        }
        served.push(address.clone());
    }
    if let Some(unix) = &listener.unix {
        let path = unix.path.display().to_string();
        let dialled = UnixStream::connect(&unix.path);
        dialled.map_err(|error| not_served(&path, &error))?;
        served.push(path);
    }
    Ok(format!("{} belongs to the running server of these data", served.join(" and ")))
}

fn not_served(place: &str, error: &std::io::Error) -> String {
    format!(
        "a server runs with these data, and {place} does not answer: {error}; start the server \
         again with this file"
    )
}

/// Adds the results in a line that the start would log: a certificate, or a warning.
fn check_line(line: &LoggedLine, check: &'static str, diagnosis: &mut Diagnosis) {
    let certificate = |name| line.value("certificate-served", name);
    let (Some(file), Some(ends)) = (certificate("file"), certificate("ends")) else {
        if let Some(warning) = line.warning() {
            diagnosis.add(check, CheckStatus::Warn, warning);
        }
        return;
    };
    let soon = machine_time().saturating_add(SOON).format(&Rfc3339).unwrap_or_default();
    let (status, advice) = match ends < soon.as_str() {
        true => (CheckStatus::Warn, "; renew it soon"),
        false => (CheckStatus::Ok, ""),
    };
    diagnosis.add(
        "certificate",
        status,
        format!("{file} matches the key, and ends at {ends}{advice}"),
    );
}
