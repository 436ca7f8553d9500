# What a wrapping token may do: reach the one response that it stands for.
path "cubbyhole/response" {
    capabilities = ["create", "read"]
}
path "sys/wrapping/unwrap" {
    capabilities = ["update"]
}
