import { strict as assert } from "node:assert";
import { test } from "node:test";
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
  test(`resolveServersOptions() refuses a token that no server takes, naming ${named.source}`, () => {
    assert.throws(() => resolveServersOptions({ ...GIVEN, ...flags }, env), {
      code: "config_invalid",
      message: named,
    });
  });
}

test("resolveServersOptions() takes a token that is given for one that lies about in a file", () => {
  const env = { CONSUL_HTTP_TOKEN_FILE: "/nonexistent" };
  const { token, tokenFile } = resolveServersOptions({ ...GIVEN, token: "t" }, env);
  assert.deepEqual([token, tokenFile], ["t", ""]);
});

test("resolveServersOptions() takes whatever a node may be called", () => {
  const nodeOf = (node: string) =>
    resolveServersOptions({ servers: "10.0.0.1", node, tlsDisabled: true }, {}).node;
  for (const node of ["vm-1", "arn:aws:ecs:us-east-1:1:cluster/c", "...", "a b"]) {
    assert.equal(nodeOf(node), node);
  }
  for (const node of [".", ".."]) assert.throws(() => nodeOf(node), /want a node's name/);
});
