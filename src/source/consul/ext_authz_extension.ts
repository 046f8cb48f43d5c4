/**
 * `builtin/ext-authz` of a config entry as configuration of the plugin `ext_authz`. As in Consul, keys
 * may be written in any case, unknown keys are ignored, and requests pass when the authorization server
 * fails, unless the extension is required.
 *
 * @module
 */

import * as v from "valibot";
import { compileRegex, parseDurationMs } from "../../base/mod.ts";
import type { EnvoyExtension } from "../../consul/mod.ts";
import type { UpstreamPart } from "../../snapshot/mod.ts";

export const EXT_AUTHZ = "builtin/ext-authz";

type Converted =
  | { readonly config: unknown }
  /** In words that follow its name. */
  | { readonly fault: string };

const text = v.optional(v.string(), "");
const flag = v.optional(v.boolean(), false);
const count = v.pipe(v.number(), v.integer());
const Headers = v.nullish(v.array(v.object({ key: text, value: text })));
const Matchers = v.nullish(v.array(v.object({
  contains: text,
  exact: text,
  prefix: text,
  saferegex: text,
  suffix: text,
  ignorecase: flag,
})));
const Target = v.object({
  service: v.nullish(v.object({ name: text, namespace: text, partition: text })),
  uri: text,
  timeout: text,
});
type Target = v.InferOutput<typeof Target>;

const HttpService = v.object({
  target: Target,
  pathprefix: text,
  authorizationrequest: v.nullish(v.object({ allowedheaders: Matchers, headerstoadd: Headers })),
  authorizationresponse: v.nullish(v.object({
    allowedupstreamheaders: Matchers,
    allowedupstreamheaderstoappend: Matchers,
    allowedclientheaders: Matchers,
    allowedclientheadersonsuccess: Matchers,
    dynamicmetadatafromheaders: Matchers,
  })),
});
const GrpcService = v.object({ target: Target, authority: text, initialmetadata: Headers });

/** Keys in lower case. */
const Arguments = v.object({
  config: v.object({
    bootstrapmetadatalabelskey: text,
    includepeercertificate: v.nullish(v.boolean()),
    metadatacontextnamespaces: v.nullish(v.array(v.string())),
    transportapiversion: text,
    statusonerror: v.nullish(count),
    withrequestbody: v.nullish(v.object({
      maxrequestbytes: v.nullish(count),
      allowpartialmessage: v.nullish(v.boolean()),
      packasbytes: v.nullish(v.boolean()),
    })),
    httpservice: v.nullish(HttpService),
    grpcservice: v.nullish(GrpcService),
  }),
});
type Config = v.InferOutput<typeof Arguments>["config"];

/** `upstreams`: those that are declared. */
export function convertExtAuthz(
  { arguments: given, required }: EnvoyExtension,
  upstreams: readonly UpstreamPart[],
): Converted {
  const parsed = v.safeParse(Arguments, inLowerCase(given));
  if (!parsed.success) {
    const [issue] = parsed.issues;
    return { fault: `Arguments.${v.getDotPath(issue) ?? ""}: ${issue.message}` };
  }
  const { config } = parsed.output;
  try {
    return { config: { ...servicesOf(config, upstreams), ...commonOf(config, required) } };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { fault: error.message };
  }
}

class Fault extends Error {}

function inLowerCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inLowerCase);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key.toLowerCase(), inLowerCase(inner)]),
  );
}

const MAX_BODY_BYTES = 1_048_576;
const MAX_TIMEOUT_MS = 8_000;

function commonOf(config: Config, required: boolean): object {
  const { statusonerror: statusOnError, withrequestbody: body } = config;
  const unsupported = config.bootstrapmetadatalabelskey !== ""
    ? "BootstrapMetadataLabelsKey"
    : config.includepeercertificate
    ? "IncludePeerCertificate"
    : config.metadatacontextnamespaces?.length
    ? "MetadataContextNamespaces"
    : config.httpservice?.authorizationresponse?.dynamicmetadatafromheaders?.length
    ? "DynamicMetadataFromHeaders"
    : undefined;
  if (unsupported) throw new Fault(`${unsupported} cannot be had here`);
  if (/^(?:v2|auto)$/i.test(config.transportapiversion)) {
    throw new Fault("TransportApiVersion is v3 here, and nothing else");
  }
  if (typeof statusOnError === "number" && !(statusOnError >= 400 && statusOnError <= 599)) {
    throw new Fault(`StatusOnError is ${statusOnError}; from 400 to 599`);
  }
  return {
    failureModeAllow: !required,
    ...(typeof statusOnError === "number" && { statusOnError }),
    ...(body && { withRequestBody: bodyOf(body) }),
  };
}

function bodyOf(body: NonNullable<Config["withrequestbody"]>): object {
  const { maxrequestbytes: maxRequestBytes } = body;
  if (!maxRequestBytes || maxRequestBytes < 0 || maxRequestBytes > MAX_BODY_BYTES) {
    throw new Fault(`WithRequestBody.MaxRequestBytes: from 1 to ${MAX_BODY_BYTES}`);
  }
  return {
    maxRequestBytes,
    allowPartialMessage: body.allowpartialmessage ?? false,
    packAsBytes: body.packasbytes ?? false,
  };
}

function servicesOf(
  { httpservice: http, grpcservice: grpc }: Config,
  upstreams: readonly UpstreamPart[],
): object {
  if (!http === !grpc) throw new Fault("exactly one of GrpcService and HttpService is needed");
  if (grpc) {
    return {
      grpcService: {
        ...targetOf(grpc.target, { upstreams, http2: true }),
        ...(grpc.authority !== "" && { authority: grpc.authority }),
        initialMetadata: headersOf(grpc.initialmetadata),
      },
    };
  }
  if (!http) return {};
  const { authorizationrequest: request, authorizationresponse: response } = http;
  return {
    httpService: {
      ...targetOf(http.target, { upstreams, http2: false }),
      pathPrefix: http.pathprefix,
      authorizationRequest: {
        allowedHeaders: matchersOf(request?.allowedheaders),
        headersToAdd: headersOf(request?.headerstoadd),
      },
      authorizationResponse: {
        allowedUpstreamHeaders: matchersOf(response?.allowedupstreamheaders),
        allowedUpstreamHeadersToAppend: matchersOf(response?.allowedupstreamheaderstoappend),
        allowedClientHeaders: matchersOf(response?.allowedclientheaders),
        allowedClientHeadersOnSuccess: matchersOf(response?.allowedclientheadersonsuccess),
      },
    },
  };
}

function targetOf({ service, uri, timeout }: Target, { upstreams, http2 }: {
  readonly upstreams: readonly UpstreamPart[];
  readonly http2: boolean;
}): object {
  const timeoutMs = timeout === "" ? undefined : parseDurationMs(timeout) ?? 0;
  if (timeoutMs !== undefined && !(timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    throw new Fault(`Target.Timeout is ${JSON.stringify(timeout)}; from 1 ms to 8 s`);
  }
  const time = timeoutMs === undefined ? {} : { timeoutMs: Math.round(timeoutMs) };
  const name = service?.name ?? "";
  if ((name === "") === (uri === "")) {
    throw new Fault("Target has to have exactly one of Service and URI");
  }
  if (uri !== "") {
    const [, target] = /^(?:[^:/]*:\/\/)?((?:localhost|127\.0\.0\.1):\d{1,5})$/.exec(uri) ?? [];
    if (!target) throw new Fault(`Target.URI is ${JSON.stringify(uri)}, and no localhost:port`);
    return { target, ...time };
  }
  const { namespace = "", partition = "" } = service ?? {};
  if (![namespace, partition].every((part) => part === "" || part === "default")) {
    throw new Fault("Target.Service is in another namespace or partition than default");
  }
  const part = upstreams.find((upstream) =>
    upstream.name === name && upstream.id.startsWith("service:")
  );
  if (!part) throw new Fault(`Target.Service: there is no upstream ${JSON.stringify(name)}`);
  const protocol = part.http?.protocol ?? "tcp";
  if (protocol === "tcp" || http2 && protocol === "http") {
    throw new Fault(`Target.Service: the upstream ${JSON.stringify(name)} speaks ${protocol}`);
  }
  return { target: part.id, ...time };
}

function headersOf(headers: v.InferOutput<typeof Headers>): Readonly<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const { key, value } of headers ?? []) {
    // Envoy would put something in its place.
    if (value.includes("%")) {
      throw new Fault(`the header ${JSON.stringify(key)} has a % in its value`);
    }
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(key) || !/^[\t\x20-\x7e]*$/.test(value)) {
      throw new Fault(`the header ${JSON.stringify(key)} is none`);
    }
    all[key] = value;
  }
  return all;
}

function matchersOf(matchers: v.InferOutput<typeof Matchers>): readonly object[] {
  return (matchers ?? []).map(({ ignorecase: ignoreCase, saferegex: safeRegex, ...texts }) => {
    const given = Object.entries({ ...texts, safeRegex }).filter(([, value]) => value !== "");
    const [[kind, value] = ["", ""], ...more] = given;
    if (kind === "" || more.length > 0) {
      throw new Fault("a header is chosen by one of Contains, Exact, Prefix, SafeRegex and Suffix");
    }
    if (kind !== "safeRegex") return { [kind]: value, ignoreCase };
    const regex = compileRegex(value);
    if (regex.kind === "refused") throw new Fault(`SafeRegex: ${regex.reason}`);
    return { safeRegex: value };
  });
}
