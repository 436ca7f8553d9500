//! Bounds of the parts of an audit line, in bytes.
//!
//! This file prevents a small request from filling the audit disk, which would stop the service. A
//! hash takes 80 bytes where an empty text takes 3, so every line needs a bound, for every caller.
//! This file adds up the parts; the build fails if the sum could exceed [`LINE`].

/// Maximum length of the line of a request or an answer.
const LINE: usize = 64 << 10;

/// Maximum length of a text that is not data, as JSON. A longer text is hashed.
pub(super) const TEXT: usize = 512;
/// Maximum length of the path of a wrapping token, as JSON. A longer path is hashed.
pub(super) const CREATION_PATH: usize = 256;
/// Maximum length of a lease id, as JSON.
pub(super) const LEASE_ID: usize = 1 << 10;
/// Maximum length of a list of policies or of a token's metadata, as JSON. A longer list becomes a
/// single digest.
pub(super) const LIST: usize = 2 << 10;
/// Maximum length of the path, before escapes: the maximum length of any path.
pub(super) const PATH: usize = bulkhead_wire::name::LONGEST_PATH;
/// Maximum length of the path of an untrusted sender's request, before escapes.
pub(super) const UNTRUSTED_PATH: usize = 512;
/// Maximum length of the data of a request or an answer, including the digests of long members.
pub(super) const DATA: usize = 10 << 10;
/// Maximum length of the data if the sender is not trusted or the answer goes to a caller without
/// a token.
pub(super) const UNTRUSTED_DATA: usize = 1 << 10;
/// Maximum length of a single member of the data. A longer member becomes a single digest.
pub(super) const MEMBER: usize = 4 << 10;
/// Maximum length of the names of fields that no endpoint reads.
pub(super) const UNKNOWN_FIELDS: usize = 512;
/// Maximum length of a member's name, before escapes. A longer name is hashed.
pub(super) const NAME: usize = 128;
/// Maximum number of headers that an operator may want in the audit log.
pub(super) const HEADERS: usize = 4;
/// Maximum length of the name of such a header.
pub(super) const HEADER_NAME: usize = 64;
/// Maximum length of the value of such a header, as JSON. A longer value is hashed.
pub(super) const HEADER: usize = 128;
/// Maximum number of warnings of an answer that a line shows. The line counts the rest.
pub(super) const WARNINGS: usize = 16;
/// Maximum length of the reason of a refusal, before escapes.
pub(super) const ERROR: usize = 512;

/// Length of a hash with quotes and a comma.
const HASH: usize = 80;
/// Length of the digest of a list with a name that the program chose.
const DIGEST: usize = 160;
/// Length of an object's member names, punctuation, numbers, addresses, timestamps and token
/// hashes.
const FRAME: usize = 1 << 10;
/// Maximum number of bytes that escaping makes of a byte of printable text.
const ESCAPED_PRINTABLE: usize = 2;
/// Maximum number of bytes that escaping makes of a byte of any text.
const ESCAPED: usize = 6;

/// The caller's token: two texts, four lists of policies and the metadata.
const CALLER: usize = FRAME + 2 * TEXT + 5 * (LIST + DIGEST);
/// The mount: four texts.
const MOUNT: usize = 4 * TEXT;
const REQUEST: usize = FRAME
    + MOUNT
    + PATH * ESCAPED_PRINTABLE
    + HASH
    + DATA
    + UNKNOWN_FIELDS
    + HEADERS * (HEADER_NAME + HEADER);
/// An issued token: two texts, three lists of policies and the metadata.
const AUTH: usize = FRAME + 2 * TEXT + 4 * (LIST + DIGEST);
/// A wrapping token: three hashes, the path, two numbers and the names. The frame of the answer has
/// room for them beside the names of the mount's members.
const WRAPPED: usize = 3 * HASH + CREATION_PATH + 160;
const RESPONSE: usize = FRAME + MOUNT + AUTH + LEASE_ID + DATA + WARNINGS * HASH;

const _: () = assert!(WRAPPED <= FRAME - FRAME / 3);

const _: () = assert!(CALLER + REQUEST + RESPONSE + ERROR * ESCAPED <= LINE);
