/**
 * A mesh in which everything changes at once, under a steady load of HTTP/1.1, HTTP/2 and gRPC: no
 * request is lost that a proxy could save, and no caller is let in that should not be.
 */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { AuthzServer, PASS } from "../kit/peers/authz_server.ts";
import type { Place } from "../kit/wire/echo.ts";
import { HttpLoad } from "../kit/wire/http_load.ts";
import { RequestCounts, startCountingOrigin } from "../kit/wire/http_origin.ts";
import { RawClient, statusOf } from "../kit/wire/http_raw.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { ISSUER, keySetOf, makeIssuer, startKeyServer } from "../kit/certs/tokens.ts";

interface ChaosOptions {
  /**
   * The protocol of the mesh's service; callers speak HTTP/1.1 and HTTP/2, and to `grpc` gRPC as well.
   */
  readonly protocol: "http" | "grpc";
  readonly seconds: number;
  readonly flipEveryMs: number;
}

/** So that requests are under way whatever happens. */
const DELAY_MS = 30;
/** What the load reports over HTTP/2 and over HTTP/1.1 of a response that ended after its head. */
const BEGUN = /: in a response of 200: |: Connection ended in a response: "HTTP\/1\.1 200 /g;
/** How long it may take until a denial has reached every sidecar. */
const DENIED_AFTER_MS = 2_000;

export function chaos(
  agents: Agents,
  { protocol, seconds, flipEveryMs }: ChaosOptions,
): void {
  test(`${protocol}: no request is lost while everything changes, and no denied caller gets in`, async () => {
    await using own = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "postern-chaos-"));
    own.defer(() => rm(directory, { recursive: true, force: true }));
    const mesh = own.use(await agents.start({ defaultIntentionPolicy: "deny" }));
    const issuer = await makeIssuer();
    const stranger = await makeIssuer();
    const keys = own.use(await startKeyServer(keySetOf(issuer)));
    const plugin = join(directory, "mark.ts");
    const mark = (turn: number) => writeFile(plugin, markOf(turn));
    await mark(0);

    const counts = new RequestCounts();
    const config = {
      postern_plugins: [{ use: plugin }, {
        use: "jwt_auth",
        config: {
          providers: {
            okta: {
              issuer: ISSUER,
              jsonWebKeySet: { remote: { uri: keys.uri, cacheDuration: "1s" } },
            },
          },
          require: { any: [{ provider: "okta" }] },
        },
      }],
    };
    for (const Name of ["db", "canary", "shop"]) {
      const Protocol = Name === "shop" ? "http" : protocol;
      await mesh.configEntry({ Kind: "service-defaults", Name, Protocol });
      await mesh.intention("web", Name, "allow");
    }
    const authz = own.use(await AuthzServer.start());
    const guarded = {
      use: "ext_authz",
      config: {
        httpService: {
          target: authz.target,
          timeoutMs: 5_000,
          authorizationRequest: { allowedHeaders: [{ exact: PASS }] },
        },
      },
    };
    const application = own.use(await startCountingOrigin({ host: mesh.host }));
    const serve = async (name: string, id: string, sidecarPort?: number) => {
      const origin = own.use(
        await startCountingOrigin({
          protocol: protocol === "http" ? "http" : "http2",
          counts,
          host: mesh.host,
          delayMs: DELAY_MS,
        }),
      );
      const registration = { name, id, port: origin.port, config };
      await mesh.register(sidecarPort ? { ...registration, sidecarPort } : registration);
      return await mesh.sidecar(id);
    };
    const db = own.use(await serve("db", "db-1"));
    const canary = own.use(await serve("canary", "canary-1"));
    const killedAt = await mesh.place();
    let killed = await serve("db", "db-2", killedAt.port);
    own.defer(() => killed[Symbol.asyncDispose]());
    await flip(mesh, 0);
    const args = ["-workers", "2"];
    const [upstream, shops, shop] = [await mesh.place(), await mesh.place(), await mesh.place()];
    own.use(
      await mesh.serve({
        name: "shop",
        port: application.port,
        upstreams: [{ name: "db", ...shops }],
        config: { postern_plugins: [guarded] },
      }, { args }),
    );
    const upstreams = [{ name: "db", ...upstream }, { name: "shop", ...shop }];
    const web = own.use(await mesh.serve({ name: "web", upstreams }, { args }));

    const exp = Math.ceil(Date.now() / 1_000) + 3_600;
    const authorization = `Bearer ${await issuer.sign({ exp })}`;
    const forged = `Bearer ${await stranger.sign({ exp })}`;
    const ask = (place: Place, token: string) => askWith(place, `Authorization: ${token}`);
    await eventually("it is served", async () => await ask(upstream, authorization) === 200);
    await eventually("so is the shop", async () => await askWith(shop, `${PASS}: 1`) === 200);

    const mixed = { keptAlive: 2, shortLived: 1, http2: 1, headers: { authorization } };
    const loads = [own.use(new HttpLoad(upstream, counts, mixed))];
    if (protocol === "grpc") {
      const headers = { authorization, "content-type": "application/grpc", te: "trailers" };
      const options = { keptAlive: 0, shortLived: 0, http2: 1, headers };
      loads.push(own.use(new HttpLoad(upstream, counts, options)));
    }
    let isOver = false;
    /** Since when the shop must be refused. */
    let deniedSince = -Infinity;
    let wasAllowed = 0;
    const slips: string[] = [];
    const watching = (async () => {
      while (!isOver) {
        if (await ask(upstream, forged) === 200) slips.push("a forged token was let in");
        const began = performance.now();
        const status = await ask(shops, authorization);
        // It may have been allowed meanwhile.
        const isDenied = began > deniedSince + DENIED_AFTER_MS;
        if (status === 200 && isDenied) slips.push("the shop was let in");
        if (status === 200) wasAllowed++;
        await pause(20);
      }
    })();

    let authzIs = "there" as "there" | "changing" | "gone";
    let passed = 0;
    const watchingPasses = (async () => {
      while (!isOver) {
        const before = authzIs;
        const status = await askWith(shop, `${PASS}: 1`);
        if (status === 200) passed++;
        const stayed = before === authzIs ? before : "changing";
        if (stayed === "there" && status !== 200) slips.push(`a pass was answered ${status}`);
        if (stayed === "gone" && status === 200) slips.push("no pass was demanded");
        if (await askWith(shop, "X-No: 1") === 200) slips.push("a caller without a pass came in");
        await pause(20);
      }
    })();

    const setShop = async (action: "allow" | "deny") => {
      if (action === "allow") deniedSince = Infinity;
      for (const name of ["db", "canary"]) await mesh.intention("shop", name, action);
      if (action === "deny") deniedSince = performance.now();
    };
    /** The counters of a cluster are forgotten when the chain does not lead there any more. */
    let retried = 0;
    const flips = seconds * 1_000 / flipEveryMs;
    const at = (part: number) => Math.floor(flips * part);
    for (let turn = 1; turn <= flips; turn++) {
      const due = performance.now() + flipEveryMs;
      await flip(mesh, turn);
      await mark(turn);
      const reloaded = await Promise.all(
        [db, canary].map((sidecar) => sidecar.admin("/plugins/reload", "POST")),
      );
      for (const { status, body } of reloaded) assert.equal(status, 200, body);
      if (turn === at(0.1)) await setShop("allow");
      if (turn === at(0.15)) await mesh.setMaintenance("db-1", true);
      if (turn === at(0.2)) keys.status = 503;
      if (turn === at(0.25)) await mesh.setMaintenance("db-1", false);
      if (turn === at(0.3) || turn === at(0.8)) {
        // Requests wait at a stopped process, so that some are in progress when it is killed.
        killed.kill("SIGSTOP");
        await pause(100);
        killed.kill("SIGKILL");
        await killed.process.exited;
        await pause(200);
      }
      if (turn === at(0.35)) authz.delayMs = 200;
      if (turn === at(0.4)) await setShop("deny");
      if (turn === at(0.5)) {
        authzIs = "changing";
        await authz.go();
        authzIs = "gone";
      }
      if (turn === at(0.6)) keys.status = 200;
      if (turn === at(0.65)) killed = await mesh.sidecar("db-2");
      if (turn === at(0.7)) {
        authzIs = "changing";
        await authz.come();
        authzIs = "there";
      }
      if (turn === at(0.9)) await setShop("allow");
      retried = Math.max(retried, await web.metric("postern_http_retries_total"));
      await pause(Math.max(0, due - performance.now()));
    }
    const results = await Promise.all(loads.map((load) => load.stop({ atLeast: 200 })));
    isOver = true;
    await Promise.all([watching, watchingPasses]);
    assert.deepEqual(slips, []);
    assert.ok(
      passed > 0 && authz.asked > passed,
      "no request reached the shop: this shows nothing",
    );
    assert.ok(wasAllowed > 0, "the shop was never let in: this shows nothing");
    // No more are tried again at a time than the budget of retries allows, as with Envoy.
    const overflow = await web.metric("postern_plugin_retry_upstream_rq_retry_overflow_total");
    const said = web.output.match(/^.*request failed.*$/gm)?.join("\n") ?? "";
    const errors = results.reduce((sum, result) => sum + result.errors, 0);
    const messages = results.flatMap((result) => result.messages).join("\n");
    // A response that had begun at the instance that is killed cannot be sent again.
    const begun = messages.match(BEGUN)?.length ?? 0;
    const cut = `endpoint=${killedAt.host}:${killedAt.port} code=endpoint_reset`;
    const excused = overflow + Math.min(begun, said.split(cut).length - 1);
    assert.ok(errors <= excused, `${errors} requests were lost:\n${messages}\n${said}`);
    assert.deepEqual(results.map(({ invented }) => invented), loads.map(() => 0));
    assert.ok(retried > 0, "nothing was under way at the one that was killed: this shows nothing");
    assert.ok(keys.asked > 3, `the keys were fetched ${keys.asked} times`);
  });
}

async function askWith(place: Place, field: string): Promise<number> {
  return statusOf(
    await RawClient.ask(place, `GET /asked HTTP/1.1\r\nHost: db\r\n${field}\r\n\r\n`),
  );
}

/** Another chain each time: routes, splits and where they end, with the same retries. */
async function flip(mesh: Mesh, turn: number): Promise<void> {
  const retry = {
    NumRetries: 3,
    RetryOn: ["connect-failure", "refused-stream", "reset"],
    RequestTimeout: "20s",
  };
  const named = (Service?: string) => ({ ...retry, ...(Service && { Service }) });
  const all = { Match: { HTTP: { PathPrefix: "/" } }, Destination: named() };
  const some = { PathRegex: "/load/[0-9]*[4-7]" };
  switch (turn % 4) {
    case 0:
      return await mesh.configEntry({ Kind: "service-router", Name: "db", Routes: [all] });
    case 1:
      return await mesh.configEntry({
        Kind: "service-router",
        Name: "db",
        Routes: [{ Match: { HTTP: some }, Destination: named("canary") }, all],
      });
    case 2:
      return await mesh.configEntry({
        Kind: "service-splitter",
        Name: "db",
        Splits: turn % 8 < 4
          ? [{ Weight: 50 }, { Weight: 50, Service: "canary" }]
          : [{ Weight: 100 }],
      });
    default:
      return await mesh.configEntry({
        Kind: "service-resolver",
        Name: "db",
        ConnectTimeout: turn % 8 < 4 ? "3s" : "5s",
        Failover: { "*": { Targets: [{ Service: "canary" }] } },
        LoadBalancer: { Policy: turn % 8 < 4 ? "least_request" : "round_robin" },
      });
  }
}

function markOf(turn: number): string {
  return `
import * as v from "valibot";
export default {
  name: "mark",
  api: 1,
  phase: "filter",
  config: v.strictObject({}),
  create: () => ({
    onRequest: (_args, next) =>
      next({ response: (response) => response.with({ headers: { set: { "x-mark": "${turn}" } } }) }),
  }),
};
`;
}
