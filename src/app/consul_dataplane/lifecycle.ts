/**
 * Servers for orchestrators: one says when the application may start and begins the shutdown, one answers
 * readiness probes.
 *
 * @module
 */

import {
  type AdminView,
  type Listening,
  type SmallAnswer,
  startSmallServer,
} from "../../admin/mod.ts";
import { type Log, sleep } from "../../base/mod.ts";
import type { TcpBind } from "./metrics_options.ts";
import type { LifecycleOptions } from "./options.ts";

type ReadinessView = Pick<AdminView, "clock" | "health">;

const LOOK_MS = 250;

/** `stop` does the same as SIGTERM. Throws `listen_failed`. */
export function startLifecycle(
  options: LifecycleOptions,
  { view, log, stop }: { readonly view: ReadinessView; readonly log: Log; stop(): void },
): Promise<Listening> {
  const { host, port } = options;
  return startSmallServer({
    host,
    port,
    name: "lifecycle server",
    clock: view.clock,
    flag: "-graceful-port",
    answer: (_method, target) => lifecycleAnswer(target, options, { view, stop }),
  }, log);
}

export async function lifecycleAnswer(
  target: string,
  { startupPath, startupGraceMs, shutdownPath }: LifecycleOptions,
  { view, stop }: { readonly view: ReadinessView; stop(): void },
): Promise<SmallAnswer | undefined> {
  switch (target.replace(/\?.*/, "")) {
    case startupPath:
      // Answered in any case: without an answer the application would never start.
      await readyWithin(view, startupGraceMs);
      return { status: 200, body: "" };
    case shutdownPath:
      stop();
      return { status: 200, body: "" };
    default:
      return undefined;
  }
}

async function readyWithin({ clock, health }: ReadinessView, ms: number): Promise<void> {
  const untilMs = clock.monotonic() + ms;
  while (clock.monotonic() < untilMs && (await health()).notReady.length > 0) {
    await sleep(clock, Math.min(LOOK_MS, untilMs - clock.monotonic()));
  }
}

/** Serves `/ready` for probes from other machines. Throws `listen_failed`. */
export function startReady(
  bind: TcpBind,
  { view, log }: { readonly view: ReadinessView; readonly log: Log },
): Promise<Listening> {
  return startSmallServer({
    ...bind,
    name: "readiness server",
    clock: view.clock,
    flag: "-envoy-ready-bind-port",
    isPublic: true,
    async answer(_method, target) {
      if (target.replace(/\?.*/, "") !== "/ready") return undefined;
      const { notReady } = await view.health();
      // Only the admin server gives the reasons.
      return notReady.length === 0
        ? { status: 200, body: "LIVE\n" }
        : { status: 503, body: "NOT READY\n" };
    },
  }, log);
}
