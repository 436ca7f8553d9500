// Calls of programs that use node-vault, part by part: `node node_vault_calls.js PART`.
//
// Each part calls the server at VAULT_ADDR through node-vault, checks the answers, and throws an
// exception if an answer is wrong.

"use strict";

const assert = require("node:assert");
const { env } = process;
const vault = (token) => require("node-vault")({ endpoint: env.VAULT_ADDR, token });

// The client keeps the token of the login, and looks it up and renews it with itself.
async function loggedIn(client, auth) {
  assert.ok(auth.client_token);
  client.token = auth.client_token;
  const found = await client.tokenLookupSelf();
  assert.strictEqual(found.data.id, auth.client_token);
  const renewed = await client.tokenRenewSelf();
  assert.strictEqual(renewed.auth.client_token, auth.client_token);
  return auth;
}

async function refused(call, status, words) {
  await assert.rejects(call, (error) => {
    assert.strictEqual(error.response.statusCode, status, error.message);
    assert.ok(error.message.includes(words), error.message);
    return true;
  });
}

const parts = {
  async azure() {
    const client = vault("");
    const machine = {
      role: "app",
      jwt: env.AZURE_JWT,
      subscription_id: env.AZURE_SUBSCRIPTION,
      resource_group_name: "apps",
      vm_name: "vm1",
    };
    const { auth } = await client.write("auth/azure/login", machine);
    await loggedIn(client, auth);
    assert.strictEqual(auth.metadata.vm_name, "vm1");
    const other = { ...machine, vm_name: "vm2" };
    await refused(vault("").write("auth/azure/login", other), 400, "vm_name");
  },

  async gcp() {
    for (const [role, jwt] of [["app", env.GOOGLE_ACCOUNT_JWT], ["vm", env.GOOGLE_INSTANCE_JWT]]) {
      const client = vault("");
      const { auth } = await client.gcpLogin({ role, jwt });
      await loggedIn(client, auth);
      assert.strictEqual(auth.metadata.service_account_email, env.GOOGLE_ACCOUNT);
    }
    const swapped = vault("").gcpLogin({ role: "vm", jwt: env.GOOGLE_ACCOUNT_JWT });
    await refused(swapped, 400, "vault/vm");
  },

  async kv() {
    const client = vault(env.VAULT_TOKEN);
    const data = { user: "app", port: 5432 };
    const made = await client.write("secret/data/team/app", { data, options: { cas: 0 } });
    assert.strictEqual(made.data.version, 1);
    const again = client.write("secret/data/team/app", { data, options: { cas: 0 } });
    await refused(again, 400, "current version is 1");
    const patched = await client.update("secret/data/team/app", { data: { port: 1 } });
    assert.strictEqual(patched.data.version, 2);
    const read = await client.read("secret/data/team/app");
    assert.deepStrictEqual(read.data.data, { user: "app", port: 1 });
    const listed = await client.list("secret/metadata/");
    assert.deepStrictEqual(listed.data.keys, ["team/"]);
    await client.delete("secret/data/team/app");
    await refused(client.read("secret/data/team/app"), 404, "");
    await client.delete("secret/metadata/team/app");

    await client.mount({ mount_point: "old", type: "kv", options: { version: 1 } });
    await client.write("old/app", data);
    assert.deepStrictEqual((await client.read("old/app")).data, data);
    assert.deepStrictEqual((await client.list("old")).data.keys, ["app"]);
    await client.delete("old/app");
    await refused(client.read("old/app"), 404, "");
  },
};

const [name] = process.argv.slice(2);
parts[name]().then(
  () => console.log(`${name}: done`),
  (error) => {
    console.error(error);
    process.exitCode = 1;
  },
);
