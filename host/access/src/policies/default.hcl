# What every token may do unless it was made without this policy. It can be edited, but not deleted.

# A token may look itself up, renew itself and end itself.
path "auth/token/lookup-self" {
    capabilities = ["read"]
}
path "auth/token/renew-self" {
    capabilities = ["update"]
}
path "auth/token/revoke-self" {
    capabilities = ["update"]
}

# It may ask what it may do.
path "sys/capabilities-self" {
    capabilities = ["update"]
}
path "sys/internal/ui/resultant-acl" {
    capabilities = ["read"]
}

# It may read whom it stands for.
path "identity/entity/id/{{identity.entity.id}}" {
    capabilities = ["read"]
}
path "identity/entity/name/{{identity.entity.name}}" {
    capabilities = ["read"]
}

# It may look up and renew a lease whose id it knows.
path "sys/leases/lookup" {
    capabilities = ["update"]
}
path "sys/leases/renew" {
    capabilities = ["update"]
}
path "sys/renew" {
    capabilities = ["update"]
}

# It may keep things that nobody else sees.
path "cubbyhole/*" {
    capabilities = ["create", "read", "update", "delete", "list"]
}

# It may wrap something, and look up or unwrap what it was handed.
path "sys/wrapping/wrap" {
    capabilities = ["update"]
}
path "sys/wrapping/lookup" {
    capabilities = ["update"]
}
path "sys/wrapping/unwrap" {
    capabilities = ["update"]
}

# It may have something hashed.
path "sys/tools/hash" {
    capabilities = ["update"]
}
path "sys/tools/hash/*" {
    capabilities = ["update"]
}

# Its owner may log in elsewhere through this service.
path "identity/oidc/provider/+/authorize" {
    capabilities = ["read", "update"]
}
