/** `-workers 0`: the data path in the main thread. Other proxies do not load the data path there. @module */

import { type Log, systemRandom } from "../../base/mod.ts";
import { type Engine, socketsFor } from "../../net/mod.ts";
import { LogOutbox } from "../telemetry/log_outbox.ts";
import { spanOutbox } from "../telemetry/outbox.ts";
import type { AccessLines } from "../log/log_rings.ts";
import { type Columns, DataPath, type PublishEffect, SharedCounts } from "../../proxy/mod.ts";
import { diffSnapshots, type Snapshot } from "../../snapshot/mod.ts";
import { SharedCells } from "../../plugin/mod.ts";
import { WorkerConditions } from "../../events/mod.ts";
import { FailureContainer } from "./contain_failures.ts";
import { type DataPlane, OpenTaps, type PlaneOptions } from "./plane.ts";
import { spawnProcess } from "./spawn_process.ts";
import { Rollout, type RolloutMember } from "./rollout.ts";

export function createLocalPlane(
  engine: Engine,
  options: PlaneOptions & { readonly accessLines?: AccessLines },
): DataPlane {
  const { accessLines } = options;
  const counts = SharedCounts.create(1);
  const spans = spanOutbox(options.clock, options.sendTelemetry);
  const logs = new LogOutbox(options.clock, options.sendTelemetry);
  const conditions = options.report &&
    new WorkerConditions({ ...options, report: options.report, workers: 1 });
  const cells = new SharedCells({ before: options.cells, log: options.log });
  const path = new DataPath({
    ...options,
    ...(conditions && {
      takeConditions: (changes) => Promise.resolve(conditions.take(0, changes)),
    }),
    takeSpan: spans.take,
    takeAccessRecord: logs.takeAccess,
    takeTapped: (id, lines, dropped) => Promise.resolve(taps.take(id, lines, dropped)),
    engine,
    random: systemRandom,
    worker: 0,
    workers: 1,
    counts,
    inherited: socketsFor(options.inherited, options.kept),
    lendCells: async (...asked) => await cells.lend(...asked),
    ...(accessLines && { takeLine: accessLines.take }),
  });
  const member = new LocalMember(path, logs, options);
  const taps = new OpenTaps((open) => path.setTaps(open));
  return {
    rollout: new Rollout({ ...options, counts, members: [member] }),
    retryFailed: () => path.retryFailed(),
    listeners: () => Promise.resolve([path.listeners()]),
    views: (wanted) => Promise.resolve([path.view(wanted)]),
    used: () => Promise.resolve([path.used()]),
    async explain(question) {
      const explained = await path.explain(question);
      return explained ? [explained] : [];
    },
    tap: (filter, take) => taps.add(filter, take),
    // The caller is in the same thread.
    stuck: () => Promise.resolve([]),
    setLogLevel: () => {},
    drainInbound: () => path.drainInbound(),
    spawn: spawnProcess,
    accept: () => Promise.resolve(path.accept()),
    cells: () => cells.surviving,
    resume({ ejections, cells: before }) {
      cells.goOn(before);
      return Promise.resolve(path.resume(ejections));
    },
    sockets: () => Promise.resolve(path.sockets()),
    async drain(timeoutMs, how) {
      await path.drain(timeoutMs, how);
      accessLines?.flush();
      spans.flush();
      logs.flush();
    },
    close: () => path.close(),
  };
}

class LocalMember implements RolloutMember {
  published: Snapshot | undefined;
  readonly #path: DataPath;
  readonly #logs: LogOutbox;
  readonly #log: Log;
  readonly #container: FailureContainer;

  constructor(path: DataPath, logs: LogOutbox, { log, clock }: PlaneOptions) {
    this.#path = path;
    this.#logs = logs;
    this.#log = log;
    const nowMs = () => clock.monotonic();
    const onFailure = (plugin: string, reason: string) => path.failedLoosely(plugin, reason);
    this.#container = new FailureContainer({ log, stats: path.stats, nowMs, onFailure });
  }

  async prepare(snapshot: Snapshot): Promise<boolean> {
    const update = diffSnapshots(this.published, snapshot);
    this.#container.expect(update);
    await this.#path.prepare(update);
    return true;
  }

  publish(snapshot: Snapshot, columns: Columns): Promise<readonly PublishEffect[]> {
    this.published = snapshot;
    this.#logs.set(snapshot.telemetry);
    return this.#path.publish(columns);
  }

  abandon(): void {
    this.#path.abandon();
  }

  giveUp(reason: string): void {
    this.#log.error("snapshot not applied", { reason });
  }
}
