/**
 * A whole proxy as the admin server sees it, for tests: a snapshot with real certificates and a key
 * that must never appear, two workers, one upstream.
 *
 * @module
 */

import type { AdminView, CatalogState, Reloaded } from "../../../src/admin/mod.ts";
import { type LogLevel, silentLog, type TrafficKey, TrafficRow } from "../../../src/base/mod.ts";
import { EventJournal } from "../../../src/events/mod.ts";
import { createAuthority } from "../certs/authority.ts";
import type {
  DataView,
  ExplainQuery,
  ExplainResult,
  Explanation,
  TapFilter,
} from "../../../src/proxy/mod.ts";
import type { Snapshot } from "../../../src/snapshot/mod.ts";
import type { SourceStatus } from "../../../src/source/mod.ts";
import { FakeClock } from "../clock/clock.ts";
import { inboundOf } from "../engine/snapshots.ts";

export const TOKEN = "6d3e5a0c-1111-2222-3333-0123456789ab";
const TRUST_DOMAIN = "11111111-2222-3333-4444-555555555555.consul";

/** A registration without settings of metrics. */
export const NO_METRICS = {
  prometheusBindAddr: "",
  statsBindAddr: "",
  statsdUrl: "",
  dogstatsdUrl: "",
  flushInterval: "",
  tags: [] as readonly string[],
} as const;

export interface FakeAdminView extends AdminView {
  readonly clock: FakeClock;
  /** The paths that were asked for, in order. */
  readonly calls: string[];
  readonly keyPem: string;
  /** Its events. */
  readonly journal: EventJournal;
  ready: boolean;
  inCatalog: CatalogState;
  drained: boolean;
  started: boolean;
  stuckPaths: readonly string[];
  warnings: readonly string[];
  reloaded: Reloaded;
  explained: readonly ExplainResult[];
  readonly questions: ExplainQuery[];
  readonly taps: {
    readonly filter: TapFilter;
    readonly take: (lines: string, dropped: number) => void;
  }[];
}

export function fakeAdminView(): FakeAdminView {
  const clock = new FakeClock();
  const authority = createAuthority({ trustDomain: TRUST_DOMAIN, nowMs: clock.now() });
  const leaf = authority.issueLeaf({ service: "web", nowMs: clock.now() });
  const snapshot: Snapshot = {
    version: 7,
    service: "web",
    proxyId: "web-1-sidecar-proxy",
    datacenter: "dc1",
    credentials: {
      version: 1,
      certPem: leaf.certPem,
      keyPem: leaf.keyPem,
      rootPems: [authority.rootPem],
      trustDomains: [TRUST_DOMAIN],
      uri: leaf.uri,
      serial: "0e",
      notBeforeMs: leaf.notBeforeMs,
      notAfterMs: leaf.notAfterMs,
    },
    certificates: {},
    validations: {},
    ownCredentials: {},
    policy: { version: 1, intentions: [], defaultAction: "deny" },
    tls: {
      version: 1,
      incoming: { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", cipherSuites: [] },
      outgoing: { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", cipherSuites: [] },
      strictSpiffeChain: false,
    },
    accessLog: null,
    tracing: null,
    telemetry: null,
    inbound: {
      inbound: inboundOf({ local: { kind: "tcp", host: "127.0.0.1", port: 8080 } }, 21_000),
    },
    exposed: {},
    edges: {},
    pluginCode: {},
    upstreams: {},
    chains: {},
    targets: {},
  };
  const source: SourceStatus = {
    kind: "consul",
    waitingFor: [],
    pending: [],
    warming: [],
    failing: [{
      watch: "health db",
      code: "agent_forbidden",
      message: `token ${TOKEN} lacks service:read on <db>`,
      sinceMs: clock.now(),
    }],
    watches: [{
      name: "leaf web",
      mode: "long",
      lastSuccessMs: clock.monotonic(),
      failures: 0,
      lastError: undefined,
    }],
    restored: false,
    snapshotVersion: 7,
    certificate: undefined,
  };
  const calls: string[] = [];
  const journal = new EventJournal({ clock, log: silentLog });
  let level: LogLevel = "info";
  const view: FakeAdminView = {
    clock,
    calls,
    keyPem: leaf.keyPem,
    journal,
    ready: true,
    inCatalog: { kind: "known", failing: [] },
    drained: false,
    started: true,
    stuckPaths: [],
    warnings: [],
    reloaded: { kind: "reloaded", snapshotVersion: 8 },
    info: {
      version: "0.1.0",
      commit: "abc1234",
      engine: "bun 1.4.5",
      platform: "linux x64",
      pid: 1,
      workers: 2,
      startedMs: 0,
      limits: { openFiles: 1_024, maxConnections: 341 },
      options: { agentFlags: { token: TOKEN, httpAddr: "127.0.0.1:8500" }, note: `is ${TOKEN}` },
    },
    data: () => Promise.resolve([dataView(0), dataView(1)]),
    endpoints: () => Promise.resolve([dataView(0), dataView(1)]),
    explained: [0, 1].map(explainedBy),
    questions: [],
    explain(question) {
      view.questions.push(question);
      return Promise.resolve(view.explained);
    },
    tap(filter, take) {
      view.taps.push({ filter, take });
      return () => void view.taps.pop();
    },
    taps: [],
    mesh: () => undefined,
    samples: () => [sample("snapshot_version", 7)],
    snapshot: () => view.started ? snapshot : undefined,
    source: () => source,
    unfollowed: (upstream) => [`${upstream ?? "the service"} has x, which is ignored`],
    refused: () => [{ what: "upstream <x>", reason: "mesh gateways are not there yet" }],
    events: () => journal,
    secretsReport: () => ({ statuses: [] }),
    health: () =>
      Promise.resolve({
        notReady: view.ready ? [] : ["waiting for the leaf certificate"],
        warnings: view.warnings,
        failing: view.warnings.filter((text) => text.startsWith("listener ")),
        listeners: { total: 2, unusable: view.warnings.length },
      }),
    peers: () => Promise.resolve([]),
    catalog: () => Promise.resolve(view.inCatalog),
    stuck: () => Promise.resolve(view.stuckPaths),
    draining: () => view.drained,
    secrets: () => [TOKEN],
    logLevel: () => level,
    setLogLevel: (wanted) => {
      level = wanted;
    },
    reload: () => Promise.resolve(view.reloaded),
    drainListeners: (which) => {
      calls.push(which === "all" ? "drain" : `drain ${which}`);
      view.drained = true;
    },
    quit: () => void calls.push("quit"),
  };
  return view;
}

/** In the notation of the workers of {@link dataView}: the first has left the endpoint out. */
export function explainedBy(worker: number): ExplainResult {
  const endpoint = {
    id: "node-db",
    address: "10.0.0.9:8080",
    weight: 1,
    active: 1 + worker,
    failures: worker,
    lastFailure: worker === 0 ? "" : "status 503",
    ejectedForMs: worker === 0 ? 9_000 : 0,
    lastResort: false,
    unreachable: worker === 0 ? "" : null,
  };
  const explanation: Explanation = {
    listener: "service:default/default/db",
    direction: "outbound",
    protocol: "http",
    upstream: "service:default/default/db",
    source: null,
    request: { method: "PUT", host: "db", path: "/a" },
    answer: null,
    rule: "",
    permissions: [],
    tokens: [],
    local: null,
    route: { name: "routes[0]", service: "db", matches: "/a*" },
    plugins: [{
      name: "header_rules",
      phase: "guard",
      onFailure: "refuse",
      isBroken: worker === 1,
      config: { request: { set: { authorization: "Bearer secret" } } },
      routeConfig: undefined,
    }, {
      name: "retry",
      phase: "retry",
      onFailure: "skip",
      isBroken: false,
      config: {},
      routeConfig: { numRetries: 2, retryOn: ["5xx"] },
    }],
    splits: [{
      chance: 1,
      balancing: { kind: "maglev" },
      hashedBy: ["header x-user"],
      lack: "",
      answer: null,
      sent: { method: "PUT", host: "db", path: "/new/a" },
      plugins: { header_rules: { request: { set: { a: "secret" } } } },
      targets: [{
        target: "db.default.dc1",
        connectTimeoutMs: 2_500,
        lack: "",
        endpoints: [endpoint],
        spiffeUris: [],
      }],
    }],
    requestTimeoutMs: 15_000,
    idleTimeoutMs: 0,
    limits: {
      connections: { taken: 1, limit: 10 },
      pending: { taken: 0, limit: 10 },
      requests: { taken: 3, limit: 10 },
    },
    unknown: ["header_rules: may answer."],
  };
  return { kind: "answer", explanation };
}

function sample(name: string, value: number, labels: Record<string, string> = {}) {
  return { name, kind: "counter", help: `Help of ${name}`, labels, value } as const;
}

function dataView(worker: number): DataView {
  return {
    worker,
    snapshotVersion: 7,
    traffic: trafficView(worker),
    refusing: [],
    listeners: [
      {
        name: "inbound",
        direction: "inbound",
        address: "0.0.0.0:21000",
        protocol: "tcp",
        state: worker === 1 ? "failed" : "listening",
        error: worker === 1 ? "the address is in use" : "",
        fault: "",
        warnings: [],
        connections: 1,
      },
      {
        name: "service:default/default/db",
        direction: "outbound",
        address: "127.0.0.1:9191",
        protocol: "tcp",
        state: "listening",
        error: "",
        fault: "",
        warnings: [],
        connections: 0,
      },
    ],
    connections: [{
      id: `${worker}-1`,
      listener: "inbound",
      direction: "inbound",
      source: `spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/api`,
      destination: "web",
      remote: "127.0.0.1:50000",
      endpoint: "127.0.0.1:8080",
      stage: "relay",
      ageMs: 1_000,
      idleMs: 10,
      receivedBytes: 5,
      sentBytes: 6,
      rule: "default/api => default/web (precedence 9, allow)",
      tlsVersion: "TLSv1.3",
      resumed: false,
      http: null,
    }],
    endpoints: [{
      target: "db.default.dc1",
      id: "db-1",
      address: "10.0.0.2:21001",
      weight: 1,
      active: 2,
      failures: worker,
      lastFailure: "",
      ejectedForMs: 0,
      lastResort: false,
    }],
    plugins: [{
      listener: "inbound",
      name: "own",
      at: "inbound.plugins[0]",
      use: "consul-kv:plugins/own",
      source: "consul-kv",
      sha256: "ab12",
      pinned: true,
      routes: ["routes[0]"],
      phase: "filter",
      onFailure: "skip",
      generation: 7,
      state: worker === 1 ? "broken" : "serving",
      exchanges: 10,
      failures: worker,
      lastFailure: worker === 1 ? { reason: `oh no ${TOKEN}`, atMs: 0 } : null,
    }],
    samples: [sample("connections_total", 3, { direction: "inbound" })],
  };
}

/** 10 requests of 1 ms each, one of them failed. */
function trafficView(worker: number): DataView["traffic"] {
  const key: TrafficKey = {
    direction: "inbound",
    caller: "api",
    upstream: "",
    target: "",
    endpoint: "",
    route: "",
  };
  const row = new TrafficRow(key, 0);
  for (let i = 0; i < 10; i++) {
    row.open++;
    row.ended(1, i === 0, 0);
  }
  const { requests, errors, counts, sumMs, receivedBytes, sentBytes, open } = row;
  return {
    sinceMs: 1_000 + worker,
    rows: [{
      ...key,
      requests,
      errors,
      counts,
      sumMs,
      receivedBytes,
      sentBytes,
      open,
      recent: { requests: 3, errors, counts },
    }],
    recentMs: 90_000 + worker,
    past: [],
    refusals: [{
      at: worker,
      direction: "inbound",
      caller: "batch",
      listener: "inbound",
      code: "intention_denied",
      rule: "deny batch",
      deniedBy: "",
      path: "/x",
      status: 403,
      count: 1,
    }],
    slow: [{
      at: 0,
      caller: "api",
      upstream: "",
      method: "GET",
      path: "/x",
      status: 200,
      durationMs: worker + 0.123456,
      endpoint: "127.0.0.1:8080",
    }],
  };
}
