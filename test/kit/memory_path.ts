/**
 * A data path without sockets on a clock that stands still, and what a test asks of it.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createLog, type Fields, type LogRecord } from "../../src/base/mod.ts";
import { PROCESS_COLUMN } from "../../src/proxy/admission.ts";
import { type DataPathOptions, SharedCounts } from "../../src/proxy/mod.ts";
import type { Snapshot } from "../../src/snapshot/mod.ts";
import { FakeClock, settle } from "./clock.ts";
import { startDataPath, type TestPath } from "./data_path.ts";
import { MemoryEngine } from "./memory_engine.ts";

export interface MemoryPath extends TestPath {
  readonly engine: MemoryEngine;
  readonly clock: FakeClock;
  readonly lines: readonly LogRecord[];
  /** How each connection ended so far; `completed` in order. */
  readonly endings: readonly string[];
  /** Fields of the last line about a connection. */
  readonly lastEnd: Fields;
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
    // What changed has reached everybody.
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
  };
}
