package main

import (
	"slices"

	vault "github.com/hashicorp/vault/api"
)

func init() {
	parts["reads"] = reads
}

// reads has the reads of one object by its name or accessor.
func reads() {
	c := client()
	demand(must(c.Sys().GetMount("secret")).Type == "kv", "the mount of dev mode")
	method := must(c.Sys().GetAuth("token"))
	demand(method.Type == "token" && method.Accessor != "", method)
	check(c.Sys().PutPolicy("notes", readNotes))
	asked := &vault.TokenCreateRequest{Policies: []string{"notes"}}
	made := must(c.Auth().Token().Create(asked)).Auth
	found := must(c.Sys().CapabilitiesAccessor(made.Accessor, "notes/a"))
	demand(slices.Equal(found, []string{"list", "read"}), found)
}
