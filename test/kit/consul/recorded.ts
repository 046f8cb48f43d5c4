/**
 * Certificates that a real Consul issued (`test/fixtures/consul`): which leaf goes with which roots, and
 * a time at which all of them are valid.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import { type Certificate, parseRoots } from "../../../src/identity/mod.ts";
import { parsePem } from "../../../src/wire/mod.ts";

/** After the last recording, before the short-lived leaf of the RSA rotation expires. */
export const RECORDED_MS: number = Date.parse("2026-11-21T03:40:00Z");

interface RecordedLeaf {
  readonly certPem: string;
  readonly keyPem: string;
  readonly uri: string;
  readonly serial: string;
  readonly leaf: Uint8Array;
  readonly presented: readonly Uint8Array[];
}

interface RecordedRoots {
  readonly trustDomain: string;
  readonly ids: readonly string[];
  readonly pems: readonly string[];
  readonly roots: readonly Certificate[];
}

/** `leaf`, `leaf_rotated`, `leaf_secondary_rotated`, ... */
export function recordedLeaf(name: string): RecordedLeaf {
  const reply = read(name) as {
    readonly CertPEM: string;
    readonly PrivateKeyPEM: string;
    readonly ServiceURI: string;
    readonly SerialNumber: string;
  };
  const [leaf, ...presented] = parsePem(reply.CertPEM, { what: name }).map((block) => block.der);
  if (!leaf) throw new Error(`${name} holds no certificate`);
  const { CertPEM: certPem, PrivateKeyPEM: keyPem, ServiceURI: uri, SerialNumber: serial } = reply;
  return { certPem, keyPem, uri, serial, leaf, presented };
}

/** `roots`, `roots_rotated`, ... */
export function recordedRoots(name: string): RecordedRoots {
  const reply = read(name) as {
    readonly TrustDomain: string;
    readonly Roots: readonly { readonly ID: string; readonly RootCert: string }[];
  };
  const pems = reply.Roots.map((root) => root.RootCert);
  const ids = reply.Roots.map((root) => root.ID);
  return { trustDomain: reply.TrustDomain, ids, pems, roots: parseRoots(pems) };
}

function read(name: string): unknown {
  const url = new URL(`../../fixtures/consul/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8"));
}
