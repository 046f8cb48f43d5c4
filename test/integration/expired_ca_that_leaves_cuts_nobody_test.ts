/**
 * A CA that leaves the rules takes the connections with it that it vouched for, unless it had expired by
 * then: that one was not taken away, only tidied up (SPIRE prunes a CA a day after its end).
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Clock, systemClock } from "../../src/base/mod.ts";
import { NO_RULES, type Validation } from "../../src/identity/mod.ts";
import type { Snapshot } from "../../src/snapshot/mod.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { caValidation, inboundBy, upstreamsBy, withOwn } from "../kit/secrets/own_credentials.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { deadline } from "../kit/process/process.ts";
import type { MeshSnapshot } from "../kit/engine/snapshots.ts";

/** Longer than a root lives. */
const AGE_MS = 20 * 365 * 24 * 3_600_000;
const NEXT = createAuthority();

/** A clock that a test can advance at once: wall time, monotonic time or both. */
function agingClock(): Clock & { wallMs: number; monotonicMs: number } {
  const clock = {
    wallMs: 0,
    monotonicMs: 0,
    now: () => systemClock.now() + clock.wallMs,
    monotonic: () => systemClock.monotonic() + clock.monotonicMs,
    after: (delayMs: number, fn: () => void) => systemClock.after(delayMs, fn),
  };
  return clock;
}

let version = 2_000_000;

interface Roots {
  readonly rootPem: string;
}

/** The same snapshot with other roots, of each kind of rules. */
const KINDS: Readonly<Record<string, (base: MeshSnapshot, roots: readonly Roots[]) => Snapshot>> = {
  "the mesh": (base, roots) => {
    const rootPems = roots.map(({ rootPem }) => rootPem);
    version++;
    return { ...base, version, credentials: { ...base.credentials, version, rootPems } };
  },
  "a list of CAs": (base, roots) => own(base, caValidation(roots)),
  "SPIFFE bundles": (base, roots) => {
    const [trustDomain = ""] = base.credentials.trustDomains;
    const bundles = { [trustDomain]: roots.map(({ rootPem }) => rootPem) };
    return own(base, { kind: "spiffe", bundles, rules: NO_RULES });
  },
};

function own(base: MeshSnapshot, validation: Validation): Snapshot {
  const { trustDomains } = base.credentials;
  const snapshot = withOwn(base, "own", { validation, own: { trustDomains } });
  return snapshot.inbound["inbound"] ? inboundBy(snapshot, "own") : upstreamsBy(snapshot, "own");
}

for (const [kind, withRoots] of Object.entries(KINDS)) {
  for (const side of ["db", "web"] as const) {
    const peer = side === "db" ? "its caller" : "its server";
    for (
      const [name, wallMs, monotonicMs, stays] of [
        ["that had expired", AGE_MS, AGE_MS, true],
        ["that is valid", 0, 0, false],
        ["that only a clock set forward calls expired", AGE_MS, 0, false],
      ] as const
    ) {
      const outcome = stays ? "keeps" : "ends";
      test(`${side} ${outcome} the connection with ${peer} when ${kind} lose a CA ${name}`, async () => {
        await using echo = await startEcho();
        const clock = agingClock();
        await using pair = await startPathPair({ localPort: echo.port, [side]: { clock } });
        const base = side === "db" ? pair.dbSnapshot : pair.webSnapshot;
        await pair[side].set(withRoots(base, [pair.ca, NEXT]));
        await using client = await openClient(pair.port);
        client.send("hello");
        await client.read(5);

        Object.assign(clock, { wallMs, monotonicMs });
        // Twice: connections that were kept are kept when the rules change once more.
        for (const roots of [[NEXT], [NEXT, createAuthority()]]) {
          await pair[side].set(withRoots(base, roots));
          if (!stays) continue;
          client.send("still");
          assert.equal(String(await client.read(5)), "still");
        }
        if (!stays) assert.ok(await deadline(client.gone, 20_000), "it is open still");
      });
    }
  }
}
