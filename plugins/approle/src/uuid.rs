//! Random ids in the form of a UUID, which published clients expect.

use bulkhead_sdk::Host;
use bulkhead_sdk::wire::hexadecimal;

/// Returns a random UUID of version 4: 122 random bits.
pub(crate) fn random(host: &dyn Host) -> String {
    let mut bytes = host.random().bytes(16);
    if let Some(version) = bytes.get_mut(6) {
        *version = (*version & 0x0f) | 0x40;
    }
    if let Some(variant) = bytes.get_mut(8) {
        *variant = (*variant & 0x3f) | 0x80;
    }
    let digits = hexadecimal::text(&bytes);
    let group = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [group(0, 8), group(8, 12), group(12, 16), group(16, 20), group(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::random;
    use bulkhead_sdk::testbed::TestHost;

    #[test]
    fn an_id_is_a_uuid_of_version_4() {
        let host = TestHost::default();
        let (one, other) = (random(&host), random(&host));
        assert_ne!(one, other);
        assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        // The bytes of the test bed count upwards: every bit of version and variant is replaced.
        for _ in 0..256 {
            let id = random(&host);
            assert!(id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
    }
}
