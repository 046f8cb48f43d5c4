import assert from "node:assert/strict";
import { test } from "node:test";
import type { AskAdmin } from "../../admin/mod.ts";
import { codeHint, explained, type ExplainOptions } from "./run_explain.ts";

const AT = { kind: "tcp", host: "127.0.0.1", port: 19_001 } as const;
const OPTIONS: ExplainOptions = {
  proxy: { kind: "address", admin: AT },
  method: "PUT",
  upstream: "db",
  host: "db",
  path: "/a?b=c&d",
  headers: ["x: 1", "y: &2"],
  source: "",
  json: false,
  connects: true,
};

/** The admin server of the proxy of `web` at port 19003, with this answer to `/explain`. */
function admin(status: number, body: string): { readonly requests: URL[]; readonly ask: AskAdmin } {
  const requests: URL[] = [];
  return {
    requests,
    ask({ port }, { path }) {
      if (path === "/server_info") {
        if (port !== 19_003) return Promise.reject(new Error("connection refused"));
        const info = { node: { id: "web-proxy" }, postern: { options: { sidecarFor: "web" } } };
        return Promise.resolve({ status: 200, body: JSON.stringify(info) });
      }
      requests.push(new URL(path, `http://127.0.0.1:${port}`));
      return Promise.resolve({ status, body });
    },
  };
}

test("explained() sends the request's parts as they were written", async () => {
  const { requests, ask } = admin(200, "the answer");
  assert.deepEqual(await explained(OPTIONS, ask), { text: "the answer", exitCode: 0 });
  const [{ pathname, port, searchParams } = new URL("a:b")] = requests;
  assert.deepEqual([pathname, port], ["/explain", "19001"]);
  assert.deepEqual([...searchParams], [
    ["method", "PUT"],
    ["host", "db"],
    ["path", "/a?b=c&d"],
    ["upstream", "db"],
    ["header", "x: 1"],
    ["header", "y: &2"],
    ["format", "text"],
  ]);
});

test("explained() finds the proxy by its flag and sends the source of an inbound request", async () => {
  const { requests, ask } = admin(200, "{}");
  const proxy = { kind: "proxy", wanted: { flag: "sidecar-for", value: "web" } } as const;
  await explained({ ...OPTIONS, proxy, upstream: undefined, source: "shop", json: true }, ask);
  const [{ port, searchParams } = new URL("a:b")] = requests;
  assert.equal(port, "19003");
  assert.deepEqual([searchParams.get("source"), searchParams.get("upstream")], ["shop", null]);
  assert.equal(searchParams.get("format"), null);
});

for (
  const [name, options, answer, want] of [
    [
      "the proxy's own error",
      {},
      [404, 'Cannot explain: there is no upstream "db"\n'],
      /^Cannot explain: there is no upstream "db"$/,
    ],
    [
      "the status of an empty answer",
      {},
      [500, ""],
      /^Cannot ask the proxy at .*:19001: status 500$/,
    ],
    [
      "a proxy that is not there",
      { proxy: { kind: "proxy", wanted: { flag: "proxy-id", value: "x" } } },
      [200, ""],
      /^Cannot ask the proxy of -proxy-id x: .*there is web-proxy at 127.0.0.1:19003/,
    ],
  ] as const
) {
  test(`explained() fails with ${name}`, async () => {
    const [status, body] = answer;
    const { ask } = admin(status, body);
    await assert.rejects(explained({ ...OPTIONS, ...options }, ask), { message: want });
  });
}

/** Sidecars of `names` on ports 19000 and following; those of `having` have the upstream. */
function several(names: readonly string[], having: readonly string[]): AskAdmin {
  return ({ port }, { path }) => {
    const name = names[port - 19_000];
    if (name === undefined) return Promise.reject(new Error("connection refused"));
    if (path === "/server_info") {
      const node = { id: `${name}-sidecar-proxy`, cluster: name.replace(/-.*/, "") };
      const body = JSON.stringify({ node, postern: { options: { sidecarFor: name } } });
      return Promise.resolve({ status: 200, body });
    }
    const has = having.includes(name);
    return Promise.resolve({ status: has ? 200 : 404, body: has ? `by ${name}` : "none" });
  };
}
const ONLY = { ...OPTIONS, proxy: { kind: "only" } } as const;

test("explained() asks the only proxy, or the only one with the upstream, and says so", async () => {
  assert.deepEqual(await explained(ONLY, several(["web-1"], ["web-1"])), {
    text: "by web-1",
    exitCode: 0,
  });
  assert.deepEqual(await explained(ONLY, several(["web-1", "db-1", "batch-1"], ["batch-1"])), {
    text: "by batch-1",
    exitCode: 0,
    note: "asked batch-1, the only one of 3 proxies here with an upstream db",
  });
});

for (
  const [name, options, having] of [
    ["none of them has the upstream", ONLY, []],
    ["both have the upstream", ONLY, ["web-1", "db-1"]],
    ["the service itself is meant", { ...ONLY, upstream: undefined }, ["web-1"]],
  ] as const
) {
  test(`explained() lists several proxies with their flags where ${name}`, async () => {
    const message = `Cannot tell the proxy that is meant: 2 run on this machine; choose one:
  -sidecar-for web-1  web-1-sidecar-proxy of service web, admin server 127.0.0.1:19000
  -sidecar-for db-1   db-1-sidecar-proxy of service db, admin server 127.0.0.1:19001`;
    await assert.rejects(explained(options, several(["web-1", "db-1"], having)), { message });
  });
}

test("explained() lists two proxies of one id by their admin servers, and says where none runs", async () => {
  await assert.rejects(explained(ONLY, several(["web-1", "web-1"], ["web-1"])), {
    message: /\n {2}-admin 127\.0\.0\.1:19000 .*\n {2}-admin 127\.0\.0\.1:19001 /,
  });
  await assert.rejects(explained(ONLY, several([], [])), {
    message: /^Cannot ask the proxy that is meant: no admin server answers on ports 19000 to 19100/,
  });
});

for (
  const [word, want] of [
    ["endpoint_refusd", /^\n"endpoint_refusd" is no code, .*"postern explain endpoint_refused"\?$/],
    ["quite_another_word_altogether", /docs\/codes\.md lists them$/],
    ["db", /^$/],
    [undefined, /^$/],
  ] as const
) {
  test(`codeHint() of ${word}`, () => assert.match(codeHint(word), want));
}

test("explained() escapes control characters of the answer", async () => {
  const { ask } = admin(200, "a\x1b[2J\n");
  assert.equal((await explained(OPTIONS, ask)).text, "a\\u001b[2J\n");
});

test("explained() has the exit code of the answer's header", async () => {
  const { ask } = admin(200, "refused");
  const refusing: AskAdmin = async (place, question) => ({
    ...await ask(place, question),
    headers: { "postern-exit-code": "1" },
  });
  assert.equal((await explained(OPTIONS, refusing)).exitCode, 1);
});

test("explained() names the proxy that does not answer", async () => {
  const ask: AskAdmin = () => Promise.reject(new Error("no answer in time"));
  const message = "Cannot ask the proxy at 127.0.0.1:19001: no answer in time";
  await assert.rejects(explained(OPTIONS, ask), { message });
});
