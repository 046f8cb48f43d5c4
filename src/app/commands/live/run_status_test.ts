import { strict as assert } from "node:assert";
import { test } from "node:test";
import { type AskAdmin, askAdmin, startAdmin } from "../../../admin/mod.ts";
import { silentLog } from "../../../base/mod.ts";
import { fakeAdminView, TOKEN } from "../../../../test/kit/admin/admin_view.ts";
import { statusText } from "./run_status.ts";

const BIND = { kind: "address", host: "127.0.0.1", port: 0 } as const;
const PIPED = { width: undefined, color: false };

async function twoSidecars() {
  const views = [fakeAdminView(), fakeAdminView()] as const;
  const servers = await Promise.all(
    views.map((view) => startAdmin(view, { bind: BIND }, silentLog)),
  );
  const admins = servers.map(({ address }) => address);
  return {
    views,
    admins,
    which: { kind: "addresses", admins } as const,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server.close()));
    },
  };
}

test("statusText() shows each sidecar with what is wrong, and exits with 1", async () => {
  await using two = await twoSidecars();
  two.views[1].ready = false;
  const options = { which: two.which, json: false, strict: false };
  const { text, exitCode } = await statusText(options, PIPED, askAdmin);
  const lines = text.split("\n");
  const [head = "", first = "", identity = "", refused = "", second = "", , reason = ""] = lines;
  assert.match(
    head,
    /^SERVICE +PROXY +STATE +CERT +RENEWS +ENDPOINTS +CONNS +UP +PID +VERSION +ADMIN$/,
  );
  assert.match(
    first,
    new RegExp(`^web +web-1-sidecar-proxy +ready .* :${two.admins[0]?.port}$`),
  );
  assert.match(identity, /^ {2}spiffe:\/\/\S+\/svc\/web$/);
  assert.equal(refused, "  upstream <x>: mesh gateways are not there yet");
  assert.match(second, /^web +web-1-sidecar-proxy +not ready /);
  assert.equal(reason, "  waiting for the leaf certificate");
  assert.equal(exitCode, 1);
  assert.ok(!text.includes(TOKEN));
  // Scripts that want all of it read JSON.
  assert.deepEqual(lines.filter((line) => line.length > 100 || line.includes("…")), []);
  const wide = (await statusText(options, { width: 200, color: false }, askAdmin)).text;
  assert.match(
    wide,
    /^SERVICE +PROXY +STATE +CERT +RENEWS +ENDPOINTS +CONNS +UP +PID +VERSION +ADMIN +IDENTITY\n/,
  );
});

test("statusText() as JSON has the same facts, and exits with 0 when all carry their traffic", async () => {
  await using two = await twoSidecars();
  for (const view of two.views) view.refused = () => [];
  const options = { which: two.which, json: true, strict: false };
  const { text, exitCode } = await statusText(options, PIPED, askAdmin);
  const { sidecars } = JSON.parse(text);
  assert.equal(exitCode, 0);
  assert.deepEqual(sidecars.map(({ state }: { state: string }) => state), ["ready", "ready"]);
  const { endpoints, certificate, openConnections } = sidecars[0];
  assert.deepEqual(endpoints, { total: 1, healthy: 1, ejected: 0 });
  assert.equal(typeof certificate.daysLeft, "number");
  assert.equal(typeof openConnections, "number");
});

for (
  const [name, change, want] of [
    ["nothing is wrong", {}, { exitCode: 0, strictExitCode: 0 }],
    ["a refused upstream fails", { refused: fakeAdminView().refused }, {
      exitCode: 1,
      strictExitCode: 1,
    }],
    ["a listener is not bound", { warnings: ["listener x is not bound: in use"] }, {
      exitCode: 1,
      strictExitCode: 1,
    }],
    ["the agent is away, and traffic goes on", { warnings: ["the agent is not reached"] }, {
      exitCode: 0,
      strictExitCode: 1,
    }],
  ] as const
) {
  test(`statusText() exits with ${want.exitCode}, or with -strict ${want.strictExitCode}, where ${name}`, async () => {
    await using two = await twoSidecars();
    for (const view of two.views) view.refused = () => [];
    Object.assign(two.views[1], change);
    const exitCodeOf = async (strict: boolean) => {
      const options = { which: two.which, json: false, strict };
      return (await statusText(options, PIPED, askAdmin)).exitCode;
    };
    assert.equal(await exitCodeOf(false), want.exitCode);
    assert.equal(await exitCodeOf(true), want.strictExitCode);
  });
}

test("statusText() names an application that fails now, and exits with 1", async () => {
  await using two = await twoSidecars();
  const [first] = two.views;
  const [data] = await first.data();
  const [refusal] = data?.traffic.refusals ?? [];
  assert.ok(data && refusal);
  for (const view of two.views) view.refused = () => [];
  const shown = async (code: string, agoMs: number) => {
    const refusals = [{ ...refusal, direction: "inbound", code, at: Date.now() - agoMs }] as const;
    first.data = () => Promise.resolve([{ ...data, traffic: { ...data.traffic, refusals } }]);
    return await statusText({ which: two.which, json: false, strict: false }, PIPED, askAdmin);
  };
  const { text, exitCode } = await shown("local_refused", 2_000);
  assert.match(
    text,
    /^ {2}its application fails \(local_refused\), last \ds ago:\n {4}postern explain -admin 127\S+ -inbound -source batch$/m,
  );
  assert.equal(exitCode, 1);
  assert.equal((await shown("local_refused", 120_000)).exitCode, 0);
  assert.equal((await shown("intention_denied", 0)).exitCode, 0);
});

test("statusText() names a renewal that fails, once", async () => {
  await using two = await twoSidecars();
  const [view] = two.views;
  const source = view.source() ?? assert.fail();
  const lastError = "Permission denied";
  const watch = { name: "leaf web", mode: "long", failures: 1, lastError } as const;
  view.source = () => ({ ...source, watches: [{ ...watch, lastSuccessMs: undefined }] });
  const options = { which: two.which, json: false, strict: false };
  const shown = async () => (await statusText(options, PIPED, askAdmin)).text.replace(/\n +/g, " ");
  assert.match(await shown(), /certificate leaf: renewed by the agent's watch, .*Permission d/);
  view.warnings = [`leaf web not read since now: ${lastError}`];
  assert.equal((await shown()).split(lastError).length, 2);
});

for (
  const [name, body, want] of [
    ["does not answer", undefined, /no answer .*\n {2}connection refused/s],
    ["is another program's", "<html>", /no answer .*\n {2}another program than a proxy/s],
  ] as const
) {
  test(`statusText() exits with 2 where the only address ${name}`, async () => {
    const ask: AskAdmin = () =>
      body === undefined
        ? Promise.reject(new Error("connection refused"))
        : Promise.resolve({ status: 200, body });
    const which = { kind: "addresses", admins: [{ host: "127.0.0.1", port: 1 }] } as const;
    const { text, exitCode } = await statusText({ which, json: false, strict: false }, PIPED, ask);
    assert.match(text, want);
    assert.equal(exitCode, 2);
  });
}

test("statusText() finds sidecars by their ports, and says where it looked", async () => {
  const which = {
    kind: "proxies",
    wanted: [{ flag: "sidecar-for", value: "web-1" }],
  } as const;
  await using two = await twoSidecars();
  const admin = two.admins[0];
  assert.ok(admin);
  // One of the searched ports leads to the first sidecar.
  const ask: AskAdmin = ({ port }, question) =>
    port === 19_042 ? askAdmin(admin, question) : Promise.reject(new Error("refused"));
  const options = { json: false, strict: false };
  const found = await statusText({ ...options, which }, PIPED, ask);
  assert.match(found.text, /web-1-sidecar-proxy .* :19042$/m);
  const wanted = [{ flag: "sidecar-for", value: "db-1" }] as const;
  const none = await statusText({ ...options, which: { kind: "proxies", wanted } }, PIPED, ask);
  assert.equal(none.exitCode, 2);
  assert.match(
    none.fault ?? "",
    /^postern: Cannot find -sidecar-for db-1: no admin server on ports/,
  );
});
