/**
 * A `ConsulSource` on a scripted agent and a clock that tests move, with everything answered that a
 * first snapshot needs.
 *
 * @module
 */

import assert from "node:assert/strict";
import {
  createLog,
  type LogRecord,
  type NewEvent,
  type ProxyError,
  Stats,
} from "../../../src/base/mod.ts";
import {
  ConsulSource,
  type ConsulSourceOptions,
  type SnapshotStore,
  type StoredState,
} from "../../../src/source/mod.ts";
import type { Snapshot } from "../../../src/snapshot/mod.ts";
import { FakeClock } from "../clock/clock.ts";
import { ScriptedAgent } from "./scripted_agent_watches.ts";
import * as facts from "./snapshot_facts.ts";

export const CA = facts.authority();

/** Everything for `web` with upstream `db`. */
export function answeringAgent(): ScriptedAgent {
  return new ScriptedAgent()
    .answer("registration", facts.registration())
    .answer("leaf", facts.leafOf(CA))
    .answer("roots", facts.rootsOf(CA))
    .answer("intentions", [])
    .answer("default policy", "deny")
    .answer("mesh entry", null)
    .chain("db", facts.chain(facts.target("db")))
    .health("db", [facts.instance("db")]);
}

/** The state that a proxy keeps over restarts, without a disk. */
export class MemoryStateStore implements SnapshotStore {
  saved: StoredState | undefined;
  saves = 0;

  constructor(saved?: StoredState) {
    this.saved = saved;
  }

  load(): Promise<StoredState | undefined> {
    return Promise.resolve(this.saved);
  }

  save(state: StoredState): void {
    this.saves++;
    this.saved = state;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

export class SourceRig {
  readonly clock = new FakeClock({ startMs: facts.NOW_MS });
  readonly stats = new Stats();
  readonly lines: LogRecord[] = [];
  readonly snapshots: Snapshot[] = [];
  readonly fatal: ProxyError[] = [];
  readonly events: NewEvent[] = [];
  readonly source: ConsulSource;
  readonly agent: ScriptedAgent;
  /** Whether a snapshot comes into force or is refused. */
  takes: () => Promise<boolean> = () => Promise.resolve(true);

  constructor(agent: ScriptedAgent, options: Partial<ConsulSourceOptions> = {}) {
    this.agent = agent;
    const log = createLog({
      clock: this.clock,
      write: (line) => this.lines.push(line),
      holder: { level: "info" },
    });
    this.source = new ConsulSource({
      agent,
      createSecretStore: () => assert.fail("no secrets are configured"),
      registration: { kind: "agent", proxyId: "web-1-sidecar-proxy" },
      clock: this.clock,
      log,
      stats: this.stats,
      report: (event) => void this.events.push(event),
      ...options,
    });
  }

  /** Starts, and lets what needs no time happen. */
  async start(): Promise<this> {
    this.source.start((snapshot) => {
      this.snapshots.push(snapshot);
      return this.takes().then((isTaken) => isTaken ? snapshot : undefined);
    }, (error) => {
      this.fatal.push(error);
    });
    await this.settle();
    return this;
  }

  /** Lets pending changes be published: far less than any timeout. */
  settle(): Promise<void> {
    return this.clock.advance(20);
  }

  get last(): Snapshot {
    const snapshot = this.snapshots.at(-1);
    if (!snapshot) throw new Error("no snapshot was published");
    return snapshot;
  }

  gauge(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    return this.stats.samples().find((sample) =>
      sample.name === name && JSON.stringify(sample.labels) === JSON.stringify(labels)
    )?.value;
  }

  warnings(): readonly string[] {
    return this.lines.filter(({ level }) => level === "warn").map(({ message }) => message);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.source.close();
  }
}
