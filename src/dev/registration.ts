/**
 * Turns a registration body into services and checks: a sidecar block becomes a service of its own with
 * inherited fields, default checks and a port, and what Consul refuses is refused with its words.
 *
 * @module
 */

import { parseDurationMs } from "../base/mod.ts";
import type { NewService } from "./catalog.ts";
import { isObject, type Json, type JsonObject } from "./decode.ts";
import { isEmpty, type Status } from "./records.ts";
import { Refusal } from "./refusal.ts";

/** A check as registered; how it runs is `health_checks.ts`'s. */
export interface CheckDefinition {
  readonly id: string;
  readonly name: string;
  readonly notes: string;
  readonly serviceId: string;
  readonly serviceName: string;
  readonly serviceTags: readonly string[];
  /** Given in the registration; otherwise an older check of that id keeps its own. */
  readonly status: Status | undefined;
  readonly kind:
    | { readonly kind: "ttl"; readonly ttlMs: number }
    | { readonly kind: "tcp"; readonly host: string; readonly port: number }
    | { readonly kind: "http"; readonly url: string }
    | { readonly kind: "alias"; readonly serviceId: string };
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** As written, for the JSON. */
  readonly interval: string;
  readonly timeout: string;
}

export interface Registered {
  readonly service: NewService;
  readonly checks: readonly CheckDefinition[];
}

/** The service and, where asked for, its sidecar. `sidecarPort` finds a free port. */
export function readRegistration(
  body: JsonObject,
  sidecarPort: (sidecarId: string) => number,
): readonly Registered[] {
  const app = readService(body);
  const connect = objectAt(body, "Connect");
  const sidecar = connect["SidecarService"];
  const appChecks = readChecks(body, app);
  if (!isObject(sidecar)) return [{ service: app, checks: appChecks }];
  if (isObject(objectAt(sidecar, "Connect")["SidecarService"])) {
    throw invalid("A SidecarService cannot have a nested SidecarService");
  }
  if (textAt(sidecar, "ID") !== "") {
    throw invalid("A SidecarService cannot specify an ID as this is managed by the agent");
  }
  if (!isEmpty(body["Ports"] ?? null)) {
    throw new Refusal(400, "MultiPort cannot be used with Consul Connect.");
  }
  const proxy = readSidecar(app, sidecar, sidecarPort);
  const own = readChecks(sidecar, proxy);
  return [
    { service: app, checks: appChecks },
    { service: proxy, checks: own.length > 0 ? own : defaultChecks(app, proxy) },
  ];
}

function readService(body: JsonObject): NewService {
  const name = textAt(body, "Name");
  if (name === "") throw new Refusal(400, "Missing service name");
  const kind = textAt(body, "Kind");
  const port = numberAt(body, "Port");
  const proxy = isObject(body["Proxy"]) ? body["Proxy"] : undefined;
  const connect = objectAt(body, "Connect");
  const native = connect["Native"] === true;
  if (kind === "connect-proxy") {
    if (textAt(proxy ?? {}, "DestinationServiceName") === "") {
      throw invalid("Proxy.DestinationServiceName must be non-empty for Connect proxy services");
    }
    if (port === 0 && textAt(body, "SocketPath") === "") {
      throw invalid("Port or SocketPath must be set for a connect-proxy");
    }
    if (native) throw invalid("A Proxy cannot also be Connect Native, only typical services");
  }
  if (port !== 0 && !isEmpty(body["Ports"] ?? null)) {
    throw invalid("Port and Ports cannot both be set");
  }
  if (proxy) checkUpstreams(proxy);
  return {
    ...common(body),
    kind,
    id: textAt(body, "ID") || name,
    name,
    tags: textsAt(body, "Tags"),
    meta: objectAt(body, "Meta"),
    port,
    address: textAt(body, "Address"),
    native,
    locality: isObject(body["Locality"]) ? body["Locality"] : undefined,
    proxy: kind === "connect-proxy" ? proxyOf(proxy ?? {}, undefined) : undefined,
  };
}

function readSidecar(
  app: NewService,
  sidecar: JsonObject,
  sidecarPort: (sidecarId: string) => number,
): NewService {
  const id = `${app.id}-sidecar-proxy`;
  const proxy = objectAt(sidecar, "Proxy");
  checkUpstreams(proxy);
  const tags = textsAt(sidecar, "Tags");
  const meta = objectAt(sidecar, "Meta");
  const port = numberAt(sidecar, "Port") || sidecarPort(id);
  const address = textAt(sidecar, "Address") || app.address;
  return {
    ...common({ ...sidecar, Address: address, Port: port }),
    kind: textAt(sidecar, "Kind") || "connect-proxy",
    id,
    name: textAt(sidecar, "Name") || `${app.name}-sidecar-proxy`,
    tags: tags.length > 0 ? tags : app.tags,
    meta: isEmpty(meta) ? app.meta : meta,
    port,
    address,
    native: false,
    locality: isObject(sidecar["Locality"]) ? sidecar["Locality"] : app.locality,
    proxy: proxyOf(proxy, app),
  };
}

function common(
  body: JsonObject,
): Pick<
  NewService,
  "socketPath" | "taggedAddresses" | "weights" | "enableTagOverride" | "merged"
> {
  const weights = objectAt(body, "Weights");
  const address = textAt(body, "Address");
  const port = numberAt(body, "Port");
  const tagged = objectAt(body, "TaggedAddresses");
  const isIpv4 = /^\d+\.\d+\.\d+\.\d+$/.test(address);
  const family = isIpv4
    ? ["lan_ipv4", "wan_ipv4"]
    : address.includes(":")
    ? ["lan_ipv6", "wan_ipv6"]
    : [];
  return {
    socketPath: textAt(body, "SocketPath"),
    taggedAddresses: {
      ...Object.fromEntries(family.map((name) => [name, { Address: address, Port: port }])),
      ...tagged,
    },
    weights: {
      Passing: numberAt(weights, "Passing") || 1,
      Warning: "Warning" in weights ? numberAt(weights, "Warning") : 1,
    },
    enableTagOverride: body["EnableTagOverride"] === true,
    merged: undefined,
  };
}

/** The proxy block with what the agent fills in for a sidecar of `app`. */
function proxyOf(proxy: JsonObject, app: NewService | undefined): JsonObject {
  const socket = textAt(proxy, "LocalServiceSocketPath");
  const port = numberAt(proxy, "LocalServicePort");
  const result: Record<string, Json> = { ...proxy };
  if (app) {
    result["DestinationServiceName"] = textAt(proxy, "DestinationServiceName") || app.name;
    result["DestinationServiceID"] = textAt(proxy, "DestinationServiceID") || app.id;
    if (socket === "") {
      result["LocalServiceAddress"] = textAt(proxy, "LocalServiceAddress") || "127.0.0.1";
      result["LocalServicePort"] = port || app.port;
    }
  }
  return result;
}

function checkUpstreams(proxy: JsonObject): void {
  const upstreams = Array.isArray(proxy["Upstreams"]) ? proxy["Upstreams"] as readonly Json[] : [];
  const names = new Set<string>();
  const binds = new Set<string>();
  for (const upstream of upstreams) {
    if (!isObject(upstream)) continue;
    const name = textAt(upstream, "DestinationName");
    const type = textAt(upstream, "DestinationType") || "service";
    const peer = textAt(upstream, "DestinationPeer");
    const datacenter = textAt(upstream, "Datacenter");
    const port = numberAt(upstream, "LocalBindPort");
    const path = textAt(upstream, "LocalBindSocketPath");
    if (name === "") throw failed("upstream destination name cannot be empty");
    if (name === "*") throw failed("upstream destination name cannot be a wildcard");
    if (type !== "service" && type !== "prepared_query") {
      throw failed(`unknown upstream destination type: "${type}"`);
    }
    if (peer !== "" && datacenter !== "") {
      throw failed("upstream cannot specify both destination peer and datacenter");
    }
    if (port === 0 && path === "") {
      throw failed("upstream local bind port or local socket path must be defined and nonzero");
    }
    if (port !== 0 && path !== "") {
      throw failed(
        "only one of upstream local bind port or local socket path can be defined and nonzero",
      );
    }
    const bind = path !== ""
      ? path
      : `${textAt(upstream, "LocalBindAddress") || "127.0.0.1"}:${port}`;
    if (binds.has(bind)) {
      throw failed(
        `upstreams cannot contain duplicates by local bind address and port or unix path; "${bind}" is specified twice`,
      );
    }
    binds.add(bind);
    const partition = textAt(upstream, "DestinationPartition");
    const namespace = textAt(upstream, "DestinationNamespace");
    const key = `type="${type}", name="${name}", partition="${partition}", ` +
      `namespace="${namespace}", peer="${peer}", datacenter="${datacenter}"`;
    if (names.has(key)) throw failed(`upstreams cannot contain duplicates of [${key}]`);
    names.add(key);
  }
}

function readChecks(body: JsonObject, service: NewService): readonly CheckDefinition[] {
  const many = Array.isArray(body["Checks"]) ? body["Checks"] as readonly Json[] : [];
  const all = [body["Check"] ?? null, ...many].filter(isObject);
  return all.map((check, at) => readCheck(check, service, all.length > 1 ? `:${at + 1}` : ""));
}

function readCheck(check: JsonObject, service: NewService, suffix: string): CheckDefinition {
  const intervalMs = durationAt(check, "Interval");
  const kind = kindOf(check);
  if (kind.kind !== "ttl" && kind.kind !== "alias" && intervalMs <= 0) {
    throw new Refusal(
      400,
      "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks",
    );
  }
  const status = textAt(check, "Status");
  if (!["", "passing", "warning", "critical"].includes(status)) {
    throw new Refusal(400, "Status for checks must 'passing', 'warning', 'critical'");
  }
  return {
    id: textAt(check, "CheckID") || textAt(check, "ID") || `service:${service.id}${suffix}`,
    name: textAt(check, "Name") || `Service '${service.name}' check`,
    notes: textAt(check, "Notes"),
    ...forService(service),
    status: status === "" ? undefined : status as Status,
    kind,
    intervalMs,
    timeoutMs: durationAt(check, "Timeout") || 10_000,
    interval: textAt(check, "Interval"),
    timeout: textAt(check, "Timeout"),
  };
}

function kindOf(check: JsonObject): CheckDefinition["kind"] {
  const tcp = textAt(check, "TCP");
  if (tcp !== "") {
    const colon = tcp.lastIndexOf(":");
    const host = tcp.slice(0, colon).replace(/^\[|\]$/g, "");
    return { kind: "tcp", host, port: Number(tcp.slice(colon + 1)) };
  }
  if (textAt(check, "HTTP") !== "") return { kind: "http", url: textAt(check, "HTTP") };
  const alias = textAt(check, "AliasService");
  if (alias !== "") return { kind: "alias", serviceId: alias };
  const ttlMs = durationAt(check, "TTL");
  if (ttlMs <= 0) throw new Refusal(400, "Invalid check: TTL must be > 0 for TTL checks");
  return { kind: "ttl", ttlMs };
}

function defaultChecks(app: NewService, proxy: NewService): readonly CheckDefinition[] {
  const config = objectAt(proxy.proxy ?? {}, "Config");
  const host = proxy.address || textAt(config, "bind_address") ||
    textAt(proxy.proxy ?? {}, "LocalServiceAddress") || "127.0.0.1";
  const shared = {
    notes: "",
    ...forService(proxy),
    status: undefined,
    timeoutMs: 10_000,
    timeout: "",
  };
  return [{
    ...shared,
    id: `service:${proxy.id}:1`,
    name: "Connect Sidecar Listening",
    kind: { kind: "tcp", host, port: proxy.port },
    intervalMs: 10_000,
    interval: "10s",
  }, {
    ...shared,
    id: `service:${proxy.id}:2`,
    name: `Connect Sidecar Aliasing ${app.id}`,
    kind: { kind: "alias", serviceId: app.id },
    intervalMs: 0,
    interval: "",
  }];
}

function forService(service: NewService) {
  return { serviceId: service.id, serviceName: service.name, serviceTags: service.tags };
}

function failed(text: string): Refusal {
  return new Refusal(400, `Failed Validation: 1 error occurred:\n\t* ${text}\n\n`);
}

function invalid(text: string): Refusal {
  return new Refusal(400, `Validation failed: 1 error occurred:\n\t* ${text}\n\n`);
}

export function textAt(object: JsonObject, key: string): string {
  const value = object[key];
  return typeof value === "string" ? value : "";
}

export function numberAt(object: JsonObject, key: string): number {
  const value = object[key];
  return typeof value === "number" ? value : 0;
}

export function objectAt(object: JsonObject, key: string): JsonObject {
  const value = object[key];
  return isObject(value) ? value : {};
}

export function textsAt(object: JsonObject, key: string): readonly string[] {
  const value = object[key];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/** A Go duration: text, or nanoseconds as a number. */
export function durationAt(object: JsonObject, key: string): number {
  const value = object[key];
  if (typeof value === "number") return value / 1e6;
  return typeof value === "string" && value !== "" ? parseDurationMs(value) ?? 0 : 0;
}
