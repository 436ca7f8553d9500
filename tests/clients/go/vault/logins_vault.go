package main

import (
	"slices"

	vault "github.com/hashicorp/vault/api"
	"github.com/hashicorp/vault/api/auth/approle"
	"github.com/hashicorp/vault/api/auth/kubernetes"
	"github.com/hashicorp/vault/api/auth/userpass"
)

func init() {
	parts["userpass"] = userpassLogins
	parts["approle"] = approleLogins
	parts["kubernetes"] = kubernetesLogins
}

// login logs in without a token, and returns the client with its new token.
func login(method vault.AuthMethod) (*vault.Client, *vault.SecretAuth) {
	one := holder("")
	auth := must(one.Auth().Login(ctx, method)).Auth
	demand(one.Token() == auth.ClientToken, auth)
	must(one.Auth().Token().RenewSelf(0))
	return one, auth
}

// stranger logs in without a token, and returns the refusal.
func stranger(method vault.AuthMethod) error {
	one := holder("")
	_, err := one.Auth().Login(ctx, method)
	return err
}

func userpassLogins() {
	c := client()
	check(c.Sys().EnableAuthWithOptions("people", &vault.EnableAuthOptions{Type: "userpass"}))
	at := userpass.WithMountPath("people")
	user := fields{"password": "Qd7-Vm3-Wx5", "token_policies": []string{"app"}, "token_ttl": "1h"}
	must(c.Logical().Write("auth/people/users/amy", user))
	password := &userpass.Password{FromString: "Qd7-Vm3-Wx5"}
	one, auth := login(must(userpass.NewUserpassAuth("amy", password, at)))
	demand(auth.LeaseDuration == 3600 && auth.Metadata["username"] == "amy", auth)
	demand(slices.Equal(auth.Policies, []string{"app", "default"}), auth)
	entity := must(c.Logical().Read("identity/entity/id/" + auth.EntityID))
	demand(len(entity.Data["aliases"].([]any)) == 1, entity.Data)
	wrong := &userpass.Password{FromString: "not this"}
	refused(stranger(must(userpass.NewUserpassAuth("amy", wrong, at))), 400, "password")
	_, err := one.Sys().ListPolicies()
	refused(err, 403, "permission denied")
	check(c.Sys().RevokePrefix("auth/people"))
	_, err = one.Auth().Token().LookupSelf()
	refused(err, 403, "permission denied")
}

func approleLogins() {
	c := client()
	check(c.Sys().EnableAuthWithOptions("machines", &vault.EnableAuthOptions{Type: "approle"}))
	at := approle.WithMountPath("machines")
	role := fields{"token_policies": "app", "token_ttl": "20m", "secret_id_num_uses": 1}
	must(c.Logical().Write("auth/machines/role/web", role))
	id := must(c.Logical().Read("auth/machines/role/web/role-id")).Data["role_id"].(string)
	made := must(c.Logical().Write("auth/machines/role/web/secret-id", nil)).Data
	secret := &approle.SecretID{FromString: made["secret_id"].(string)}
	_, auth := login(must(approle.NewAppRoleAuth(id, secret, at)))
	demand(auth.LeaseDuration == 1200 && auth.Metadata["role_name"] == "web", auth)
	refused(stranger(must(approle.NewAppRoleAuth(id, secret, at))), 400, "invalid role or secret ID")

	wrapper := client()
	wrapper.SetWrappingLookupFunc(func(string, string) string { return "1m" })
	path := "auth/machines/role/web/secret-id"
	wrapped := must(wrapper.Logical().Write(path, nil)).WrapInfo.Token
	once := must(approle.NewAppRoleAuth(
		id, &approle.SecretID{FromString: wrapped}, approle.WithWrappingToken(), at,
	))
	login(once)
	refused(stranger(once), 400, "wrapping token is not valid or does not exist")
}

func kubernetesLogins() {
	c, given := client(), about()
	check(c.Sys().EnableAuthWithOptions("pods", &vault.EnableAuthOptions{Type: "kubernetes"}))
	must(c.Logical().Write("auth/pods/config", fields{
		"kubernetes_host": given["host"], "kubernetes_ca_cert": given["authority"],
		"token_reviewer_jwt": given["reviewer"],
	}))
	must(c.Logical().Write("auth/pods/role/web", fields{
		"bound_service_account_names":      "app",
		"bound_service_account_namespaces": given["namespace"], "token_ttl": "10m",
	}))
	at := kubernetes.WithMountPath("pods")
	with := func(jwt string) vault.AuthMethod {
		token := kubernetes.WithServiceAccountToken(jwt)
		return must(kubernetes.NewKubernetesAuth("web", token, at))
	}
	_, auth := login(with(given["jwt"]))
	demand(auth.LeaseDuration == 600, auth)
	demand(auth.Metadata["service_account_name"] == "app", auth)
	refused(stranger(with(given["other"])), 403, "service account")
}
