import assert from "node:assert/strict";
import { test } from "node:test";
import { prepareRegexes } from "../../base/mod.ts";
import { httpRules, upstreamOf } from "../../../test/kit/engine/snapshots.ts";
import extAuthz from "../../../plugins/ext_authz/ext_authz.ts";
import { convertExtAuthz } from "./ext_authz_extension.ts";
import { entryPlugins } from "./entry_plugins.ts";

await prepareRegexes();

const UPSTREAMS = [
  upstreamOf({ name: "authz", http: httpRules("grpc") }),
  upstreamOf({ name: "old-authz", http: httpRules("http") }),
  upstreamOf({ name: "bytes" }),
];
const URI = { URI: "127.0.0.1:9191" };

function extension(config: unknown, required = true) {
  return { name: "builtin/ext-authz", required, arguments: { Config: config } };
}

function converted(config: unknown, required = true): unknown {
  const made = convertExtAuthz(extension(config, required), UPSTREAMS);
  if ("fault" in made) return made.fault;
  const judged = extAuthz.config["~standard"].validate(made.config);
  assert.ok(!(judged instanceof Promise) && !judged.issues, JSON.stringify(judged));
  return made.config;
}

test("convertExtAuthz() takes all settings of an HTTP service, with keys in any case", () => {
  const config = converted({
    StatPrefix: "any",
    ClearRouteCache: true,
    statusOnError: 401,
    WithRequestBody: { MaxRequestBytes: 100, PackAsBytes: true },
    HttpService: {
      Target: { URI: "http://localhost:9191", Timeout: "1.5s" },
      PathPrefix: "/check",
      AuthorizationRequest: {
        AllowedHeaders: [
          { Exact: "a" },
          { Prefix: "B", IgnoreCase: true },
          { Suffix: "c" },
          { Contains: "d" },
          { SafeRegex: "e+" },
        ],
        HeadersToAdd: [{ Key: "x-one", Value: "1" }],
      },
      AuthorizationResponse: {
        AllowedUpstreamHeaders: [{ Exact: "x-user" }],
        AllowedUpstreamHeadersToAppend: [{ Exact: "x-role" }],
        AllowedClientHeaders: [{ Prefix: "x-" }],
        AllowedClientHeadersOnSuccess: [{ Exact: "x-told" }],
      },
    },
  }, false);
  const ignoreCase = false;
  assert.deepEqual(config, {
    httpService: {
      target: "localhost:9191",
      timeoutMs: 1_500,
      pathPrefix: "/check",
      authorizationRequest: {
        allowedHeaders: [
          { exact: "a", ignoreCase },
          { prefix: "B", ignoreCase: true },
          { suffix: "c", ignoreCase },
          { contains: "d", ignoreCase },
          { safeRegex: "e+" },
        ],
        headersToAdd: { "x-one": "1" },
      },
      authorizationResponse: {
        allowedUpstreamHeaders: [{ exact: "x-user", ignoreCase }],
        allowedUpstreamHeadersToAppend: [{ exact: "x-role", ignoreCase }],
        allowedClientHeaders: [{ prefix: "x-", ignoreCase }],
        allowedClientHeadersOnSuccess: [{ exact: "x-told", ignoreCase }],
      },
    },
    failureModeAllow: true,
    statusOnError: 401,
    withRequestBody: { maxRequestBytes: 100, allowPartialMessage: false, packAsBytes: true },
  });
});

test("convertExtAuthz() calls an upstream by gRPC, and a required extension denies on failure", () => {
  const config = converted({
    GrpcService: {
      Target: { Service: { Name: "authz", Namespace: "default" } },
      Authority: "authz.example",
      InitialMetadata: [{ Key: "x-one", Value: "1" }],
    },
  });
  assert.deepEqual(config, {
    grpcService: {
      target: "service:default/default/authz",
      authority: "authz.example",
      initialMetadata: { "x-one": "1" },
    },
    failureModeAllow: false,
  });
});

const http = (more: object) => ({ HttpService: { Target: URI, ...more } });
const grpc = (target: object) => ({ GrpcService: { Target: target } });

for (
  const [config, wanted] of [
    [{}, /exactly one of GrpcService and HttpService/],
    [{ ...http({}), ...grpc(URI) }, /exactly one of GrpcService and HttpService/],
    [{ HttpService: {} }, /Arguments\.config\.httpservice\.target/],
    [grpc({}), /exactly one of Service and URI/],
    [grpc({ ...URI, Service: { Name: "authz" } }), /exactly one of Service and URI/],
    [grpc({ URI: "10.0.0.1:9191" }), /no localhost:port/],
    [grpc({ URI: "127.0.0.1" }), /no localhost:port/],
    [grpc({ Service: { Name: "nobody" } }), /no upstream "nobody"/],
    [grpc({ Service: { Name: "old-authz" } }), /"old-authz" speaks http/],
    [grpc({ Service: { Name: "bytes" } }), /"bytes" speaks tcp/],
    [grpc({ Service: { Name: "authz", Namespace: "blue" } }), /another namespace/],
    [grpc({ ...URI, Timeout: "soon" }), /Timeout is "soon"/],
    [grpc({ ...URI, Timeout: "1m" }), /Timeout is "1m"/],
    [{ ...http({}), StatusOnError: 200 }, /StatusOnError is 200/],
    [{ ...http({}), IncludePeerCertificate: true }, /IncludePeerCertificate cannot be had/],
    [{ ...http({}), MetadataContextNamespaces: ["a"] }, /MetadataContextNamespaces cannot/],
    [{ ...http({}), TransportApiVersion: "V2" }, /TransportApiVersion is v3/],
    [{ ...http({}), WithRequestBody: { PackAsBytes: true } }, /MaxRequestBytes/],
    [{ ...http({}), WithRequestBody: { MaxRequestBytes: 2_000_000 } }, /MaxRequestBytes/],
    [
      http({ AuthorizationResponse: { DynamicMetadataFromHeaders: [{ Exact: "a" }] } }),
      /DynamicMetadataFromHeaders cannot/,
    ],
    [http({ AuthorizationRequest: { AllowedHeaders: [{}] } }), /one of Contains, Exact/],
    [
      http({ AuthorizationRequest: { AllowedHeaders: [{ Exact: "a", Prefix: "b" }] } }),
      /one of Contains, Exact/,
    ],
    [http({ AuthorizationRequest: { AllowedHeaders: [{ SafeRegex: "(" }] } }), /SafeRegex: /],
    [
      http({ AuthorizationRequest: { HeadersToAdd: [{ Key: "a", Value: "%X%" }] } }),
      /a % in its value/,
    ],
    [
      http({ AuthorizationRequest: { HeadersToAdd: [{ Key: "a b", Value: "" }] } }),
      /"a b" is none/,
    ],
  ] as const
) {
  test(`convertExtAuthz() names what is wrong: ${wanted.source}`, () => {
    const fault = converted(config);
    assert.ok(typeof fault === "string", JSON.stringify(fault));
    assert.match(fault, wanted);
  });
}

function pluginsOf(extensions: readonly ReturnType<typeof extension>[], isHttp = true) {
  const known = { proxyDefaults: null, serviceDefaults: { extensions } };
  return entryPlugins(known, { service: "db", http: isHttp, upstreams: UPSTREAMS });
}

test("entryPlugins() makes an ext_authz of one, and no second", () => {
  const { uses, refused, ignored, blocked } = pluginsOf([
    extension(http({})),
    extension(http({}), false),
  ]);
  assert.deepEqual(uses.map(({ plugin, at, onFailure }) => [plugin, at, onFailure]), [
    ["ext_authz", "service-defaults db: EnvoyExtensions[0]", "refuse"],
  ]);
  assert.deepEqual(blocked, []);
  assert.deepEqual(refused, []);
  assert.match(ignored.join(), /EnvoyExtensions\[1\]: .* is there already/);
});

test("entryPlugins() blocks where one is required that cannot be had", () => {
  const fault = pluginsOf([extension({})]);
  assert.match(
    fault.blocked.join("; "),
    /EnvoyExtensions\[0\]: "builtin\/ext-authz" exactly one of/,
  );
  assert.deepEqual(fault.uses, []);
  assert.match(
    pluginsOf([extension(http({}))], false).blocked.join("; "),
    /is about requests here/,
  );
});

test("entryPlugins() limits requests before it authorizes them", () => {
  const rateLimits = { requestsPerSecond: 1, burst: 1, routes: [] };
  const serviceDefaults = { extensions: [extension(http({}))], rateLimits };
  const { uses } = entryPlugins({ proxyDefaults: null, serviceDefaults }, {
    service: "db",
    http: true,
  });
  assert.deepEqual(uses.map(({ plugin }) => plugin), ["rate_limit", "ext_authz"]);
});
