/**
 * The data plane of worker threads inside a test, with ways to kill and to stop one of them.
 *
 * @module
 */

import assert from "node:assert/strict";
import {
  type Clock,
  createLog,
  type LogRecord,
  type NewEvent,
  Stats,
  systemClock,
} from "../../../src/base/mod.ts";
import { LogRings } from "../../../src/app/log/log_rings.ts";
import type { DataPlane } from "../../../src/app/workers/plane.ts";
import { createWorkerPlane } from "../../../src/app/workers/data_worker.ts";
import type { ConnectionView } from "../../../src/proxy/mod.ts";
import type { HttpRules, PluginUse, Snapshot } from "../../../src/snapshot/mod.ts";
import { createAuthority } from "../certs/certificates.ts";
import { EchoClient, type Place, startEcho } from "../wire/echo.ts";
import { freePorts, loopbackHost } from "../process/ports.ts";
import { eventually } from "../process/process.ts";
import { intention, snapshotOf, targetOf, withInbound } from "./snapshots.ts";

/** The bytes that a connection of the rig has exchanged. */
export const HELLO = new TextEncoder().encode("hello");

/** Two workers in threads of the test, and a test's actions on them. */
interface WorkerRig extends AsyncDisposable {
  readonly plane: DataPlane;
  readonly snapshot: Snapshot;
  readonly upstream: Place;
  readonly lines: readonly LogRecord[];
  readonly events: readonly NewEvent[];
  connections(): Promise<readonly ConnectionView[]>;
  /** Opens connections until each worker has one with both legs; by worker. */
  oneEach(): Promise<readonly EchoClient[]>;
  kill(worker: number): void;
  /**
   * Stops the first worker's thread; resolves when it has stopped, with the function that lets it go on.
   */
  stick(): Promise<() => void>;
}

/** A service that calls itself through two workers; its application is an echo, or `app`. */
export async function startWorkerRig(
  options: {
    readonly maxConnections?: number;
    readonly clock?: Clock;
    readonly workers?: number;
    readonly app?: Place;
    /** The HTTP rules of both its listeners. */
    readonly http?: HttpRules;
    /** The plugins of its upstream. */
    readonly plugins?: readonly PluginUse[];
  } = {},
): Promise<WorkerRig> {
  const host = loopbackHost();
  await using own = new AsyncDisposableStack();
  const app = options.app ?? own.use(await startEcho({ host }));
  const withHttp = options.http ? { http: options.http } : {};
  const [inbound = 0, outbound = 0] = await freePorts(host, 2);
  const lines: LogRecord[] = [];
  const events: NewEvent[] = [];
  const workers: Worker[] = [];
  const plane = createWorkerPlane({
    clock: options.clock ?? systemClock,
    log: createLog({
      clock: systemClock,
      holder: { level: "debug" },
      write: (record) => lines.push(record),
    }),
    report: (event) => void events.push(event),
    workers: options.workers ?? 2,
    logJson: false,
    logLevel: "error",
    stats: new Stats(),
    logMemory: LogRings.create(3).memory,
    accessMemory: LogRings.create(2).memory,
    onLines: () => {},
    maxConnections: options.maxConnections ?? 1_000,
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    sendTelemetry: () => Promise.resolve(),
    remoteAuthorize: () => Promise.resolve({ allowed: false, reason: "no intentions" }),
    fetchCertificate: () => Promise.resolve(false),
    createWorker: () => {
      const url = new URL("./failing_worker.ts", import.meta.url);
      const worker = new Worker(url, { type: "module" });
      workers.push(worker);
      return worker;
    },
  });
  const ca = createAuthority();
  const base = snapshotOf({
    ca,
    service: "web",
    local: { kind: "tcp", host: app.host, port: app.port },
    intentions: [intention("web", "allow")],
  });
  const snapshot = snapshotOf({
    ca,
    service: "web",
    upstreams: [{
      name: "web",
      bind: { kind: "tcp", host, port: outbound },
      plugins: options.plugins ?? [],
      ...withHttp,
    }],
    targets: [targetOf({ name: "web", uris: [base.credentials.uri], ports: [] })],
    overrides: {
      policy: base.policy,
      inbound:
        withInbound(base, { bind: { kind: "tcp", host, port: inbound }, ...withHttp }).inbound,
    },
  });
  const endpoint = { id: "web-1", host, port: inbound, weight: 1 };
  const [target] = Object.values(snapshot.targets);
  assert.ok(target);
  const whole = { ...snapshot, targets: { [target.key]: { ...target, endpoints: [endpoint] } } };
  await plane.rollout.apply(whole);
  assert.equal(await plane.retryFailed(), true);
  const channel = new BroadcastChannel("postern-failing-worker");
  const clients: EchoClient[] = [];
  const upstream = { host, port: outbound };
  const stack = own.move();
  const connections = async () => {
    const views = await plane.views({ connections: true });
    return views.flatMap((view) => view.connections);
  };
  return {
    plane,
    snapshot: whole,
    upstream,
    lines,
    events,
    connections,
    async oneEach() {
      const found: EchoClient[] = [];
      // The kernel deals them out by a hash of the ports: each leg by itself. One turn in four gives
      // the needed worker, so that so many fail once in 10^15 times.
      for (let turn = 0; turn < 128 && !(found[0] && found[1]); turn++) {
        const before = await connections();
        const client = await EchoClient.open(upstream);
        clients.push(client);
        await client.exchange(HELLO);
        const legs = (await connections())
          .filter(({ id }) => !before.some((known) => known.id === id))
          .map(({ id }) => Number(id.split("-")[0]));
        const [worker = 0] = legs;
        if (legs.length === 2 && legs[1] === worker && !found[worker]) {
          found[worker] = client;
          continue;
        }
        client.destroy();
        await eventually("it is gone", async () => {
          return (await connections()).length === before.length;
        });
      }
      assert.ok(found[0] && found[1], "no two of 128 connections stayed within a worker each");
      return found;
    },
    kill: (worker) => channel.postMessage(worker),
    async stick() {
      const words = new Int32Array(new SharedArrayBuffer(8));
      workers[0]?.postMessage({ kind: "stick", words });
      await eventually("it stands", () => Atomics.load(words, 0) === 1);
      return () => {
        Atomics.store(words, 1, 1);
        Atomics.notify(words, 1);
      };
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.destroy();
      channel.close();
      plane.close();
      await stack.disposeAsync();
    },
  };
}
