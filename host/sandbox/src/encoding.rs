//! Components encoded byte by byte, for tests with input that no compiler would write.

/// The first bytes of a component.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
/// The first bytes of a core module.
pub(crate) const MODULE: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];

/// Encodes a number in LEB128.
pub(crate) fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Encodes a section of a component or a core module.
pub(crate) fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], number(content.len()), content.to_vec()].concat()
}

/// Encodes a component with these sections.
pub(crate) fn component(sections: &[Vec<u8>]) -> Vec<u8> {
    [COMPONENT.to_vec(), sections.concat()].concat()
}

/// Encodes the component section of a core module with these sections.
pub(crate) fn module(sections: &[Vec<u8>]) -> Vec<u8> {
    section(1, &[MODULE.to_vec(), sections.concat()].concat())
}
