/** Converts the body of a registration into services, sidecars and checks. @module */

import { formatAddress } from "../../base/mod.ts";
import {
  durationMsAt,
  isEmpty,
  isObject,
  type JsonObject,
  numberAt,
  objectAt,
  objectsAt,
  textAt,
  textsAt,
  withoutEmpty,
} from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import type { CheckContent, ServiceContent, Status } from "./records.ts";

export interface CheckTask {
  /** The check before it has run. */
  readonly content: CheckContent;
  /** The registration sets the status; otherwise an older check of that id keeps its own. */
  readonly saysStatus: boolean;
  readonly run:
    | { readonly kind: "ttl"; readonly ttlMs: number }
    | { readonly kind: "tcp"; readonly host: string; readonly port: number }
    | { readonly kind: "http"; readonly url: string }
    | { readonly kind: "alias"; readonly serviceId: string };
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

interface Registered {
  readonly service: ServiceContent;
  readonly checks: readonly CheckTask[];
}

/** Reads the service and, if the body has one, its sidecar. `sidecarPort` finds a free port. */
export function readRegistrationBody(
  body: JsonObject,
  sidecarPort: (sidecarId: string) => number,
): readonly Registered[] {
  const app = readServiceBody(body);
  const checks = readChecks(body, app);
  const { SidecarService: sidecar } = objectAt(body, "Connect");
  if (!isObject(sidecar)) return [{ service: app, checks }];
  const id = `${app.id}-sidecar-proxy`;
  const port = numberAt(sidecar, "Port") || sidecarPort(id);
  const proxy = readServiceBody(sidecarBody({ ...sidecar, ID: id, Port: port }, body, app.id));
  const own = readChecks(sidecar, proxy);
  return [
    { service: app, checks },
    { service: proxy, checks: own.length > 0 ? own : defaultChecks(app, proxy) },
  ];
}

function readServiceBody(body: JsonObject): ServiceContent {
  const name = textAt(body, "Name");
  if (name === "") throw invalid("Name is missing");
  const kind = textAt(body, "Kind");
  const proxy = kind === "connect-proxy" ? proxyOf(body) : undefined;
  const id = textAt(body, "ID") || name;
  const weights = objectAt(body, "Weights");
  const definition = {
    Kind: kind,
    ID: id,
    Service: name,
    Tags: textsAt(body, "Tags"),
    Meta: objectAt(body, "Meta"),
    Port: numberAt(body, "Port"),
    Address: textAt(body, "Address"),
    SocketPath: textAt(body, "SocketPath"),
    TaggedAddresses: objectAt(body, "TaggedAddresses"),
    Weights: {
      Passing: numberAt(weights, "Passing") || 1,
      Warning: "Warning" in weights ? numberAt(weights, "Warning") : 1,
    },
    EnableTagOverride: body["EnableTagOverride"] === true,
    Connect: objectAt(body, "Connect")["Native"] === true ? { Native: true } : {},
    Locality: objectAt(body, "Locality"),
  };
  return { id, name, kind, definition, proxy, merged: undefined };
}

/** The body of a sidecar with the fields that it inherits from its application. */
function sidecarBody(sidecar: JsonObject, app: JsonObject, appId: string): JsonObject {
  const name = textAt(app, "Name");
  const inherited = (key: string) =>
    isEmpty(sidecar[key]) ? app[key] ?? null : sidecar[key] ?? null;
  const proxy = objectAt(sidecar, "Proxy");
  const socket = textAt(proxy, "LocalServiceSocketPath");
  return {
    ...sidecar,
    Kind: textAt(sidecar, "Kind") || "connect-proxy",
    Name: textAt(sidecar, "Name") || `${name}-sidecar-proxy`,
    Tags: inherited("Tags"),
    Meta: inherited("Meta"),
    Address: inherited("Address"),
    Locality: inherited("Locality"),
    Proxy: {
      ...socket === ""
        ? { LocalServiceAddress: "127.0.0.1", LocalServicePort: numberAt(app, "Port") }
        : {},
      DestinationServiceName: name,
      DestinationServiceID: appId,
      ...withoutEmpty(proxy),
    },
  };
}

function proxyOf(body: JsonObject): JsonObject {
  const proxy = objectAt(body, "Proxy");
  if (textAt(proxy, "DestinationServiceName") === "") {
    throw invalid("Proxy.DestinationServiceName is missing");
  }
  if (numberAt(body, "Port") === 0 && textAt(body, "SocketPath") === "") {
    throw invalid("a proxy needs a Port or a SocketPath");
  }
  const upstreams = objectsAt(proxy, "Upstreams").map((upstream) => {
    const name = textAt(upstream, "DestinationName");
    if (name === "") throw invalid("an upstream has no DestinationName");
    if (!numberAt(upstream, "LocalBindPort") && !textAt(upstream, "LocalBindSocketPath")) {
      throw invalid(`the upstream "${name}" has neither LocalBindPort nor LocalBindSocketPath`);
    }
    return { ...upstream, DestinationType: textAt(upstream, "DestinationType") || "service" };
  });
  return { ...proxy, Upstreams: upstreams };
}

function readChecks(body: JsonObject, service: ServiceContent): readonly CheckTask[] {
  // The Consul CLI sends an empty block in place of none.
  const all = [objectAt(body, "Check"), ...objectsAt(body, "Checks")]
    .filter((check) => !isEmpty(check));
  return all.map((check, at) => readCheck(check, service, all.length > 1 ? `:${at + 1}` : ""));
}

function readCheck(check: JsonObject, service: ServiceContent, suffix: string): CheckTask {
  const run = runOf(check);
  const intervalMs = durationMsAt(check, "Interval");
  if ((run.kind === "tcp" || run.kind === "http") && intervalMs <= 0) {
    throw invalid(`a check by ${run.kind.toUpperCase()} needs an Interval`);
  }
  const status = textAt(check, "Status") || "critical";
  if (!isStatus(status)) {
    throw invalid(`"${status}" is no status of a check: want passing, warning or critical`);
  }
  return {
    content: {
      id: textAt(check, "CheckID") || textAt(check, "ID") || `service:${service.id}${suffix}`,
      status,
      output: "",
      serviceId: service.id,
      facts: {
        Name: textAt(check, "Name") || `Service '${service.name}' check`,
        Notes: textAt(check, "Notes"),
        ...serviceFacts(service),
        Type: run.kind,
        Interval: textAt(check, "Interval"),
        Timeout: textAt(check, "Timeout"),
      },
    },
    saysStatus: textAt(check, "Status") !== "",
    run,
    intervalMs,
    timeoutMs: durationMsAt(check, "Timeout") || DEFAULT_TIMEOUT_MS,
  };
}

const DEFAULT_TIMEOUT_MS = 10_000;

export function isStatus(text: string): text is Status {
  return ["passing", "warning", "critical"].includes(text);
}

function runOf(check: JsonObject): CheckTask["run"] {
  const tcp = textAt(check, "TCP");
  if (tcp !== "") {
    const colon = tcp.lastIndexOf(":");
    const host = tcp.slice(0, colon).replace(/^\[|\]$/g, "");
    return { kind: "tcp", host, port: Number(tcp.slice(colon + 1)) };
  }
  const url = textAt(check, "HTTP");
  if (url !== "") return { kind: "http", url };
  const aliased = textAt(check, "AliasService");
  if (aliased !== "") return { kind: "alias", serviceId: aliased };
  const ttlMs = durationMsAt(check, "TTL");
  if (ttlMs <= 0) throw invalid("a check needs TCP, HTTP, AliasService or a TTL above 0");
  return { kind: "ttl", ttlMs };
}

/** A sidecar without checks gets one of its listener and an alias of its application. */
function defaultChecks(app: ServiceContent, proxy: ServiceContent): readonly CheckTask[] {
  const block = proxy.proxy ?? {};
  const host = textAt(proxy.definition, "Address") ||
    textAt(objectAt(block, "Config"), "bind_address") || textAt(block, "LocalServiceAddress") ||
    "127.0.0.1";
  const address = formatAddress({ kind: "tcp", host, port: numberAt(proxy.definition, "Port") });
  const listening = { Name: "Connect Sidecar Listening", TCP: address, Interval: "10s" };
  const alias = { Name: `Connect Sidecar Aliasing ${app.id}`, AliasService: app.id };
  return readChecks({ Checks: [listening, alias] }, proxy);
}

export function serviceFacts({ name, definition }: ServiceContent): JsonObject {
  return { ServiceName: name, ServiceTags: textsAt(definition, "Tags") };
}

function invalid(fact: string): HttpRefusal {
  return new HttpRefusal(400, `Cannot register the service: ${fact}`);
}
