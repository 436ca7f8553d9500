//! Output to standard output and standard error: secrets, floods, and texts that look like lines of
//! the server's log.

use crate::bulkhead::plugin::passwords;
use crate::bulkhead::plugin::types::Call;
use crate::{Ending, answers};
use std::io::Write;

/// Letters of a secret that no other text of the guest holds by chance.
const LETTERS: &str = "abcdefghkmnpqrstuvwxyzABCDEFGHKMNP23456789";
/// Bytes that are printed without end.
const FLOOD_BYTES: usize = 100 << 20;

/// Prints a new secret in several writes. The answer gives the secret to the caller, so that the
/// test can search the log.
pub(crate) fn secret(_call: &Call) -> Ending {
    let secret = passwords::generate_from(20, LETTERS)?;
    let (begin, end) = secret.split_at(7);
    for mut stream in streams() {
        let _ = write!(stream, "the secret is {begin}");
        let _ = writeln!(stream, "{end}, and {}", secret.to_lowercase());
        let _ = stream.flush();
    }
    Ok(answers::data(format!("{{\"secret\":{secret:?}}}")))
}

/// Panics with a new secret in the text.
pub(crate) fn secret_in_panic(_call: &Call) -> Ending {
    let secret = passwords::generate_from(20, LETTERS)?;
    panic!("cannot log in with {secret}")
}

pub(crate) fn flood(_call: &Call) -> Ending {
    let line = [b"noise ".repeat(1_000), b"\n".to_vec()].concat();
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(b"the beginning\n");
    for _ in 0..FLOOD_BYTES / line.len() {
        let _ = stderr.write_all(&line);
    }
    let _ = stderr.write_all(b"the end\n");
    Ok(answers::nothing())
}

pub(crate) fn forged(_call: &Call) -> Ending {
    let forged = b"noise\nlevel=error event=forged mount=probe/\r\n\xff\xfe\x1b[2J\x07\x00end\n";
    for mut stream in streams() {
        let _ = stream.write_all(forged);
        let _ = stream.flush();
    }
    Ok(answers::nothing())
}

fn streams() -> [Box<dyn Write>; 2] {
    [Box::new(std::io::stdout()), Box::new(std::io::stderr())]
}
