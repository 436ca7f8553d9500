//! `sys/tools`: random bytes and digests, for callers without their own generator or hash.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, write};
use aws_lc_rs::digest::{self, Algorithm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_access::random;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::hexadecimal;
use serde_json::{Map, json};

/// Maximum number of random bytes.
const MAX_RANDOM_BYTES: i64 = 128 << 10;
/// Number of random bytes unless the request says another number.
const DEFAULT_RANDOM_BYTES: i64 = 32;

/// The digests, by name.
const DIGESTS: [(&str, &Algorithm); 7] = [
    ("sha2-224", &digest::SHA224),
    ("sha2-256", &digest::SHA256),
    ("sha2-384", &digest::SHA384),
    ("sha2-512", &digest::SHA512),
    ("sha3-256", &digest::SHA3_256),
    ("sha3-384", &digest::SHA3_384),
    ("sha3-512", &digest::SHA3_512),
];

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let text = |name, about| field(name, FieldKind::String, about);
    let random = || {
        [
            field("bytes", FieldKind::Int, "number of bytes; default 32"),
            text("format", "base64 or hex; default base64"),
            text("source", "platform, seal or all; each value means the same generator"),
        ]
    };
    let url_bytes = || text("urlbytes", "number of bytes, or a source");
    let hash = || {
        [
            text("input", "the bytes, as base64"),
            text("algorithm", "sha2-256, sha3-512 and the like; default sha2-256"),
            text("format", "hex or base64; default hex"),
        ]
    };
    let url_algorithm = text("urlalgorithm", "the algorithm");
    vec![
        write("sys/tools/random", "random bytes").fields(random()).handled_by(generate_random),
        write("sys/tools/random/{urlbytes}", "random bytes, as many as in the path")
            .fields([url_bytes()])
            .fields(random())
            .handled_by(generate_random),
        write("sys/tools/random/{urlsource}/{urlbytes}", "random bytes of a source")
            .fields([text("urlsource", "the source"), url_bytes()])
            .fields(random())
            .handled_by(generate_random),
        write("sys/tools/hash", "the digest of some bytes")
            .fields(hash())
            .handled_by(digest_of_input),
        write("sys/tools/hash/{urlalgorithm}", "the digest of some bytes by an algorithm")
            .fields([url_algorithm])
            .fields(hash())
            .handled_by(digest_of_input),
    ]
}

/// `POST sys/tools/random`, with or without source and number in the path.
async fn generate_random(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { fields, .. } = call;
    let (mut source, mut count) = (fields.text("source"), fields.integer("bytes"));
    match (fields.text("urlsource"), fields.text("urlbytes")) {
        (_, "") => {}
        ("", only) => match only.parse() {
            Ok(number) => count = Some(number),
            Err(_) => source = only,
        },
        (named, number) => {
            source = named;
            count = Some(number.parse().map_err(|_| {
                Failure::invalid(format!("{} is not a number of bytes", quoted(number)))
            })?);
        }
    }
    if !["", "platform", "seal", "all"].contains(&source) {
        let message = format!("source {} is not platform, seal or all", quoted(source));
        return Err(Failure::invalid(message));
    }
    let length = number_of_bytes(fields.integer("bytes").unwrap_or(DEFAULT_RANDOM_BYTES))?;
    let mut bytes = vec![0; count.map_or(Ok(length), number_of_bytes)?];
    random::fill(&mut bytes)?;
    answer("random_bytes", "base64", &bytes, fields)
}

/// Returns how many bytes are asked for.
fn number_of_bytes(count: i64) -> Result<usize, Failure> {
    let fits = usize::try_from(count).ok().filter(|_| (1..=MAX_RANDOM_BYTES).contains(&count));
    fits.ok_or_else(|| {
        Failure::invalid(format!(
            "bytes is not a number from 1 to {MAX_RANDOM_BYTES}; ask for fewer at once"
        ))
    })
}

/// `POST sys/tools/hash`, with or without algorithm in the path.
async fn digest_of_input(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { fields, .. } = call;
    let name = match (fields.text("urlalgorithm"), fields.text("algorithm")) {
        ("", "") => "sha2-256",
        ("", name) | (name, _) => name,
    };
    let found = DIGESTS.iter().find(|(digest, _)| *digest == name);
    let (_, algorithm) = found.ok_or_else(|| {
        let names = DIGESTS.map(|(name, _)| name).join(", ");
        Failure::invalid(format!("unsupported algorithm {}: use one of {names}", quoted(name)))
    })?;
    let input = STANDARD.decode(fields.text("input")).map_err(|_| {
        Failure::invalid("unable to decode input as base64; encode the bytes with padding")
    })?;
    answer("sum", "hex", digest::digest(algorithm, &input).as_ref(), fields)
}

/// Answers bytes in the requested format.
fn answer(
    name: &str,
    usual: &str,
    bytes: &[u8],
    fields: RequestFields<'_>,
) -> Result<Reply, Failure> {
    let format = Some(fields.text("format")).filter(|format| !format.is_empty()).unwrap_or(usual);
    let text = match format {
        "hex" => hexadecimal::text(bytes),
        "base64" => STANDARD.encode(bytes),
        other => {
            return Err(Failure::invalid(format!(
                "unsupported encoding format {}; must be \"hex\" or \"base64\"",
                quoted(other)
            )));
        }
    };
    Ok(ReplyBody::Data(Map::from_iter([(name.to_owned(), json!(text))])).into())
}
