import assert from "node:assert/strict";
import { test } from "node:test";
import type { PlainMessage } from "../../src/wire/mod.ts";
import type { Place } from "../kit/wire/echo.ts";
import { startEnvoyClient } from "../kit/peers/envoy_ext_authz.ts";
import { type CheckedRequest, httpOf, startAuthz } from "../kit/peers/ext_authz.ts";
import {
  answerOf,
  type RawAnswer,
  RawClient,
  type RawMessage,
  type RawOrigin,
  startRawOrigin,
  statusOf,
  valuesOf,
} from "../kit/wire/http_raw.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

type Json = Readonly<Record<string, unknown>>;

/** The outcome of one request, by either proxy. */
interface Seen {
  readonly status: number;
  readonly body: string;
  readonly responseHeaders: Json;
  /** Absent: nothing reached the application. */
  readonly app?: { readonly line: string; readonly headers: Json; readonly body: string };
}

/** Headers that a test is about. */
const NAMES = [
  "x-one",
  "x-two",
  "x-user",
  "x-role",
  "x-gone",
  "x-told",
  "x-why",
  "set-cookie",
  "cookie",
  "location",
  "www-authenticate",
  "content-type",
  "authorization",
];

function headersOf(message: RawMessage): Json {
  return Object.fromEntries(
    NAMES.map((name) => [name, valuesOf(message, name).join()]).filter(([, value]) => value !== ""),
  );
}

async function ask(place: Place, request: string, app: RawOrigin): Promise<Seen> {
  const before = app.requests.length;
  const answer = await RawClient.ask(place, request);
  const seen = app.requests[before];
  return {
    status: statusOf(answer),
    body: answer.body,
    responseHeaders: headersOf(answer),
    ...(seen && {
      app: {
        line: seen.head.split("\r\n")[0] ?? "",
        headers: headersOf(seen),
        body: seen.body,
      },
    }),
  };
}

/** Both proxies before one application and one authorization service. */
async function both(authz: Place & { readonly isGrpc: boolean }, { filter, config }: {
  readonly filter: Json;
  readonly config: Json;
}) {
  const stack = new AsyncDisposableStack();
  const app = stack.use(
    await startRawOrigin(() => answerOf("ok", "HTTP/1.1 200 OK\r\nX-Told: app")),
  );
  const use = { plugin: "ext_authz", config, onFailure: "refuse", at: "upstreams.db" } as const;
  const pair = stack.use(
    await startPathPair({
      localPort: app.port,
      inbound: { http: httpRules("http") },
      upstream: { http: httpRules("http"), plugins: [use] },
    }),
  );
  const envoy = stack.use(await startEnvoyClient({ filter, app, authz }));
  const postern = { host: "127.0.0.1", port: pair.port };
  return {
    ask: async (request: string) => ({
      envoy: await ask(envoy, request, app),
      postern: await ask(postern, request, app),
    }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const request = (line: string, fields = "", body = "") =>
  `${line} HTTP/1.1\r\nHost: db.example:8080\r\n${fields}` +
  `Content-Length: ${body.length}\r\n\r\n${body}`;

const REQUESTS: readonly string[] = [
  request("GET /a/b?c=d"),
  request("GET /a/../b//c"),
  request("POST /a", "X-One: 1\r\nX-Two: 1\r\nX-Two: 2\r\n", "hello"),
  request(
    "PUT /a",
    "Cookie: a=1\r\nCookie: b=2\r\nAuthorization: Bearer x\r\n",
    "a body of 26 characters...",
  ),
  request("DELETE /a", "X-Envoy-Auth-Partial-Body: spoofed\r\nX-User: root\r\nX-Gone: 1\r\n"),
];
/**
 * Text has to be UTF-8. By HTTP the shown text is the one that goes on, where Envoy shows `!`, too.
 */
const OCTETS = request("POST /a", "X-One: \xfc\r\nX-Two: \xc3\xbc\r\n", "x\xff");

const header = (key: string, value: string, more: Json = {}) => ({
  header: { key, value },
  ...more,
});
const append = (value: boolean) => ({ append: { value } });

const CHECKS: Readonly<Record<string, PlainMessage>> = {
  "nothing but yes": { status: {} },
  "an empty message": {},
  "changes of the request": {
    status: {},
    ok: {
      headers: [
        header("x-user", "ada"),
        header("x-one", "2", append(true)),
        header("x-role", "2", append(true)),
        header("x-two", "3", append(false)),
      ],
      headersToRemove: ["x-gone", ":path", "host"],
    },
  },
  "changes of the response": {
    status: {},
    ok: {
      responseHeadersToAdd: [
        header("x-told", "authz"),
        header("x-why", "so", append(false)),
        header("set-cookie", "a=1"),
        header("set-cookie", "b=2"),
      ],
    },
  },
  "nothing but no": { status: { code: 7 } },
  "no with a page": {
    status: { code: 16 },
    denied: {
      status: { code: 401 },
      headers: [header("x-why", "so"), header("content-type", "text/html")],
      body: "<p>no",
    },
  },
  "no without a status": { status: { code: 7 }, denied: { body: "no" } },
};

/** The check request of either proxy, without the fields that only one of them can know. */
function asked({ headers, ...http }: CheckedRequest): Json {
  const { size: _, ...rest } = http as unknown as Record<string, unknown>;
  const names = Object.keys(headers).filter((name) =>
    !["x-request-id", "x-forwarded-proto", "content-length"].includes(name)
  );
  return {
    ...rest,
    id: "",
    protocol: "",
    headers: Object.fromEntries(names.toSorted().map((name) => [name, headers[name]])),
  };
}

test("a gRPC authorization server gets the requests of Envoy, and its answers have the same effect", async () => {
  let answer: PlainMessage = {};
  await using authz = await startAuthz(() => answer);
  await using proxies = await both({ host: "127.0.0.1", port: authz.port, isGrpc: true }, {
    filter: {
      grpc_service: { envoy_grpc: { cluster_name: "authz" }, timeout: "5s" },
      with_request_body: { max_request_bytes: 20, allow_partial_message: true },
    },
    config: {
      grpcService: { target: `127.0.0.1:${authz.port}`, timeoutMs: 5_000 },
      withRequestBody: { maxRequestBytes: 20, allowPartialMessage: true },
    },
  });
  for (const [what, said] of Object.entries(CHECKS)) {
    answer = said;
    for (const text of [...REQUESTS, OCTETS]) {
      authz.asked.length = 0;
      const { envoy, postern } = await proxies.ask(text);
      const where = `${what}: ${JSON.stringify(text)}`;
      assert.deepEqual(postern, envoy, where);
      const [byEnvoy, byPostern] = authz.asked.map(({ message }) => asked(httpOf(message)));
      assert.deepEqual(byPostern, byEnvoy, where);
    }
  }
});

const ANSWERS: Readonly<Record<string, string>> = {
  "yes": answerOf("welcome", "HTTP/1.1 200 OK\r\nX-User: ada\r\nX-Role: admin\r\nX-Told: hi"),
  "yes, without some": answerOf(
    "",
    "HTTP/1.1 200 OK\r\nX-User: ada\r\nX-Envoy-Auth-Headers-To-Remove: x-gone, x-one",
  ),
  "204": "HTTP/1.1 204 No\r\n\r\n",
  "no": answerOf("sign in", "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nX-Why: so"),
  "elsewhere": answerOf("", "HTTP/1.1 302 There\r\nLocation: /login\r\nSet-Cookie: a=1"),
  "500": answerOf("broken", "HTTP/1.1 500 No"),
};

for (const allowedClient of [[], ["x-why"]]) {
  test(`an HTTP authorization server gets the requests of Envoy; headers allowed to clients: ${allowedClient.join() || "all"}`, async () => {
    let answer = "";
    const given: RawAnswer = () => answer;
    await using authz = await startRawOrigin(given);
    const exact = (...names: readonly string[]) => names.map((name) => ({ exact: name }));
    const patterns = (...names: readonly string[]) => ({ patterns: exact(...names) });
    const { host, port } = authz;
    await using proxies = await both({ host, port, isGrpc: false }, {
      filter: {
        http_service: {
          server_uri: { uri: "http://authz", cluster: "authz", timeout: "5s" },
          path_prefix: "/check",
          authorization_request: {
            allowed_headers: patterns("x-one", "x-two", "cookie"),
            headers_to_add: [{ key: "x-role", value: "proxy" }],
          },
          authorization_response: {
            allowed_upstream_headers: patterns("x-user"),
            allowed_upstream_headers_to_append: patterns("x-role"),
            ...(allowedClient.length > 0 &&
              { allowed_client_headers: patterns(...allowedClient) }),
            allowed_client_headers_on_success: patterns("x-told"),
          },
        },
        with_request_body: { max_request_bytes: 100 },
      },
      config: {
        httpService: {
          target: `${host}:${port}`,
          timeoutMs: 5_000,
          pathPrefix: "/check",
          authorizationRequest: {
            allowedHeaders: exact("x-one", "x-two", "cookie"),
            headersToAdd: { "x-role": "proxy" },
          },
          authorizationResponse: {
            allowedUpstreamHeaders: exact("x-user"),
            allowedUpstreamHeadersToAppend: exact("x-role"),
            allowedClientHeaders: exact(...allowedClient),
            allowedClientHeadersOnSuccess: exact("x-told"),
          },
        },
        withRequestBody: { maxRequestBytes: 100 },
      },
    });
    for (const [what, said] of Object.entries(ANSWERS)) {
      answer = said;
      for (const text of REQUESTS) {
        authz.requests.length = 0;
        const { envoy, postern } = await proxies.ask(text);
        const where = `${what}: ${JSON.stringify(text)}`;
        assert.deepEqual(postern, envoy, where);
        const [byEnvoy, byPostern] = authz.requests.map((message) => ({
          line: message.head.split("\r\n")[0],
          host: valuesOf(message, "host"),
          headers: headersOf(message),
          body: message.body,
        }));
        assert.deepEqual(byPostern, byEnvoy, where);
      }
    }
  });
}
