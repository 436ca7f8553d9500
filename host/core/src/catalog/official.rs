//! The components that are part of this binary.

/// A component that is part of this binary.
#[derive(Clone, Copy)]
pub struct Official {
    /// The component.
    pub wasm: &'static [u8],
    /// The code that it was compiled to during the build.
    pub compiled: &'static [u8],
}
