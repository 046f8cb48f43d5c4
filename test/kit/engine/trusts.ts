/**
 * A `Trust` on an engine that only records its arguments, and a callee that answers its questions.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Authority, IssuedLeaf } from "../certs/authority.ts";
import type { PeerRules, SanMatcher, Validation } from "../../../src/identity/mod.ts";
import type { ServerTls } from "../../../src/net/mod.ts";
import { TrustContext, type TrustContextOptions } from "../../../src/proxy/trust/trust_context.ts";
import { trustMaterial } from "../../../src/proxy/trust/trust_material.ts";
import type { Snapshot } from "../../../src/snapshot/mod.ts";
import type { ClientHello } from "../../../src/wire/mod.ts";
import { createAuthority } from "../certs/certificates.ts";
import { FakeTlsEngine, type MadeServer } from "./fake_tls_engine.ts";
import { caValidation, type OwnOptions, withOwn } from "../secrets/own_credentials.ts";
import { type MeshSnapshot, snapshotOf } from "./snapshots.ts";

export const CA: Authority = createAuthority();
export const OTHER: Authority = createAuthority({ trustDomain: "other.test" });
export const NOW_MS: number = Date.now();
export const MESH: MeshSnapshot = snapshotOf({ ca: CA, service: "web" });
export const WEB: IssuedLeaf = CA.issueLeaf({ service: "web" });
export const STRANGER: IssuedLeaf = OTHER.issueLeaf({ service: "web" });
export const KEY = "inbound";

export interface World {
  readonly engine: FakeTlsEngine;
  readonly options: TrustContextOptions;
  readonly wants: string[];
  current: TrustContext | undefined;
  /** Answers every waiting caller. */
  answer(come: boolean): void;
}

export function world(): World {
  const engine = new FakeTlsEngine();
  const wants: string[] = [];
  const waiting: ((come: boolean) => void)[] = [];
  const made: World = {
    engine,
    wants,
    current: undefined,
    answer: (come) => waiting.splice(0).forEach((resolve) => resolve(come)),
    options: {
      engine: engine.engine,
      now: () => NOW_MS,
      want: (name) => {
        wants.push(name);
        return new Promise((resolve) => waiting.push(resolve));
      },
      current: () => made.current,
    },
  };
  return made;
}

export function trustOf(
  snapshot: Snapshot,
  { key = KEY, in: place = world(), previous }: {
    readonly key?: string | null;
    readonly in?: World;
    readonly previous?: TrustContext;
  } = {},
): TrustContext {
  const material = trustMaterial(snapshot, key);
  assert.ok(material);
  return new TrustContext(material, place.options, previous);
}

/** The trust of the mesh's listener with its own credentials. */
export function own(place: OwnOptions = {}): TrustContext {
  return trustOf(withOwn(MESH, KEY, place));
}

/** Accepts the peers whose certificates the mesh's own CA signed, within these rules. */
export function anybodyOf(rules: Partial<PeerRules> = {}): Validation {
  return caValidation([CA], rules);
}

export function dns(value: string): readonly SanMatcher[] {
  return [{ type: "dns", matcher: { kind: "exact", value, ignoreCase: false } }];
}

/** Clients may come without a certificate. */
export const OPTIONAL = { requireClientCertificate: false };

const hello = (serverName?: string): ClientHello => ({
  serverName,
  signatureAlgorithms: [0x0403],
} as unknown as ClientHello);

export type Chosen = ServerTls | undefined | Promise<ServerTls | undefined>;

/** As a client that asks for that name gets them. */
export function choose(trust: TrustContext, serverName?: string): Chosen {
  const server = trust.server("127.0.0.1:40000");
  return server.kind === "server" ? server : server.choose(hello(serverName));
}

/** The certificate that a choice shows. */
export function shownBy(server: Chosen): string | undefined {
  return (server as MadeServer | undefined)?.material.certPem;
}
