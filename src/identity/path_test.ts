import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { parseCertificate } from "./certificate.ts";
import { findPath, type PathOptions } from "./path.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const CA = createAuthority({ nowMs: NOW_MS });
const HINT = Uint8Array.of(1, 2, 3);

function find(
  { leaf, presented, roots }: Readonly<
    Record<"presented" | "roots", readonly Uint8Array[]> & Record<"leaf", Uint8Array>
  >,
  pathFault?: PathOptions["pathFault"],
) {
  return findPath({
    leaf: parseCertificate(leaf),
    presented: presented.map(parseCertificate),
    roots: roots.map(parseCertificate),
    nowMs: NOW_MS,
    usage: "client",
    ...pathFault && { pathFault },
  });
}

test("findPath() does not use a key twice that certifies itself", () => {
  const middle = CA.intermediate({ overrides: { ca: {} } });
  const leaf = middle.issueLeaf({ service: "web" });
  const lengths: number[] = [];
  const presented = [middle.crossSign(middle), ...leaf.chainDer];
  const path = find({ leaf: leaf.certDer, presented, roots: [CA.rootDer] }, ({ length }) => {
    lengths.push(length);
    return "not that one";
  });
  assert.deepEqual(path, { kind: "none", reason: "not that one" });
  assert.deepEqual(lengths, [3]);
});

test("findPath() does not check a signature if the names do not fit", () => {
  const roots = ["a", "b", "c"].map((name) =>
    createAuthority({ nowMs: NOW_MS, name, overrides: { subjectKeyId: HINT } }).rootDer
  );
  const stranger = createAuthority({ nowMs: NOW_MS, name: "stranger" });
  const issue = (service: string) =>
    stranger.issueLeaf({ service, overrides: { authorityKeyId: HINT } }).certDer;
  const presented = Array.from({ length: 10 }, (_, index) => issue(`s${index}`));
  const path = find({ leaf: issue("web"), presented, roots });
  assert.ok(path.kind === "none");
  assert.match(path.reason, /^no root in force/);
});
