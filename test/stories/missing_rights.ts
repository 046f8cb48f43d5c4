/**
 * Rights that a token lacks are named; rights that it lost are named, too, and their loss costs no
 * connection.
 */

import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { EchoClient, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { assertFlawless, Load } from "../kit/wire/load.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually, pause } from "../kit/process/process.ts";

/** Everything that `web` with an upstream `db` needs, rule by rule. */
const RULES = {
  "own service": 'service "web" { policy = "write" }',
  "own sidecar": 'service "web-sidecar-proxy" { policy = "write" }',
  "upstream": 'service_prefix "db" { policy = "read" }',
  "nodes": 'node_prefix "" { policy = "read" }',
};

function without(lacks: keyof typeof RULES, instead = ""): string {
  const rules = Object.entries(RULES).filter(([name]) => name !== lacks).map(([, rule]) => rule);
  return [...rules, instead].join("\n");
}

export function missingRights(agents: Agents): void {
  test("each right that a token lacks is named with its resource", async () => {
    await using mesh = await agents.start({ acl: true });
    await using app = await mesh.echo();
    await using _db = await mesh.serve({ name: "db", port: app.port });
    await mesh.intention("web", "db", "allow");
    const upstream = { name: "db", ...await mesh.place() };
    const id = await mesh.register({ name: "web", upstreams: [upstream] });
    const onService = /\[ERROR\][^\n]*right=service:write on=web /;
    const cases: readonly (readonly [rules: string, named: RegExp])[] = [
      [without("own service"), onService],
      [without("own service", 'service "web" { policy = "read" }'), onService],
      // In Consul's own words: its error for a registration that may not be read.
      [without("own sidecar"), /lacks permission 'service:read' on \\?"web-sidecar-proxy/],
      [without("upstream"), /\[ERROR\][^\n]*right=service:read on=db [^\n]*upstream db/],
      [without("nodes"), /\[ERROR\][^\n]*right=node:read on="any node"/],
    ];
    const says = async (token: string, named: RegExp) => {
      await using web = mesh.run(["proxy", "-sidecar-for", id, "-admin-bind", "off"], { token });
      // The sidecar may wait for the right or give up: it names the right in both cases.
      web.expectEnd();
      await web.process.waitFor(named, { timeoutMs: 60_000 });
      assert.ok(!web.output.includes(token), "it shows its token");
    };
    await Promise.all([
      ...cases.map(async ([rules, named]) => says(await mesh.tokenWithRules(rules), named)),
      says("11111111-2222-3333-4444-555555555555", /ACL not found/),
    ]);
    const token = await mesh.tokenWithRules(Object.values(RULES).join("\n"));
    await using _web = await mesh.sidecar(id, { token });
    await waitForEcho(upstream);
  });

  test("a token that is deleted is missed in the log and the metrics, and by no connection", async () => {
    await using story = await startWithTokenFile(agents);
    const { mesh, sidecar, upstream, later } = story;
    const open = await EchoClient.open(upstream);
    await using load = new Load(upstream);
    await mesh.deleteToken(story.token);
    // A waiting call keeps its answer; the changes make it ask again, and be refused. A real agent
    // ends a health poll whose token is no more with "200 []": an empty list that must not be
    // believed.
    await story.touchDb();
    await story.registerLater();
    await mesh.intention("other", "web", "deny");
    await sidecar.process.waitFor(/\[WARN\][^\n]*agent_forbidden[^\n]*ACL not found/, {
      timeoutMs: 60_000,
    });
    await eventually("metrics say so", async () => {
      const { body } = await sidecar.admin("/stats/prometheus");
      return /^postern_snapshot_stale\{reason="agent_forbidden"\} [1-9]/m.test(body) &&
        await sidecar.metric("postern_agent_watch_failures_total") > 0;
    });
    const exchanges = load.result.exchanges;
    await eventually("the load goes on", () => load.result.exchanges >= exchanges + 100);

    await story.renew();
    // At once instead of when the pause after a 403 is over.
    sidecar.kill("SIGHUP");
    await sidecar.process.waitFor(/token read/, { timeoutMs: 30_000 });
    await waitForEcho(later, { timeoutMs: 60_000 });
    assertFlawless(await load.stop({ atLeast: 51 }), { atLeast: 51 });
    await open.exchange(new TextEncoder().encode("still here"));
    await open.finish();
  });

  test("a new token in the token file takes over from one that is deleted", async () => {
    await using story = await startWithTokenFile(agents);
    const { mesh, sidecar, upstream, later } = story;
    await using load = new Load(upstream);
    await story.renew();
    await sidecar.process.waitFor(/token read/, { timeoutMs: 30_000 });
    await mesh.deleteToken(story.token);
    // Chain and endpoints of a new upstream can only be had with a token that is valid now.
    await story.registerLater();
    await waitForEcho(later, { timeoutMs: 60_000 });
    assertFlawless(await load.stop({ atLeast: 300 }), { atLeast: 300 });
    // Polls that were waiting when the token was deleted may have logged it; none may again.
    const said = () => sidecar.output.split("ACL not found").length;
    const saidBefore = await eventually("they have all said so", async () => {
      const before = said();
      await pause(1_000);
      return said() === before && before;
    });
    await mesh.intention("web", "db", "deny");
    await waitForRefusal(upstream);
    assert.equal(
      said(),
      saidBefore,
      `The deleted token is still in use\n${sidecar.process.tail()}`,
    );
  });
}

/** `web`, which calls `db` with a token from a file, and may call `later`, too. */
async function startWithTokenFile(agents: Agents) {
  await using own = new AsyncDisposableStack();
  const mesh = own.use(await agents.start({ acl: true }));
  const directory = await mkdtemp(join(tmpdir(), "postern-token-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const app = own.use(await mesh.echo());
  const db = { name: "db", port: app.port, sidecarPort: (await mesh.place()).port };
  own.use(await mesh.serve(db));
  await mesh.intention("web", "db", "allow");
  const upstream = { name: "db", ...await mesh.place() };
  const later = { name: "db2", ...await mesh.place() };
  const web = { name: "web", sidecarPort: (await mesh.place()).port };
  const id = await mesh.register({ ...web, upstreams: [upstream] });
  const file = join(directory, "token");
  const token = await mesh.serviceToken("web");
  await writeFile(file, `${token}\n`);
  const sidecar = own.use(await mesh.sidecar(id, { args: ["-token-file", file] }));
  await waitForEcho(upstream);
  const owned = own.move();
  return {
    mesh,
    sidecar,
    upstream,
    later,
    token,
    /** Changes the registration of db's instance, in nothing that matters. */
    touchDb: () => mesh.register({ ...db, meta: { touched: "yes" } }),
    /** `later` becomes an upstream: another name of db's. */
    async registerLater() {
      const Redirect = { Service: "db" };
      await mesh.configEntry({ Kind: "service-resolver", Name: "db2", Redirect });
      await mesh.register({ ...web, upstreams: [upstream, later] });
    },
    /** As a secret manager does it: the new file takes the old one's name in one step. */
    async renew() {
      await writeFile(`${file}.new`, `${await mesh.serviceToken("web")}\n`);
      await rename(`${file}.new`, file);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
