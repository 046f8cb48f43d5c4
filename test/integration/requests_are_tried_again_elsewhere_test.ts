import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_OUTLIER } from "../../src/balance/mod.ts";
import { assertFlawless } from "../kit/wire/load.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startDataPath, type TestPath } from "../kit/engine/data_path.ts";
import { HttpLoad } from "../kit/wire/http_load.ts";
import { RequestCounts } from "../kit/wire/http_origin.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import {
  httpRules,
  intention,
  snapshotOf,
  targetOf,
  withInbound,
} from "../kit/engine/snapshots.ts";

/** Failures in a row that eject. */
const MAX_FAILURES = 2;
const OUTLIER = { ...DEFAULT_OUTLIER, maxFailures: MAX_FAILURES };

/** A sidecar of web, and one of db for each of its applications. */
interface Mesh extends AsyncDisposable {
  readonly port: number;
  readonly dbs: readonly TestPath[];
  /** Bodies that each application got. */
  readonly bodies: readonly string[][];
}

type App = (body: string, head: string) => string | undefined;

async function startMesh(apps: readonly App[], plugins: Record<string, unknown>): Promise<Mesh> {
  const stack = new AsyncDisposableStack();
  const ca = createAuthority();
  const dbs: TestPath[] = [];
  const bodies: string[][] = [];
  let uri = "";
  for (const app of apps) {
    const got: string[] = [];
    const origin = stack.use(
      await startRawOrigin(({ head, body }) => {
        got.push(body);
        return app(body, head);
      }),
    );
    const snapshot = snapshotOf({
      ca,
      service: "db",
      intentions: [intention("web", "allow")],
      local: { kind: "tcp", host: "127.0.0.1", port: origin.port },
    });
    uri = snapshot.credentials.uri;
    const db = stack.use(
      await startDataPath(withInbound(snapshot, { http: httpRules("http") })),
    );
    dbs.push(db);
    bodies.push(got);
  }
  const uses = Object.entries(plugins).map(([plugin, config]) => ({
    plugin,
    config,
    onFailure: "refuse" as const,
    at: `upstreams.db.${plugin}`,
  }));
  const web = stack.use(
    await startDataPath(snapshotOf({
      ca,
      service: "web",
      upstreams: [{ name: "db", http: httpRules("http"), plugins: uses, outlier: OUTLIER }],
      targets: [targetOf({ name: "db", uris: [uri], ports: dbs.map((db) => db.port()) })],
    })),
  );
  const port = web.port("db");
  return { port, dbs, bodies, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const silent: App = () => undefined;
const down: App = () => answerOf("down", "HTTP/1.1 503 No");
const echo: App = (body) => answerOf(`got ${body}`);
const GET = "GET /a HTTP/1.1\r\nHost: db\r\n\r\n";
const POST = "POST /a HTTP/1.1\r\nHost: db\r\nContent-Length: 3\r\n\r\nabc";

async function askTimes(mesh: Mesh, times: number, text: string): Promise<string[]> {
  await using client = await RawClient.open({ host: "127.0.0.1", port: mesh.port });
  const answers: string[] = [];
  for (let i = 0; i < times; i++) {
    client.send(text);
    const answer = await client.response();
    answers.push(`${statusOf(answer)} ${answer.body}`);
  }
  return answers;
}

test("requests that follow each other go to all endpoints in turn", async () => {
  await using mesh = await startMesh([echo, echo], {});
  await askTimes(mesh, 4, GET);
  assert.deepEqual(mesh.bodies.map(({ length }) => length), [2, 2]);
});

for (const [what, text, wanted] of [["a GET", GET, "200 got "], ["a body", POST, "200 got abc"]]) {
  test(`${what} that one endpoint answers 503 to goes to the other`, async () => {
    await using mesh = await startMesh([down, echo], { retry: { retryOn: ["5xx"] } });
    const answers = await askTimes(mesh, 4, text ?? "");
    assert.deepEqual(answers, [wanted, wanted, wanted, wanted]);
    // None had a request twice.
    const [failing = [], other = []] = mesh.bodies;
    assert.ok(failing.length >= 1 && failing.length <= 4, `${failing.length} asked in vain`);
    assert.equal(other.length, 4);
  });
}

test("a body over the limit is sent once, and the caller gets its response", async () => {
  await using mesh = await startMesh([down, echo], {
    retry: { retryOn: ["5xx"], replayLimitBytes: 2 },
  });
  const answers = await askTimes(mesh, 2, POST);
  assert.deepEqual(answers.toSorted(), ["200 got abc", "503 down"]);
});

test("an endpoint that is silent is left for the other, and ejected where that goes on", async () => {
  await using mesh = await startMesh([silent, echo], {
    retry: { retryOn: ["reset"], perTryTimeoutMs: 300 },
  });
  const answers = await askTimes(mesh, 8, GET);
  assert.deepEqual(new Set(answers), new Set(["200 got "]));
  assert.equal(mesh.bodies[0]?.length, MAX_FAILURES);
});

test("where all endpoints fail the caller gets the last response, after all permitted retries", async () => {
  await using mesh = await startMesh([down, down], { retry: { numRetries: 3, retryOn: ["5xx"] } });
  assert.deepEqual(await askTimes(mesh, 1, GET), ["503 down"]);
  assert.equal(mesh.bodies.flat().length, 4);
});

test("no request is lost when an endpoint is killed under load", async () => {
  const counts = new RequestCounts();
  const counted: App = (body, head) => {
    counts.seen(head.split(" ")[1] ?? "");
    return answerOf(body);
  };
  await using mesh = await startMesh([counted, counted], {
    retry: { numRetries: 2, retryOn: ["5xx"], budget: { percent: 100, minimum: 3 } },
  });
  await using load = new HttpLoad({ host: "127.0.0.1", port: mesh.port }, counts);
  await load.past(100);
  mesh.dbs[0]?.path.close();
  assertFlawless(await load.stop({ atLeast: 200 }), { atLeast: 200 });
});
