/** A data path without sockets on a fake clock, and the checks of a test. @module */

import assert from "node:assert/strict";
import { createLog, type LogFields, type LogRecord } from "../../../src/base/mod.ts";
import { PROCESS_COLUMN } from "../../../src/proxy/core/admission.ts";
import { type DataPathOptions, SharedCounts } from "../../../src/proxy/mod.ts";
import type { Snapshot } from "../../../src/snapshot/mod.ts";
import { FakeClock, settle } from "../clock/clock.ts";
import { startDataPath, type TestPath } from "./data_path.ts";
import { MemoryEngine } from "./memory_engine.ts";

/** Beyond every deadline of a connection. */
const LATER_MS = 86_400_000;

/** Checks, when it is disposed of, that nothing is left: places, leases, dials, listeners, timers. */
export interface MemoryPath extends TestPath {
  readonly engine: MemoryEngine;
  readonly clock: FakeClock;
  readonly lines: readonly LogRecord[];
  /** How each connection ended so far; `completed` in order. */
  readonly endings: readonly string[];
  /** Fields of the last line about a connection. */
  readonly lastEnd: LogFields;
  /** Places of the process that are taken. */
  readonly taken: number;
}

export async function startMemoryPath(
  snapshot: Snapshot,
  options: Partial<DataPathOptions> = {},
): Promise<MemoryPath> {
  // Certificates are made for now.
  const clock = new FakeClock({ startMs: Date.now() });
  const engine = new MemoryEngine();
  const counts = SharedCounts.create(1);
  const lines: LogRecord[] = [];
  const log = createLog({
    clock,
    holder: { level: "debug" },
    write: (record) => void lines.push(record),
  });
  const started = await startDataPath(snapshot, { clock, engine, counts, log, ...options });
  const ends = () => lines.filter(({ message }) => /^connection (ended|failed)$/.test(message));
  return {
    ...started,
    // Every part of the data path has the change.
    set: (next) => started.set(next).then(settle),
    engine,
    clock,
    lines,
    get endings() {
      return ends().map(({ fields }) => String(fields.code ?? "completed"));
    },
    get lastEnd() {
      const last = ends().at(-1);
      assert.ok(last, "no connection has ended");
      return last.fields;
    },
    get taken() {
      return counts.total(PROCESS_COLUMN);
    },
    async [Symbol.asyncDispose]() {
      await started[Symbol.asyncDispose]();
      await settle();
      const { connections, endpoints, traffic } = started.path.view({ connections: true });
      assert.deepEqual(connections, [], "connections are open still");
      const open = traffic.rows.filter(({ open }) => open !== 0);
      assert.deepEqual(open, [], "the traffic table has open requests still");
      assert.equal(counts.total(PROCESS_COLUMN), 0, "places are taken still");
      const leased = endpoints.filter(({ active }) => active !== 0);
      assert.deepEqual(leased, [], "endpoints are leased still");
      assert.equal(engine.listening, 0, "listeners are bound still");
      assert.deepEqual(engine.dials.filter(({ settled }) => !settled), [], "dials go on still");
      // Later timers do nothing: no event comes twice, and no timer begins anew.
      const before = ends().length;
      await clock.advance(LATER_MS);
      assert.equal(ends().length, before, "connections ended twice");
      assert.equal(clock.pending, 0, "timers are set still");
    },
  };
}
