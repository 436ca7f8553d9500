// Calls that programs make through the Go module of Vault's API: `vault PART`.
//
// install.sh also builds the program with the module of OpenBao, as `bao`; the files that end in
// `_vault` have calls and modules that OpenBao lacks. The modules read VAULT_ADDR, VAULT_TOKEN and
// VAULT_CACERT. Some parts need ABOUT, an object in JSON with the names and secrets of other
// servers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	vault "github.com/hashicorp/vault/api"
)

var ctx = context.Background()

// fields are the members of a request or an answer.
type fields = map[string]any

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func demand(holds bool, about ...any) {
	if !holds {
		panic(fmt.Sprint(about...))
	}
}

// refused panics unless the server answered the call with this status and text.
func refused(err error, status int, text string) {
	demand(err != nil, "the call was not refused: ", status, text)
	var answer *vault.ResponseError
	demand(errors.As(err, &answer), "no answer of the server: ", err)
	demand(answer.StatusCode == status, answer)
	demand(strings.Contains(strings.Join(answer.Errors, "\n"), text), answer)
}

// client makes a client with the token of the environment.
func client() *vault.Client {
	return must(vault.NewClient(vault.DefaultConfig()))
}

// holder makes a client with this token.
func holder(token string) *vault.Client {
	made := client()
	made.SetToken(token)
	return made
}

// about reads the variable ABOUT.
func about() map[string]string {
	var found map[string]string
	check(json.Unmarshal([]byte(os.Getenv("ABOUT")), &found))
	return found
}

func number(value any) int64 {
	return must(value.(json.Number).Int64())
}

// parts has the parts by name. The files for one module add theirs.
var parts = map[string]func(){
	"state":    state,
	"operator": operator,
	"monitor":  monitor,
	"mounts":   mounts,
	"policies": policies,
	"plugins":  plugins,
	"kv1":      kv1,
	"kv2":      kv2,
	"metadata": metadata,
	"logical":  logical,
	"tokens":   tokens,
	"roles":    roles,
	"watcher":  watcher,
	"wrapping": wrapping,
	"leases":   leases,
}

func main() {
	part := os.Args[1]
	parts[part]()
	fmt.Println(part + ": done")
}
