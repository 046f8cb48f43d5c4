import { strict as assert } from "node:assert";
import { test } from "node:test";
import { ProxyError } from "../base/mod.ts";
import { checkEnvironment } from "./environment.ts";

function refusal(env: Record<string, string>, compiled: boolean): string {
  try {
    checkEnvironment(env, { compiled });
    return "";
  } catch (error) {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, "config_invalid");
    return error.message;
  }
}

for (
  const [name, value, fromSource, compiled] of [
    ["BUN_OPTIONS", "--preload ./x.ts", "taken", "refused"],
    ["BUN_BE_BUN", "1", "taken", "refused"],
    ["BUN_INSPECT", "ws://localhost:1/", "taken", "refused"],
    ["BUN_INSPECT_PRELOAD", "x.js", "taken", "refused"],
    ["BUN_CONFIG_HTTP_IDLE_TIMEOUT", "1", "taken", "refused"],
    ["BUN_JSC_useJIT", "0", "taken", "refused"],
    ["BUN_SOMETHING_NEW", "1", "taken", "refused"],
    ["BUN_OPTIONS", "", "taken", "taken"],
    ["BUN_INSTALL", "/root/.bun", "taken", "taken"],
    ["BUN_INSTALL_CACHE_DIR", "/tmp", "taken", "taken"],
    ["NODE_TLS_REJECT_UNAUTHORIZED", "0", "refused", "refused"],
    ["NODE_TLS_REJECT_UNAUTHORIZED", "1", "taken", "taken"],
    ["SSLKEYLOGFILE", "/tmp/keys", "refused", "refused"],
    // Adds to the system's CA certificates only, which count for nobody but an agent without -ca-file.
    ["NODE_EXTRA_CA_CERTS", "/etc/ca.pem", "taken", "taken"],
    ["PATH", "/bin", "taken", "taken"],
  ] as const
) {
  test(`checkEnvironment() ${name}=${value}: ${fromSource}, compiled: ${compiled}`, () => {
    const env = { HOME: "/root", [name]: value };
    for (
      const [message, want] of [[refusal(env, false), fromSource], [refusal(env, true), compiled]]
    ) {
      assert.equal(message !== "", want === "refused", `${message}`);
      if (want === "refused") assert.ok(message?.includes(name), `${message}`);
    }
  });
}
