package main

import (
	"errors"
	"slices"
	"time"

	vault "github.com/hashicorp/vault/api"
)

func absent(err error) {
	demand(errors.Is(err, vault.ErrSecretNotFound), "not ErrSecretNotFound: ", err)
}

func kv1() {
	c := client()
	options := map[string]string{"version": "1"}
	check(c.Sys().Mount("old", &vault.MountInput{Type: "kv", Options: options}))
	kv := c.KVv1("old")
	check(kv.Put(ctx, "team/app", fields{"user": "app", "ttl": "1h"}))
	read := must(kv.Get(ctx, "team/app"))
	demand(read.Data["user"] == "app" && read.Raw.LeaseDuration == 3600, read)
	check(kv.Delete(ctx, "team/app"))
	_, err := kv.Get(ctx, "team/app")
	absent(err)
}

func kv2() {
	kv := client().KVv2("secret")
	_, err := kv.Get(ctx, "team/app")
	absent(err)
	first := must(kv.Put(ctx, "team/app", fields{"user": "a", "n": 1}, vault.WithCheckAndSet(0)))
	demand(first.VersionMetadata.Version == 1 && !first.VersionMetadata.Destroyed, first)
	_, err = kv.Put(ctx, "team/app", fields{}, vault.WithCheckAndSet(0))
	refused(err, 400, "check-and-set parameter did not match the current version")
	read := must(kv.Get(ctx, "team/app"))
	demand(read.Data["user"] == "a" && number(read.Data["n"]) == 1, read)

	must(kv.Patch(ctx, "team/app", fields{"n": 2}))
	byRead := vault.WithMergeMethod(vault.KVMergeMethodReadWrite)
	third := must(kv.Patch(ctx, "team/app", fields{"n": 3}, byRead))
	demand(third.VersionMetadata.Version == 3, third)
	second := must(kv.GetVersion(ctx, "team/app", 2))
	demand(second.Data["user"] == "a" && number(second.Data["n"]) == 2, second)
	_, err = kv.GetVersion(ctx, "team/app", 9)
	absent(err)
	_, err = kv.Patch(ctx, "none", fields{"n": 1})
	absent(err)

	check(kv.Delete(ctx, "team/app"))
	gone := must(kv.Get(ctx, "team/app"))
	demand(gone.Data == nil && !gone.VersionMetadata.DeletionTime.IsZero(), gone)
	check(kv.Undelete(ctx, "team/app", []int{3}))
	check(kv.DeleteVersions(ctx, "team/app", []int{1, 2}))
	check(kv.Destroy(ctx, "team/app", []int{1}))
	destroyed := must(kv.GetVersion(ctx, "team/app", 1))
	demand(destroyed.Data == nil && destroyed.VersionMetadata.Destroyed, destroyed)
	check(kv.Undelete(ctx, "team/app", []int{2}))
	back := must(kv.Rollback(ctx, "team/app", 2))
	demand(back.VersionMetadata.Version == 4, back)
	demand(number(must(kv.Get(ctx, "team/app")).Data["n"]) == 2, "version 2 is back")
}

func metadata() {
	kv := client().KVv2("secret")
	must(kv.Put(ctx, "app", fields{"n": 1}))
	must(kv.Put(ctx, "app", fields{"n": 2}))
	check(kv.PutMetadata(ctx, "app", vault.KVMetadataPutInput{
		CASRequired: true, MaxVersions: 5, DeleteVersionAfter: time.Hour,
		CustomMetadata: fields{"owner": "blue", "tier": "web"},
	}))
	found := must(kv.GetMetadata(ctx, "app"))
	demand(found.CurrentVersion == 2 && found.CASRequired && found.MaxVersions == 5, found)
	demand(found.DeleteVersionAfter == time.Hour && found.CustomMetadata["owner"] == "blue", found)
	listed := must(kv.GetVersionsAsList(ctx, "app"))
	demand(len(listed) == 2 && listed[0].Version == 1 && listed[1].Version == 2, listed)
	_, err := kv.Put(ctx, "app", fields{"n": 3})
	refused(err, 400, "check-and-set parameter required")
	optional := false
	check(kv.PatchMetadata(ctx, "app", vault.KVMetadataPatchInput{
		CASRequired: &optional, CustomMetadata: fields{"owner": "red", "tier": nil},
	}))
	patched := must(kv.GetMetadata(ctx, "app"))
	demand(!patched.CASRequired && patched.MaxVersions == 5, patched)
	demand(patched.CustomMetadata["owner"] == "red" && len(patched.CustomMetadata) == 1, patched)
	read := must(kv.Put(ctx, "app", fields{"n": 3}))
	demand(read.CustomMetadata["owner"] == "red", read)
	check(kv.DeleteMetadata(ctx, "app"))
	_, err = kv.GetMetadata(ctx, "app")
	absent(err)
}

func logical() {
	paths := client().Logical()
	demand(must(paths.Read("secret/data/none")) == nil, "an absent secret is nil")
	demand(must(paths.List("secret/metadata")) == nil, "an empty folder is nil")
	written := must(paths.Write("secret/data/app", fields{"data": fields{"n": 1}}))
	demand(number(written.Data["version"]) == 1 && written.RequestID != "", written)
	must(paths.WriteBytes("secret/data/app", []byte(`{"data":{"n":2}}`)))
	must(paths.JSONMergePatch(ctx, "secret/data/app", fields{"data": fields{"m": 3}}))
	asked := map[string][]string{"version": {"2"}}
	second := must(paths.ReadWithData("secret/data/app", asked))
	demand(len(second.Data["data"].(fields)) == 1, second.Data)
	keys := must(paths.List("secret/metadata")).Data["keys"].([]any)
	demand(slices.Equal(keys, []any{"app"}), keys)
	raw := must(paths.ReadRaw("secret/data/app"))
	demand(raw.StatusCode == 200 && raw.Header.Get("Content-Type") == "application/json", raw)
	check(raw.Body.Close())
	must(paths.DeleteWithData("secret/metadata/app", nil))
	must(paths.Delete("secret/metadata/app"))
	_, err := paths.Write("nowhere/app", fields{"n": 1})
	refused(err, 404, "no handler for route")
	_, err = holder("none").Logical().Read("secret/data/app")
	refused(err, 403, "permission denied")
}
