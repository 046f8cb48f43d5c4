/**
 * Answers of Consul's servers by gRPC: values are bounded, have one line where they are names, and IP
 * addresses only; a refusal's words are fit for a log.
 *
 * @module
 */

import assert from "node:assert/strict";
import { canonicalIpText, hasUnseen } from "../../src/base/mod.ts";
import { SERVERS_PROTOBUF } from "../../src/consul/servers/methods.ts";
import {
  GET_FEATURES,
  SERVER_LIMIT,
  SIGN,
  WATCH_ROOTS,
  WATCH_SERVERS,
} from "../../src/consul/servers/methods.ts";
import type { Method } from "../../src/consul/servers/types.ts";
import type { FuzzTarget } from "./fuzz.ts";

const METHODS = [GET_FEATURES, WATCH_ROOTS, SIGN];
const PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/** `undefined`: refused. */
function read<T>({ decode }: Method<never, T>, input: Uint8Array): T | undefined {
  try {
    return decode(input);
  } catch (error) {
    assert.ok(error instanceof Error);
    assert.ok(error.message.length < 300 && !hasUnseen(error.message), error.message);
    return undefined;
  }
}

function assertTexts(value: unknown): void {
  if (typeof value === "string") assert.ok(!hasUnseen(value) && value.length <= 64 * 1024);
  else if (value && typeof value === "object") Object.values(value).forEach(assertTexts);
}

export const target: FuzzTarget = {
  name: "servers_messages",
  corpus: [
    SERVERS_PROTOBUF.encode("SupportedFeatures", {
      supported_dataplane_features: [{ feature_name: "WATCH_SERVERS", supported: true }],
    }),
    SERVERS_PROTOBUF.encode("ServerList", {
      servers: [{ id: "a", address: "10.0.0.1", version: "1.22.7" }, { address: "2001:db8::1" }],
    }),
    SERVERS_PROTOBUF.encode("RootList", {
      active_root_id: "41:4e",
      trust_domain: "11111111-2222-3333-4444-555555555555.consul",
      roots: [{ id: "41:4e", name: "CA", root_cert: PEM, active: true }],
    }),
    SERVERS_PROTOBUF.encode("Signed", { cert_pem: PEM + PEM }),
  ],
  dictionary: ["10.0.0.1", "::1", "\x0a\x00", "\x1b[2J", "\r\n", "\u2028", "__proto__"],
  run(input) {
    for (const method of METHODS) assertTexts(read<unknown>(method, input));
    const hosts = read(WATCH_SERVERS, input);
    assert.ok((hosts?.length ?? 0) <= SERVER_LIMIT);
    for (const host of hosts ?? []) assert.equal(canonicalIpText(host), host);
  },
};
