package main

import (
	"slices"

	vault "github.com/hashicorp/vault/api"
)

func tokens() {
	calls := client().Auth().Token()
	made := must(calls.Create(&vault.TokenCreateRequest{
		Policies: []string{"default"}, TTL: "1h", ExplicitMaxTTL: "2h",
		Metadata: map[string]string{"team": "a"}, DisplayName: "ci",
	}))
	token, accessor := must(made.TokenID()), must(made.TokenAccessor())
	demand(must(made.TokenTTL()).Hours() == 1 && must(made.TokenIsRenewable()), made.Auth)
	found := must(calls.Lookup(token))
	demand(must(found.TokenMetadata())["team"] == "a", found.Data)
	demand(slices.Equal(must(found.TokenPolicies()), []string{"default"}), found.Data)
	demand(must(found.TokenRemainingUses()) == 0, found.Data)
	byAccessor := must(calls.LookupAccessor(accessor))
	demand(byAccessor.Data["display_name"] == "token-ci", byAccessor.Data)
	renewed := must(calls.Renew(token, 1800))
	demand(renewed.Auth.ClientToken == token && renewed.Auth.LeaseDuration == 1800, renewed.Auth)
	demand(must(calls.RenewAccessor(accessor, 0)).Auth.Accessor == accessor, "by accessor")

	own := holder(token).Auth().Token()
	demand(must(must(own.LookupSelf()).TokenID()) == token, "the own token")
	demand(must(own.RenewSelf(600)).Auth.LeaseDuration == 600, "600 seconds")
	must(own.RenewTokenAsSelf(token, 0))
	check(own.RevokeSelf(""))
	_, err := own.LookupSelf()
	refused(err, 403, "permission denied")
	_, err = calls.Lookup(token)
	refused(err, 403, "bad token")

	parent := must(calls.Create(&vault.TokenCreateRequest{})).Auth.ClientToken
	child := must(holder(parent).Auth().Token().Create(&vault.TokenCreateRequest{})).Auth
	check(calls.RevokeOrphan(parent))
	demand(must(calls.Lookup(child.ClientToken)).Data["orphan"] == true, "an orphan")
	check(calls.RevokeTree(child.ClientToken))
	orphan := must(calls.CreateOrphan(&vault.TokenCreateRequest{Policies: []string{"default"}}))
	demand(orphan.Auth.Orphan, orphan.Auth)
	check(calls.RevokeAccessor(orphan.Auth.Accessor))
	batch := &vault.TokenCreateRequest{Type: "batch", Policies: []string{"default"}}
	demand(must(calls.Create(batch)).Auth.Accessor == "", "a batch token has no accessor")
	twice := &vault.TokenCreateRequest{NumUses: 2, Policies: []string{"default"}}
	used := holder(must(calls.Create(twice)).Auth.ClientToken).Auth().Token()
	demand(must(must(used.LookupSelf()).TokenRemainingUses()) == 1, "one use is left")
}

func roles() {
	c := client()
	must(c.Logical().Write("auth/token/roles/ci", fields{
		"allowed_policies": "default", "orphan": true, "token_period": "1h",
	}))
	made := must(c.Auth().Token().CreateWithRole(&vault.TokenCreateRequest{}, "ci")).Auth
	demand(made.Orphan && made.LeaseDuration == 3600 && made.Renewable, made)
	asked := &vault.TokenCreateRequest{Policies: []string{"root"}}
	_, err := c.Auth().Token().CreateWithRole(asked, "ci")
	refused(err, 400, "root")
}

func wrapping() {
	c := client()
	must(c.KVv2("secret").Put(ctx, "app", fields{"n": 1}))
	c.SetWrappingLookupFunc(func(operation, path string) string {
		if operation == "GET" && path == "secret/data/app" {
			return "5m"
		}
		return ""
	})
	wrap := func() *vault.SecretWrapInfo {
		info := must(c.Logical().Read("secret/data/app")).WrapInfo
		demand(info.TTL == 300 && info.CreationPath == "secret/data/app", info)
		return info
	}
	token := wrap().Token
	known := must(c.Logical().Write("sys/wrapping/lookup", fields{"token": token}))
	demand(number(known.Data["creation_ttl"]) == 300, known.Data)
	read := must(c.Logical().Unwrap(token))
	demand(number(read.Data["data"].(fields)["n"]) == 1, read.Data)
	_, err := c.Logical().Unwrap(token)
	refused(err, 400, "wrapping token is not valid or does not exist")

	stranger := holder(wrap().Token)
	must(stranger.Logical().Unwrap(""))
	rewrapped := must(c.Logical().Write("sys/wrapping/rewrap", fields{"token": wrap().Token}))
	must(holder("").Logical().Unwrap(rewrapped.WrapInfo.Token))
	auth := client()
	auth.SetWrappingLookupFunc(func(string, string) string { return "1m" })
	made := must(auth.Auth().Token().Create(&vault.TokenCreateRequest{})).WrapInfo
	opened := must(holder("").Logical().Unwrap(made.Token)).Auth
	demand(opened.Accessor != "" && opened.Accessor == made.WrappedAccessor, made)
}
