//! The text formats of component signatures, shared by the signer and the server.

/// Returns the text that is signed for a component with the SHA-256 digest `sha256`, in lower-case
/// hexadecimal. The first line keeps the signature from being valid for anything else.
#[must_use]
pub fn signed_text(sha256: &str) -> String {
    format!("bulkhead-plugin-v1\n{sha256}\n")
}

/// Returns the single-line form of a public key: the base64 text of its PEM form.
#[must_use]
pub fn key_line(pem: &str) -> String {
    pem.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect()
}

/// Returns the PEM form of a public key in its single-line form.
#[must_use]
pub fn key_pem(line: &str) -> String {
    format!("-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_line_and_pem_convert_both_ways() {
        let pem = "-----BEGIN PUBLIC KEY-----\nMCow\nBQYD=\n-----END PUBLIC KEY-----\n";
        assert_eq!(key_line(pem), "MCowBQYD=");
        assert_eq!(key_line(&key_pem("MCowBQYD=")), "MCowBQYD=");
        assert_eq!(signed_text("9f2c"), "bulkhead-plugin-v1\n9f2c\n");
    }
}
