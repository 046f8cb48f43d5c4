import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { getPriority } from "node:os";
import { join } from "node:path";
import process from "node:process";
import test from "node:test";
import { createFileSidecar, type FileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { answerOf, RawClient, startRawOrigin, statusOf } from "../../kit/wire/http_raw.ts";
import { handsOver, type Postern, runPostern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";
import { threadsOf } from "../../kit/process/memory.ts";

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: web\r\n\r\n`;
const CLIENTS = 4;
const MOST_CLIENTS = 64;
/** So many connections that each of two workers has some of them. */
const PROBES = 16;

const pluginText = ({ inCreate = "", inRequest = "" }) => `
import * as v from "valibot";
export default {
  name: "loops",
  api: 1,
  phase: "filter",
  config: v.strictObject({}),
  create() {
    ${inCreate}
    return {
      onRequest({ request }: any, next: any) {
        if (request.path === "/loop") { ${inRequest} }
        return next();
      },
    };
  },
};
`;
const SOON = { timeoutMs: 20_000 };
const LOOP = "for (;;);";

async function startWithPlugin(mesh: FileSidecar, localPort: number) {
  const config = JSON.parse(await readFile(join(mesh.directory, "web.json"), "utf8"));
  Object.assign(config.inbound, { protocol: "http", local: `127.0.0.1:${localPort}` });
  Object.assign(config.upstreams[0], { protocol: "http", plugins: [{ use: "./loops.ts" }] });
  await writeFile(join(mesh.directory, "web.json"), JSON.stringify(config));
  const write = (text: string) => writeFile(join(mesh.directory, "loops.ts"), text);
  await write(pluginText({ inRequest: LOOP }));
  const web = runPostern([...mesh.args, "-workers", "2"]);
  await web.waitReady();
  return { web, write };
}

interface LoadClient {
  /** The worker that accepted its first connection. */
  readonly worker: number;
  answered: number;
  refused: number;
  lost: number;
}

/** Requests without a pause on one connection at least to each worker; each client reconnects. */
async function startLoad(mesh: FileSidecar, web: Postern) {
  let isOver = false;
  const clients: LoadClient[] = [];
  const running: Promise<void>[] = [];
  const run = async (first: RawClient, counts: LoadClient) => {
    for (let open: RawClient | undefined = first; !isOver; open = undefined) {
      try {
        await using client = open ?? await RawClient.open(mesh.upstream);
        while (!isOver) {
          client.send(get("/"));
          if (statusOf(await client.response()) === 200) counts.answered++;
          else counts.refused++;
        }
      } catch {
        counts.lost++;
      }
    }
  };
  while (new Set(clients.map(({ worker }) => worker)).size < 2 || clients.length < CLIENTS) {
    assert.ok(clients.length < MOST_CLIENTS, "the kernel gave all connections to one worker");
    const client = await RawClient.open(mesh.upstream);
    const port = client.socket.localPort;
    const { id } = await eventually("it is shown", async () => {
      const shown: readonly { readonly id: string; readonly remote: string }[] =
        JSON.parse((await web.admin("/connections")).body).connections;
      return shown.find(({ remote }) => remote.endsWith(`:${port}`));
    });
    const counts = { worker: Number(id.split("-")[0]), answered: 0, refused: 0, lost: 0 };
    clients.push(counts);
    running.push(run(client, counts));
  }
  return async () => {
    isOver = true;
    await Promise.all(running);
    return clients;
  };
}

/** The statuses on so many new connections. */
async function statuses(mesh: FileSidecar): Promise<readonly number[]> {
  return await Promise.all(Array.from({ length: PROBES }, async () => {
    return await RawClient.ask(mesh.upstream, get("/")).then(statusOf, () => 0);
  }));
}

async function loop(mesh: FileSidecar): Promise<void> {
  const client = await RawClient.open(mesh.upstream);
  client.send(get("/loop"));
  await client.ended().catch(() => {});
}

const events = async (web: Postern) => (await web.admin("/events")).body;
const plugins = async (web: Postern) => JSON.parse((await web.admin("/plugins")).body).plugins;

/** Threads that carry traffic have the same priority, or the log says that this process may not raise it. */
function hasPriority(web: Postern) {
  const workers = threadsOf(web.process.pid).filter(({ name }) => name === "Worker");
  assert.ok(workers.length >= 2, `${workers.length} workers`);
  if (/replaced data worker has the lower priority/.test(web.output)) {
    return assert.notEqual(process.getuid?.(), 0);
  }
  assert.deepEqual(workers.filter(({ nice }) => nice !== getPriority(0)), []);
}

test("a plugin that loops costs one worker, is named, and is not called after the second time", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(() => answerOf("ok"));
  await using stack = new AsyncDisposableStack();
  const { web, write } = await startWithPlugin(mesh, origin.port);
  stack.use(web);
  if (!handsOver(web)) return await namesWhatItCannotEnd(mesh, web, write);

  const stopLoad = await startLoad(mesh, web);
  const startedMs = performance.now();
  await loop(mesh);
  const endedMs = performance.now() - startedMs;
  const next = await statuses(mesh);
  const servedMs = performance.now() - startedMs;
  const [died] = await web.process.waitFor(/data worker died[^\n]*\n/, SOON);
  assert.match(
    died,
    /plugin loops of \S*web \(upstreams\[.*web.*\]\.plugins\[0\]\) held it in onRequest for 2 s/,
  );
  await eventually(
    "both workers serve again",
    async () =>
      (await plugins(web)).length === 1 && (await web.admin("/events")).body.includes("replaced") &&
      (await statuses(mesh)).every((status) => status === 200),
  );
  hasPriority(web);
  const spans = [endedMs, servedMs, performance.now() - startedMs].map((ms) => ms.toFixed(0));
  console.log(`ms until it was ended, until others were served, and replaced: ${spans}`);
  assert.deepEqual(new Set(next), new Set([200]), "new connections reach the other worker");
  const held = Number(/worker[":= ]+(\d)/.exec(died.slice(died.indexOf("another")))?.[1]);
  for (const { worker, answered, refused, lost } of await stopLoad()) {
    console.log(
      `client of worker ${worker}: ${answered} answered, ${refused} refused, ${lost} lost`,
    );
    assert.ok(answered > 0);
    // Its requests may have been on their way through the other worker's public listener.
    assert.ok(refused <= 1, `${refused} refused`);
    assert.equal(lost, worker === held ? 1 : 0, `worker ${held} was held`);
  }
  assert.match(await events(web), /data worker \d died: plugin loops of /);
  const [shown] = await plugins(web);
  assert.match(JSON.stringify(shown), /it held data worker \d in onRequest for 2 s/);
  assert.equal(shown.state, "serving");
  assert.equal(await web.metric("postern_plugin_held_worker_total"), 1);

  await loop(mesh);
  await web.process.waitFor(/plugin is not called any more[^\n]*plugin[":=]+loops/, SOON);
  await eventually("both workers refuse what it should judge", async () => {
    return (await statuses(mesh)).every((status) => status === 500);
  });
  assert.match(await events(web), /loops is not called any more, until its list, file/);
  assert.equal((await plugins(web))[0].state, "broken");
  assert.ok(await web.metric("postern_plugin_broken") > 0);

  await write(pluginText({ inRequest: "" }));
  assert.equal((await web.admin("/plugins/reload", "POST")).status, 200);
  await eventually("the new content is called", async () => {
    return (await statuses(mesh)).every((status) => status === 200);
  });

  await write(pluginText({ inCreate: LOOP }));
  const refused = await web.admin("/plugins/reload", "POST");
  assert.equal(refused.status, 409, refused.body);
  assert.match(refused.body, /plugin loops of .* held it in create for 2 s/);
  await eventually("the old one serves in both workers", async () => {
    return (await statuses(mesh)).every((status) => status === 200);
  });
  assert.equal(await web.metric("postern_plugin_held_worker_total"), 3);
});

/** On a runtime that cannot end a thread. */
async function namesWhatItCannotEnd(
  mesh: FileSidecar,
  web: Postern,
  write: (text: string) => Promise<void>,
): Promise<void> {
  await write(pluginText({ inCreate: LOOP }));
  const refused = await web.admin("/plugins/reload", "POST");
  assert.equal(refused.status, 409, refused.body);
  assert.match(refused.body, /plugin loops of .* held it in create for 2 s/);
  await web.process.waitFor(/a plugin holds a data worker, which cannot be ended: restart/, SOON);
  assert.match(await events(web), /loops of \S+ holds data worker 0 in create .*restart the proxy/);
  assert.equal(await web.metric("postern_plugin_held_worker_total"), 1);
  // Some of them reach the worker that answers nothing.
  const clients = await Promise.all(
    Array.from({ length: PROBES }, () => RawClient.open(mesh.upstream)),
  );
  for (const client of clients) client.send(get("/"));
  const first = await Promise.any(clients.map((client) => client.bytes(12)));
  for (const client of clients) await client[Symbol.asyncDispose]();
  assert.equal(first, "HTTP/1.1 200", "the other worker serves on");
}
