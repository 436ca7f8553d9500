//! Simulated metadata services of two clouds and identity endpoint of App Service: they issue
//! tokens on a single port and check requests as strictly as the real services.

use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The value of App Service's required header.
pub const HEADER: &str = "!7Qz^9Wx~4Kv#2Bn";
/// Prefix of each token: hard to quote and easy to find.
pub const TOKEN: &str = "~Zq9^xW7!kJ4$vB2%nR";
/// `{"exp":4102444800}`.
const CLAIMS: &str = "eyJleHAiOjQxMDI0NDQ4MDB9";

#[derive(Clone, Debug)]
pub enum ServiceBehaviour {
    /// Correct answers, with tokens valid for `seconds`.
    Well {
        seconds: u64,
    },
    /// Exactly these bytes after the request.
    Bytes(Vec<u8>),
    Endless,
    Silent,
}

/// The services and a record of their requests.
pub struct MetadataServices {
    pub address: SocketAddr,
    manner: Arc<Mutex<ServiceBehaviour>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl MetadataServices {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a port of ours");
        let manner = Arc::new(Mutex::new(ServiceBehaviour::Well { seconds: 3_600 }));
        let requests = Arc::default();
        let served = (Arc::clone(&manner), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (manner, requests) = (Arc::clone(&served.0), Arc::clone(&served.1));
                // A client may disconnect.
                thread::spawn(move || serve(stream, &manner, &requests).ok());
            }
        });
        Self { address, manner, asked: requests }
    }

    pub fn answers(&self, manner: ServiceBehaviour) {
        *self.manner.lock().expect("no thread panicked") = manner;
    }

    /// The requests since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("no thread panicked"))
    }
}

fn serve(
    mut stream: TcpStream,
    manner: &Mutex<ServiceBehaviour>,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let target = lines.next().transpose()?.unwrap_or_default();
    let mut headers = Vec::new();
    for line in lines {
        match line?.split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let number = {
        let mut requests = requests.lock().expect("no thread panicked");
        requests.push(target.clone());
        requests.len()
    };
    let manner = manner.lock().expect("no thread panicked").clone();
    match manner {
        ServiceBehaviour::Well { seconds } => {
            stream.write_all(&answer(&target, &headers, seconds, number))
        }
        ServiceBehaviour::Bytes(bytes) => stream.write_all(&bytes),
        ServiceBehaviour::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nmetadata-flavor: Google\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4_096])?;
            }
        }
        ServiceBehaviour::Silent => {
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            stream.read(&mut [0]).map(drop)
        }
    }
}

/// An HTTP answer with a status, headers and a body.
pub fn response(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Told\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The answer of the requested service.
fn answer(target: &str, headers: &[(String, String)], seconds: u64, number: usize) -> Vec<u8> {
    let header = |name: &str| {
        let found = headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let Some(target) = target.strip_prefix("GET ").and_then(|rest| rest.strip_suffix(" HTTP/1.1"))
    else {
        return response(405, "", "");
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let given = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name && !value.is_empty()).then_some(value))
    };
    if header("x-forwarded-for").is_some() {
        return response(403, "", "forwarded");
    }
    let token = format!("{TOKEN}-{number}");
    let until = json!({"access_token": token, "expires_in": seconds.to_string(),
        "token_type": "Bearer"});
    let refused = |error: &str| response(400, "", &json!({"error": error}).to_string());
    let flavor = "Metadata-Flavor: Google\r\n";
    const ACCOUNT: &str = "/computeMetadata/v1/instance/service-accounts/default/";
    match path {
        "/metadata/identity/oauth2/token" => match (header("metadata"), given("resource")) {
            (Some("true"), Some(_)) if given("api-version") == Some("2018-02-01") => {
                response(200, "", &until.to_string())
            }
            (Some("true"), _) => refused("invalid_request"),
            _ => refused("bad_request"),
        },
        "/msi/token" => match (header("x-identity-header"), given("resource")) {
            (Some(HEADER), Some(_)) if given("api-version") == Some("2019-08-01") => {
                response(200, "", &until.to_string())
            }
            _ => response(401, "", ""),
        },
        _ if header("metadata-flavor") != Some("Google")
            || header("host") != Some("metadata.google.internal") =>
        {
            response(403, flavor, "Missing Metadata-Flavor:Google header.")
        }
        _ => match (path.strip_prefix(ACCOUNT), given("audience"), given("scopes")) {
            (Some("identity"), Some(_), _) => {
                response(200, flavor, &format!("{TOKEN}-{number}.{CLAIMS}.c2ln"))
            }
            (Some("identity"), None, _) => {
                response(400, flavor, "non-empty audience parameter required")
            }
            (Some("token"), _, Some(_)) => response(200, flavor, &until.to_string()),
            _ => response(404, flavor, "not found"),
        },
    }
}
