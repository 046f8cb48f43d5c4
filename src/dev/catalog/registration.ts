/**
 * Turns a registration body into services and checks: a sidecar block becomes a service of its own with
 * inherited fields, default checks and a port, and what Consul refuses is refused with its words.
 *
 * @module
 */

import type { NewService } from "./catalog.ts";
import { type CheckDefinition, defaultChecks, readChecks } from "./check_definition.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, objectAt, textAt, textsAt } from "../http/fields.ts";
import { exposeFault } from "../entries/exposed.ts";
import { upstreamFaults } from "./upstream_faults.ts";
import { isEmpty } from "./records.ts";
import { Refusal } from "../http/refusal.ts";

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
  if (proxy) checkProxy(proxy);
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
  checkProxy(proxy);
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
  const upstreams = Array.isArray(proxy["Upstreams"]) ? proxy["Upstreams"] as readonly Json[] : [];
  const result: Record<string, Json> = {
    ...proxy,
    Upstreams: upstreams.map((upstream) =>
      isObject(upstream)
        ? { ...upstream, DestinationType: textAt(upstream, "DestinationType") || "service" }
        : upstream
    ),
  };
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

function checkProxy(proxy: JsonObject): void {
  const [fault] = upstreamFaults(proxy, "service");
  if (fault !== undefined) throw failed(fault);
  const exposed = exposeFault(objectAt(proxy, "Expose"));
  if (exposed !== undefined) throw failed(exposed);
}

function failed(text: string): Refusal {
  return new Refusal(400, `Failed Validation: 1 error occurred:\n\t* ${text}\n\n`);
}

function invalid(text: string): Refusal {
  return new Refusal(400, `Validation failed: 1 error occurred:\n\t* ${text}\n\n`);
}
