// Calls that programs make through the Go module of the scheduler's API: `nomad PART`.
//
// The server is NOMAD_ADDR's, as the module itself reads it; NOMAD_TOKEN is a management token.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func demand(holds bool, about ...any) {
	if !holds {
		panic(fmt.Sprint(about...))
	}
}

// refused panics unless the call failed with that status and text.
func refused(err error, status int, text string) {
	demand(err != nil, "it was not refused: ", text)
	demand(strings.Contains(err.Error(), fmt.Sprint(status)), err)
	demand(strings.Contains(err.Error(), text), err)
}

func client() *api.Client {
	made, err := api.NewClient(api.DefaultConfig())
	check(err)
	return made
}

func policy(c *api.Client, name string) {
	rules := "namespace \"default\" { policy = \"read\" }"
	_, err := c.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	check(err)
}

func role(name string) *api.ACLRole {
	return &api.ACLRole{Name: name, Policies: []*api.ACLRolePolicyLink{{Name: "readonly"}}}
}

func roles() {
	c := client()
	policy(c, "readonly")
	made, written, err := c.ACLRoles().Create(role("dev"), nil)
	check(err)
	demand(made.ID != "" && made.CreateIndex == written.LastIndex, made, written)
	found, read, err := c.ACLRoles().Get(made.ID, nil)
	check(err)
	demand(found.Name == "dev" && read.LastIndex == made.ModifyIndex && read.KnownLeader, found)
	found.Description = "developers"
	changed, _, err := c.ACLRoles().Update(found, nil)
	check(err)
	demand(changed.ModifyIndex > made.ModifyIndex && changed.CreateIndex == made.CreateIndex, changed)
	named, _, err := c.ACLRoles().GetByName("dev", &api.QueryOptions{AllowStale: true})
	check(err)
	demand(named.Description == "developers", named)
	listed, _, err := c.ACLRoles().List(&api.QueryOptions{Prefix: made.ID[:8]})
	check(err)
	demand(len(listed) == 1 && listed[0].ID == made.ID, listed)
	_, _, err = c.ACLRoles().Create(role("dev"), nil)
	refused(err, 400, "role with name dev already exists")
	_, err = c.ACLRoles().Delete(made.ID, nil)
	check(err)
	_, _, err = c.ACLRoles().Get(made.ID, nil)
	refused(err, 404, "ACL role not found")
}

func waiting() {
	c := client()
	policy(c, "readonly")
	made, _, err := c.ACLRoles().Create(role("watched"), nil)
	check(err)
	type answer struct {
		listed []*api.ACLRoleListStub
		meta   *api.QueryMeta
		err    error
	}
	woken := make(chan answer)
	go func() {
		options := &api.QueryOptions{WaitIndex: made.ModifyIndex, WaitTime: 30 * time.Second}
		listed, meta, err := c.ACLRoles().List(options)
		woken <- answer{listed, meta, err}
	}()
	made.Description = "changed"
	changed, _, err := c.ACLRoles().Update(made, nil)
	check(err)
	got := <-woken
	check(got.err)
	demand(got.meta.LastIndex == changed.ModifyIndex, got.meta)
	demand(got.meta.RequestTime < 20*time.Second, got.meta)
}

func tokens() {
	c := client()
	policy(c, "readonly")
	linked, _, err := c.ACLRoles().Create(role("linked"), nil)
	check(err)
	asked := &api.ACLToken{
		Name: "ci", Type: "client", ExpirationTTL: time.Hour,
		Roles: []*api.ACLTokenRoleLink{{Name: "linked"}},
	}
	made, _, err := c.ACLTokens().Create(asked, nil)
	check(err)
	demand(made.ExpirationTTL == time.Hour && made.Roles[0].ID == linked.ID, made)
	own := client()
	own.SetSecretID(made.SecretID)
	self, _, err := own.ACLTokens().Self(nil)
	check(err)
	demand(self.AccessorID == made.AccessorID, self)
	seen, _, err := own.ACLRoles().List(nil)
	check(err)
	demand(len(seen) == 1 && seen[0].ID == linked.ID, seen)
	_, _, err = own.ACLRoles().Create(role("mine"), nil)
	refused(err, 403, "Permission denied")
	made.Name = "ci-2"
	changed, _, err := c.ACLTokens().Update(made, nil)
	check(err)
	demand(changed.Name == "ci-2" && changed.SecretID == made.SecretID, changed)
	listed, _, err := c.ACLTokens().List(nil)
	check(err)
	demand(len(listed) == 2, listed)
	_, err = c.ACLTokens().Delete(made.AccessorID, nil)
	check(err)
	_, _, err = own.ACLTokens().Self(nil)
	refused(err, 403, "Permission denied")
	_, _, err = c.ACLTokens().Bootstrap(nil)
	refused(err, 400, "ACL bootstrap already done")
	regions, err := c.Regions().List()
	check(err)
	demand(len(regions) == 1, regions)
}

func main() {
	part := os.Args[1]
	map[string]func(){"roles": roles, "waiting": waiting, "tokens": tokens}[part]()
	fmt.Println(part + ": done")
}
