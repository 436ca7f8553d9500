//! Versions of TLS.

use rustls::{SupportedProtocolVersion, version};

/// A version of TLS. Older versions are broken and not supported (decision D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The reason why a word names no usable version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableVersion {
    /// A version that is broken.
    Broken,
    /// No version.
    Unknown,
}

/// The versions from a minimum to a maximum; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionRange {
    least: TlsVersion,
    most: TlsVersion,
}

impl TlsVersion {
    /// Returns the name in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tls12 => "tls12",
            Self::Tls13 => "tls13",
        }
    }

    /// Reads the name in settings.
    ///
    /// # Errors
    /// A word that names no usable version.
    pub fn parse(word: &str) -> Result<Self, UnusableVersion> {
        match word {
            "tls12" => Ok(Self::Tls12),
            "tls13" => Ok(Self::Tls13),
            "tls10" | "tls11" => Err(UnusableVersion::Broken),
            _ => Err(UnusableVersion::Unknown),
        }
    }

    fn protocol(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &version::TLS12,
            Self::Tls13 => &version::TLS13,
        }
    }
}

impl VersionRange {
    /// Both versions.
    pub const ALL: Self = Self { least: TlsVersion::Tls12, most: TlsVersion::Tls13 };

    /// Creates a range. `None`: `least` is above `most`.
    #[must_use]
    pub fn new(least: TlsVersion, most: TlsVersion) -> Option<Self> {
        (least <= most).then_some(Self { least, most })
    }

    /// Returns the minimum.
    #[must_use]
    pub fn least(self) -> TlsVersion {
        self.least
    }

    /// Returns the maximum.
    #[must_use]
    pub fn most(self) -> TlsVersion {
        self.most
    }

    /// Returns whether the range includes `version`.
    #[must_use]
    pub fn contains(self, version: TlsVersion) -> bool {
        (self.least..=self.most).contains(&version)
    }

    /// Returns the versions for rustls, the newest first.
    pub(crate) fn protocols(self) -> Vec<&'static SupportedProtocolVersion> {
        let newest_first = [TlsVersion::Tls13, TlsVersion::Tls12].into_iter();
        newest_first.filter(|version| self.contains(*version)).map(TlsVersion::protocol).collect()
    }
}
