/**
 * A snapshot, and where its credentials come from, as the text of a file, and back. What is read is
 * checked as if a stranger had written it.
 *
 * @module
 */

import * as v from "valibot";
import { messageOf } from "../../base/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { StoredState } from "./stored_credentials.ts";
import {
  AccessLog,
  Chain,
  Edge,
  Exposed,
  Inbound,
  PluginCode,
  Target,
  Upstream,
} from "./stored_traffic.ts";
import {
  CertificateJson,
  CredentialFacts,
  Credentials,
  OwnCredentials,
  Policy,
  Tls,
  ValidationJson,
} from "./stored_trust.ts";
import { Version } from "./stored_values.ts";

/** Rises when a snapshot of an older version can no longer be served. */
const SCHEMA = 7;
/** Rises when the facts about credentials mean something else; states from before them have none. */
const CREDENTIALS_FORMAT = 1;

/** A part without a schema, or with one that gives something else, does not compile. */
const SNAPSHOT = {
  version: Version,
  service: v.string(),
  proxyId: v.string(),
  datacenter: v.string(),
  credentials: v.nullable(Credentials),
  certificates: v.record(v.string(), CertificateJson),
  validations: v.record(v.string(), ValidationJson),
  ownCredentials: v.record(v.string(), OwnCredentials),
  policy: Policy,
  tls: Tls,
  accessLog: v.nullable(AccessLog),
  inbound: v.record(v.string(), Inbound),
  exposed: v.record(v.string(), Exposed),
  upstreams: v.record(v.string(), Upstream),
  edges: v.record(v.string(), Edge),
  chains: v.record(v.string(), Chain),
  targets: v.record(v.string(), Target),
  pluginCode: v.record(v.string(), PluginCode),
} satisfies { readonly [Part in keyof Snapshot]: v.GenericSchema<unknown, Snapshot[Part]> };

const Stored = v.strictObject({
  schema: v.literal(SCHEMA),
  savedAtMs: v.number(),
  snapshot: v.strictObject(SNAPSHOT),
  credentials: v.exactOptional(v.strictObject({
    format: v.literal(CREDENTIALS_FORMAT),
    salt: v.pipe(v.string(), v.minLength(1)),
    registration: CredentialFacts,
  })),
});

/** What every version wrote. */
const Written = v.object({ schema: v.exactOptional(v.number()) });

export type ParsedStored =
  | { readonly kind: "valid"; readonly state: StoredState; readonly savedAtMs: number }
  | { readonly kind: "invalid"; readonly reason: string };

export function formatStored({ snapshot, credentials }: StoredState, nowMs: number): string {
  return JSON.stringify({
    schema: SCHEMA,
    savedAtMs: nowMs,
    snapshot,
    ...(credentials && { credentials: { format: CREDENTIALS_FORMAT, ...credentials } }),
  });
}

/** Never throws. The reason quotes nothing of the text: it holds a key. */
export function parseStored(text: string): ParsedStored {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The engine's message may quote the text.
    return { kind: "invalid", reason: "it is not JSON" };
  }
  const written = v.safeParse(Written, value);
  if (!written.success || written.output.schema !== SCHEMA) {
    const { schema = "unknown" } = written.success ? written.output : {};
    const reason =
      `another version wrote it: its format is ${schema}, and this one reads ${SCHEMA}`;
    return { kind: "invalid", reason };
  }
  try {
    const result = v.safeParse(Stored, value, { abortEarly: true });
    if (!result.success) {
      const at = v.getDotPath(result.issues[0]) ?? "the whole";
      return { kind: "invalid", reason: `${at} is not as this version writes it` };
    }
    const { snapshot, savedAtMs, credentials } = result.output;
    if (!credentials) return { kind: "valid", state: { snapshot }, savedAtMs };
    const { salt, registration } = credentials;
    return { kind: "valid", state: { snapshot, credentials: { salt, registration } }, savedAtMs };
  } catch (error) {
    return { kind: "invalid", reason: messageOf(error) };
  }
}
