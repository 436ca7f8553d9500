//! Excessive use of every resource.

use crate::bulkhead::plugin::types::Call;
use crate::bulkhead::plugin::{clock, crypto, log, storage};
use crate::{Ending, answers};

/// Waits for the disk without end.
pub(crate) fn waits(_call: &Call) -> Ending {
    loop {
        storage::put("turn", b"x")?;
        storage::checkpoint()?;
    }
}

pub(crate) fn storm(_call: &Call) -> Ending {
    loop {
        clock::now();
    }
}

/// Scans the same records page by page, without end.
pub(crate) fn scans(_call: &Call) -> Ending {
    for number in 0..1_000 {
        storage::put(&format!("scanned/{number:04}"), &[0; 1_000])?;
    }
    loop {
        let mut after = String::new();
        while let Some((last, _)) = storage::scan("scanned/", &after, 100)?.pop() {
            after = last;
        }
    }
}

/// Reads missing keys without end; the host remembers absent keys too.
pub(crate) fn gets(_call: &Call) -> Ending {
    for number in 0_u64.. {
        storage::get(&format!("absent/{number}"))?;
    }
    Ok(answers::nothing())
}

pub(crate) fn puts(_call: &Call) -> Ending {
    let value = vec![0; 1 << 20];
    for number in 0_u64.. {
        storage::put(&format!("bulk/{number}"), &value)?;
    }
    Ok(answers::nothing())
}

/// Generates distinct secrets, each as long as redaction handles.
pub(crate) fn secrets(_call: &Call) -> Ending {
    for number in 0_u32.. {
        let letters = (0..65_536_u32)
            .filter_map(|letter| char::from_u32(0x4e00 + (letter * (number + 1)) % 20_000));
        crypto::pbkdf2_sha256(&letters.collect::<String>(), b"salt", 1);
    }
    Ok(answers::nothing())
}

pub(crate) fn logs(_call: &Call) -> Ending {
    for _ in 0..10_000 {
        log::write(log::Level::Info, "noise", &[("text".into(), "x".repeat(10_000))]);
    }
    Ok(answers::nothing())
}

/// Calls hashes that each take the host longer than a guest may compute between two checks.
pub(crate) fn hashes(_call: &Call) -> Ending {
    loop {
        crypto::hash_password("correct horse battery staple")?;
    }
}

/// Verifies with thousands of distinct keys, each as slow as possible.
pub(crate) fn keys(_call: &Call) -> Ending {
    let modulus = "_".repeat(1_361);
    for number in 1_000..3_000_u32 {
        let modulus = format!("{number}{modulus}w");
        let key = format!("{{\"kty\":\"RSA\",\"n\":\"{modulus}\",\"e\":\"_____w\"}}");
        let message = vec![0; 1 << 16];
        if crypto::verify("RS512", &key, &message, &[1; 1_024])? {
            break;
        }
    }
    Ok(answers::nothing())
}
