/**
 * One caller and one application of each protocol, with Envoy or Postern on either side of them on the
 * same Consul: what reaches the application and what comes back is as between two Envoys, but for what
 * `docs/differences.md` says.
 */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { ASKED, GRPC_MESSAGE } from "../kit/asked_app.ts";
import type { Place } from "../kit/echo.ts";
import { type Ask, askHttp1, askHttp2, type Got } from "../kit/mixed_ask.ts";
import { EXPOSED, MixedMesh, NOWHERE, PROXIES } from "../kit/mixed_mesh.ts";
import { eventually } from "../kit/process.ts";

/** What the caller speaks, and the service. */
const WIRES = {
  "1.1": [askHttp1, "http"],
  "2": [askHttp2, "http2"],
  "1.1 to 2": [askHttp1, "http2"],
  "2 to 1.1": [askHttp2, "http"],
  grpc: [askHttp2, "grpc"],
} as const;
type Wire = keyof typeof WIRES;
const HTTP = ["1.1", "2", "1.1 to 2", "2 to 1.1"] as const;

type Case = readonly [name: string, ask: Partial<Ask>, wires?: readonly Wire[]];

const BODY = "0123456789".repeat(100_000);
const STEERING = [
  ...["x-envoy-retry-on: 5xx", "x-envoy-max-retries: 1", "x-envoy-internal: true"],
  ...["x-envoy-upstream-rq-timeout-ms: 5000", "x-envoy-decorator-operation: a"],
  ...["x-envoy-own: 1", "x-envoy-attempt-count: 4", "x-envoy-external-address: 1.1.1.1"],
  ...[
    "x-envoy-peer-metadata: 1",
    "x-envoy-downstream-service-node: b",
    "x-envoy-force-trace: true",
  ],
];
const FORWARDED = [
  ...["x-forwarded-for: 1.2.3.4", "x-forwarded-host: a", "x-forwarded-proto: https"],
  ...["x-forwarded-port: 99", "x-forwarded-client-cert: By=me", "x-real-ip: 9.9.9.9"],
  ...["x-request-id: given", "forwarded: for=1", "via: 1.1 me", "te: trailers", "x_own: 1"],
  ...["user-agent: test", "cookie: a=1", "accept: */*", "authorization: Bearer a"],
  ...["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-b3-sampled: 1"],
];
const REFERERS = [
  ...["a", "/a?b=c:d", "HTTPS://a:1/b//c?d@e", "a:b", "http:/a", "http://u@a/", "http://a/#b"],
  ...["/a#b", "a b", "ftp://a", "//a/b"],
];

function rpc(path: string): Case {
  const fields = ["content-type: application/grpc", "te: trailers", "grpc-timeout: 30S"];
  return [`gRPC ${path}`, { method: "POST", path, fields, body: GRPC_MESSAGE, streamed: true }, [
    "grpc",
  ]];
}

const CASES: readonly Case[] = [
  // First, because it takes its time.
  ["no response at all", { path: "/slow" }],
  rpc("/slow"),
  ["a request", { path: "/get?a=b" }],
  ["fields that steer a proxy", { fields: STEERING }],
  ["fields that a proxy adds to", { fields: FORWARDED }],
  ["an empty request id", { fields: ["x-request-id: "] }],
  ...REFERERS.map((
    value,
  ): Case => [`referer ${value}`, { fields: [`referer: ${value}`] }, ["1.1"]]),
  ["a body of a megabyte", { method: "POST", path: "/echo", body: BODY }],
  ["a body of unknown length", { method: "POST", path: "/echo", body: BODY, streamed: true }],
  ["no body", { method: "POST" }, ["1.1"]],
  ["trailers of a request", {
    method: "POST",
    path: "/echo",
    body: "a",
    streamed: true,
    trailers: ["x-sum: 1"],
  }],
  ["go on", { method: "POST", path: "/echo", body: "abc", fields: ["expect: 100-continue"] }],
  ["DELETE with a body", { method: "DELETE", path: "/echo", body: "abc" }],
  ["a method of its own", { method: "PURGE" }, ["2"]],
  ["a path with dots", { path: "/a/../b/%2e%2e/c//d" }],
  ["a path that is refused", { path: "/a%00b" }],
  ["a response's own fields", { path: "/own" }],
  ["a response of unknown length", { path: "/pieces" }],
  ["trailers of a response", { path: "/trailers" }],
  ["early hints", { path: "/hints" }],
  ["HEAD", { method: "HEAD" }],
  ...[204, 304, 404, 500].map((status): Case => [`${status}`, { path: `/${status}` }]),
  ["denied", { path: "/denied" }],
  ["denied with a body", { method: "POST", path: "/denied", body: "abc" }],
  ["denied before it goes on", {
    method: "POST",
    path: "/denied",
    body: "a",
    fields: ["expect: 100-continue"],
  }],
  ["a response that breaks off", { path: "/breaks" }],
  ["no response but an end", { path: "/drops" }],
  ["a head that is too large", { fields: [`x-large: ${"a".repeat(62_000)}`] }, ["1.1"]],
  ["too many fields", { fields: Array.from({ length: 120 }, (_, at) => `x-${at}: 1`) }, ["1.1"]],
  ["WebSocket", { path: "/ws", upgrade: true }, ["1.1"]],
  ...["/unary", "/stream", "/status", "/denied", "/drops", "/breaks"].map(rpc),
  ["a request that is no gRPC", { path: "/get" }, ["grpc"]],
];

const MESH = {
  Kind: "mesh",
  HTTP: {
    SanitizeXForwardedClientCert: true,
    Incoming: {
      RequestNormalization: {
        MergeSlashes: true,
        PathWithEscapedSlashesAction: "REJECT_REQUEST",
        HeadersWithUnderscoresAction: "DROP_HEADER",
      },
    },
  },
};

const MESH_CASES: readonly Case[] = [
  ["what the caller says of itself", { fields: ["x-forwarded-client-cert: By=me"] }],
  ["a path with slashes", { path: "/a//b/%2e%2e///c?d//e" }],
  ["a path with escaped slashes", { path: "/a%5cb" }],
  ["an underscore in a name", { fields: ["x_own: 1", "x-own_: 1"] }],
];

/** Lines that one has and the other has not: `docs/differences.md`. */
const APART: readonly RegExp[] = [
  // Of responses, by Envoy only.
  /^< (date|server|x-envoy-upstream-service-time): /,
  /^< 103 /,
  // Sent on by Envoy only.
  /^> x-envoy-original-path: /,
  // Whether there is one says nothing.
  /^[<>] content-length: 0$/,
  // Of one hop: whether the rest of a body is read.
  /^< connection: close$/,
];

/** One question to several who should say the same; the first is Envoy, or a pair of them. */
interface Round {
  readonly name: string;
  readonly wire: Wire;
  readonly ask: Partial<Ask>;
  readonly places: readonly (readonly [who: string, place: Place])[];
}

class Comparison {
  readonly #mesh: MixedMesh;
  #asked = 0;

  constructor(mesh: MixedMesh) {
    this.#mesh = mesh;
  }

  /** Every pair has what it needs. */
  async ready(): Promise<void> {
    const first = rounds(this.#mesh, [["", {}, ["1.1", "2", "grpc"]]]);
    await Promise.all(
      first.flatMap(({ wire, places }) =>
        places.map(([who, place]) =>
          eventually(`a first request gets through where ${who}`, async () => {
            return (await this.lines(wire, {}, place))[0]?.startsWith("< 200");
          })
        )
      ),
    );
  }

  /** What reached the application (`>`) and what came back (`<`), but for {@link APART}. */
  async lines(wire: Wire, ask: Partial<Ask>, place: Place): Promise<string[]> {
    const [send, protocol] = WIRES[wire];
    const id = `${++this.#asked}`;
    const fields = [...ask.fields ?? [], `${ASKED}: ${id}`];
    const got = await send(place, { ...NOTHING, ...ask, fields });
    const seen = this.#mesh.apps[protocol].seen(id);
    // Those of HTTP/1.1 are dropped by Envoy.
    const hasTrailers = wire === "2" || wire === "grpc";
    const lines = shownAnswer(got);
    if (hasTrailers) lines.push(...got.trailers.map((one) => `<< ${one}`));
    if (seen) {
      lines.push(`> ${seen.first} ${shownBody(seen.body)}`);
      lines.push(...seen.fields.map((field) => `> ${plain(field)}`).sort());
      if (hasTrailers) lines.push(...seen.trailers.map((one) => `>> ${one}`));
    }
    return lines.filter((line) => !APART.some((pattern) => pattern.test(line)));
  }

  async differences({ name, wire, ask, places }: Round): Promise<string[]> {
    const [want = [], ...others] = await Promise.all(
      places.map(([, place]) => this.lines(wire, ask, place)),
    );
    return others.flatMap((lines, at) => {
      const more = lines.filter((line) => !want.includes(line)).map((line) => `+ ${line}`);
      const less = want.filter((line) => !lines.includes(line)).map((line) => `- ${line}`);
      const who = places[at + 1]?.[0];
      return [...less, ...more].map((line) => `${name} (${wire}), ${who}: ${line}`);
    });
  }

  /** A few rounds at a time. */
  async all(rounds: readonly Round[]): Promise<readonly string[]> {
    const found: string[] = [];
    let next = 0;
    const work = async () => {
      for (let round = rounds[next++]; round; round = rounds[next++]) {
        found.push(...await this.differences(round));
      }
    };
    await Promise.all(Array.from({ length: 8 }, work));
    return found;
  }
}

const NOTHING: Ask = {
  ...{ method: "GET", path: "/", fields: [], body: "", streamed: false, trailers: [] },
  upgrade: false,
};
const PAIRS = PROXIES.flatMap((from) => PROXIES.map((to) => [from, to] as const));

function shownAnswer({ first, ending, body, fields, informational }: Got): string[] {
  return [
    ...informational.map((line) => `< ${line}`),
    `< ${first} ${ending} ${shownBody(body)}`,
    ...fields.map((field) => `< ${plain(field)}`).sort(),
  ];
}

function shownBody(body: string): string {
  if (body.length < 200) return JSON.stringify(body);
  return `${body.length} bytes, ${createHash("sha1").update(body).digest("hex")}`;
}

/** Without what differs from request to request, and the name of who is behind which proxy. */
function plain(field: string): string {
  return field
    .replace(/-(envoy|postern)(?=$|[;,"])/g, "")
    .replace(/^(x-request-id): [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "$1: ID")
    // What a listener for everybody gives where nothing is configured.
    .replace(/^(x-envoy-expected-rq-timeout-ms): (15|60)000$/, "$1: some")
    // A handshake of Postern's may show the root, too.
    .replace(/(Chain="[^"]*?END%20CERTIFICATE-----%0A)[^"]*/, "$1");
}

const HTTP_AND_GRPC: readonly (readonly [Wire, Partial<Ask>])[] = [
  ["1.1", {}],
  ["2 to 1.1", {}],
  ["grpc", rpc("/unary")[1]],
];

/** Each case over each of its wires, by every pair. */
function rounds(mesh: MixedMesh, cases: readonly Case[]): readonly Round[] {
  return cases.flatMap(([name, ask, wires = HTTP]) =>
    wires.map((wire) => {
      const places = PAIRS.map(([from, to]) =>
        [`${from} calls ${to}`, mesh.upstream(from, `${WIRES[wire][1]}-${to}`)] as const
      );
      return { name, wire, ask, places };
    })
  );
}

test("a pair with Postern on one side or both behaves as two Envoys do", async (t) => {
  await using mesh = await MixedMesh.start();
  const comparison = new Comparison(mesh);
  await comparison.ready();

  await t.test("requests and responses", async () => {
    assert.deepEqual(await comparison.all(rounds(mesh, CASES)), []);
  });

  await t.test("what is exposed", async () => {
    const places = PROXIES.map((proxy) => [proxy, mesh.exposed(proxy)] as const);
    const asks: readonly Partial<Ask>[] = [
      { path: EXPOSED, fields: FORWARDED },
      { path: `${EXPOSED}?a=b` },
      { path: `${EXPOSED}/more` },
      { path: "/", method: "POST", body: "abc" },
      { path: `/x/..${EXPOSED}` },
      { path: `${EXPOSED}`, method: "POST", body: "abc" },
    ];
    const all = asks.flatMap((ask) =>
      (["1.1", "2 to 1.1"] as const).map((wire) => ({
        name: `${ask.method ?? "GET"} ${ask.path}`,
        ...{ wire, ask, places },
      }))
    );
    assert.deepEqual(await comparison.all(all), []);
  });

  await t.test("nobody there", async () => {
    const all = NOWHERE.flatMap((name) =>
      HTTP_AND_GRPC.map(([wire, ask]) => {
        const places = PROXIES.map((proxy) => [proxy, mesh.upstream(proxy, name)] as const);
        return { name, wire, ask, places };
      })
    );
    assert.deepEqual(await comparison.all(all), []);
  });

  await t.test("no application", async () => {
    await mesh.stopApps();
    const cases = HTTP_AND_GRPC.map(([wire, ask]): Case => ["gone", ask, [wire]]);
    assert.deepEqual(await comparison.all(rounds(mesh, cases)), []);
  });
});

test("the options of the mesh for HTTP do to requests what they do behind Envoy", async () => {
  await using mesh = await MixedMesh.start([MESH]);
  const comparison = new Comparison(mesh);
  await comparison.ready();
  assert.deepEqual(await comparison.all(rounds(mesh, MESH_CASES)), []);
});
