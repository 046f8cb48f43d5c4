import { strict as assert } from "node:assert";
import { createServer } from "node:net";
import { test } from "node:test";
import { fakeAdminView } from "../../../../test/kit/admin/admin_view.ts";
import { inboundOf } from "../../../../test/kit/engine/snapshots.ts";
import { runtimeEngine } from "../../../net/mod.ts";
import type { Snapshot } from "../../../snapshot/mod.ts";
import { doctorExitCode, type DoctorFinding, doctorLines, findingsOf } from "./finding.ts";
import {
  checkApplication,
  checkCertificates,
  checkClock,
  checkDescriptors,
  checkIntentions,
  checkPorts,
} from "./machine_checks.ts";
import { checkRenewal, checkRunning, type ExaminedProxy } from "./running_proxy.ts";

const NOW_MS = Date.parse("2026-11-27T12:00:00Z");
const HTTP_DATE = "Fri, 27 Nov 2026 12:00:00 GMT";

const ENGINE = runtimeEngine();
const FREE = { engine: ENGINE, ownerOf: () => undefined };

function levels(findings: readonly DoctorFinding[]): readonly string[] {
  return findings.map(({ level, what }) => `${level}: ${what}`);
}

function snapshot(): Snapshot {
  const found = fakeAdminView().snapshot();
  assert.ok(found?.credentials);
  return found;
}

for (
  const [offMs, want] of [
    [0, /^ok: it agrees/],
    [9_000, /^ok/],
    [-9_000, /^ok/],
    [61_000, /^warning: the clock of this machine is 1m1s ahead of Consul's/],
    [-20_000, /^warning: .* 20s behind Consul's/],
    [-62_000, /^failure: .* 1m2s behind Consul's/],
  ] as const
) {
  test(`checkClock() ${offMs} ms from Consul's`, () => {
    assert.match(levels(checkClock(HTTP_DATE, NOW_MS + 500 + offMs))[0] ?? "", want);
  });
}

test("checkClock() is silent without a date", () => assert.deepEqual(checkClock("", NOW_MS), []));

for (
  const [name, nowMs, want] of [
    ["fresh", (from: number) => from + 60_000, [/^ok: the certificate of the proxy expires in/]],
    ["not valid yet", (from: number) => from - 60_000, [
      /^failure: .* is valid only in 1m/,
      /^fail/,
    ]],
    ["nearly over", (_: number, to: number) => to - 60_000, [
      /^warning: the certificate of the proxy expires in 1m$/,
      /^ok: a CA/,
    ]],
    ["expired", (_: number, to: number) => to + 60_000, [
      /^failure: .* expired 1m ago$/,
      /^ok: a CA/,
    ]],
  ] as const
) {
  test(`checkCertificates() of a leaf that is ${name}`, () => {
    const state = snapshot();
    const { notBeforeMs = 0, notAfterMs = 0 } = state.credentials ?? {};
    const found = levels(checkCertificates(state, nowMs(notBeforeMs, notAfterMs)));
    assert.equal(found.length, want.length, found.join("\n"));
    for (const [index, pattern] of want.entries()) assert.match(found[index] ?? "", pattern);
  });
}

test("checkCertificates() names a trust domain that the mesh does not have", () => {
  const state = snapshot();
  const { credentials } = state;
  assert.ok(credentials);
  const other = { ...state, credentials: { ...credentials, trustDomains: ["other.consul"] } };
  const found = levels(checkCertificates(other, credentials.notBeforeMs + 1)).join("\n");
  assert.match(
    found,
    /failure: the certificate is of trust domain 1{8}\S+, and the mesh has other/,
  );
});

test("checkPorts() and checkApplication() name what is taken, and what is not there", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  const { port } = address;
  const place = { kind: "tcp", host: "127.0.0.1", port } as const;
  const inbound = { inbound: { ...inboundOf({ local: place }, port), bind: place } };
  const state = { ...snapshot(), inbound };
  const [taken] = await checkPorts(state, FREE);
  assert.equal(
    taken?.what,
    `listener inbound cannot bind 127.0.0.1:${port}: the address is in use by another process`,
  );
  const [owned] = await checkPorts(state, { engine: ENGINE, ownerOf: () => "the Postern of db-1" });
  assert.match(owned?.what ?? "", /: the Postern of db-1 has it$/);
  assert.match(
    levels(await checkApplication(state, ENGINE))[0] ?? "",
    /^ok: it accepts connections on/,
  );
  await new Promise((resolve) => server.close(resolve));
  assert.deepEqual(levels(await checkPorts(state, FREE)), [
    "ok: free for listeners: 1 address",
  ]);
  assert.match(
    levels(await checkApplication(state, ENGINE))[0] ?? "",
    /^failure: the application of web does not answer on 127\.0\.0\.1:\d+: nothing there takes/,
  );
});

test("checkDescriptors() says how many connections fit", () => {
  assert.match(
    levels(checkDescriptors(65_536, { maxConnections: 341, openFiles: 1_024 }))[0] ?? "",
    /^warning: only 341 of 65536 connections fit: the limit on open files is 1024$/,
  );
  assert.deepEqual(levels(checkDescriptors(100, { maxConnections: 100, openFiles: 9_999 })), [
    "ok: room for 100 connections",
  ]);
});

test("checkIntentions() fails where permissions judge a service of bytes", async () => {
  const state = snapshot();
  const intention = {
    rule: "default/shop => default/web",
    source: { name: "shop", namespace: "default", partition: "default", peer: "" },
    action: "permissions",
    permissions: [{ action: "allow", methods: [], headers: [] }],
    precedence: 9,
  } as const;
  const policy = { ...state.policy, intentions: [intention] };
  assert.deepEqual(levels(await checkIntentions({ ...state, policy })), [
    "failure: default/shop => default/web has permissions, and web is tcp",
  ]);
});

test("doctorLines() lists failures first, each with reason and fix", () => {
  const text = { why: "because", fix: "do this" };
  const findings = [
    { check: "a", level: "ok", what: "fine", why: "", fix: "" },
    { check: "b", level: "warning", what: "odd", ...text },
    { check: "c", level: "failure", what: "broken", ...text },
  ] as const;
  const report = { proxy: "web", findings };
  assert.deepEqual(doctorLines(report, { width: undefined, color: false }), [
    "web",
    "FAIL  c: broken",
    "      why: because",
    "      fix: do this",
    "WARN  b: odd",
    "      why: because",
    "      fix: do this",
    "ok    a: fine",
    "1 failure, 1 warning",
  ]);
  assert.equal(doctorExitCode(report), 1);
  assert.equal(doctorExitCode({ proxy: "web", findings: findings.slice(0, 2) }), 0);
});

const RUNNING: ExaminedProxy = {
  at: ":19000",
  info: {
    node: { id: "web" },
    postern: {
      trust_domain: "",
      options: { sidecarFor: "", proxyId: "", config: "", agent: "", servers: "" },
      limits: { open_files: 1, max_connections: 1 },
    },
  },
  ready: { state: "LIVE", reasons: [], troubles: [] },
  listeners: [],
  certificates: [],
};

test("checkRunning() says nothing that follows from a denial which another check names", () => {
  const { failure } = findingsOf("calls");
  const known = failure({ what: "db denies web: by default/web => default/db", why: "", fix: "" });
  const at = "(intention_denied), 3 requests in the last minute";
  const texts = [
    `db refuses web ${at}`,
    "db probably refuses web: it ends connections right after the handshake (refused_by_peer)",
    "upstream db keeps failing: the last connection failed on the other side: refused_by_peer",
    "upstream db: the last connection, 3m ago, failed on the other side: refused_by_peer",
    `api refuses web ${at}`,
    "upstream db keeps failing: the last request was answered 503 by the other side",
  ];
  const troubles = texts.map((text) => ({ text, stopsTraffic: true }));
  const running = { ...RUNNING, ready: { state: "LIVE", reasons: [], troubles } };
  assert.deepEqual(checkRunning(running, [known]).map(({ what }) => what), texts.slice(4));
});

test("checkRunning() repeats nothing that another check found, and tells failures by their effect", () => {
  const refused = "service-defaults web: MutualTLSMode: permissive is not supported";
  const running: ExaminedProxy = {
    ...RUNNING,
    ready: {
      state: "LIVE",
      reasons: [],
      troubles: [
        { text: refused, stopsTraffic: true },
        { text: "listener x is not bound", stopsTraffic: true },
        { text: "the agent is away", stopsTraffic: false },
      ],
    },
    certificates: [
      { name: "leaf", renewal: { works: true, text: "renewed by it" } },
      { name: "own", renewal: { works: false, text: "it fails: x" } },
      { name: "roots" },
    ],
  };
  const what = "service-defaults web: MutualTLSMode is refused: permissive is not supported";
  const known = { check: "configuration", level: "failure", what, why: "", fix: "" } as const;
  assert.deepEqual(levels(checkRunning(running, [known])), [
    "failure: listener x is not bound",
    "warning: the agent is away",
  ]);
  const ready = {
    ...running.ready,
    troubles: [{ text: "upstream db refuses many requests", stopsTraffic: false }],
  };
  const [finding] = checkRunning({ ...running, ready }, []);
  assert.equal(finding?.why, "the proxy is ready all the same: callers choose it");
  const { at } = running;
  assert.equal(
    finding?.fix,
    `see what changed: postern events -admin ${at} -since 10m; and the cause: ` +
      `postern explain -admin ${at} db`,
  );
  assert.deepEqual(levels(checkRenewal(running)), [
    "ok: certificate leaf: renewed by it",
    "warning: certificate own: it fails: x",
  ]);
});
