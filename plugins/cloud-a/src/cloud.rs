//! National clouds and their endpoints. The mount's grants are exactly this table, so this method
//! can send requests nowhere else.

use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;

/// A national cloud. Its origins have no trailing slash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NationalCloud {
    /// The cloud's name in the API contract, then the provider's names (decision A1).
    names: &'static [&'static str],
    /// Origin of the service that signs and issues tokens.
    pub(crate) authority: &'static str,
    /// Origin of the resource manager.
    pub(crate) manager: &'static str,
    /// Audience of access tokens for the resource manager.
    pub(crate) manager_audience: &'static str,
    /// Origin of the directory API, which is also the audience of access tokens for this API.
    pub(crate) graph: &'static str,
}

/// All national clouds, default first. The German cloud is retired and listed for completeness.
/// Sources: azcore 1.24.0 for Go (endpoints), go-autorest 0.11.30 (names, the German cloud), and
/// the auth method of Vault, 0.24.0 (directory API). The tests compare every cloud.
const CLOUDS: [NationalCloud; 4] = [
    NationalCloud {
        names: &["CloudAPublicCloud", "AzurePublicCloud", "AzureCloud"],
        authority: "https://login.microsoftonline.com",
        manager: "https://management.azure.com",
        manager_audience: "https://management.azure.com",
        graph: "https://graph.microsoft.com",
    },
    NationalCloud {
        names: &["CloudAUSGovernmentCloud", "AzureUSGovernmentCloud", "AzureUSGovernment"],
        authority: "https://login.microsoftonline.us",
        manager: "https://management.usgovcloudapi.net",
        manager_audience: "https://management.core.usgovcloudapi.net",
        graph: "https://graph.microsoft.us",
    },
    NationalCloud {
        names: &["CloudAChinaCloud", "AzureChinaCloud"],
        authority: "https://login.chinacloudapi.cn",
        manager: "https://management.chinacloudapi.cn",
        manager_audience: "https://management.core.chinacloudapi.cn",
        graph: "https://microsoftgraph.chinacloudapi.cn",
    },
    NationalCloud {
        names: &["CloudAGermanCloud", "AzureGermanCloud"],
        authority: "https://login.microsoftonline.de",
        manager: "https://management.microsoftazure.de",
        manager_audience: "https://management.core.cloudapi.de",
        graph: "https://graph.microsoft.de",
    },
];

/// Grants requested by this method: the origins of the table, the environment variables that
/// [`settings`](crate::settings) reads, and the limits of a login that searches many groups.
pub(crate) const ASKS: &[&str] = &[
    "http:https://login.microsoftonline.com:443",
    "http:https://management.azure.com:443",
    "http:https://graph.microsoft.com:443",
    "http:https://login.microsoftonline.us:443",
    "http:https://management.usgovcloudapi.net:443",
    "http:https://graph.microsoft.us:443",
    "http:https://login.chinacloudapi.cn:443",
    "http:https://management.chinacloudapi.cn:443",
    "http:https://microsoftgraph.chinacloudapi.cn:443",
    "http:https://login.microsoftonline.de:443",
    "http:https://management.microsoftazure.de:443",
    "http:https://graph.microsoft.de:443",
    "identity:token",
    "ambient:cloud-token",
    "ambient:env/CLOUDA_TENANT_ID",
    "ambient:env/AZURE_TENANT_ID",
    "ambient:env/CLOUDA_AD_RESOURCE",
    "ambient:env/AZURE_AD_RESOURCE",
    "ambient:env/CLOUDA_ENVIRONMENT",
    "ambient:env/AZURE_ENVIRONMENT",
    "ambient:env/CLOUDA_CLIENT_ID",
    "ambient:env/AZURE_CLIENT_ID",
    "ambient:env/CLOUDA_CLIENT_SECRET",
    "ambient:env/AZURE_CLIENT_SECRET",
    "limit:http-calls=200",
    "limit:http-bytes=64MiB",
];

impl NationalCloud {
    /// Returns the cloud with this name, ignoring case; an empty name means the public cloud.
    ///
    /// # Errors
    /// Invalid request for an unknown name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, Failure> {
        let wanted = if name.is_empty() { "CloudAPublicCloud" } else { name };
        let is_it = |cloud: &&Self| cloud.names.iter().any(|one| one.eq_ignore_ascii_case(wanted));
        CLOUDS.iter().find(is_it).ok_or_else(|| {
            let names: Vec<&str> = CLOUDS.iter().flat_map(|cloud| cloud.names).copied().collect();
            Failure::invalid(format!(
                "no cloud configuration matching the name {}; environment is one of {}",
                quoted(name),
                names.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cloud_spellings_match_in_any_case() {
        for (contract, provider) in [
            ("CloudAPublicCloud", "AzurePublicCloud"),
            ("CloudAUSGovernmentCloud", "AZUREUSGOVERNMENTCLOUD"),
            ("cloudachinacloud", "AzureChinaCloud"),
            ("CloudAGermanCloud", "azuregermancloud"),
        ] {
            assert_eq!(
                NationalCloud::named(contract).unwrap(),
                NationalCloud::named(provider).unwrap()
            );
        }
        assert_eq!(
            NationalCloud::named("").unwrap(),
            NationalCloud::named("AzurePublicCloud").unwrap()
        );
        let why = NationalCloud::named("AzureMoonCloud").unwrap_err().message;
        assert!(why.contains("\"AzureMoonCloud\"") && why.contains("CloudAChinaCloud"), "{why}");
    }

    /// Names, and origins of authority, resource manager and directory API, as the provider's
    /// libraries have them. Recorded on 2026-11-27.
    const PROVIDER: [(&[&str], [&str; 3]); 4] = [
        (
            &["AzureCloud", "AzurePublicCloud"],
            [
                "https://login.microsoftonline.com",
                "https://management.azure.com",
                "https://graph.microsoft.com",
            ],
        ),
        (
            &["AzureUSGovernment", "AzureUSGovernmentCloud"],
            [
                "https://login.microsoftonline.us",
                "https://management.usgovcloudapi.net",
                "https://graph.microsoft.us",
            ],
        ),
        (
            &["AzureChinaCloud"],
            [
                "https://login.chinacloudapi.cn",
                "https://management.chinacloudapi.cn",
                "https://microsoftgraph.chinacloudapi.cn",
            ],
        ),
        (
            &["AzureGermanCloud"],
            [
                "https://login.microsoftonline.de",
                "https://management.microsoftazure.de",
                "https://graph.microsoft.de",
            ],
        ),
    ];

    #[test]
    fn every_cloud_has_provider_names_and_origins() {
        for (names, origins) in PROVIDER {
            for name in names {
                let cloud = NationalCloud::named(name).unwrap();
                assert_eq!([cloud.authority, cloud.manager, cloud.graph], origins, "{name}");
                let ours = cloud.names.iter().filter(|name| name.starts_with("Azure")).count();
                assert_eq!(ours, names.len(), "{:?}", cloud.names);
            }
        }
        assert_eq!(PROVIDER.len(), CLOUDS.len());
    }

    #[test]
    fn requested_grants_equal_origins_of_cloud_table() {
        let requested_origins: Vec<&str> =
            ASKS.iter().filter_map(|ask| ask.strip_prefix("http:")?.strip_suffix(":443")).collect();
        let table_origins: Vec<&str> =
            CLOUDS.iter().flat_map(|cloud| [cloud.authority, cloud.manager, cloud.graph]).collect();
        assert_eq!(requested_origins, table_origins);
    }
}
