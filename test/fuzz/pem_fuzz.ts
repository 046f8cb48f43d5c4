/**
 * PEM: only `credentials_invalid` comes out, and blocks that are read are written and read alike.
 *
 * @module
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { formatPem, parsePem } from "../../src/wire/mod.ts";
import { recordedLeaf } from "../kit/consul/recorded.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

const encoder = new TextEncoder();
const { certPem, keyPem } = recordedLeaf("leaf_secondary_rotated");
const rootsPem = readFileSync(new URL("../fixtures/consul/roots_pem.txt", import.meta.url), "utf8");

export const target: FuzzTarget = {
  name: "pem",
  corpus: [certPem, keyPem, rootsPem, `text\n${keyPem}text\n${certPem}`].map((text) =>
    encoder.encode(text)
  ),
  dictionary: ["-----BEGIN ", "-----END ", "-----", "CERTIFICATE", "\n", "\r\n", "=", "=="],
  run(input) {
    const text = new TextDecoder().decode(input);
    const blocks = refuses(["credentials_invalid"], () => parsePem(text, { what: "fuzz" }));
    if (!blocks) return;
    const written = blocks.map(({ label, der }) => formatPem(label, der)).join("");
    assert.deepEqual(parsePem(written, { what: "again" }), blocks);
  },
};
