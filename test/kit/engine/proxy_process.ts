/** A proxy process made of fakes, which note in order what happens to them. @module */

import { createLog, type ProxyError, silentLog } from "../../../src/base/mod.ts";
import type { RegisterSignals } from "../../../src/consul/mod.ts";
import type { ListenerView } from "../../../src/proxy/mod.ts";
import type { Refusal, Snapshot } from "../../../src/snapshot/mod.ts";
import type { ProxyControl } from "../../../src/app/process/control.ts";
import { SystemdSockets } from "../../../src/app/process/activation.ts";
import { Notifier } from "../../../src/app/process/notify.ts";
import { ProxyProcess, type ProxyProcessOptions } from "../../../src/app/process/proxy_process.ts";
import type { DataPlane } from "../../../src/app/workers/plane.ts";
import { createAuthority } from "../certs/certificates.ts";
import { FakeClock } from "../clock/clock.ts";
import { snapshotOf } from "./snapshots.ts";

export const SNAPSHOT = snapshotOf({
  ca: createAuthority(),
  service: "web",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
});
export const INBOUND: ListenerView = {
  name: "inbound",
  direction: "inbound",
  address: "127.0.0.1:1",
  protocol: "tcp",
  state: "listening",
  error: "",
  fault: "",
  warnings: [],
  connections: 3,
};

interface ProcessRig {
  readonly clock: FakeClock;
  readonly proxy: ProxyProcess;
  /** The callbacks that the proxy gave to its source. */
  readonly source: {
    publish(snapshot: Snapshot): Promise<Snapshot | undefined>;
    fail(error: ProxyError): void;
  };
  readonly rollout: {
    published: Snapshot | undefined;
    refused: readonly Refusal[];
    apply(snapshot: Snapshot): Promise<void>;
  };
  readonly found: ProxyControl;
  readonly seen: { listeners: ListenerView[]; warming: string[] };
  readonly waits: Record<"drain" | "apply" | "unregister" | "leave", PromiseWithResolvers<void>>;
  /** The notes since the last call. */
  take(): string[];
  fetch(): Promise<boolean>;
}

/** Events are noted in order with `log: ` lines and messages to the supervisor. */
export function processRig(options: Partial<ProxyProcessOptions> = {}): ProcessRig {
  const clock = new FakeClock();
  const happened: string[] = [];
  const note = (what: string) => void happened.push(what);
  const gate = () => Promise.withResolvers<void>();
  const waits = { drain: gate(), apply: gate(), unregister: gate(), leave: gate() };
  waits.leave.resolve();
  const source = {
    publish: (_snapshot: Snapshot): Promise<Snapshot | undefined> => Promise.resolve(undefined),
    fail: (_error: ProxyError) => {},
  };
  const rollout = {
    published: undefined as Snapshot | undefined,
    taken: undefined as Snapshot | undefined,
    refused: [] as readonly Refusal[],
    onRetried: undefined as (() => void) | undefined,
    takeEffects: () => [],
    setDue: () => {},
    retryDue: () => Promise.resolve(),
    async apply(snapshot: Snapshot) {
      note("apply");
      await waits.apply.promise;
      if (rollout.refused.length === 0) rollout.published = rollout.taken = snapshot;
    },
  };
  const seen = { listeners: [INBOUND], warming: [] as string[] };
  const plane = {
    rollout,
    retryFailed: () => Promise.resolve(true),
    listeners: () => Promise.resolve([seen.listeners]),
    views: () => Promise.resolve([]),
    used: () => Promise.resolve([]),
    explain: () => Promise.resolve([]),
    tap: () => () => {},
    stuck: () => Promise.resolve([]),
    setLogLevel: () => {},
    drainInbound: () => note("drain inbound"),
    spawn: () => Promise.resolve(1),
    accept: () => Promise.resolve(note("plane accepts")),
    cells: () => [],
    resume: () => Promise.resolve(),
    sockets: () => Promise.resolve([]),
    drain: (timeoutMs: number) => (note(`drain ${timeoutMs}`), waits.drain.promise),
    close: () => note("plane closed"),
  } satisfies DataPlane;
  const found = {
    source: {
      start(onSnapshot: typeof source.publish, onFatal: typeof source.fail) {
        source.publish = onSnapshot;
        source.fail = onFatal;
        note("source started");
      },
      refused: [],
      used: () => {},
      status: () => ({ waitingFor: [], warming: seen.warming, failing: [] }),
      fetchCertificate: () => (note("fetched"), Promise.resolve(true)),
      retried: () => {},
      reload: () => (note("source reloaded"), Promise.resolve(true)),
      close: () => (note("source closed"), Promise.resolve()),
    },
    agent: {
      reloadFiles: () => note("agent reloaded"),
      leave: () => (note("agent left"), waits.leave.promise),
      close: () => note("agent closed"),
    },
    proxyId: "web-proxy",
    secrets: [],
    needsRegistering: false,
    keepRegistered: ({ signal }: RegisterSignals) =>
      new Promise<void>((resolve) =>
        signal.addEventListener("abort", () => {
          note("taken back");
          void waits.unregister.promise.then(resolve);
        })
      ),
  } as unknown as ProxyControl;
  const notifier = new Notifier({
    env: { NOTIFY_SOCKET: "/run/notify" },
    pid: 1,
    clock,
    log: silentLog,
    send: (_, text) => (note(text.replaceAll("\n", " ")), "sent"),
  });
  let fetchCertificate = (): Promise<boolean> => Promise.resolve(false);
  const proxy = new ProxyProcess({
    clock,
    log: createLog({
      clock,
      holder: { level: "info" },
      write: ({ message, fields }) => note(`log: ${message} ${JSON.stringify(fields)}`),
    }),
    notifier,
    systemd: new SystemdSockets({ activated: [], notifier, log: silentLog, env: {} }),
    ready: "all",
    paths: 1,
    drainTimeoutMs: 5_000,
    stopTimeoutMs: 5_000,
    settleMs: 0,
    findControl: () => Promise.resolve(found),
    createPlane(_, fetch) {
      fetchCertificate = () => fetch({ credentials: "c", name: "n", remote: "r" });
      return plane;
    },
    findRival: () => Promise.resolve(undefined),
    serverSockets: () => [],
    leaveServers: () => note("servers left"),
    openAdmin() {
      note("admin opened");
      return Promise.resolve({ close: () => (note("admin closed"), Promise.resolve()) });
    },
    onInForce: () => {},
    onFirstReady: () => note("ready first"),
    ...options,
  });
  const take = () => happened.splice(0);
  return {
    clock,
    proxy,
    source,
    rollout,
    found,
    seen,
    waits,
    take,
    fetch: () => fetchCertificate(),
  };
}
