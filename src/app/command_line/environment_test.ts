import { strict as assert } from "node:assert";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { checkEnvironment, checkRights } from "./environment.ts";

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
    // Adds to the system's CA certificates, which only verify an agent without -ca-file.
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

for (
  const [name, ids, permitted, ambient, want] of [
    ["nothing", [1000, 1000], 0, 0, undefined],
    ["an ambient capability", [1000, 1000], 0x400, 0x400, undefined],
    ["root's capabilities", [0, 0], 0x1fffeffffff, 0, undefined],
    [
      "a file capability",
      [1000, 1000],
      0x400,
      0,
      /file capability.*setcap -r.*AmbientCapabilities/,
    ],
    ["a file capability beside an ambient one", [1000, 1000], 0x402, 0x400, /file capability/],
    ["a setuid bit", [1000, 0], 0x1fffeffffff, 0, /setuid.*chmod ug-s/],
    ["the setuid bit of another user", [1000, 1001], 0, 0, /setuid/],
  ] as const
) {
  test(`checkRights() ${want ? "refuses" : "takes"} ${name}`, () => {
    const [real, effective] = ids;
    const status = `Name:\tpostern\nUid:\t${real}\t${effective}\t${effective}\t${effective}\n` +
      `Gid:\t100\t100\t100\t100\nCapInh:\t0000000000000000\n` +
      `CapPrm:\t${permitted.toString(16).padStart(16, "0")}\n` +
      `CapAmb:\t${ambient.toString(16).padStart(16, "0")}\n`;
    if (want) assert.throws(() => checkRights(status), want);
    else checkRights(status);
  });
}

test("checkRights() takes an empty status", () => checkRights(""));
