import { strict as assert } from "node:assert";
import { test } from "node:test";
import { DATAPLANE_FLAGS } from "../model/flag_names.ts";
import { resolveServersOptions } from "./options.ts";

const GIVEN = { servers: "10.0.0.1", node: "vm-1", tlsDisabled: true };

for (
  const [flags, env, named] of [
    [{ token: "a\nb" }, {}, /-token\b/],
    [{}, { CONSUL_HTTP_TOKEN: "a\nb" }, /CONSUL_HTTP_TOKEN/],
    [{ tokenFile: "/nonexistent" }, {}, /-token-file/],
    [{}, { CONSUL_HTTP_TOKEN_FILE: "/nonexistent" }, /CONSUL_HTTP_TOKEN_FILE/],
  ] as const
) {
  test(`resolveServersOptions() refuses an unusable token, naming ${named.source}`, () => {
    assert.throws(() => resolveServersOptions({ ...GIVEN, ...flags }, env), {
      code: "config_invalid",
      message: named,
    });
  });
}

test("resolveServersOptions() prefers a given token to a token file", () => {
  const env = { CONSUL_HTTP_TOKEN_FILE: "/nonexistent" };
  const { token, tokenFile } = resolveServersOptions({ ...GIVEN, token: "t" }, env);
  assert.deepEqual([token, tokenFile], ["t", ""]);
});

test("resolveServersOptions() accepts every name that a node may have", () => {
  const nodeOf = (node: string) =>
    resolveServersOptions({ servers: "10.0.0.1", node, tlsDisabled: true }, {}).node;
  for (const node of ["vm-1", "arn:aws:ecs:us-east-1:1:cluster/c", "...", "a b"]) {
    assert.equal(nodeOf(node), node);
  }
  for (const node of [".", ".."]) assert.throws(() => nodeOf(node), /want a node's name/);
});

for (
  const [flags, message] of [
    [{ servers: "10.0.0.1:8502" }, /^Cannot use -addresses "10.0.0.1:8502":/],
    [{ clientCert: "/c" }, /^Cannot use -tls-cert \(DP_TLS_CERT\) without -tls-key \(DP_TLS_KEY\)/],
    [{ caPath: "/nonexistent" }, /^Cannot use -ca-certs \(DP_CA_CERTS\) "\/nonexistent":/],
    [{ tlsDisabled: true, token: "a\nb" }, /^Cannot use -static-token:/],
    [{ tlsDisabled: true, node: ".." }, /^Cannot use -proxy-node-name "..":/],
  ] as const
) {
  test(`resolveServersOptions() names the flags of dataplane: ${message.source}`, () => {
    const given = { ...GIVEN, tlsDisabled: false, names: DATAPLANE_FLAGS, ...flags };
    assert.throws(() => resolveServersOptions(given, {}), { code: "config_invalid", message });
  });
}
