//! The bound of each part of an audit line, in bytes.
//!
//! The attack this file stops: a small request that fills the disk of the audit, which stops the
//! service. A hash takes eighty bytes where an empty text takes three, so that a line needs a bound
//! of its own, for every caller. The parts are added up here: the build fails if together they
//! could make a line longer than [`LINE`].

/// Longest line of any request or answer.
const LINE: usize = 64 << 10;

/// A text that is no data, as JSON. A longer one stands as its hash.
pub(super) const TEXT: usize = 512;
/// The id of a lease, as JSON.
pub(super) const LEASE_ID: usize = 1 << 10;
/// A list of policies, or the metadata of a token, as JSON. A longer one stands as one digest.
pub(super) const LIST: usize = 2 << 10;
/// The path, before escapes: as long as a path may be.
pub(super) const PATH: usize = bulkhead_wire::name::LONGEST_PATH;
/// The path of a request whose sender is not trusted, before escapes.
pub(super) const PATH_OF_A_STRANGER: usize = 512;
/// The data of a request or of an answer, with the digests of what is too long in it.
pub(super) const DATA: usize = 10 << 10;
/// The same where the sender is not trusted, or the answer goes to a stranger.
pub(super) const DATA_OF_A_STRANGER: usize = 1 << 10;
/// One member of the data. A longer one stands as one digest.
pub(super) const MEMBER: usize = 4 << 10;
/// Names of fields that no endpoint reads.
pub(super) const UNKNOWN_FIELDS: usize = 512;
/// Longest name of a member that is shown, before escapes. A longer one stands as its hash.
pub(super) const NAME: usize = 128;
/// Warnings of an answer. The others are told by their number.
pub(super) const WARNINGS: usize = 16;
/// The reason of a refusal, before escapes.
pub(super) const ERROR: usize = 512;

/// A hash with its quotes and a comma.
const HASH: usize = 80;
/// The digest of one list that is named by the program.
const DIGEST: usize = 160;
/// Names of members, punctuation, numbers, addresses, points in time and the hashes of tokens, in
/// one object.
const FRAME: usize = 1 << 10;
/// Escapes make of a byte of a printable text at most so many.
const ESCAPED_PRINTABLE: usize = 2;
/// Escapes make of a byte of any text at most so many.
const ESCAPED: usize = 6;

/// The token that asks: two texts, four lists of policies and the metadata.
const CALLER: usize = FRAME + 2 * TEXT + 5 * (LIST + DIGEST);
/// The mount: four texts.
const MOUNT: usize = 4 * TEXT;
const REQUEST: usize = FRAME + MOUNT + PATH * ESCAPED_PRINTABLE + HASH + DATA + UNKNOWN_FIELDS;
/// The token that is handed out: two texts, three lists of policies and the metadata.
const AUTH: usize = FRAME + 2 * TEXT + 4 * (LIST + DIGEST);
const RESPONSE: usize = FRAME + MOUNT + AUTH + LEASE_ID + DATA + WARNINGS * HASH;

const _: () = assert!(CALLER + REQUEST + RESPONSE + ERROR * ESCAPED <= LINE);
