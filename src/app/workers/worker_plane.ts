/**
 * The data plane in worker threads. A worker that dies is replaced and gets the whole snapshot; the
 * others go on serving meanwhile.
 *
 * @module
 */

import { SharedCells } from "../../plugin/mod.ts";
import { SharedCounts } from "../../proxy/mod.ts";
import { DataWorker, STUCK_MS, type WorkerPlaneOptions } from "./data_worker.ts";
import type { DataPlane } from "./plane.ts";
import { Rollout } from "./rollout.ts";

/** Time limit of a worker's answer to the admin server. */
const VIEW_TIMEOUT_MS = 1_000;
/** Time limit of an answer that takes connections to endpoints. */
const EXPLAIN_TIMEOUT_MS = 3_500;
/** Connections have this long to be closed when a drain is over. */
const AFTER_DRAIN_MS = 1_000;

export function createWorkerPlane(options: WorkerPlaneOptions): DataPlane {
  const { clock, log, stats, workers: count } = options;
  const counts = SharedCounts.create(count);
  const cells = new SharedCells();
  let level = options.logLevel;
  /** A stuck worker does not delay the caller. */
  const soon = <T>(answer: Promise<T>, withinMs = VIEW_TIMEOUT_MS): Promise<T | undefined> =>
    new Promise((resolve) => {
      const late = clock.after(withinMs, () => resolve(undefined));
      answer.then((value) => {
        late.cancel();
        resolve(value);
      });
    });
  const workers = Array.from({ length: count }, (_, worker) =>
    new DataWorker({
      worker,
      counts,
      plane: options,
      lendCells: async (key, length) => await cells.lend(key, length),
      level: () => level,
      onStarted: () => rollout.look(),
    }));
  const rollout = new Rollout({ clock, log, stats, counts, members: workers });

  return {
    rollout,
    async retryFailed() {
      const bound = await Promise.all(workers.map((worker) => worker.ask("retryFailed")));
      return bound.every((all) => all === true);
    },
    async listeners() {
      const answers = await Promise.all(workers.map((worker) => soon(worker.listeners())));
      return answers.filter((answer) => answer !== undefined);
    },
    async views(wanted) {
      const views = await Promise.all(workers.map((worker) => soon(worker.ask("view", wanted))));
      return views.filter((view) => view !== undefined);
    },
    async used() {
      const all = await Promise.all(workers.map((worker) => soon(worker.ask("used"))));
      return all.filter((used) => used !== undefined);
    },
    async explain(question) {
      const all = await Promise.all(
        workers.map((worker) => soon(worker.ask("explain", question), EXPLAIN_TIMEOUT_MS)),
      );
      return all.filter((explained) => explained !== undefined);
    },
    async stuck() {
      await Promise.all(workers.map((worker) => soon(worker.beat(), worker.untilStuckMs)));
      return workers.flatMap(({ untilStuckMs }, worker) =>
        untilStuckMs > 0 ? [] : [`data worker ${worker} has not answered for ${STUCK_MS / 1_000} s`]
      );
    },
    setLogLevel(next) {
      level = next;
      for (const worker of workers) worker.tell(next);
    },
    drainInbound() {
      for (const worker of workers) void worker.ask("drainInbound");
    },
    async drain(timeoutMs) {
      for (const worker of workers) worker.retire();
      const withinMs = timeoutMs + AFTER_DRAIN_MS;
      await Promise.all(workers.map((worker) => soon(worker.ask("drain", timeoutMs), withinMs)));
    },
    close() {
      rollout.close();
      for (const worker of workers) worker.terminate();
    },
  };
}
