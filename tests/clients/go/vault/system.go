package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	vault "github.com/hashicorp/vault/api"
)

const readNotes = `path "notes/*" { capabilities = ["read", "list"] }`

func state() {
	sys := client().Sys()
	health := must(sys.Health())
	demand(health.Initialized && !health.Sealed && !health.Standby, health)
	demand(strings.Count(health.Version, ".") == 2 && health.ClusterName != "", health)
	seal := must(sys.SealStatus())
	demand(seal.Initialized && !seal.Sealed && seal.Type == "shamir", seal)
	demand(must(sys.InitStatus()), "the server is initialised")
	leader := must(sys.Leader())
	demand(leader.IsSelf, leader)
	nodes := must(sys.HAStatus()).Nodes
	demand(len(nodes) == 1 && nodes[0].ActiveNode, nodes)
	before := must(sys.KeyStatus())
	check(sys.Rotate())
	after := must(sys.KeyStatus())
	demand(after.Term == before.Term+1 && !after.InstallTime.IsZero(), after)
	demand(must(sys.ListAudit())["file/"].Type == "file", "a dev server has one audit device")
	demand(strings.HasPrefix(must(sys.AuditHash("file", "text")), "hmac-sha256:"), "a hash")
	options := &vault.EnableAuditOptions{Type: "file", Options: map[string]string{"file_path": "/a"}}
	refused(sys.EnableAuditWithOptions("a", options), 400, "file_path")
	// The module itself checks that the snapshot is complete.
	var snapshot bytes.Buffer
	check(sys.RaftSnapshot(&snapshot))
	demand(snapshot.Len() > 1024, "the snapshot has content: ", snapshot.Len())
	for _, force := range []bool{false, true} {
		check(sys.PutPolicy("late", readNotes))
		check(sys.RaftSnapshotRestore(bytes.NewReader(snapshot.Bytes()), force))
		demand(!slices.Contains(must(sys.ListPolicies()), "late"), "the data are those of before")
		// Without a length the module sends chunks.
		chunks := struct{ io.Reader }{bytes.NewReader(snapshot.Bytes())}
		check(sys.RaftSnapshotRestore(chunks, force))
		refused(sys.RaftSnapshotRestore(strings.NewReader("none"), force), 400, "snapshot")
	}
	help := must(client().Help("sys/mounts"))
	demand(help.Help != "", help)
}

// operator opens and seals a server, generates a root token and rekeys.
func operator() {
	c, keys := client(), strings.Split(os.Getenv("KEYS"), ",")
	demand(must(c.Sys().SealStatus()).Sealed, "the server begins sealed")
	_, err := c.Sys().ListMounts()
	refused(err, 503, "sealed")
	first := must(c.Sys().Unseal(keys[0]))
	demand(first.Sealed && first.Progress == 1 && first.T == 2 && first.N == 3, first)
	demand(must(c.Sys().ResetUnsealProcess()).Progress == 0, "the process was reset")
	must(c.Sys().Unseal(keys[0]))
	demand(!must(c.Sys().Unseal(keys[1])).Sealed, "two shares open the server")

	begun := must(c.Sys().GenerateRootInit("", ""))
	demand(begun.Started && begun.Required == 2 && begun.OTP != "", begun)
	must(c.Sys().GenerateRootUpdate(keys[0], begun.Nonce))
	ended := must(c.Sys().GenerateRootUpdate(keys[1], begun.Nonce))
	demand(ended.Complete && ended.EncodedToken != "", "the token is complete")
	demand(!must(c.Sys().GenerateRootStatus()).Started, "the generation has ended")

	asked := &vault.RekeyInitRequest{SecretShares: 1, SecretThreshold: 1}
	rekey := must(c.Sys().RekeyInit(asked))
	demand(rekey.Started && rekey.N == 1, rekey)
	must(c.Sys().RekeyUpdate(keys[0], rekey.Nonce))
	made := must(c.Sys().RekeyUpdate(keys[1], rekey.Nonce))
	demand(made.Complete && len(made.KeysB64) == 1, "the rekey is complete")
	check(c.Sys().Seal())
	demand(!must(c.Sys().Unseal(made.KeysB64[0])).Sealed, "the new key opens the server")
}

func mounts() {
	sys := client().Sys()
	asked := &vault.MountInput{
		Type: "database", Description: "orders",
		Config: vault.MountConfigInput{MaxLeaseTTL: "4h"},
	}
	check(sys.Mount("orders", asked))
	refused(sys.Mount("orders", asked), 400, "path is already in use at orders/")
	listed := must(sys.ListMounts())["orders/"]
	demand(listed.Type == "database" && listed.Description == "orders", listed)
	demand(listed.Accessor != "" && listed.UUID != "", listed)
	check(sys.TuneMount("orders", vault.MountConfigInput{DefaultLeaseTTL: "30m"}))
	tuned := must(sys.MountConfig("orders"))
	demand(tuned.DefaultLeaseTTL == 1800 && tuned.MaxLeaseTTL == 14400, tuned)
	check(sys.Remount("orders", "sales"))
	demand(must(sys.ListMounts())["sales/"].Config.MaxLeaseTTL == 14400, "the mount was moved")
	check(sys.Unmount("sales"))
	demand(must(sys.ListMounts())["sales/"] == nil, "the mount is gone")

	check(sys.EnableAuthWithOptions("people", &vault.EnableAuthOptions{Type: "userpass"}))
	method := must(sys.ListAuth())["people/"]
	demand(method.Type == "userpass" && method.Accessor != "", method)
	check(sys.TuneMount("auth/people", vault.MountConfigInput{ListingVisibility: "unauth"}))
	demand(must(sys.MountConfig("auth/people")).ListingVisibility == "unauth", "it was tuned")
	check(sys.DisableAuth("people"))
	demand(must(sys.ListAuth())["people/"] == nil, "the method is gone")
}

func policies() {
	c := client()
	check(c.Sys().PutPolicy("notes", readNotes))
	demand(must(c.Sys().GetPolicy("notes")) == readNotes, "the text is kept")
	demand(must(c.Sys().GetPolicy("none")) == "", "an absent policy is an empty text")
	demand(slices.Contains(must(c.Sys().ListPolicies()), "notes"), "it is listed")
	refused(c.Sys().PutPolicy("bad", "path"), 400, "policy")
	asked := &vault.TokenCreateRequest{Policies: []string{"notes"}, NoDefaultPolicy: true}
	made := must(c.Auth().Token().Create(asked)).Auth
	known := []string{"list", "read"}
	demand(slices.Equal(must(c.Sys().Capabilities(made.ClientToken, "notes/a")), known), "token")
	own := must(c.Sys().CapabilitiesSelf("notes/a"))
	demand(slices.Equal(own, []string{"root"}), own)
	_, err := holder(made.ClientToken).Sys().ListPolicies()
	refused(err, 403, "permission denied")
	check(c.Sys().DeletePolicy("notes"))
	demand(must(c.Sys().GetPolicy("notes")) == "", "it is gone")
}

func plugins() {
	sys := client().Sys()
	all := must(sys.ListPlugins(&vault.ListPluginsInput{Type: vault.PluginTypeUnknown}))
	demand(slices.Contains(all.PluginsByType[vault.PluginTypeSecrets], "database"), all)
	demand(len(all.Details) > 0 && all.Details[0].Version != "", all.Details)
	engines := must(sys.ListPlugins(&vault.ListPluginsInput{Type: vault.PluginTypeSecrets}))
	demand(slices.Contains(engines.PluginsByType[vault.PluginTypeSecrets], "kv"), engines)
	asked := &vault.GetPluginInput{Name: "approle", Type: vault.PluginTypeCredential}
	found := must(sys.GetPlugin(asked))
	demand(found.Name == "approle" && found.Builtin && found.SHA256 != "", found)
	check(sys.Mount("orders", &vault.MountInput{Type: "database"}))
	_, err := sys.ReloadPlugin(&vault.ReloadPluginInput{Plugin: "database"})
	refused(err, 400, "database is built in")
	must(sys.ReloadPlugin(&vault.ReloadPluginInput{Mounts: []string{"orders/"}}))
	refused(sys.RegisterPlugin(&vault.RegisterPluginInput{
		Name: "own", Type: vault.PluginTypeSecrets, Command: "own", SHA256: strings.Repeat("0", 64),
	}), 400, "plugin")
}

func monitor() {
	sys := client().Sys()
	watching, end := context.WithTimeout(ctx, 30*time.Second)
	defer end()
	lines := must(sys.Monitor(watching, "info", "json"))
	change := fields{"level": "debug"}
	must(client().Logical().Write("sys/loggers", change))
	for line := range lines {
		if strings.Contains(line, "log-level-changed") {
			return
		}
	}
	panic("the monitor ended without the line")
}
