import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { fixture } from "../../../test/kit/consul/scripted_agent.ts";
import { type AgentFlags, resolveAgentOptions } from "./options.ts";

const tcp = (host: string, port: number) => ({ kind: "tcp", host, port });

for (
  const [flags, env, address, secure, pathPrefix] of [
    [{}, {}, tcp("127.0.0.1", 8500), false, ""],
    [{}, { CONSUL_HTTP_ADDR: "10.0.0.1:1" }, tcp("10.0.0.1", 1), false, ""],
    [{ httpAddr: "a:2" }, { CONSUL_HTTP_ADDR: "b:1" }, tcp("a", 2), false, ""],
    [{ httpAddr: "http://a:2" }, {}, tcp("a", 2), false, ""],
    [{ httpAddr: "https://a:2/" }, {}, tcp("a", 2), true, ""],
    [{ httpAddr: "https://a" }, {}, tcp("a", 443), true, ""],
    [{ httpAddr: "a" }, {}, tcp("a", 80), false, ""],
    [{ httpAddr: ":8500" }, {}, tcp("127.0.0.1", 8500), false, ""],
    [{ httpAddr: "[::1]:8500" }, {}, tcp("::1", 8500), false, ""],
    [{ httpAddr: "https://a:2/consul/" }, {}, tcp("a", 2), true, "/consul"],
    [{ httpAddr: "a:2" }, { CONSUL_HTTP_SSL: "true" }, tcp("a", 2), true, ""],
    [{ httpAddr: "http://a:2" }, { CONSUL_HTTP_SSL: "1" }, tcp("a", 2), true, ""],
    [{ httpAddr: "a:2" }, { CONSUL_HTTP_SSL: "false" }, tcp("a", 2), false, ""],
    [{ httpAddr: "unix:///run/c.sock" }, {}, { kind: "unix", path: "/run/c.sock" }, false, ""],
  ] as const
) {
  test(`resolveAgentOptions() reads ${JSON.stringify({ ...flags, ...env })}`, () => {
    const options = resolveAgentOptions(flags, env);
    assert.deepEqual(options.address, address);
    assert.equal(options.tls !== null, secure);
    assert.equal(options.pathPrefix, pathPrefix);
  });
}

test("resolveAgentOptions() prefers flags to the environment", () => {
  const env = {
    CONSUL_HTTP_TOKEN: "env-token",
    CONSUL_NAMESPACE: "env-ns",
    CONSUL_PARTITION: "env-ap",
    CONSUL_HTTP_AUTH: "user:secret",
    CONSUL_TLS_SERVER_NAME: "env-name",
  };
  const fromEnv = resolveAgentOptions({ httpAddr: "https://a:1" }, env);
  assert.equal(fromEnv.token, "env-token");
  assert.equal(fromEnv.namespace, "env-ns");
  assert.equal(fromEnv.partition, "env-ap");
  assert.equal(fromEnv.basicAuth, "user:secret");
  assert.equal(fromEnv.tls?.serverName, "env-name");
  assert.equal(fromEnv.tls?.verify, true);
  const flags: AgentFlags = {
    httpAddr: "https://a:1",
    token: "t",
    namespace: "n",
    partition: "p",
    tlsServerName: "s",
    datacenter: "dc2",
    stale: true,
  };
  const got = resolveAgentOptions(flags, { ...env, CONSUL_HTTP_SSL_VERIFY: "false" });
  assert.deepEqual(
    [got.token, got.namespace, got.partition, got.tls?.serverName, got.datacenter, got.stale],
    ["t", "n", "p", "s", "dc2", true],
  );
  assert.equal(got.tls?.verify, false);
});

/** A directory with files of these names and contents, removed afterwards. */
function withFiles(files: Record<string, string>, run: (path: (name: string) => string) => void) {
  const directory = mkdtempSync(join(tmpdir(), "postern-options-"));
  try {
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(directory, name), content);
    }
    run((name) => join(directory, name));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const { CertPEM, PrivateKeyPEM } = fixture("leaf") as { CertPEM: string; PrivateKeyPEM: string };
const OTHER_KEY = (fixture("leaf_rotated") as { PrivateKeyPEM: string }).PrivateKeyPEM;

test("resolveAgentOptions() prefers a token flag to a token file from the environment", () => {
  withFiles({ token: "from-file\n" }, (path) => {
    const env = { CONSUL_HTTP_TOKEN_FILE: path("token"), CONSUL_HTTP_TOKEN: "env" };
    assert.equal(resolveAgentOptions({}, env).tokenFile, path("token"));
    assert.equal(resolveAgentOptions({ token: "t" }, env).tokenFile, "");
    assert.equal(
      resolveAgentOptions({ token: "t", tokenFile: path("token") }, {}).tokenFile,
      path("token"),
    );
  });
});

test("resolveAgentOptions() accepts a certificate with its key", () => {
  withFiles({ cert: CertPEM, key: PrivateKeyPEM }, (path) => {
    const flags = { httpAddr: "https://a:1", clientCert: path("cert"), clientKey: path("key") };
    const options = resolveAgentOptions({ ...flags, caFile: path("cert") }, {});
    assert.equal(options.tls?.certFile, path("cert"));
  });
});

test("resolveAgentOptions() does not read TLS files without TLS", () => {
  assert.equal(resolveAgentOptions({ httpAddr: "a:1", caFile: "/none" }, {}).tls, null);
});

for (
  const [name, flags, env, pattern] of [
    ["a scheme", { httpAddr: "ftp://a:1" }, {}, /-http-addr "ftp:\/\/a:1": the scheme "ftp"/],
    [
      "an address",
      {},
      { CONSUL_HTTP_ADDR: "a b" },
      /CONSUL_HTTP_ADDR "a b": it is no host and port/,
    ],
    ["a port", { httpAddr: "a:99999" }, {}, /not within 1\.\.65535/],
    [
      "userinfo",
      {},
      { CONSUL_HTTP_ADDR: "http://u:hid den@a:1" },
      /^Cannot use CONSUL_HTTP_ADDR "http:\/\/\(not shown\)@a:1": .*CONSUL_HTTP_AUTH/,
    ],
    [
      "userinfo alone",
      { httpAddr: "u:hid/den@a:1" },
      {},
      /^Cannot use -http-addr "\(not shown\)@a:1": .*CONSUL_HTTP_AUTH/,
    ],
    ["an invalid IPv4 address", { httpAddr: "10.0.0.300:8500" }, {}, /no IPv4 address; write/],
    ["an invalid IPv6 address", {}, { CONSUL_HTTP_ADDR: "[1:2]:1" }, /no IPv6 address/],
    ["a path", { httpAddr: "http://a:1/x?y" }, {}, /characters that need escaping/],
    ["an empty socket", { httpAddr: "unix://" }, {}, /it has no path/],
    ["a flag for TLS", {}, { CONSUL_HTTP_SSL: "maybe" }, /CONSUL_HTTP_SSL "maybe"/],
    ["a flag for verification", {}, { CONSUL_HTTP_SSL_VERIFY: "2" }, /CONSUL_HTTP_SSL_VERIFY "2"/],
    ["basic auth", {}, { CONSUL_HTTP_AUTH: "a:b\r\nx: y" }, /CONSUL_HTTP_AUTH/],
    ["a token", { token: "a\r\nb" }, {}, /Cannot use -token:/],
    [
      "a token file",
      { tokenFile: "/none/token" },
      {},
      /-token-file "\/none\/token": .*ENOENT|no such file/i,
    ],
    [
      "a token file of the environment",
      {},
      { CONSUL_HTTP_TOKEN_FILE: "/none" },
      /TOKEN_FILE "\/none"/,
    ],
    [
      "a CA file",
      { httpAddr: "https://a:1", caFile: "/none" },
      {},
      /-ca-file \(CONSUL_CACERT\) "\/none"/,
    ],
    ["a CA path", { httpAddr: "https://a:1", caPath: "/none" }, {}, /-ca-path/],
    ["a lone certificate", { httpAddr: "https://a:1", clientCert: "/c" }, {}, /give both/],
    ["a lone key", { httpAddr: "https://a:1", clientKey: "/c" }, {}, /give both/],
  ] as const
) {
  test(`resolveAgentOptions() refuses ${name} and names it`, () => {
    assert.throws(() => resolveAgentOptions(flags, env), refused(pattern));
  });
}

for (
  const [name, files, flags, pattern] of [
    ["a CA file without certificate", { a: "hello" }, { caFile: "a" }, /there is no certificate/],
    [
      "a CA file with a broken one",
      { a: CertPEM.replace("MII", "AAA") },
      { caFile: "a" },
      /certificate 1/,
    ],
    ["a key of another certificate", { a: CertPEM, b: OTHER_KEY }, {
      clientCert: "a",
      clientKey: "b",
    }, /it is not the key of/],
    ["an empty key", { a: CertPEM, b: "" }, { clientCert: "a", clientKey: "b" }, /no private key/],
  ] as const
) {
  test(`resolveAgentOptions() refuses ${name}`, () => {
    withFiles(files as unknown as Record<string, string>, (path) => {
      const given = Object.entries(flags).map(([key, file]) => [key, path(file)]);
      const all = { httpAddr: "https://a:1", ...Object.fromEntries(given) };
      assert.throws(() => resolveAgentOptions(all, {}), refused(pattern));
    });
  });
}

function refused(pattern: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError);
    assert.equal(error.code, "config_invalid");
    assert.match(error.message, pattern);
    assert.doesNotMatch(error.message, /PRIVATE KEY-/);
    return true;
  };
}
