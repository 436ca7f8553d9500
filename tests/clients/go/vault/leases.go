package main

import (
	vault "github.com/hashicorp/vault/api"
)

// watch renews a secret until its end, and returns the number of renewals.
func watch(c *vault.Client, secret *vault.Secret) int {
	watcher := must(c.NewLifetimeWatcher(&vault.LifetimeWatcherInput{Secret: secret}))
	go watcher.Start()
	defer watcher.Stop()
	for renewals := 0; ; {
		select {
		case err := <-watcher.DoneCh():
			check(err)
			return renewals + len(watcher.RenewCh())
		case <-watcher.RenewCh():
			renewals++
		}
	}
}

func watcher() {
	c := client()
	asked := &vault.TokenCreateRequest{TTL: "3s", ExplicitMaxTTL: "5s", Policies: []string{"default"}}
	renewals := watch(c, must(c.Auth().Token().Create(asked)))
	demand(renewals >= 2, "a token was renewed ", renewals, " times")
}

// leases has users of a database made, renewed and removed.
func leases() {
	c, given := client(), about()
	check(c.Sys().Mount("orders", &vault.MountInput{Type: "database"}))
	must(c.Logical().Write("orders/config/main", fields{
		"plugin_name": "postgresql-database-plugin", "allowed_roles": "*",
		"connection_url": given["url"], "username": given["user"], "password": given["password"],
	}))
	must(c.Logical().Write("orders/roles/app", fields{
		"db_name": "main", "creation_statements": given["creation"],
		"default_ttl": "1h", "max_ttl": "4h",
	}))
	made := must(c.Logical().Read("orders/creds/app"))
	demand(made.LeaseDuration == 3600 && made.Renewable && made.Data["username"] != "", made.LeaseID)
	found := must(c.Sys().Lookup(made.LeaseID))
	demand(found.Data["id"] == made.LeaseID && found.Data["renewable"] == true, found.Data)
	demand(must(c.Sys().Renew(made.LeaseID, 1800)).LeaseDuration == 1800, "renewed")
	check(c.Sys().Revoke(made.LeaseID))
	_, err := c.Sys().Renew(made.LeaseID, 0)
	refused(err, 400, "lease not found")

	must(c.Logical().Write("orders/roles/brief", fields{
		"db_name": "main", "creation_statements": given["creation"],
		"default_ttl": "3s", "max_ttl": "5s",
	}))
	renewals := watch(c, must(c.Logical().Read("orders/creds/brief")))
	demand(renewals >= 2, "a lease was renewed ", renewals, " times")
	second := must(c.Logical().Read("orders/creds/app"))
	options := &vault.RevokeOptions{LeaseID: second.LeaseID, Sync: true}
	check(c.Sys().RevokeWithOptions(options))
	must(c.Logical().Read("orders/creds/app"))
	check(c.Sys().RevokePrefix("orders/creds/app"))
	check(c.Sys().RevokeForce("orders/creds"))
}
