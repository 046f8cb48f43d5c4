import { strict as assert } from "node:assert";
import { test } from "node:test";
import { resolveServersOptions } from "./options.ts";

test("resolveServersOptions() takes whatever a node may be called", () => {
  const nodeOf = (node: string) =>
    resolveServersOptions({ servers: "10.0.0.1", node, tlsDisabled: true }, {}).node;
  for (const node of ["vm-1", "arn:aws:ecs:us-east-1:1:cluster/c", "...", "a b"]) {
    assert.equal(nodeOf(node), node);
  }
  for (const node of [".", ".."]) assert.throws(() => nodeOf(node), /want a node's name/);
});
