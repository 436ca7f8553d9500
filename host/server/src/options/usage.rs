//! The help text of `bulkhead server`, which also lists the options for suggestions.

/// Help text of `bulkhead server --help`.
pub const USAGE: &str = "\
Usage: bulkhead server --config FILE [--check]
       bulkhead server [--data-dir DIR] [--listen-address ADDR]
       bulkhead server --dev [options]

Without --dev: a server with sealed data. The server starts sealed; unseal it with the
keys of `bulkhead operator init`, by `bulkhead operator unseal`.

  --config FILE                the whole configuration, in HCL: listener, storage, audit,
                               lifetimes; instead of the two options below
  --check                      print the effect of the configuration, and start no server:
                               exit code 0 if a start would succeed here, 1 if not
  --data-dir DIR               the data directory; default ./bulkhead-data
                               (or BULKHEAD_DATA_DIR); the records are in PostgreSQL if
                               BULKHEAD_PG_CONNECTION_URL is set
  --listen-address ADDR        default 127.0.0.1:8200; port 0 takes a free port
                               (or BULKHEAD_LISTEN_ADDRESS)
  --tls-disable                allow plain HTTP at addresses open to other machines; TLS
                               needs a configuration file
  --log-level LEVEL            lines from this level on: debug, info, warn or error; instead of
                               log_level of the file
  --log-format FORMAT          logfmt or json; instead of log_format of the file
  --log-file FILE              write the log to FILE; instead of log_file of the file
  --no-color                   without effect: the log has no colours

With --dev: an open server for trials: plain HTTP by default, and the key of the data lies
beside the data. Not for real secrets.

  --dev-tls                    TLS, with a generated authority and certificate
  --dev-tls-san NAME           additional host name or address of the certificate; repeatable
  --tls-disable                allow plain HTTP at addresses open to other machines

  --dev-root-token-id TOKEN    the root token, instead of a random one
                               (or BULKHEAD_DEV_ROOT_TOKEN_ID, which no process list shows)
  --dev-no-store-token         without effect, for scripts of Vault: the token is never stored
  --dev-listen-address ADDR    default 127.0.0.1:8200; port 0 takes a free port
                               (or BULKHEAD_DEV_LISTEN_ADDRESS)
  --dev-scheduler-listen-address ADDR
                               additional address for the scheduler's API, or off;
                               default 127.0.0.1:4646, if free
                               (or BULKHEAD_DEV_SCHEDULER_LISTEN_ADDRESS)
  --data-dir DIR               keep the data in DIR for the next start; by default the data
                               are in a directory that is removed at the end
";
