//! `bulkhead server`: sealed when it starts, on data that stay.
//!
//! It never holds a key: whoever opens it does so through the API, and what opens it is in no file, option or
//! environment of this process.

use crate::options::ProductionOptions;
use crate::process::{Place, Process, Server};
use bulkhead_core::{Service, random};
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Body;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

/// Left by a dev server: whoever has the directory can open it.
const DEV_KEY: &str = "dev-seal.key";

/// Serves until SIGTERM or SIGINT. `out` gets the address, the data directory, whether it is initialised and the
/// command to type next, and at last a line `ready`: from then on every request is answered.
///
/// # Errors
/// Why the server did not start, for standard error.
pub async fn run(options: ProductionOptions, process: Process, out: &mut dyn Write) -> Result<(), String> {
    let program = process.program.clone();
    let place = Place { directory: &options.data, listen: &options.listen, listen_option: "--listen-address" };
    let log = Arc::clone(&process.log);
    let server = Server::start(process, &place).await?;
    if options.data.join(DEV_KEY).exists() {
        log.line("warn", "unseal-key-beside-its-data", &[("file", options.data.join(DEV_KEY).display().to_string())]);
    }
    let prepared = match is_initialized(server.service()).await {
        Ok(initialized) => {
            let address = server.address().to_string();
            let sealed = Sealed { program: &program, address, data: &options.data, initialized };
            sealed.tell(out).map_err(|error| format!("standard output cannot be written: {error}"))
        }
        Err(why) => Err(why),
    };
    server.serve(prepared).await
}

/// Asks as any client would, so that what is printed is what is answered.
async fn is_initialized(service: &Arc<Service>) -> Result<bool, String> {
    let request = Request {
        id: random::uuid().map_err(|failure| failure.message)?,
        verb: Verb::Read,
        path: "sys/seal-status".to_owned(),
        token: None,
        fields: Map::new(),
        body_bytes: 0,
        remote: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let Body::Bare(status) = service.handle(request).await.body else {
        return Err("the service does not say whether its data are initialised; see the log".to_owned());
    };
    Ok(status.get("initialized").and_then(Value::as_bool).unwrap_or_default())
}

/// What an operator wants to know of a server that has just started.
struct Sealed<'a> {
    program: &'a str,
    address: String,
    data: &'a Path,
    initialized: bool,
}

impl Sealed<'_> {
    fn tell(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { program, address, data, initialized } = self;
        let (state, next) = if *initialized {
            ("initialised, sealed", "unseal     # once for each key, until the threshold is reached")
        } else {
            ("not initialised", "init       # prints the unseal keys and the root token, this once")
        };
        writeln!(out, "Bulkhead {}\n", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "listening on {address}")?;
        writeln!(out, "data: {} ({state})\n", data.display())?;
        writeln!(out, "Next, in another terminal:")?;
        writeln!(out, "  export BULKHEAD_ADDR=http://{address}")?;
        writeln!(out, "  {program} operator {next}\n")?;
        writeln!(out, "ready")?;
        out.flush()
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;

    fn told(initialized: bool) -> String {
        let address = "127.0.0.1:4321".to_owned();
        let sealed = Sealed { program: "bulkhead", address, data: Path::new("./d"), initialized };
        let mut out = Vec::new();
        sealed.tell(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_empty_server_tells_how_to_initialise_it() {
        let text = told(false);
        assert!(text.contains("\nlistening on 127.0.0.1:4321\ndata: ./d (not initialised)\n"), "{text}");
        assert!(text.contains("\n  export BULKHEAD_ADDR=http://127.0.0.1:4321\n"), "{text}");
        assert!(text.contains("\n  bulkhead operator init ") && !text.contains("operator unseal"), "{text}");
        assert!(text.ends_with("\nready\n"), "{text}");
    }

    #[test]
    fn a_server_with_data_tells_how_to_open_it() {
        let text = told(true);
        assert!(text.contains("data: ./d (initialised, sealed)\n"), "{text}");
        assert!(text.contains("\n  bulkhead operator unseal ") && !text.contains("operator init"), "{text}");
    }
}
