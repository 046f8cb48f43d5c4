import assert from "node:assert/strict";
import test from "node:test";
import { ProxyError } from "../../base/mod.ts";
import {
  encodeBundles,
  encodeSvids,
  type SvidFields,
} from "../../../test/kit/secrets/workload_server.ts";
import { decodeBundles, decodeSvids, MESSAGE_LIMIT_BYTES } from "./workload_messages.ts";

const BYTES = new Uint8Array([1, 2, 3]);
const SVID: SvidFields = { spiffeId: "spiffe://a/b", chain: BYTES, key: BYTES, bundle: BYTES };
const NONE = new Uint8Array();

function refused(why: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError && error.code === "credentials_invalid", `${error}`);
    assert.match(error.message, why);
    return true;
  };
}

test("decodeSvids() reads every field", () => {
  const message = decodeSvids(
    encodeSvids({
      svids: [{ ...SVID, hint: "inner" }, SVID],
      federated: { "spiffe://Other.Test": BYTES },
      crls: [BYTES, BYTES],
    }),
  );
  assert.deepEqual(message.svids.map(({ hint, spiffeId }) => [spiffeId, hint]), [
    ["spiffe://a/b", "inner"],
    ["spiffe://a/b", ""],
  ]);
  assert.deepEqual(message.svids.map(({ key }) => [...key]), [[1, 2, 3], [1, 2, 3]]);
  assert.deepEqual([...message.federated.keys()], ["other.test"]);
  assert.equal(message.crls.length, 2);
});

for (
  const [name, fields, why] of [
    ["no SVID", { svids: [] }, /it has no SVID/],
    ["no id", { svids: [{ ...SVID, spiffeId: "" }] }, /no SPIFFE id/],
    ["no chain", { svids: [{ ...SVID, chain: NONE }] }, /no certificate/],
    ["no key", { svids: [{ ...SVID, key: NONE }] }, /no key/],
    ["no bundle", { svids: [{ ...SVID, bundle: NONE }] }, /no bundle/],
    ["an SVID without fields after a good one", {
      svids: [SVID, { ...SVID, bundle: NONE }],
    }, /no bundle/],
    ["an empty list", { svids: [SVID], crls: [NONE] }, /revocation list is empty/],
    ["too many lists", { svids: [SVID], crls: Array(101).fill(BYTES) }, /more than 100/],
    ["too many SVIDs", { svids: Array(1_001).fill(SVID) }, /more than 1000/],
    ["a bundle without trust domain", { svids: [SVID], federated: { "": BYTES } }, /not the id/],
    ["a bundle of a workload", {
      svids: [SVID],
      federated: { "spiffe://a/b": BYTES },
    }, /"spiffe:\/\/a\/b" is not the id of a trust domain/],
    ["a bundle under a bare name", { svids: [SVID], federated: { "a.b": BYTES } }, /not the id/],
    ["an empty bundle", { svids: [SVID], federated: { "spiffe://a": NONE } }, /of a is empty/],
    ["a domain in two spellings", {
      svids: [SVID],
      federated: { "spiffe://a": BYTES, "spiffe://A": BYTES },
    }, /two bundles of a/],
  ] as const
) {
  test(`decodeSvids() refuses ${name}`, () => {
    assert.throws(() => decodeSvids(encodeSvids(fields)), refused(why));
  });
}

for (
  const [name, bytes, why] of [
    ["text", new TextEncoder().encode("HTTP/1.1 400 Bad Request"), /no such message|no SVID/],
    ["a length beyond the end", new Uint8Array([0x0a, 0xff, 0x01]), /no such message/],
    ["groups within groups", new Uint8Array(100_000).fill(0x0b), /no such message/],
    ["nothing", NONE, /no SVID/],
    ["too much", new Uint8Array(MESSAGE_LIMIT_BYTES + 1), /more than 4194304 bytes/],
  ] as const
) {
  test(`decodeSvids() refuses ${name}`, () => {
    assert.throws(() => decodeSvids(bytes), refused(why));
  });
}

test("decodeBundles() reads bundles and refuses none at all", () => {
  const read = (fields: Parameters<typeof encodeBundles>[0]) =>
    decodeBundles(encodeBundles(fields));
  const { bundles, crls } = read({ bundles: { "spiffe://a": BYTES }, crls: [BYTES] });
  assert.deepEqual([...bundles.keys()], ["a"]);
  assert.equal(crls.length, 1);
  assert.throws(() => read({ bundles: {} }), refused(/no bundle/));
  assert.throws(() => read({ bundles: { x: BYTES } }), refused(/not the id/));
  assert.throws(() => read({ bundles: { "spiffe://__proto__x/": NONE } }), refused(/is empty/));
});

test("decodeSvids() shows no key in its errors", () => {
  const key = new TextEncoder().encode("secret key");
  const bytes = encodeSvids({ svids: [{ ...SVID, key, bundle: NONE }] });
  assert.throws(() => decodeSvids(bytes), (error) => !/secret key/.test(String(error)));
});
